"""Read a built model with the results of its stages, for analyses."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer

from st_static.distill.agreement import fit_target, teacher_agreement
from st_static.distill.sentence_pca import sentence_sample, side_by_side
from st_static.distill.stages import WorkDirectory, shares_of
from st_static.evaluate.tasks import languages_of_model
from st_static.model.head import Head
from st_static.model.model_folder import ModelFolder
from st_static.model.tokenizer import SPECIAL_TOKENS
from st_static.model.vectors import sentence_means
from st_static.tokens.fast_tokenizer import FastTokenizer
from st_static.tokens.ragged import Ragged

Floats = NDArray[np.float32]
# Ranges of a sentence's teacher tokens, without special ones.
_BINS = ((1, 5), (6, 10), (11, 20), (21, 40), (41, None))
_FEWEST = 10
_TABLES = ("extraction", "pca", "distillation", "pairs")


@dataclass(frozen=True)
class Student:
    """A model in the making: after a stage, or at a checkpoint."""

    name: str
    kind: Literal["stage", "checkpoint"]
    encode: Callable[[Sequence[str]], Floats]  # B texts -> [B, D], not scaled


class BuiltModel:
    """An exported model with its stages in `work_dir`; a ValueError if there are none."""

    def __init__(self, folder: Path, work_dir: Path) -> None:
        model = ModelFolder.local(folder)
        record, self.name = model.record, model.name
        if not record.get("stages"):
            raise ValueError(
                f"{folder} was not built from a teacher, so it has no stages: name one that was."
            )
        self.languages = languages_of_model(str(folder))
        self.normalize: bool = record["recipe"]["export"]["normalize"]
        self.seed: int = record["recipe"]["seed"]
        self.continuations: float = record["recipe"]["pca"]["continuations"]
        stages = record["stages"]
        self._table_stages = [stage for stage in _TABLES if stage in stages]
        weights = shares_of(record["recipe"].get("teachers") or [])
        self.work = WorkDirectory.of_record(work_dir, stages, weights)
        missing = self.work.missing()
        if missing:
            has_some = len(missing) < len(stages)
            state = f"it lacks {', '.join(missing)}" if has_some else "it has none of its stages"
            folders = sorted(work_dir.glob(f"*/{missing[0]}"))
            hint = f"They are in {folders[0].parent}" if folders else "Build the model again"
            raise ValueError(
                f"{work_dir} is not the work_dir of {folder}: {state}. {hint}, or name its own."
            )
        self.tokenizer = Tokenizer.from_file(str(model.tokenizer_file))
        self.tokenize = FastTokenizer(self.tokenizer)
        self.words: list[str] = self.work.words["text"].to_pylist()

    @functools.cached_property
    def tables(self) -> dict[str, Floats]:
        """The table of each stage that makes one; several teachers' extractions are one table, side
        by side, as for the sentence PCA."""
        *before, last = self._table_stages
        tables = {**{stage: self.work.table(stage) for stage in before}, last: self.table}
        if len(self.work.extractions) > 1:
            sample = self.work.selected.texts.take(sentence_sample(self.work.for_words, self.seed))
            of_each = map(self.work.table, self.work.extractions)
            tables["extraction"], _ = side_by_side(
                list(of_each), self.work.weights, self.tokenize(sample)
            )
        return tables

    @functools.cached_property
    def table(self) -> Floats:
        """The last stage's table."""
        return self.work.table(self._table_stages[-1])

    def head_of(self, stage: str) -> Head | None:
        """Get the head behind a stage's table, if it has one."""
        return self.work.head(stage) if stage in self.work.hashes else None

    def students(self) -> Iterator[Student]:
        """Yield the model after each stage, and at the kept checkpoints, in order."""
        from st_static.distill.distillation import read_checkpoint  # imports torch

        for stage in self._table_stages:
            head = self.head_of(stage)
            checkpoints = (self.work.folder(stage) / "checkpoints").glob("checkpoint-*")
            steps = {int(folder.name.partition("-")[2]): folder for folder in checkpoints}
            figures = {"steps": 0, **self.work.figures(stage)}
            last_step: int = figures.get("best_step", figures["steps"])  # of what the stage left
            for step in sorted({*steps, last_step}):
                if step == last_step:
                    yield Student(stage, "stage", self._encoder(self.tables[stage], head))
                else:
                    checkpoint = read_checkpoint(steps[step], head is not None)
                    name = f"{stage}, step {step:,}"
                    yield Student(name, "checkpoint", self._encoder(*checkpoint))

    def _encoder(self, table: Floats, head: Head | None) -> Callable[[Sequence[str]], Floats]:
        return lambda texts: _vectors(table, head, self.tokenize(texts))

    def text_vectors(self, ids: Ragged) -> Floats:
        """Encode texts, as token ids [B rows], into the model's vectors [B, D]."""
        return _vectors(self.table, self.head_of(self._table_stages[-1]), ids)

    def rows_of_words(self, table: Floats) -> Floats:
        """Get the rows of the vocabulary's words, the most frequent first, [V, D]."""
        return table[len(SPECIAL_TOKENS) : len(SPECIAL_TOKENS) + len(self.words)]

    @property
    def held_out_texts(self) -> list[str]:
        """The held-out sentences, from which no stage learns, in the corpus's languages."""
        held_out = self.work.selected.texts.filter(pa.array(self.work.is_held_out))
        texts: list[str] = held_out.to_pylist()
        return texts


def _vectors(table: Floats, head: Head | None, ids: Ragged) -> Floats:
    """Average a table's rows [B, D], and put them through the head if there is one."""
    means = sentence_means(table, ids)
    return head(means) if head else means


def held_out_agreement(model: BuiltModel) -> pl.DataFrame:
    """Measure teacher agreement on held-out sentences, by their length."""
    work = model.work
    rows = np.flatnonzero(work.is_held_out)
    student = model.text_vectors(model.tokenize(work.selected.texts.take(rows)))
    vectors = work.sentence_vectors
    teacher = fit_target(vectors, work.for_words)(vectors[rows])
    return agreement_by_length(student, teacher, work.selected.lengths[rows])


def agreement_by_length(
    student: NDArray[np.floating], teacher: NDArray[np.floating], lengths: NDArray[np.integer]
) -> pl.DataFrame:
    """Measure Spearman x 100 of vectors [H, D] and [H, d] by lengths [H]; null for too few."""
    rows: list[dict[str, object]] = []
    for low, high in (*_BINS, (0, None)):
        inside = (lengths >= low) & (lengths <= (np.inf if high is None else high))
        label = "all" if low == 0 else f"{low}+" if high is None else f"{low}-{high}"
        enough = inside.sum() >= _FEWEST
        value = teacher_agreement(student[inside], teacher[inside]) if enough else None
        rows.append({"tokens": label, "sentences": int(inside.sum()), "agreement": value})
    return pl.DataFrame(rows)
