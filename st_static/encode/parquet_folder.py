"""A folder of Parquet files, each encoded into one of the same name in another folder."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib
import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from st_static.encode.fast_encoder import FastEncoder
from st_static.encode.places import Place, matching, without_secrets
from st_static.encode.text_files import OnError, TextReader
from st_static.encode.unknown import Unknown
from st_static.model.static_model import StaticModel, read_static_model
from st_static.tokens.columns import Null

_SUFFIX = ".parquet"
# Readers of tables pass over files whose names begin like this.
_RECORD = "_st_static.json"


class FilePair(NamedTuple):
    """A file to encode, and the one to write."""

    source: Place
    target: Place


class FileReport(NamedTuple):
    """What came of a file.

    Attributes:
        rows: Number of rows written.
        unknown: How many of their texts have no word that the model knows.
        unread: Number of rows that could not be read.
        first_fault: What was wrong with the first of them.
    """

    rows: int = 0
    unknown: int = 0
    unread: int = 0
    first_fault: str = ""

    def plus(self, other: FileReport) -> FileReport:
        """Both together."""
        return FileReport(
            self.rows + other.rows,
            self.unknown + other.unknown,
            self.unread + other.unread,
            self.first_fault or other.first_fault,
        )


@dataclass(frozen=True)
class FolderEncoder:
    """Encodes one file of a folder after the other; small when it is sent to other processes.

    Attributes:
        model: A folder or Hub id of a static model, the same for all processes.
        column: Name of the column of texts.
        dtype: Number format of the vectors.
        null: Whether a missing text is a row that cannot be read, or an empty text.
        on_error: What becomes of a row that cannot be read, see `TextReader`.
        unknown: Whether a text without any known word is a vector of zeros or an error.
        threads: Number of threads; by default one for each processor.
    """

    model: str
    column: str = "text"
    dtype: str = "float32"
    null: Null = "error"
    on_error: OnError = "fail"
    unknown: Unknown = "zero"
    threads: int | None = None

    def encoder(self) -> FastEncoder:
        """The model, which a process loads once."""
        return _loaded(self.model, self.dtype, self.threads)

    def __call__(self, pair: FilePair) -> FileReport:
        """Write all columns of a file and `embedding`, into a file that appears when it is whole.

        Raises:
            ValueError: The file cannot be read, or a row of it; names them.
        """
        source, target = pair
        with source.read() as stream, target.written() as out:
            reader = TextReader(
                stream, "parquet", self.column, self.null, self.on_error, True, source.path
            )
            written = self.encoder().write(reader, out, "parquet", self.unknown)
        return FileReport(*written, reader.n_unread, reader.first_fault)

    def record(self) -> dict[str, Any]:
        """What decides about the vectors: options, and a hash of the model."""
        options = dataclasses.asdict(self)
        for name in ("model", "threads"):  # neither changes a vector
            del options[name]
        return {"model": hash_of(read_static_model(self.model)), **options}


@functools.lru_cache(1)
def _loaded(model: str, dtype: Any, threads: int | None) -> FastEncoder:
    # Without torch, an encoder's sums are rounded otherwise: with it from the first text on, what
    # is written does not depend on what a process has encoded before.
    importlib.import_module("torch")
    return FastEncoder.from_pretrained(model, dtype=dtype, threads=threads)


def hash_of(model: StaticModel) -> str:
    """A hash of all that decides about a model's vectors."""
    rest = (model.normalize, model.prompt, model.truncate_dim, model.segments)
    digest = hashlib.sha256(repr(rest).encode())
    digest.update(model.tokenizer.to_str().encode())
    arrays = [model.table, *((model.head.first, model.head.second) if model.head else ())]
    for array in arrays:
        digest.update(np.ascontiguousarray(np.asarray(array)).data)
    return digest.hexdigest()


def find_pairs(source: str, output: str) -> list[FilePair]:
    """The Parquet files to encode, and where their vectors go.

    Args:
        source: A folder, of which all files count that end with .parquet; or a path with
            wildcards.
        output: The folder to write to, with the same folders in it.

    Raises:
        ValueError: There is no such file, or the output is inside of the folder or the other way
            round.
    """
    place, target = Place.parse(source), Place.parse(output)
    folder, found = matching(place)
    files = [info.path for info in found if info.path.endswith(_SUFFIX)]
    if not files:
        raise ValueError(
            f"Expected files that end with {_SUFFIX}, but {without_secrets(source)} has none."
        )
    if folder.filesystem == target.filesystem:
        one, other = PurePosixPath(folder.path), PurePosixPath(target.path)
        if one == other or one in other.parents or other in one.parents:
            raise ValueError(
                f"The output {without_secrets(output)} and the input {without_secrets(source)} "
                "are inside of each other: choose another folder to write to."
            )
    start = len(folder.path.rstrip("/")) + 1
    return [FilePair(place.at(path), target.below(path[start:])) for path in files]


def claim(output: str, record: dict[str, Any]) -> None:
    """Make a folder the output of a model and its options, or find that it is that already.

    Raises:
        ValueError: It holds something else.
    """
    place = Place.parse(output)
    known = place.below(_RECORD)
    if known.info().is_file:
        with known.read() as stream:
            there = json.loads(stream.read())
        if there != record:
            names = [name for name in record if there.get(name) != record[name]]
            raise ValueError(
                f"{without_secrets(output)} was written with another {' and '.join(names)}: "
                "choose another folder, or remove that one."
            )
        return
    if place.info().is_file or place.files():
        raise ValueError(
            f"{without_secrets(output)} holds something else already: choose another folder."
        )
    with known.written() as stream:
        stream.write(json.dumps(record, indent=2).encode() + b"\n")


def is_done(pair: FilePair) -> bool:
    """Whether a file was encoded already, and has not been changed since."""
    target = pair.target.info()
    return bool(target.is_file and target.mtime_ns >= pair.source.info().mtime_ns)


@contextlib.contextmanager
def cluster_facts(encoder: FolderEncoder, output: str) -> Iterator[Callable[[], dict[str, str]]]:
    """What each node of a cluster must tell alike: the model, and whether it sees the output.

    A file is put into the output's folder, which each node reads, until the block ends.
    """
    place = Place.parse(output)
    seen = place.below(f"_seen_by_nodes_{uuid.uuid4().hex}")
    with seen.written() as stream:
        stream.write(b"yes")
    try:
        yield functools.partial(_facts, encoder, seen)
    finally:
        place.filesystem.delete_file(seen.path)


def _facts(encoder: FolderEncoder, seen: Place) -> dict[str, str]:
    sees = "" if seen.info().is_file else "out"
    return {"the model": encoder.record()["model"], "the output": f"with{sees} access"}
