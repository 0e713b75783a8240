"""Stages: functions from files to files that run once, survive a kill and never half-exist.

A stage writes into `NAME-HASH.partial/`, renamed to `NAME-HASH/` when it is complete. Files inside
appear by an atomic rename, so that a later run may trust them. Two kinds grow in place:
`sentence_vectors.npy`, whole once the sums are there, and the Trainer's checkpoints.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from rich import filesize
from tokenizers import Tokenizer

from st_static.arguments import require
from st_static.files import read_arrays, read_arrow, read_json, write_arrays, write_json
from st_static.model.head import Head
from st_static.model.modules import TOKENIZER_FILE
from st_static.model.vectors import unit_rows
from st_static.tokens.ragged import Ragged

logger = logging.getLogger(__name__)

Figures = dict[str, Any]

# Names of the files that stages write and a `WorkDirectory` reads.
WORDS_FILE = "words.arrow"
TEACHER_TOKENIZER_FILE = "teacher_tokenizer.json"
SELECTED_FILE = "selected.arrow"
SENTENCE_VECTORS_FILE = "sentence_vectors.npy"
_TABLE_FILE = "table.safetensors"
_HEAD_FILE = "head.safetensors"
_RECORD = "stage.json"
_TIME = "time.json"  # of the runs so far, while a stage is not complete

# The line of a complete stage, from its figures.
_LINES = {
    "sentences": "{kept:,} sentences kept of {read:,}",
    "vocabulary": "{words:,} {unit}, {tokens:,} tokens",
    "selection": "{sentences:,} sentences for the teacher to read, {held_out:,} more held out",
    "extraction": "{teacher_tokens:,} tokens read, teacher agreement {teacher_agreement:.2f}",
    "pca": "{dimension} dimensions, teacher agreement {teacher_agreement:.2f}",
    "distillation": "{steps:,} steps, teacher agreement {teacher_agreement:.2f}",
    "pairs": "{steps:,} steps in turns on sentences and on batches out of {pairs:,} pairs, teacher "
    "agreement {teacher_agreement:.2f}",
}


def digest(key: Any) -> str:
    """Hash a JSON value in twelve characters."""
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:12]


def stage_folder(work_dir: Path, name: str, key: Mapping[str, Any]) -> Path:
    """Name the folder of a complete stage."""
    return work_dir / f"{name}-{digest(key)}"


def run_stage(
    work_dir: Path, name: str, key: Mapping[str, Any], compute: Callable[[Path], Figures]
) -> Path:
    """Run a stage, unless it is complete, and return its folder. `key`, of JSON values, is all that
    determines the result. `compute` fills a folder, which may have whole files of an interrupted
    run, and returns figures to keep."""
    folder = stage_folder(work_dir, name, key)
    if folder.is_dir():
        logger.info("%s: complete in %s", name, folder)
        return folder
    partial = folder.with_name(folder.name + ".partial")
    partial.mkdir(parents=True, exist_ok=True)
    time_file = partial / _TIME
    last_written = 0.0
    for file, status in _files(partial):
        last_written = max(last_written, status.st_mtime)
        if file.name.startswith(".") and file.suffix == ".tmp":
            # Left by a process that was killed while writing, or by a worker of an earlier run.
            file.unlink(missing_ok=True)
    # The seconds of earlier runs; one that was killed counts up to the last file that it wrote.
    is_new = not time_file.exists()
    times: Any = {"seconds": 0.0, "started": None} if is_new else read_json(time_file)
    before: float = times["seconds"]
    if times["started"] is not None:
        before += max(0.0, last_written - times["started"])
    logger.info("%s: %s", name, "running" if is_new else "going on")
    start = time.perf_counter()
    write_json(time_file, {"seconds": before, "started": time.time()})
    try:
        figures = compute(partial)
    except BaseException:
        with suppress(OSError):  # such as a full disk, which is what is to be told
            seconds = before + time.perf_counter() - start
            write_json(time_file, {"seconds": seconds, "started": None})
        raise
    seconds = before + time.perf_counter() - start
    time_file.unlink()
    write_json(partial / _RECORD, {"key": key, "figures": figures, "seconds": round(seconds, 2)})
    partial.replace(folder)
    logger.info("%s: %s in %s", name, describe(name, figures), duration(seconds))
    return folder


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """List the files of a folder at any depth; skip those that disappear meanwhile."""
    for parent, _, names in os.walk(folder):  # `rglob` fails where a folder goes meanwhile
        for file in (Path(parent, name) for name in names):
            try:
                status = file.stat()
            except FileNotFoundError:
                continue
            yield file, status


@contextmanager
def locked(work_dir: Path) -> Iterator[None]:
    """Keep other builds out of a work directory; the lock ends with the process."""
    try:
        work_dir.mkdir(parents=True, exist_ok=True)
        lock = FileLock(work_dir / ".lock").acquire(timeout=0)
    except Timeout as error:
        raise ValueError(
            f"Another build is at work in {work_dir}. Wait until it ends, or set another work_dir."
        ) from error
    except OSError as error:
        fault = error.strerror or error
        raise ValueError(
            f"The work directory {work_dir} cannot be written ({fault}): set another work_dir."
        ) from error
    with lock:
        yield


def stage_record(folder: Path) -> dict[str, Any]:
    """Read the record of a complete stage: its `key`, `figures`, and `seconds` in all its runs."""
    record: dict[str, Any] = read_json(folder / _RECORD)
    return record


def require_disk(folder: Path, n_bytes: int, purpose: str) -> None:
    """Raise a ValueError if a disk lacks space for a folder of `n_bytes`, including its files."""
    free = shutil.disk_usage(folder).free
    present = sum(status.st_size for file, status in _files(folder) if file.name != _TIME)
    if free < n_bytes - present:
        raise ValueError(
            f"{purpose} needs about {filesize.decimal(n_bytes)} in {folder}, but only "
            f"{filesize.decimal(free)} are free. Free some disk, or set work_dir to a folder on a "
            "larger one; what is computed stays."
        )


def check_batch_size(batch_size: int, count: int, kind: str) -> None:
    """Raise a ValueError, which names the kind of texts, unless their count fills a batch."""
    require(
        count >= batch_size,
        f"distillation.batch_size is {batch_size}, but there are only {count} {kind}. Lower it, or "
        "give more.",
    )


class Selected(NamedTuple):
    """The texts that the teacher reads, S, sorted by length."""

    texts: pa.Array
    lengths: NDArray[np.int32]  # teacher tokens of each
    words: Ragged  # that each was selected for

    def rows(self, rows: slice) -> Selected:
        """Take a range of the texts."""
        numbers = np.arange(*rows.indices(len(self.lengths)))  # not of all sentences, of millions
        return Selected(self.texts[rows], self.lengths[rows], self.words.take(numbers))


class JoinedVectors:
    """Several teachers' vectors of the same sentences, read side by side, [S, d1 + d2 + …]: each at
    length 1 times the root of its teacher's weight, so that dot products are mean cosines."""

    def __init__(self, parts: Sequence[NDArray[np.float16]], weights: Sequence[float]) -> None:
        self.parts, self.weights = parts, weights
        self.shape = len(parts[0]), sum(part.shape[1] for part in parts)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: NDArray[np.integer] | slice) -> NDArray[np.float32]:
        weighted = zip(self.parts, self.weights, strict=True)
        return np.concatenate([w**0.5 * unit_rows(part[rows]) for part, w in weighted], axis=1)


TeacherVectors = NDArray[np.floating] | JoinedVectors
"""Vectors of sentences by one teacher, [S, d], or by several."""


class WorkDirectory:
    """Reads the files of a build's stages, by the hashes in their folders' names.

    `weights` are those of several teachers, 1 together; one teacher needs none.
    """

    def __init__(
        self,
        path: Path,
        hashes: Mapping[str, str] | None = None,
        weights: Sequence[float] = (),
    ) -> None:
        self.path, self.hashes, self.weights = path, dict(hashes or {}), weights

    def __getstate__(self) -> dict[str, Any]:
        # Another process reads the files itself.
        return {"path": self.path, "hashes": self.hashes, "weights": self.weights}

    @classmethod
    def of_record(
        cls, path: Path, stages: Mapping[str, Mapping[str, Any]], weights: Sequence[float] = ()
    ) -> Self:
        """Find the stages that made a model, as its record lists them."""
        return cls(path, {name: stage["hash"] for name, stage in stages.items()}, weights)

    @property
    def last(self) -> str:
        """The last stage so far."""
        return next(reversed(self.hashes))

    def folder(self, stage: str) -> Path:
        """Name the folder of a complete stage."""
        return self.path / f"{kind_of(stage)}-{self.hashes[stage]}"

    def missing(self) -> list[str]:
        """Name the folders of stages that do not exist."""
        folders = map(self.folder, self.hashes)
        return [folder.name for folder in folders if not folder.is_dir()]

    def figures(self, stage: str) -> Figures:
        """Read the figures of a stage."""
        figures: Figures = stage_record(self.folder(stage))["figures"]
        return figures

    def seconds(self, stage: str) -> float:
        """Read the time of a stage in all its runs."""
        return float(stage_record(self.folder(stage))["seconds"])

    @property
    def words(self) -> pa.Table:
        """The vocabulary's words, the most frequent first: columns `text` and `count`, V rows."""
        return read_arrow(self.folder("vocabulary") / WORDS_FILE)

    @functools.cached_property
    def tokenizer(self) -> Tokenizer:
        """The student's tokenizer."""
        return Tokenizer.from_file(str(self.folder("vocabulary") / TOKENIZER_FILE))

    @functools.cached_property
    def teacher_tokenizer(self) -> Tokenizer:
        """The tokenizer of the first teacher, whose tokens the selection counts."""
        return Tokenizer.from_file(str(self.folder("vocabulary") / TEACHER_TOKENIZER_FILE))

    @functools.cached_property
    def selected(self) -> Selected:
        """The texts that the teacher reads, S, held-out ones included."""
        table = self._selected_table.combine_chunks()
        words = table["words"].combine_chunks()
        return Selected(
            texts=table["text"].combine_chunks(),
            lengths=table["length"].to_numpy(),
            words=Ragged(words.flatten().to_numpy(), words.offsets.to_numpy().astype(np.int64)),
        )

    @functools.cached_property
    def is_held_out(self) -> NDArray[np.bool_]:
        """True for sentences whose vectors are used for measuring alone, [S]."""
        held_out: NDArray[np.bool_] = self._selected_table["held_out"].to_numpy()
        return held_out

    @functools.cached_property
    def for_words(self) -> NDArray[np.int64]:
        """Numbers of the sentences that were selected for a word, ascending."""
        return np.flatnonzero(self.selected.words.lengths)

    @property
    def _selected_table(self) -> pa.Table:
        return read_arrow(self.folder("selection") / SELECTED_FILE)

    @property
    def extractions(self) -> list[str]:
        """The stages of the teachers' passes, in the order of the recipe."""
        return [stage for stage in self.hashes if kind_of(stage) == "extraction"]

    @property
    def sentence_vectors(self) -> TeacherVectors:
        """The teacher's vectors of the selected sentences, [S, d]; several teachers' joined."""
        parts = [read_sentence_vectors(self.folder(stage)) for stage in self.extractions]
        return JoinedVectors(parts, self.weights) if len(parts) > 1 else parts[0]

    def table(self, stage: str) -> NDArray[np.float32]:
        """Read the word table that a stage made, [V, D]."""
        return read_word_table(self.folder(stage))

    def head(self, stage: str) -> Head | None:
        """Read the head that a stage made, if it made one."""
        return read_head(self.folder(stage))


def extraction_of(number: int) -> str:
    """Name the stage of the n-th teacher's pass, from 0."""
    return f"extraction_{number + 1}" if number else "extraction"


def kind_of(stage: str) -> str:
    """Name the kind of a stage, with which its folder's name begins, whichever the teacher.

    >>> kind_of("extraction_2")
    'extraction'
    """
    return stage.partition("_")[0]


def shares_of(teachers: Sequence[Mapping[str, Any]]) -> list[float]:
    """Scale the weights of a recipe's teachers to 1 together."""
    weights = [teacher["weight"] for teacher in teachers]
    return [weight / sum(weights) for weight in weights]


def write_student(folder: Path, table: NDArray[np.float32], head: Head | None = None) -> None:
    """Write a word table [V, D], and a head if there is one, into a stage's folder."""
    if head:
        write_arrays(folder / _HEAD_FILE, {"first": head.first, "second": head.second})
    write_arrays(folder / _TABLE_FILE, {"table": table})


def read_word_table(folder: Path) -> NDArray[np.float32]:
    """Read the word table [V, D] that `write_student` wrote."""
    return read_arrays(folder / _TABLE_FILE)["table"]


def read_head(folder: Path) -> Head | None:
    """Read the head that `write_student` wrote, if any."""
    file = folder / _HEAD_FILE
    return Head(**read_arrays(file)) if file.is_file() else None


def read_sentence_vectors(folder: Path) -> NDArray[np.float16]:
    """Map the teacher's sentence vectors [S, d] of a stage, complete or not, into memory."""
    vectors: NDArray[np.float16] = np.load(folder / SENTENCE_VECTORS_FILE, mmap_mode="r")
    return vectors


@dataclass(frozen=True)
class BuiltStage:
    """A complete stage: its folder, its measurements, and its time in all runs."""

    name: str
    folder: Path
    figures: Figures
    seconds: float


@dataclass(frozen=True)
class BuildResult:
    """A built model."""

    output: Path
    """The folder that SentenceTransformer() loads."""
    work: WorkDirectory
    """The stages' files."""
    stages: list[BuiltStage]
    """In order."""
    seconds: float = 0.0
    """The time of this run, without that of stages that were complete before."""

    def stage(self, name: str) -> BuiltStage:
        """Find a stage by its name."""
        return next(stage for stage in self.stages if stage.name == name)


def describe(stage: str, figures: Mapping[str, Any]) -> str:
    """Describe a complete stage in a few words.

    >>> describe("vocabulary", {"words": 8000, "tokens": 8002, "learnt_pieces": 9000})
    '8,000 pieces, 8,002 tokens'
    >>> describe("selection", {"sentences": 9000, "held_out": 500, "spans": 700})
    '9,000 sentences for the teacher to read, 500 more held out, 700 spans'
    >>> describe("target", {"texts": 300000})
    'texts 300,000'
    """
    try:
        line = _LINES[stage].format(**figures, unit=unit_of(figures))
    except KeyError:
        numbers = {k: v for k, v in figures.items() if isinstance(v, int | float)}
        return ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in numbers.items())
    further = [f"{figures[kind]:,} {kind}" for kind in ("spans", "passages") if figures.get(kind)]
    return ", ".join([line, *further])


def unit_of(figures: Mapping[str, Any]) -> str:
    """Name the units of a vocabulary, by the figures of its stage: words or pieces."""
    return "pieces" if "learnt_pieces" in figures else "words"


def duration(seconds: float) -> str:
    """Write a time for a reader.

    >>> [duration(seconds) for seconds in (3.14, 75.2, 3725)]
    ['3.1 s', '1 min 15 s', '1 h 2 min']
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {left} s"
