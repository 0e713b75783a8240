"""A build's work directory: where each stage's files are, and what they hold."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer

from st_static.distill.corpus.sentences import sentence_shards
from st_static.distill.stages import Figures, stage_figures, stage_folder, stage_seconds
from st_static.files import read_arrays, read_table, write_arrays
from st_static.model.head import Head
from st_static.model.modules import PCA_FILE
from st_static.tokens.ragged import Ragged

# Names of the files that stages write and a `WorkDirectory` reads.
WORDS_FILE = "words.arrow"
TOKENIZER_FILE = "tokenizer.json"
TEACHER_TOKENIZER_FILE = "teacher_tokenizer.json"
SELECTED_FILE = "selected.arrow"
SENTENCE_VECTORS_FILE = "sentence_vectors.npy"
_TABLE_FILE = "table.safetensors"
_HEAD_FILE = "head.safetensors"


class Selected(NamedTuple):
    """The sentences that the teacher reads, sorted by length.

    Attributes:
        texts: The sentences, [S].
        lengths: Teacher tokens of each, ascending, [S].
        words: For each, the words that it was selected for, [S rows].
    """

    texts: pa.Array
    lengths: NDArray[np.int32]
    words: Ragged

    def rows(self, rows: slice) -> Selected:
        """The given sentences."""
        numbers = np.arange(*rows.indices(len(self.lengths)))  # not of all sentences, of millions
        return Selected(self.texts[rows], self.lengths[rows], self.words.take(numbers))


class WorkDirectory:
    """The stages of one build: their folders, and typed reads of what is in them.

    Tables are read again with each call; the tokenizer and the selection are kept, by each process
    that it is sent to.

    Args:
        path: The recipe's `work_dir`, which may hold other builds' stages, too.
        hashes: For each of this build's stages, in order, the hash in its folder's name.
    """

    def __init__(self, path: Path, hashes: Mapping[str, str] | None = None) -> None:
        self.path = path
        self.hashes = dict(hashes or {})

    def __getstate__(self) -> dict[str, Any]:
        # Another process reads the files itself.
        return {"path": self.path, "hashes": self.hashes}

    @classmethod
    def of_record(cls, path: Path, stages: Mapping[str, Mapping[str, Any]]) -> Self:
        """The stages that made a model, as its record lists them."""
        return cls(path, {name: stage["hash"] for name, stage in stages.items()})

    @property
    def last(self) -> str:
        """The last of the stages so far."""
        return next(reversed(self.hashes))

    def folder(self, stage: str) -> Path:
        """The folder of a complete stage."""
        return stage_folder(self.path, stage, self.hashes[stage])

    def missing(self) -> list[str]:
        """Names of the stages' folders that are not there."""
        folders = map(self.folder, self.hashes)
        return [folder.name for folder in folders if not folder.is_dir()]

    def figures(self, stage: str) -> Figures:
        """The figures of a stage."""
        return stage_figures(self.folder(stage))

    def seconds(self, stage: str) -> float:
        """Seconds that a stage took, in all its runs."""
        return stage_seconds(self.folder(stage))

    def sentence_shards(self) -> list[Path]:
        """The files of all sentences, in order: columns `text` and `key`."""
        return sentence_shards(self.folder("sentences"))

    @property
    def words_file(self) -> Path:
        """The vocabulary's words, the most frequent first: columns `text` and `count`, V rows."""
        return self.folder("vocabulary") / WORDS_FILE

    @property
    def tokenizer_file(self) -> Path:
        """The student's tokenizer."""
        return self.folder("vocabulary") / TOKENIZER_FILE

    @property
    def teacher_tokenizer_file(self) -> Path:
        """The teacher's tokenizer, without truncation and padding."""
        return self.folder("vocabulary") / TEACHER_TOKENIZER_FILE

    @property
    def words(self) -> pa.Table:
        """The table in `words_file`."""
        return read_table(self.words_file)

    @functools.cached_property
    def tokenizer(self) -> Tokenizer:
        """The student's tokenizer."""
        return Tokenizer.from_file(str(self.tokenizer_file))

    @functools.cached_property
    def selected(self) -> Selected:
        """The sentences that the teacher reads, S, held-out ones included."""
        table = self._selected_table.combine_chunks()
        words = table["words"].combine_chunks()
        return Selected(
            texts=table["text"].combine_chunks(),
            lengths=table["length"].to_numpy(),
            words=Ragged(words.flatten().to_numpy(), words.offsets.to_numpy().astype(np.int64)),
        )

    @functools.cached_property
    def is_held_out(self) -> NDArray[np.bool_]:
        """True for selected sentences that no stage learns from, [S]."""
        held_out: NDArray[np.bool_] = self._selected_table["held_out"].to_numpy()
        return held_out

    @functools.cached_property
    def for_words(self) -> NDArray[np.int64]:
        """Numbers of the sentences that were selected for a word, ascending.

        All that the teacher reads but held-out and further sentences, spans and passages.
        """
        return np.flatnonzero(self.selected.words.lengths)

    @property
    def _selected_table(self) -> pa.Table:
        return read_table(self.folder("selection") / SELECTED_FILE)

    @property
    def sentence_vectors(self) -> NDArray[np.float16]:
        """The teacher's vectors of the selected sentences, [S, d]."""
        return read_sentence_vectors(self.folder("extraction"))

    @property
    def pca_file(self) -> Path:
        """The fitted sentence PCA, for `SentencePCA.load`."""
        return self.folder("pca") / PCA_FILE

    def table(self, stage: str) -> NDArray[np.float32]:
        """The word table that a stage made, [V, D]."""
        return read_word_table(self.folder(stage))

    def head(self, stage: str) -> Head | None:
        """The head that a stage made, if it made one."""
        return read_head(self.folder(stage))


def write_head(folder: Path, head: Head) -> None:
    """Leave a head in a stage's folder."""
    write_arrays(folder / _HEAD_FILE, {"first": head.first, "second": head.second})


def read_head(folder: Path) -> Head | None:
    """The head that `write_head` left in a folder, if it did."""
    file = folder / _HEAD_FILE
    return Head(**read_arrays(file)) if file.is_file() else None


def read_sentence_vectors(folder: Path) -> NDArray[np.float16]:
    """The teacher's sentence vectors in a stage's folder, complete or not, [S, d]."""
    vectors: NDArray[np.float16] = np.load(folder / SENTENCE_VECTORS_FILE, mmap_mode="r")
    return vectors


def write_word_table(folder: Path, table: NDArray[np.float32]) -> None:
    """Leave a word table [V, D] in a stage's folder."""
    write_arrays(folder / _TABLE_FILE, {"table": table})


def read_word_table(folder: Path) -> NDArray[np.float32]:
    """The word table that `write_word_table` left in a folder, [V, D]."""
    table: NDArray[np.float32] = read_arrays(folder / _TABLE_FILE)["table"]
    return table


@dataclass(frozen=True)
class BuiltStage:
    """A complete stage.

    Attributes:
        name: The stage.
        folder: Its files.
        figures: What it measured.
        seconds: How long it took, in all its runs.
    """

    name: str
    folder: Path
    figures: Figures
    seconds: float


@dataclass(frozen=True)
class BuildResult:
    """A built model.

    Attributes:
        output: The folder that SentenceTransformer() loads.
        work: The stages' files.
        stages: The stages, in order.
        seconds: How long this run took; stages that were complete before took it no time.
    """

    output: Path
    work: WorkDirectory
    stages: list[BuiltStage]
    seconds: float = 0.0

    def stage(self, name: str) -> BuiltStage:
        """The stage of that name."""
        return next(stage for stage in self.stages if stage.name == name)
