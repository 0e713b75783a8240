"""The stages that make a word table: extraction, PCA, distillation, fine-tuning on pairs."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from st_static.distill.agreement import TableAgreement
from st_static.distill.config import BuildConfig, DistillationConfig
from st_static.distill.distillation import (
    Distilled,
    TrainingData,
    check_size,
    check_sizes,
    distill,
    sentence_ids,
    training_device,
)
from st_static.distill.engines import Engine
from st_static.distill.extraction import extracted_table
from st_static.distill.pairs.mining import mined_pairs
from st_static.distill.pairs.training import PairIds, Start, check_batches, fine_tune
from st_static.distill.sentence_pca import check_sentences, reduce_table
from st_static.distill.stages import Figures, require_disk
from st_static.distill.target import Target
from st_static.distill.teacher import Teacher
from st_static.distill.training_sentences import TrainingSentences, training_sentences
from st_static.distill.work_directory import (
    WorkDirectory,
    read_sentence_vectors,
    write_head,
    write_word_table,
)
from st_static.model.head import Head
from st_static.model.tokenizer import are_continuations
from st_static.tokens.ragged import Ragged


class _Agreement(NamedTuple):
    """How tables are measured against the teacher.

    Attributes:
        measure: Gives a table's teacher agreement on the held-out sentences.
        is_centered: Whether the teacher's vectors are without their mean.
    """

    measure: TableAgreement
    is_centered: bool


class WordTables:
    """Makes a table from that of the stage before; the first, from what the teacher reads.

    Each method is a stage: it writes its files into the folder that it is given, and returns its
    figures.

    Args:
        config: The recipe, with its languages' defaults of the vocabulary.
        teacher: Its teacher.
        work: The stages before.
        pairs: Pairs that were given, for the fine-tuning; None mines them.
        engine: What runs the teacher.
    """

    def __init__(
        self,
        config: BuildConfig,
        teacher: Teacher,
        work: WorkDirectory,
        pairs: pa.Table | None,
        engine: Engine,
    ) -> None:
        self.config, self.teacher, self.work, self.pairs = config, teacher, work, pairs
        self.engine = engine

    def check(self) -> None:
        """Check that later stages have enough texts; not only after the teacher's pass.

        Raises:
            ValueError: There are not.
        """
        config, served = self.config, self.work.served
        batch_size = config.distillation.batch_size
        check_sentences(config.pca, self.teacher.dimension, len(served))
        if config.distillation.max_steps:
            check_sizes(*self.training_sentences, config.distillation)
        if self.pairs:
            n_sentences = len(self.training_sentences.train)
            check_batches(PairIds.of(self.pairs, self._ids_of), n_sentences, batch_size)
        elif config.pairs.mined:  # at most one pair of a sentence
            n_sentences = min(len(self.training_sentences.train), len(served))
            check_size("training sentences", n_sentences, batch_size)

    def extraction(self, folder: Path) -> Figures:
        """Means of the teacher's vectors of each word (paper section 2.1)."""
        with extracted_table(folder, self.teacher, self.work, self.engine) as (table, figures):
            table[self._silent] = 0
            agreement = self._agreement_with(read_sentence_vectors(folder))
            return self._write_table(folder, table, agreement) | figures

    def pca(self, folder: Path) -> Figures:
        """The sentence PCA of the table (section 2.2)."""
        table, served = self.work.table("extraction"), self.work.served
        reduced, figures = reduce_table(
            folder, table, self._ids, served, self.config.pca, self.config.seed
        )
        return self._write_table(folder, reduced, self._agreement) | figures

    def distillation(self, folder: Path) -> Figures:
        """Training on the teacher's similarities (section 2.3), with a head if one is wanted."""
        table = self.work.table("pca")
        # A checkpoint holds the table and two moments; two are kept while one is written.
        require_disk(folder, 10 * table.nbytes, "Training checkpoints")
        sentences, data = self.training_sentences, self._training_data
        distilled = distill(
            table,
            self.work.tokenizer,
            data,
            sentences.development,
            self._distillation_here,
            folder / "checkpoints",
            self.config.seed,
            sentences.train,
            self._agreement.measure,
        )
        figures = {"centered": data.target.is_centered, "train_sentences": len(sentences.train)}
        return self._write_distilled(folder, distilled) | figures

    def pairs_training(self, folder: Path) -> Figures:
        """Training on pairs, in turns with more of the training before."""
        last, config, seed = self.work.last, self.config.pairs, self.config.seed
        table, data = self.work.table(last), self._training_data
        require_disk(folder, 10 * table.nbytes, "Training checkpoints")
        pairs = self.pairs or mined_pairs(folder, self.work, data.target, config, seed)
        fine_tuned = fine_tune(
            Start(self.work.tokenizer, table, self.work.head(last)),
            PairIds.of(pairs, self._ids_of),
            data,
            self.training_sentences.train,
            config,
            self._distillation_here,
            folder / "checkpoints",
            seed,
        )
        return self._write_distilled(folder, fine_tuned) | {"mined": self.pairs is None}

    def _write_distilled(self, folder: Path, distilled: Distilled) -> Figures:
        table, head, figures = distilled
        if head:
            write_head(folder, head)
        return self._write_table(folder, table, self._agreement, head) | figures

    def _write_table(
        self,
        folder: Path,
        table: NDArray[np.float32],
        agreement: _Agreement,
        head: Head | None = None,
    ) -> Figures:
        write_word_table(folder, table)
        value = round(agreement.measure(table, head), 2)
        return {"teacher_agreement": value, "teacher_centered": agreement.is_centered}

    @functools.cached_property
    def _agreement(self) -> _Agreement:
        return self._agreement_with(self.work.sentence_vectors)

    def _agreement_with(self, vectors: NDArray[np.float16]) -> _Agreement:
        """How tables are measured, with the teacher's vectors of all sentences, [S, d]."""
        held_out = self.work.is_held_out
        target = Target.fit(vectors, self.work.served)
        ids = self._ids.take(np.flatnonzero(held_out))
        return _Agreement(TableAgreement(ids, target(vectors[held_out])), target.is_centered)

    @functools.cached_property
    def training_sentences(self) -> TrainingSentences:
        """Which of the sentences that the teacher reads are trained on, and which tell how far."""
        return training_sentences(
            self.work.selected.words,
            self.work.is_held_out,
            self.config.distillation,
            self.config.seed,
        )

    @functools.cached_property
    def _silent(self) -> NDArray[np.bool_]:
        """Which tokens never get a vector, [V]: of an unknown word, all behind its prefix."""
        silent = are_continuations(self.work.tokenizer)
        return silent if self.config.vocabulary.unknown == "prefix" else np.zeros_like(silent)

    @functools.cached_property
    def _ids(self) -> Ragged:
        return self._ids_of(self.work.selected.texts)

    def _ids_of(self, texts: pa.Array) -> Ragged:
        """The tokens of texts that have a vector, [S rows]."""
        ids = sentence_ids(self.work.tokenizer, texts)
        return ids.filter(~self._silent[ids.values])

    @functools.cached_property
    def _training_data(self) -> TrainingData:
        vectors = self.work.sentence_vectors
        target = Target.fit(vectors, self.work.served, self.config.distillation.center)
        return TrainingData(self._ids, vectors, target)

    @property
    def _distillation_here(self) -> DistillationConfig:
        """How the distillation is done, with the device that it is on."""
        config = self.config.distillation
        return replace(config, device=training_device(config, self.teacher.model.device.type))
