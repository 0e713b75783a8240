"""Unknown words spelled by pieces, cut to their longest known prefix, or left out: agreement.

    python benchmarks/unknown_words.py MODEL --work_dir WORK --texts FILE [FILE ...]

takes from each file sentences with at least one word that is not in the vocabulary of a built
model of words, and that its teacher did not read. It prints the model's agreement with the teacher
on 4,096 of them in each of four ways, before distillation and after it:

- `pieces`: unknown words fall into pieces, as in the model's tokenizer; of a model that was built
  with `pca.continuations: 0`, where these have no vectors, it is the same as `prefix`;
- `prefix`: an unknown word counts as the longest word or piece that it begins with;
- `word`: as the longest word of the vocabulary that it begins with;
- `left out`: it does not count.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
from measuring import print_heading, print_row
from numpy.typing import NDArray

from st_static.distill.agreement import TableAgreement
from st_static.distill.config import CorpusConfig, SentencesConfig
from st_static.distill.corpus.documents import Corpus
from st_static.distill.corpus.sentences import filter_sentences, sentence_key, split_sentences
from st_static.distill.teacher import Teacher
from st_static.distill.teacher_config import TeacherConfig
from st_static.evaluate.built_model import BuiltModel
from st_static.files import read_json
from st_static.model.modules import RECORD_FILE
from st_static.model.tokenizer import SPECIAL_TOKENS, is_punctuation, split_words
from st_static.model.vectors import has_vector
from st_static.tokens.ragged import Ragged, offsets_of

N_SENTENCES = 4096
Find = Callable[[str], list[int]]


class Words:
    """How the words of a model's vocabulary are found in others."""

    def __init__(self, model: BuiltModel) -> None:
        self.tokenizer = model.tokenizer
        self.ids = {word: len(SPECIAL_TOKENS) + i for i, word in enumerate(model.words)}

    def is_unknown(self, word: str) -> bool:
        """Whether a word, which is no punctuation, is not in the vocabulary."""
        return word not in self.ids and not is_punctuation(word)

    def pieces(self, word: str) -> list[int]:
        """The ids that the tokenizer gives."""
        return list(self.tokenizer.encode(word).ids)

    def prefix(self, word: str) -> list[int]:
        """The id of the longest word or piece that it begins with."""
        return self.pieces(word)[:1]

    def word(self, word: str) -> list[int]:
        """The id of the longest word that it begins with."""
        prefixes = (word[:end] for end in range(len(word), 0, -1))
        return [self.ids[known] for known in prefixes if known in self.ids][:1]

    def left_out(self, word: str) -> list[int]:
        """Its id, if it has one."""
        return [self.ids[word]] if word in self.ids else []

    def ids_of(self, split: Iterable[list[str]], find: Find) -> Ragged:
        """Token ids of texts that are split into words."""
        rows = [[i for word in words for i in find(word)] for words in split]
        values = np.array([i for row in rows for i in row], np.int32)
        return Ragged(values, offsets_of(np.array([len(row) for row in rows])))


def sentences_with_unknown_words(
    file: str, words: Words, config: SentencesConfig, seen: set[int], seed: int
) -> tuple[list[str], list[list[str]]]:
    """Sentences of a file, drawn at random, and their words."""
    documents = Corpus(CorpusConfig(files=[file]))
    table, _ = filter_sentences(split_sentences(documents), config)
    texts = list(dict.fromkeys(table["text"].to_pylist()))
    rng = np.random.default_rng(seed)
    drawn, split_of_drawn = [], []
    for i in rng.permutation(len(texts)):
        split = split_words(words.tokenizer, texts[i])
        if sentence_key(texts[i]) not in seen and any(map(words.is_unknown, split)):
            drawn.append(texts[i])
            split_of_drawn.append(split)
        if len(drawn) == N_SENTENCES:
            break
    return drawn, split_of_drawn


def equal_ways(
    finders: Mapping[str, Find], unknown: Collection[str], is_known: NDArray[np.bool_]
) -> Iterator[str]:
    """Names of ways that find the same vectors for every unknown word.

    A table that was trained with prefixes has no vectors for what follows them, so that there
    pieces count for no more than the prefix.

    Args:
        finders: The ways by name.
        unknown: The unknown words.
        is_known: Which rows of the table have a vector, [V].
    """
    names_of = defaultdict(list)
    for name, find in finders.items():
        found = tuple(tuple(i for i in find(word) if is_known[i]) for word in unknown)
        names_of[found].append(f"`{name}`")
    return (", ".join(names) for names in names_of.values() if len(names) > 1)


def main() -> None:
    """Draw, encode and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path, help="a built model of words")
    parser.add_argument("--work_dir", type=Path, required=True)
    parser.add_argument("--texts", nargs="+", required=True, help="files of text")
    arguments = parser.parse_args()
    model = BuiltModel(arguments.model, arguments.work_dir)
    recipe = read_json(arguments.model / RECORD_FILE)["recipe"]
    of_teacher = {k: v for k, v in recipe["teacher"].items() if hasattr(TeacherConfig, k)}
    teacher = Teacher.load(TeacherConfig(**of_teacher))  # an older record may have more
    words = Words(model)
    seen = set(map(sentence_key, model.work.selected.texts.to_pylist()))
    finders = {
        "pieces": words.pieces,
        "prefix": words.prefix,
        "word": words.word,
        "left out": words.left_out,
    }
    columns = [f"{stage}: {way}" for stage in ("pca", "distillation") for way in finders]
    print_heading(["file", "sentences", "unknown words", *columns])
    unknown_words: set[str] = set()
    for file in arguments.texts:
        texts, split = sentences_with_unknown_words(
            file, words, SentencesConfig(**recipe["sentences"]), seen, recipe["seed"]
        )
        vectors = teacher.model.encode(texts, batch_size=128)
        unknown = np.mean([words.is_unknown(w) for s in split for w in s if not is_punctuation(w)])
        unknown_words.update(w for s in split for w in s if words.is_unknown(w))
        cells: list[float | str] = [Path(file).name, f"{len(texts):,}", f"{100 * unknown:.1f} %"]
        for stage in ("pca", "distillation"):
            for find in finders.values():
                ids = words.ids_of(split, find)
                student = model.tables[stage], model.head_of(stage)
                cells.append(TableAgreement(ids, vectors)(*student))
        print_row(*cells)
    for names in equal_ways(finders, unknown_words, has_vector(model.tables["distillation"])):
        print(
            f"\nThe columns of {names} cannot differ: they find the same vectors with this model."
        )


if __name__ == "__main__":
    main()
