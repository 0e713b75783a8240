"""Pieces of three kinds as the vocabulary of one recipe: scores, agreement and rows.

    pip install fugashi unidic-lite
    python benchmarks/piece_vocabularies.py RECIPE --data DIR [--tasks TASK ...] [--OPTION ...]

builds the recipe, whose language is written without spaces or is one of several, with

- `learnt`: the pieces of a Unigram model that is learnt from the corpus, as the recipe has it,
- `teacher`: the pieces of the teacher's own Unigram tokenizer that the corpus uses,
- `mecab`: the words that MeCab finds in the corpus with UniDic, with the logarithms of their
  relative frequencies, for Japanese,

and prints for each the rows of its table, teacher agreement before and after distillation, and
the scores on tasks whose data lie in DIR. `--vocabularies` names some of the three. Any value of
the recipe can be overridden. Stages that are complete in the work directory are not run again.
"""

import argparse
import json
import logging
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from local_tasks import evaluate
from measuring import print_heading, print_row
from tokenizers import Tokenizer

from st_static.commands.build import parse_build
from st_static.distill.config import BuildConfig
from st_static.distill.corpus.piece_vocabulary import merge_spellings, write_piece_vocabulary
from st_static.distill.corpus.sentences import sentence_shards
from st_static.distill.corpus.shards import Shards
from st_static.distill.engines import Engine, build_engine
from st_static.distill.pipeline import _Build
from st_static.distill.stages import BuildResult, Figures, locked
from st_static.evaluate.models import load_model
from st_static.files import read_arrow
from st_static.languages import languages_of
from st_static.model.tokenizer import Normalization, is_punctuation

Find = Callable[[list[Path], Tokenizer, BuildConfig], dict[str, float]]


def teacher_pieces(shards: list[Path], teacher: Tokenizer, config: BuildConfig) -> dict[str, float]:
    """The teacher's pieces in the student's spelling, with the teacher's scores."""
    description = json.loads(teacher.to_str())
    special = {token["content"] for token in description["added_tokens"]}
    normalize = Normalization.of_languages(config.languages).normalizer_of_pieces().normalize_str
    vocabulary = description["model"]["vocab"]
    return merge_spellings((normalize(p), score) for p, score in vocabulary if p not in special)


def mecab_words(shards: list[Path], teacher: Tokenizer, config: BuildConfig) -> dict[str, float]:
    """The most frequent words by MeCab, with the logarithms of their relative frequencies."""
    import fugashi

    tagger = fugashi.Tagger("-Owakati")
    normalize = Normalization.of_languages(config.languages).normalizer_of_pieces().normalize_str
    counts: Counter[str] = Counter()
    for shard in shards:
        for text in read_arrow(shard)["text"].to_pylist():
            counts.update(tagger.parse(normalize(text)).split())
    words = {word: n for word, n in counts.items() if not is_punctuation(word)}
    characters: Counter[str] = Counter()
    for word, n in words.items():
        characters.update(dict.fromkeys(word, n))
    total = sum(words.values())
    # A character that is no word spells unknown ones only: it is a last resort.
    rare = {c: math.log(1 / total) for c in characters if not is_punctuation(c)}
    frequent = sorted(words, key=lambda word: (-words[word], word))[: config.vocabulary.size]
    fewest = config.vocabulary.min_count
    return rare | {w: math.log(words[w] / total) for w in frequent if words[w] >= fewest}


FINDERS: dict[str, Find | None] = {"learnt": None, "teacher": teacher_pieces, "mecab": mecab_words}


class Build(_Build):
    """A build with pieces from elsewhere."""

    def __init__(self, config: BuildConfig, engine: Engine, name: str) -> None:
        output = str(Path(config.output).with_name(f"{Path(config.output).name}-{name}"))
        super().__init__(replace(config, output=output), engine)
        self.name, self.find = name, FINDERS[name]

    def _key(self, stage: str) -> dict[str, object]:
        is_other = stage == "vocabulary" and self.find
        return super()._key(stage) | ({"pieces_of": self.name} if is_other else {})

    def _vocabulary(self, folder: Path) -> Figures:
        if self.find is None:
            return super()._vocabulary(folder)
        shards, teacher = sentence_shards(self.work.folder("sentences")), self.teacher.tokenizer
        return write_piece_vocabulary(
            folder,
            Shards(shards, self.engine),
            teacher,
            self.find(shards, teacher, self.config),
            config=self.config.vocabulary,
            normalization=self.normalization,
        )


def scores(model: Path, tasks: list[str], languages: list[str], data: Path) -> list[str]:
    """The scores of a built model, in the order of the tasks."""
    outcome = evaluate(load_model(str(model)), tasks, languages, data)
    return [f"{outcome.scores[task]:.2f}" if task in outcome.scores else "-" for task in tasks]


def main() -> None:
    """Build, evaluate and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="a folder a task")
    parser.add_argument("--tasks", nargs="+", default=["JSTS", "JSICK"])
    parser.add_argument("--vocabularies", nargs="+", choices=FINDERS, default=list(FINDERS))
    arguments, recipe = parser.parse_known_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    config = parse_build(recipe)
    assert isinstance(config, BuildConfig)
    columns = ["vocabulary", "rows", "before distillation", "agreement", *arguments.tasks]
    print_heading(columns)
    for name in arguments.vocabularies:
        with build_engine(config) as engine:
            run = Build(config, engine, name)
            with locked(run.work.path):
                run.run()
        result = BuildResult(run.output, run.work, run.stages)
        rows = result.stage("vocabulary").figures["tokens"]
        agreement = [
            result.stage(stage).figures["teacher_agreement"] for stage in ("pca", "distillation")
        ]
        found = scores(run.output, arguments.tasks, languages_of(config.language), arguments.data)
        print_row(name, f"{rows:,}", *map(str, agreement), *found)


if __name__ == "__main__":
    main()
