"""Encode more text than fits into memory, into a file."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, cast, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from st_static.encode.scaling import Unknown, are_zeros, check_unknown, unknown_text
from st_static.files import check_path, check_writable, npy_header
from st_static.texts import arrow, file_rows
from st_static.texts.columns import Null, text_column
from st_static.texts.file_rows import Rows
from st_static.texts.text_files import listed
from st_static.threads import Workers

OutputFormat = Literal["npy", "parquet"]
Vectors = NDArray[np.floating]
# Writes the vectors of texts [B] into an array [B, D].
WriteVectors = Callable[[pa.ChunkedArray, Vectors], None]
# The columns beside the vectors, [B]; the vectors, [B, D], which last until the next ones are asked
# for; and which of them are null in a table, [B].
Encoded = tuple[pa.Table, Vectors, NDArray[np.bool_]]

EMBEDDING = "embedding"  # the column of vectors
# A row group of Parquet holds this many batches, or fewer once it has more than this many bytes.
_GROUP = 8
_GROUP_BYTES = 100_000_000


class Written(NamedTuple):
    """The number of rows written, and of texts without a known word, including those left out."""

    rows: int
    unknown: int


def output_format_of(path: Path | None, stated: str | None = None) -> OutputFormat:
    """Find the format of a file of vectors, as stated or by its suffix; standard output is npy."""
    formats = get_args(OutputFormat)
    if stated is not None and stated not in formats:
        raise ValueError(f"Expected the format {' or '.join(formats)}, but got {stated!r}.")
    suffix = path.suffix.lower().removeprefix(".") if path else (stated or "npy")
    if suffix in formats and stated not in (None, suffix):
        raise ValueError(f"{path} would hold {stated}: let its name end with .{stated}.")
    if suffix not in formats and stated is None:
        raise ValueError(
            f"{path}: expected a name that ends with {listed(formats)}. Rename it, or say what it "
            'is to hold with --output_format (in Python with format="npy" or "parquet").'
        )
    return cast("OutputFormat", stated or suffix)


def check_target(path: Path) -> None:
    """Check that a file of vectors can be written, and that a present file holds vectors."""
    check_path(path, f"The output {path}")
    folder = path.parent.resolve().as_posix()
    # Not by its type alone: /dev/stdout is a link, and may lead to a file.
    is_device = folder == "/dev" or folder.startswith(("/dev/fd", "/proc/"))
    if not path.is_dir() and (is_device or (path.exists() and not path.is_file())):
        raise ValueError(
            f"{path} is a device or a pipe, in whose place a file would be put. Name a file (on "
            f"the command line, leave out --output, and redirect standard output: > {path})."
        )
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file in it, such as {path / 'vectors.npy'}.")
    check_writable(path.parent, f"The output {path}")
    if path.exists() and path.suffix.lower().removeprefix(".") not in get_args(OutputFormat):
        with path.open("rb") as file:
            start = file.read(6)
        if start and not start.startswith((b"\x93NUMPY", b"PAR1")):
            fault = "is there, and holds no vectors: they would overwrite it. Name another file."
            raise ValueError(f"{path} {fault}")


def batches(texts: Any, null: Null = "error") -> Iterator[pa.ChunkedArray]:
    """Yield texts in columns: one as for `FastEncoder.encode`, or an iterator of str in batches."""
    if not isinstance(texts, Iterator):
        yield text_column(texts, null)
        return
    done = 0
    while batch := list(itertools.islice(texts, file_rows.BATCH_TEXTS)):
        yield text_column(batch, null, done)
        done += len(batch)


def encode_batches(
    write_vectors: WriteVectors,
    texts: Iterable[pa.ChunkedArray | Rows],
    buffers: list[Vectors],
    stream: IO[bytes],
    *,
    output_format: OutputFormat,
    unknown: Unknown = "zero",
) -> Written:
    """Encode columns of texts, or rows of a file, and write them with their vectors to a stream;
    all buffers [BATCH_TEXTS, D] but one are filled at a time. npy is one array [N, D]; parquet has
    the rows' columns, or `text`, and `embedding`, null where a row could not be read."""
    check_unknown(unknown, output_format)
    n_unknown = 0

    def settled() -> Iterator[Encoded]:
        """Yield the encoded rows, and count those without a known word."""
        nonlocal n_unknown
        for rows, vectors in _encoded(write_vectors, _cut(texts), buffers):
            is_unknown = are_zeros(vectors) & ~rows.unread
            n_unknown += int(np.count_nonzero(is_unknown))
            if unknown == "error" and is_unknown.any():
                raise _unknown_row(rows, int(is_unknown.argmax()))
            if unknown == "skip" and is_unknown.any():
                rows, vectors = rows.where(~is_unknown), vectors[~is_unknown]
            missing = rows.unread | is_unknown if unknown == "null" else rows.unread
            yield rows.columns, vectors, missing

    write = _write_npy if output_format == "npy" else _write_parquet
    _, dimension = buffers[0].shape
    return Written(write(settled(), stream, dimension, buffers[0].dtype), n_unknown)


def _unknown_row(rows: Rows, row: int) -> ValueError:
    location = f"{'at' if rows.unit == 'position' else 'in'} {rows.unit} {rows.numbers[row]}"
    instead = (
        '. To leave such texts out, or write zeros or null for them, say unknown="skip", "zero" or '
        '"null" (on the command line --unknown).'
    )
    return unknown_text(f"The text {location}", rows.texts[row].as_py(), instead)


def _cut(texts: Iterable[pa.ChunkedArray | Rows]) -> Iterator[Rows]:
    """Cut texts into batches of at most `BATCH_TEXTS`, which may be empty."""
    done = 0
    for batch in texts:
        rows = batch
        if not isinstance(rows, Rows):
            column = text_column(batch, first=done)
            numbers = np.arange(done, done + len(column))
            unread = np.zeros(len(column), np.bool_)
            table = pa.Table.from_arrays([column], ["text"])
            rows = Rows(column, table, numbers, unread, "position")
        for start in range(0, max(1, len(rows.texts)), file_rows.BATCH_TEXTS):
            yield rows.slice(start, file_rows.BATCH_TEXTS)
        done += len(rows.texts)


def _encoded(
    write_vectors: WriteVectors, texts: Iterable[Rows], buffers: list[Vectors]
) -> Iterator[tuple[Rows, Vectors]]:
    """Yield batches and their vectors, in order; the next batch may overwrite the vectors."""
    waiting: deque[tuple[Rows, Vectors, Future[None]]] = deque()

    def first() -> tuple[Rows, Vectors]:
        rows, vectors, future = waiting.popleft()
        future.result()
        return rows, vectors

    with Workers(len(buffers) - 1) as pool:
        for batch, buffer in zip(texts, itertools.cycle(buffers), strict=False):
            vectors = buffer[: len(batch.texts)]
            waiting.append((batch, vectors, pool.submit(write_vectors, batch.texts, vectors)))
            if len(waiting) == len(buffers):
                yield first()
        while waiting:
            yield first()


def _write_npy(
    encoded: Iterable[Encoded], stream: IO[bytes], dimension: int, dtype: np.dtype[Any]
) -> int:
    # The header needs the number of rows, known only at the end: a pipe gets all of it then.
    direct = stream.seekable() and not _appends(stream)
    with contextlib.nullcontext(stream) if direct else tempfile.TemporaryFile() as file:
        start, rows = file.tell(), 0
        # Until all is written, the header is zeros, which numpy refuses.
        file.write(bytes(len(npy_header(0, dimension, dtype))))
        for _, vectors, _ in encoded:
            file.write(vectors.data)
            rows += len(vectors)
        end = file.tell()
        file.seek(start)
        file.write(npy_header(rows, dimension, dtype))
        file.seek(end)
        if not direct:
            file.seek(0)
            shutil.copyfileobj(file, stream)
    return rows


def _appends(stream: IO[bytes]) -> bool:
    """Tell whether a file was opened for appending, so that its header cannot be rewritten."""
    try:
        import fcntl

        return bool(fcntl.fcntl(stream.fileno(), fcntl.F_GETFL) & os.O_APPEND)
    except (ImportError, OSError):  # Windows, or not a file of the system
        return False


def _write_parquet(
    encoded: Iterable[Encoded], stream: IO[bytes], dimension: int, dtype: np.dtype[Any]
) -> int:
    import pyarrow.parquet as pq

    vector = pa.list_(pa.from_numpy_dtype(dtype), dimension)
    embedding = pa.field(EMBEDDING, vector)
    tables = (
        columns.append_column(embedding, arrow.lists(vectors.copy(), missing))
        for columns, vectors, missing in encoded
    )
    rows = 0
    if (first := next(tables, None)) is None:
        empty = [pa.array([], kind) for kind in (pa.large_string(), vector)]
        first = pa.table(empty, ["text", EMBEDDING])
    if first.schema.names.count(EMBEDDING) > 1:
        raise ValueError(
            f"The input has a column {EMBEDDING!r}, as the vectors' is called: rename it. One file "
            "can also be encoded without --keep."
        )
    source = (first.schema.metadata or {}).get(file_rows.SOURCE)
    metadata = {file_rows.SOURCE: source} if source else None
    schema = first.schema.with_metadata(metadata)
    texts = [column.name for column in schema if pa.types.is_large_string(column.type)]
    # The statistics of a long text take six times its memory.
    numbers = [column.name for column in schema if pa.types.is_primitive(column.type)]
    with (
        pq.ParquetWriter(stream, schema, use_dictionary=texts, write_statistics=numbers) as writer,
        Workers(1) as pool,  # otherwise the encoders would wait for a group to be written
    ):
        group: list[pa.Table] = []
        written = pool.submit(int)
        for table in itertools.chain([first], tables, [None]):
            is_full = len(group) == _GROUP or sum(part.nbytes for part in group) > _GROUP_BYTES
            if is_full or table is None:
                whole = pa.concat_tables(group).replace_schema_metadata(metadata)
                written.result()
                written = pool.submit(writer.write_table, whole)
                rows += len(whole)
                group = []
            group.append(table)
        written.result()
    return rows
