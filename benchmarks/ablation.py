"""Each part of the method left out or changed, on the development build.

    python benchmarks/ablation.py --corpus DIR --data DIR [--OPTION VALUE ...]

builds `benchmarks/development.yaml` into `work/development` (stages that are complete there are
not run again) and prints, for several ways to make the word table, the scores on STS12, STS13 and
STSBenchmark's validation split and the teacher agreement, before distillation and after it. k is
none, as many as the recipe says, and twice as many and two. Another teacher, `--teacher.model M
--teacher.sha256 null`, needs a `--work_dir` and an `--output` of its own. Trained
tables are kept in `work/ablation`.
"""

import json
import logging
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from development_build import TableEncoder, development_config, development_parser
from measuring import log_to_terminal
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sts import DEV_MEAN, SPLITS, sts_scores
from tokenizers import Tokenizer

from st_static.distill.agreement import TableAgreement, Target
from st_static.distill.config import BuildConfig
from st_static.distill.distillation import TrainingData, distill, sentence_ids
from st_static.distill.pipeline import build
from st_static.distill.sentence_pca import (
    SentencePCA,
    reduce_words,
    resolve_components,
    sentence_sample,
)
from st_static.distill.stages import Selected, digest
from st_static.distill.teacher import Teacher
from st_static.distill.teacher_pass import (
    WordSums,
    isolated_vectors,
    read_batches,
    sentence_lengths,
    token_batches,
)
from st_static.evaluate.built_model import BuiltModel
from st_static.model.tokenizer import (
    ASCII_PUNCTUATION,
    SPECIAL_TOKENS,
    Normalization,
    are_continuations,
)
from st_static.model.vectors import sentence_means
from st_static.tokens.ragged import Ragged, offsets_of

WORK = Path("work/ablation")
Floats = NDArray[np.float32]


class Ablation:
    """The development build's sentences and vectors, and a table that collects scores."""

    def __init__(self, config: BuildConfig, data: Path) -> None:
        self.config, self.data = config, data
        self.teacher = Teacher.load(config.teacher)
        work = build(config).work
        model = BuiltModel(Path(config.output), Path(config.work_dir))
        self.tokenizer, self.words = model.tokenizer, model.words
        self.extracted: Floats = model.tables["extraction"]
        self.selected, self.vectors = model.work.selected, model.work.sentence_vectors
        self.held_out = np.flatnonzero(model.work.is_held_out)
        self.train = model.work.for_words
        self.target = Target.fit(self.vectors, self.train, config.distillation.center)
        self.ids, self.continues = self.tokenize(self.tokenizer), are_continuations(self.tokenizer)
        self.n_remove, _ = resolve_components(
            config.pca.n_components, "auto", self.teacher.dimension
        )
        settings = digest([asdict(config.distillation), asdict(config.pca), config.seed])
        self.folder = WORK / f"{work.hashes['extraction']}-{settings}"
        self.table = Table(title="Spearman x 100")
        self.table.add_column("word table")
        for column in (*SPLITS, DEV_MEAN, "agreement"):
            self.table.add_column(column, justify="right")

    def tokenize(self, tokenizer: Tokenizer) -> Ragged:
        """Token ids of the selected sentences, without [UNK]."""
        return sentence_ids(tokenizer, self.selected.texts)

    def score(self, name: str, table: Floats, tokenizer: Tokenizer | None = None) -> None:
        """Add a row."""
        scores = sts_scores(TableEncoder(table, tokenizer or self.tokenizer), self.data)
        ids = self.ids if tokenizer is None else self.tokenize(tokenizer)
        teacher = self.target(self.vectors[self.held_out])
        agreement = TableAgreement(ids.take(self.held_out), teacher)(table)
        cells = [f"{value:.2f}" for value in (*scores.values(), agreement)]
        self.table.add_row(name, *cells)
        logging.info("%s: %s", name, " ".join(cells))

    def score_trained(self, name: str, table: Floats) -> None:
        """Add a row for a table, and one for what distillation makes of it."""
        self.score(name, table)
        folder = self.folder / name.replace(" ", "-").replace(",", "")
        data, config = TrainingData(self.ids, self.vectors, self.target), self.config
        trained = distill(
            table,
            self.tokenizer,
            data,
            held_out=self.held_out,
            config=config.distillation,
            folder=folder,
            seed=config.seed,
        )
        self.score(f"{name}, distilled", trained.table)

    def reduce(self, table: Floats, n_remove: int, *, fit_on_words: bool = False) -> Floats:
        """Reduce a table by PCA of sentences, as a build does, or of the vocabulary's words."""
        config = self.config.pca
        rows = table[len(SPECIAL_TOKENS) : len(SPECIAL_TOKENS) + len(self.words)]
        if not fit_on_words:
            sample = sentence_sample(self.train, self.config.seed)
            rows = sentence_means(table, self.ids.take(sample))
        pca = SentencePCA(config.n_components, n_remove=n_remove).fit(rows)
        return reduce_words(pca, table, self.continues, config.continuations)

    def words_alone(self) -> Floats:
        """Every word's vector from the word on its own, without a sentence."""
        rows = slice(len(SPECIAL_TOKENS), len(SPECIAL_TOKENS) + len(self.words))
        table = self.extracted.copy()
        normalization = Normalization.of(self.tokenizer)
        alone = isolated_vectors(self.teacher, self.words, normalization)
        table[rows] = self.teacher.to_sentence_space(alone)
        return table

    def with_punctuation(self) -> tuple[Floats, Tokenizer]:
        """The extracted table with rows for ASCII punctuation, in context like every word."""
        marks, size = sorted(ASCII_PUNCTUATION), self.tokenizer.get_vocab_size()
        description = json.loads(self.tokenizer.to_str())
        description["model"]["vocab"].update({mark: size + i for i, mark in enumerate(marks)})
        tokenizer = Tokenizer.from_str(json.dumps(description))
        sums = WordSums.zeros(size + len(marks), self.teacher.token_dimension)
        for number, mark in enumerate(marks):
            contains = pc.match_substring(self.selected.texts, mark).to_numpy(zero_copy_only=False)
            rows = np.flatnonzero(contains)[: self.config.selection.sentences_per_word]
            of_mark = Ragged(
                np.full(len(rows), size + number, np.int32), offsets_of(np.ones(len(rows), int))
            )
            texts = self.selected.texts.take(pa.array(rows))
            shortest = Selected(texts, self.selected.lengths[rows], of_mark)
            lengths = sentence_lengths(self.teacher, shortest)
            batches = token_batches(lengths, self.teacher.batch_tokens)
            for _, words in read_batches(self.teacher, tokenizer, shortest, batches):
                sums.add(words)
        rows_of_marks = self.teacher.to_sentence_space(sums.means()[size:])
        return np.concatenate([self.extracted, rows_of_marks]), tokenizer


def main() -> None:
    """Build, change one part at a time, and print."""
    parser = development_parser(__doc__)
    arguments, overrides = parser.parse_known_args()
    log_to_terminal()
    config = development_config(arguments.corpus, "models/development", overrides)
    ablation = Ablation(config, arguments.data)
    ablation.score("extraction, rows of punctuation kept", *ablation.with_punctuation())
    ablation.score("extraction", ablation.extracted)
    rule = ablation.n_remove
    vocabulary_pca = ablation.reduce(ablation.extracted, rule, fit_on_words=True)
    ablation.score_trained(f"vocabulary PCA, k = {rule}", vocabulary_pca)
    for k in (0, rule, 2 * rule + 2):
        reduced = ablation.reduce(ablation.extracted, k)
        ablation.score_trained(f"sentence PCA, k = {k}", reduced)
    alone = ablation.words_alone()
    ablation.score("words alone", alone)
    ablation.score_trained(f"words alone, sentence PCA, k = {rule}", ablation.reduce(alone, rule))
    Console(width=110).print(ablation.table)


if __name__ == "__main__":
    main()
