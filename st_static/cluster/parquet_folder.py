"""Encode a folder of Parquet files, each into a file of the same name in another folder."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from st_static.arguments import without_secrets
from st_static.cluster.places import Place, check_access, is_marker, matching
from st_static.encode.fast_encoder import loaded_encoder
from st_static.encode.scaling import Unknown
from st_static.files import LOCK_FILE, check_writable, locked_by, remove_leftovers
from st_static.foreign_files import MOST_BYTES, parse
from st_static.model.model_folder import read_static_model
from st_static.texts.columns import Null
from st_static.texts.file_rows import SOURCE
from st_static.texts.text_files import OnError, TextReader

_SUFFIX = ".parquet"
# Readers of tables skip files whose names begin with an underscore.
_RECORD = "_st_static.json"


class FilePair(NamedTuple):
    """A file to encode, and the one to write."""

    source: Place
    target: Place

    def __str__(self) -> str:
        return self.source.path


class FileReport(NamedTuple):
    """Counts of rows written, of texts without a known word, and of unread rows."""

    rows: int = 0
    unknown: int = 0
    unread: int = 0
    first_fault: str = ""

    def plus(self, other: FileReport) -> FileReport:
        """Add up two reports, in order."""
        rows, unknown, unread = map(sum, zip(self[:3], other[:3], strict=True))
        return FileReport(rows, unknown, unread, self.first_fault or other.first_fault)


@dataclass(frozen=True)
class FolderEncoder:
    """Encodes files of a folder one by one; its pickle is small. Fields are as in `encode_to`."""

    model: str
    _: KW_ONLY
    column: str = "text"
    dtype: str = "float32"
    null: Null = "error"
    on_error: OnError = "fail"
    unknown: Unknown = "zero"
    threads: int | None = None

    def __call__(self, pair: FilePair) -> FileReport:
        """Write all columns of a file and `embedding` into one that appears when it is complete."""
        source, target = pair
        encoder = loaded_encoder(self.model, dtype=self.dtype, threads=self.threads)
        # The state before reading, so that a later replacement is noticed.
        metadata = {SOURCE: _state(source)}
        with source.read() as stream, target.written() as out:
            reader = TextReader(
                stream,
                "parquet",
                self.column,
                null=self.null,
                on_error=self.on_error,
                keep=True,
                name=source.path,
            )
            rows = (
                batch._replace(columns=batch.columns.replace_schema_metadata(metadata))
                for batch in reader
            )
            written = encoder.write(rows, out, "parquet", self.unknown)
        return FileReport(*written, reader.n_unread, reader.first_fault)

    def record(self) -> dict[str, Any]:
        """Record what determines the vectors: options, and a hash of the model."""
        options = dataclasses.asdict(self) | {"model": read_static_model(self.model).digest()}
        del options["threads"]  # it changes no vector
        return options

    def facts(self, seen: Place) -> dict[str, str]:
        """Tell what all nodes must share, the model; ValueError if `seen` cannot be read here."""
        check_access(seen)
        return {"the model": self.record()["model"]}


def _state(source: Place) -> bytes:
    """Describe the state of a file, by size and time."""
    info = source.info()
    return f"{info.size} {info.mtime_ns}".encode()


@dataclass(frozen=True)
class FolderPair:
    """A folder of Parquet files, the one for their vectors, and their paths in both."""

    source: Place
    target: Place
    names: list[str]

    @classmethod
    def find(cls, source: str, output: str) -> FolderPair:
        """Find the files of a folder that end with .parquet, or those that a pattern names."""
        target = Place.parse(output)
        if target.is_local:
            check_writable(Path(target.path), f"The output {output}")
        folder, infos = matching(Place.parse(source))
        files = [info.path for info in infos if info.path.endswith(_SUFFIX)]
        if not infos and not folder.is_folder:
            raise ValueError(f"There is no folder {without_secrets(source)}.")
        if not files:
            raise ValueError(
                f"Expected files that end with {_SUFFIX}, but {without_secrets(source)} has none: "
                "name a folder that has some, or one file."
            )
        if folder.filesystem == target.filesystem:
            first, second = PurePosixPath(folder.path), PurePosixPath(target.path)
            if first == second or first in second.parents or second in first.parents:
                raise ValueError(
                    f"The output {without_secrets(output)} and the input {without_secrets(source)} "
                    "are inside of each other: choose another folder to write to."
                )
        return cls(folder, target, [folder.inside(path) for path in files])

    @contextlib.contextmanager
    def claimed(self, encoder: FolderEncoder) -> Iterator[None]:
        """Lock the target until the block ends, except in an object store, which has no locks; mark
        it as that of an encoder and of this input, unless it is marked."""
        with contextlib.ExitStack() as stack:
            if self.target.is_local:
                folder = Path(self.target.path)
                folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked_by(folder / LOCK_FILE, self.target.path, 0))
                remove_leftovers(folder / _RECORD)
            self._claim(encoder)
            yield

    def _claim(self, encoder: FolderEncoder) -> None:
        record = {"input": self.source.path, **encoder.record()}
        marker, lock = self.target.below(_RECORD), self.target.below(LOCK_FILE)
        ours = (marker.path, lock.path)
        files = self.target.files()
        others = [info for info in files if info.path not in ours and not is_marker(info)]
        if marker.info().is_file:
            with marker.read() as stream:
                earlier = parse(stream.read(MOST_BYTES), dict[str, Any], marker.path)
            names = [name for name in record if earlier.get(name) != record[name]]
            if names and others:
                raise ValueError(
                    f"{self.target.path} was written with another {' and '.join(names)}: "
                    "choose another folder, or remove that one."
                )
        elif self.target.info().is_file or others:
            raise ValueError(
                f"{self.target.path} holds something else already: choose another folder."
            )
        with marker.written() as stream:
            stream.write(json.dumps(record, indent=2).encode() + b"\n")

    def left(self) -> list[FilePair]:
        """List the files that are not encoded, or have changed since."""
        pairs = [FilePair(self.source.below(n), self.target.below(n)) for n in self.names]
        return [pair for pair in pairs if not _is_done(pair)]

    def without_source(self) -> list[str]:
        """List the paths of files in the target whose input is gone."""
        names = [self.target.inside(info.path) for info in self.target.files()]
        others = [name for name in names if name.endswith(_SUFFIX) and name not in set(self.names)]
        return [name for name in others if not self.source.below(name).info().is_file]


def _is_done(pair: FilePair) -> bool:
    """Tell whether the present state of a file was encoded."""
    if not pair.target.info().is_file:
        return False
    try:
        with pair.target.read() as stream:
            metadata = pq.read_schema(stream).metadata or {}
    except pa.ArrowInvalid:
        return False
    return bool(metadata.get(SOURCE) == _state(pair.source))
