"""Read texts out of lines, JSON lines, CSV, TSV and Parquet, a batch of rows at a time.

A row's number is that of its first line or, in Parquet, of the row. What cannot be told apart from
the rest of the file, such as a quote that is never closed, always ends the reading.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import lzma
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, cast, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from st_static.texts import arrow, file_rows
from st_static.texts.columns import Null, check_null, strings_of
from st_static.texts.csv_table import CsvTable, Quoting
from st_static.texts.file_rows import (
    NOT_UTF8,
    Batch,
    Rows,
    checked_text,
    line_groups,
    peekable,
    repaired,
)
from st_static.texts.json_lines import JsonTable, json_lines
from st_static.texts.xz_streams import XzStreams

InputFormat = Literal["txt", "jsonl", "csv", "tsv", "parquet"]
OnError = Literal["fail", "null", "skip"]

_DECOMPRESS: dict[str, Callable[[IO[bytes]], Any]] = {
    "gz": gzip.open,
    "xz": XzStreams,
    "zst": lambda stream: pa.CompressedInputStream(stream, "zstd"),
}
_BUFFER = 2**18  # of bytes; all are slow when asked line by line

_MISSING = (
    'expected a text, but it is missing: fill it, or say null="empty" (on the command line '
    "--null empty)"
)
_NAME_ONE = "name one (on the command line with --column)"
_LEAVE_OUT = (
    'To leave such rows out, or without a vector, say on_error="skip" or "null" (on the command '
    "line --on_error)."
)


@dataclass
class TextReader:
    """Reads texts in batches of `Rows`; a ValueError if the file or a row cannot be read."""

    stream: IO[bytes]
    input_format: InputFormat
    column: str = "text"  # of all formats but txt
    _: KW_ONLY
    null: Null = "error"  # what a missing text is: an error or an empty text
    on_error: OnError = "fail"  # what becomes of an unreadable row: "null" keeps it, without a text
    keep: bool = False  # all columns: strings in CSV, typed by the first batch in JSON lines
    name: str = ""  # for errors
    quoting: Quoting | None = None  # see `CsvTable`
    # Called where a line is not Unicode, which is then repaired; without it, the row is unreadable.
    undecodable: Callable[[], None] | None = None
    remedies: tuple[str, str] = (_NAME_ONE, _LEAVE_OUT)  # for a missing column, an unreadable row
    n_unread: int = field(default=0, init=False)  # so far
    first_fault: str = field(default="", init=False)
    n_rows: int | None = field(default=None, init=False)  # in all, if the file says it: Parquet

    def __post_init__(self) -> None:
        check_null(self.null)
        if self.on_error not in get_args(OnError):
            raise ValueError(
                f'Expected on_error to be "fail", "null" or "skip", but got {self.on_error!r}.'
            )
        if self.quoting not in (None, *get_args(Quoting)):
            raise ValueError(
                f'Expected quoting to be "double" or "none", if any, but got {self.quoting!r}.'
            )
        self._table: CsvTable | None = None
        self._file = self.name or "The file"
        self._unit = "row" if self.input_format == "parquet" else "line"
        with readable(self._file):
            self._batches = self._open()

    def __iter__(self) -> Iterator[Rows]:
        while True:
            with readable(self._file):
                batch = next(self._batches, None)
            if batch is None:
                return
            yield self._settled(batch)

    @property
    def doubtful(self) -> tuple[int, str]:
        """Number of rows of CSV so far that may be several rows each, and where the first is."""
        return (self._table.n_doubtful, self._table.first_doubtful) if self._table else (0, "")

    def _open(self) -> Iterator[Batch]:
        if self.input_format == "parquet":
            return self._open_parquet()
        self.stream = checked_text(self.stream, self._file)
        if self.input_format == "txt":
            return _read_lines(self.stream, self.undecodable)
        if self.input_format == "jsonl":
            table = JsonTable(self.column, self.keep, self.undecodable, self._no_column)
            return table.read(self.stream)
        return self._open_csv()

    def _settled(self, batch: Batch) -> Rows:
        """Settle what becomes of missing texts and of rows that cannot be read."""
        if self.null == "error" and batch.texts.null_count:
            missing = arrow.mask(batch.texts.is_null().combine_chunks())
            for position in np.flatnonzero(missing).tolist():
                batch.faults.setdefault(position, _MISSING)
        if batch.faults:
            first = min(batch.faults)
            fault = f"{self._where(batch.numbers[first])}: {batch.faults[first]}"
            if self.on_error == "fail":
                raise ValueError(f"{fault}. {self.remedies[1]}")
            self.n_unread += len(batch.faults)
            self.first_fault = self.first_fault or fault
        unread = np.zeros(len(batch.numbers), np.bool_)
        unread[list(batch.faults)] = True
        # `fill_null` loads pandas, so it is called only if needed.
        texts = batch.texts.fill_null("") if batch.texts.null_count else batch.texts
        columns = batch.columns
        if columns is None:
            read = pc.if_else(arrow.of_mask(~unread), texts, None) if batch.faults else texts
            columns = pa.Table.from_arrays([read], ["text"])
        rows = Rows(texts, columns, batch.numbers, unread, self._unit)
        return rows.where(~unread) if self.on_error == "skip" and batch.faults else rows

    def _where(self, number: int) -> str:
        where = f"{self._unit} {number}"
        return f"{self.name}, {where}" if self.name else where.capitalize()

    def _check_columns(self, names: list[str]) -> None:
        """Check that a table has the column of texts, and no name of a kept column twice."""
        if self.column not in names:
            raise self._no_column(names)
        if names.count(self.column) > 1 or (self.keep and len(set(names)) < len(names)):
            raise ValueError(
                f"Two columns in {self.name or 'the file'} have the same name: {', '.join(names)}."
            )

    def _no_column(self, names: Iterable[str]) -> ValueError:
        kind = "key" if self.input_format == "jsonl" else "column"
        return ValueError(
            f"There is no {kind} {self.column!r} in {self.name or 'the file'}. Its {kind}s are "
            f"{', '.join(names)}: {self.remedies[0]}."
        )

    def _open_parquet(self) -> Iterator[Batch]:
        import pyarrow.parquet as pq

        stream = self.stream
        if not stream.seekable():  # a pipe: Parquet is read from its end
            stream = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the reader)
            shutil.copyfileobj(self.stream, stream)
        try:
            file = pq.ParquetFile(stream, page_checksum_verification=True)
        except pa.ArrowInvalid as error:
            reason = str(error).rstrip(".")
            raise ValueError(f"{self._file} is not a Parquet file: {reason}.") from error
        self._check_columns(file.schema_arrow.names)
        try:
            strings_of(file.schema_arrow.empty_table()[self.column])
        except TypeError as error:
            raise ValueError(f"{self._file}, column {self.column!r}: {error}") from None
        self.n_rows = file.metadata.num_rows
        return self._read_parquet(file)

    def _read_parquet(self, file: Any) -> Iterator[Batch]:
        done = 0
        columns = None if self.keep else [self.column]
        batches = file.iter_batches(file_rows.BATCH_TEXTS, columns=columns)
        if not file.metadata.num_rows:  # its columns are kept
            batches = [pa.RecordBatch.from_pylist([], file.read(columns=columns).schema)]
        for batch in batches:
            column = batch.column(batch.schema.get_field_index(self.column))
            texts, faults = _checked_unicode(strings_of(column))
            table = pa.Table.from_batches([batch]) if self.keep else None
            if table is not None and faults:
                index = table.schema.get_field_index(self.column)
                valid = pa.array(texts.to_pylist(), column.type)
                table = table.set_column(index, table.field(index), valid)
            yield Batch(texts, table, np.arange(done, done + len(batch)) + 1, faults)
            done += len(batch)

    def _open_csv(self) -> Iterator[Batch]:
        delimiter = "," if self.input_format == "csv" else "\t"
        self._table = table = CsvTable(self.stream, delimiter, self._where, self.quoting)
        if not table.header:  # an empty file
            return iter(())
        self._check_columns(table.header)
        return table.read(self.column, self.keep)


def _checked_unicode(texts: pa.ChunkedArray) -> tuple[pa.ChunkedArray, dict[int, str]]:
    """Drop texts [B] that are not UTF-8, which Arrow does not check, and list their faults."""
    try:
        texts.validate(full=True)
        return texts, {}
    except pa.ArrowInvalid:
        raw = texts.cast(pa.large_binary()).to_pylist()
    faults = {i: NOT_UTF8 for i, text in enumerate(raw) if text and repaired(text) != text}
    valid = pa.array([None if i in faults else t for i, t in enumerate(raw)], pa.large_binary())
    return pa.chunked_array([valid.cast(pa.large_string())]), faults


@contextlib.contextmanager
def readable(name: str) -> Iterator[None]:
    """Raise a ValueError that names the file if the block cannot read it to its end."""
    try:
        yield
    except (EOFError, OSError, zlib.error, lzma.LZMAError, pa.ArrowException) as error:
        if isinstance(error, OSError) and error.strerror:  # the system's: no file, a folder
            raise ValueError(f"{name} cannot be read ({error.strerror}).") from error
        raise ValueError(
            f"{name} cannot be read ({error}): it is damaged, or not what its name says."
        ) from error


@contextlib.contextmanager
def opened(file: Path) -> Iterator[IO[bytes]]:
    """Open a file, decompressed as its name says; errors are those of `readable`."""
    with readable(str(file)), file.open("rb") as stream:
        yield decompressed(stream, split_name(file)[1], str(file))


@contextlib.contextmanager
def opened_text(file: Path) -> Iterator[IO[bytes]]:
    """Open a file of text as `opened` does; errors are also those of `checked_text`."""
    with opened(file) as stream:
        yield checked_text(stream, str(file))


def read_lines(file: Path) -> Iterator[str]:
    """Read the lines of a file, decompressed as its name says; a ValueError if it is no text."""
    with opened(file) as stream:
        for rows in TextReader(stream, "txt", name=str(file), remedies=("", "Fix the line.")):
            yield from rows.texts.to_pylist()


def read_objects(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read the objects of a file of JSON lines, each with its file and line, for messages; errors
    are those of `opened_text`, and a ValueError at a line that is no object."""
    with opened_text(file) as stream:
        for numbers, records, faults in json_lines(stream):
            for i, (number, record) in enumerate(zip(numbers, records, strict=True)):
                location = f"{file}, line {number}"
                if i in faults:
                    raise ValueError(f"{location}: {faults[i]}. Correct the line, or leave it out.")
                yield location, record


def _read_lines(stream: IO[bytes], undecodable: Callable[[], None] | None) -> Iterator[Batch]:
    for done, lines in line_groups(stream):
        texts, faults = _checked_unicode(_without_ends(lines))
        if faults and undecodable:
            undecodable()
            texts, faults = _without_ends(list(map(repaired, lines))), {}
        yield Batch(texts, None, np.arange(done, done + len(lines)) + 1, faults)


def _without_ends(lines: list[bytes]) -> pa.ChunkedArray:
    """Make strings of lines, without line ends."""
    if len(lines) == 1:  # it may be long: not copied
        line, length = lines[0], len(lines[0])
        while length and line[length - 1] in b"\r\n":
            length -= 1
        text = arrow.strings_of_bytes(np.array([0, length]), np.frombuffer(line, np.uint8))
        return pa.chunked_array([text])
    offsets = np.cumsum([0, *map(len, lines)])
    column = arrow.strings_of_bytes(offsets, np.frombuffer(b"".join(lines), np.uint8))
    return pa.chunked_array([pc.ascii_rtrim(column, "\r\n")])


def split_name(path: Path) -> tuple[str, str]:
    """Split off the suffixes of format and compression: ("csv", "gz") of a.csv.GZ; "" for none."""
    suffix = path.suffix.lower().removeprefix(".")
    if suffix in _DECOMPRESS:
        return path.with_suffix("").suffix.lower().removeprefix("."), suffix
    return suffix, ""


def decompressed(stream: IO[bytes], compression: str, name: str) -> IO[bytes]:
    """Decompress a stream, if it is compressed; reading fails if any part is damaged."""
    if not compression:
        return stream
    stream = peekable(stream)
    if not stream.peek(1):  # other files that are cut off are errors of the decompressor
        raise ValueError(f"{name} is empty, so it was cut off: copy it again.")
    return cast("IO[bytes]", io.BufferedReader(_DECOMPRESS[compression](stream), _BUFFER))


def input_format_of(path: Path | None, stated: InputFormat | None = None) -> InputFormat:
    """Find the format of a file of texts, by its name if none is stated; standard input is txt."""
    suffix, compression = split_name(path) if path else ("txt", "")
    formats = get_args(InputFormat)
    if stated is None and suffix not in formats:
        raise ValueError(
            f"{path}: expected a name that ends with {listed(formats)} (all but .parquet also with "
            f"{listed(_DECOMPRESS)} behind). Say what it holds with --input_format."
        )
    input_format: InputFormat = stated or cast("InputFormat", suffix)
    if input_format == "parquet" and compression:
        raise ValueError(
            f"{path}: Parquet is compressed inside, not as a whole. Decompress the file first."
        )
    return input_format


def listed(suffixes: Iterable[str]) -> str:
    """List suffixes in words: ".a, .b or .c"."""
    dotted = [f".{suffix}" for suffix in suffixes]
    return " or ".join([", ".join(dotted[:-1]), dotted[-1]])
