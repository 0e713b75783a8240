"""Encode more text than fits into memory into a file."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from st_static.encode.file_names import OutputFormat
from st_static.encode.unknown import Unknown, are_zeros, check_unknown, unknown_text
from st_static.texts import arrow, file_rows
from st_static.texts.columns import Null, text_column
from st_static.texts.file_rows import EMBEDDING, Rows

# Writes the vectors of texts [B] into an array [B, D].
WriteVectors = Callable[[pa.ChunkedArray, NDArray[np.floating]], None]

# A row group of Parquet holds this many batches, or fewer once it has more than this many bytes.
_GROUP = 8
_GROUP_BYTES = 100_000_000


class Written(NamedTuple):
    """Counts of what was written.

    Attributes:
        rows: Number of rows.
        unknown: Number of texts without any known word, including those left out.
    """

    rows: int
    unknown: int


class Encoded(NamedTuple):
    """Rows to write.

    Attributes:
        columns: The columns beside the vectors, [B].
        vectors: [B, D]; they last until the next ones are asked for.
        missing: Which vectors are null in a table, [B].
    """

    columns: pa.Table
    vectors: NDArray[np.floating]
    missing: NDArray[np.bool_]


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
    threads: int,
    texts: Iterable[pa.ChunkedArray | Rows],
    stream: IO[bytes],
    dimension: int,
    dtype: np.dtype[Any],
    output_format: OutputFormat,
    unknown: Unknown = "zero",
) -> Written:
    """Encode batches of texts and write the vectors.

    Args:
        write_vectors: Writes the vectors of texts [B] into an array [B, D].
        threads: Number of batches that are encoded at a time, while others are read and written.
        texts: Columns of texts or rows of a file, of any length.
        stream: The stream to write to, open in binary mode.
        dimension: D.
        dtype: Number format of the vectors.
        output_format: npy is one array [N, D]; parquet has the columns of the rows (of columns of
            texts, `text`) and `embedding`, which is null for a row that could not be read.
        unknown: Whether a text without any known word is a vector of zeros, null (in parquet), left
            out or an error.
    """
    check_unknown(unknown, output_format)
    buffers = [np.empty((file_rows.BATCH_TEXTS, dimension), dtype) for _ in range(threads + 1)]
    n_unknown = 0

    def settled() -> Iterator[Encoded]:
        """Yield the encoded rows, and count those without a known word."""
        nonlocal n_unknown
        for rows, vectors in _encoded(write_vectors, threads, _cut(texts), buffers):
            is_unknown = are_zeros(vectors) & ~rows.unread
            n_unknown += int(np.count_nonzero(is_unknown))
            missing = rows.unread
            if unknown == "error" and is_unknown.any():
                raise _unknown_row(rows, int(is_unknown.argmax()))
            if unknown == "null":
                missing = missing | is_unknown
            if unknown == "skip" and is_unknown.any():
                rows, vectors = rows.where(~is_unknown), vectors[~is_unknown]
                missing = rows.unread
            yield Encoded(rows.columns, vectors, missing)

    write = _write_npy if output_format == "npy" else _write_parquet
    return Written(write(settled(), stream, dimension, dtype), n_unknown)


def _unknown_row(rows: Rows, place: int) -> ValueError:
    where = f"{'at' if rows.unit == 'position' else 'in'} {rows.unit} {rows.numbers[place]}"
    instead = (
        '. To leave such texts out, or write zeros or null for them, say unknown="skip", "zero" or '
        '"null" (on the command line --unknown).'
    )
    return unknown_text(f"The text {where}", rows.texts[place].as_py(), instead)


def _cut(texts: Iterable[pa.ChunkedArray | Rows]) -> Iterator[Rows]:
    """Cut texts into batches of at most `BATCH_TEXTS`, which may be empty, and check each text."""
    done = 0
    for given in texts:
        rows = given if isinstance(given, Rows) else _rows_of(given, done)
        for start in range(0, max(1, len(rows.texts)), file_rows.BATCH_TEXTS):
            yield rows.slice(start, file_rows.BATCH_TEXTS)
        done += len(rows.texts)


def _rows_of(given: pa.ChunkedArray, done: int) -> Rows:
    """Turn a column of texts into rows, counted from `done` on."""
    column = text_column(given, first=done)
    numbers = np.arange(done, done + len(column))
    unread = np.zeros(len(column), np.bool_)
    return Rows(column, pa.Table.from_arrays([column], ["text"]), numbers, unread, "position")


def _encoded(
    write_vectors: WriteVectors,
    threads: int,
    texts: Iterable[Rows],
    buffers: list[NDArray[np.floating]],
) -> Iterator[tuple[Rows, NDArray[np.floating]]]:
    """Yield batches and their vectors, in order; the next batch may overwrite the vectors."""
    # There is one buffer more than threads. They are reused, as the allocator would not give back
    # the memory of each batch.
    waiting: deque[tuple[Rows, NDArray[np.floating], Future[None]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for batch, buffer in zip(texts, itertools.cycle(buffers), strict=False):
            vectors = buffer[: len(batch.texts)]
            waiting.append((batch, vectors, pool.submit(write_vectors, batch.texts, vectors)))
            if len(waiting) == len(buffers):
                yield _finished(*waiting.popleft())
        while waiting:
            yield _finished(*waiting.popleft())


def _finished(
    rows: Rows, vectors: NDArray[np.floating], future: Future[None]
) -> tuple[Rows, NDArray[np.floating]]:
    future.result()
    return rows, vectors


def _write_npy(
    encoded: Iterable[Encoded], stream: IO[bytes], dimension: int, dtype: np.dtype[Any]
) -> int:
    # The header needs the number of rows, known only at the end: a pipe gets all of it then.
    direct = stream.seekable() and not _appends(stream)
    with contextlib.nullcontext(stream) if direct else tempfile.TemporaryFile() as file:
        start = file.tell()
        rows = 0
        # Until all is written, the header is zeros, which numpy refuses.
        file.write(bytes(len(_npy_header(0, dimension, dtype))))
        for _, vectors, _ in encoded:
            file.write(vectors.data)
            rows += len(vectors)
        end = file.tell()
        file.seek(start)
        file.write(_npy_header(rows, dimension, dtype))
        file.seek(end)
        if not direct:
            file.seek(0)
            shutil.copyfileobj(file, stream)
    return rows


def _appends(stream: IO[bytes]) -> bool:
    """Tell whether a file was opened for appending, so that its header cannot be rewritten."""
    try:
        import fcntl
    except ImportError:  # Windows
        return False
    try:
        return bool(fcntl.fcntl(stream.fileno(), fcntl.F_GETFL) & os.O_APPEND)
    except OSError:  # not a file of the system
        return False


def _npy_header(rows: int, dimension: int, dtype: np.dtype[Any]) -> bytes:
    """Make the header of an array [rows, D]; its length does not depend on the number of rows."""
    header = io.BytesIO()
    values = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": (rows, dimension),
    }
    np.lib.format.write_array_header_1_0(header, values)
    return header.getvalue()


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
    first = next(tables, None)
    if first is None:
        first = pa.table([pa.array([], pa.large_string())], ["text"]).append_column(
            embedding, pa.array([], vector)
        )
    source = (first.schema.metadata or {}).get(file_rows.SOURCE)
    metadata = {file_rows.SOURCE: source} if source else None
    schema = first.schema.with_metadata(metadata)
    texts = [column.name for column in schema if pa.types.is_large_string(column.type)]
    # The statistics of a long text take six times its memory.
    numbers = [column.name for column in schema if pa.types.is_primitive(column.type)]
    with pq.ParquetWriter(stream, schema, use_dictionary=texts, write_statistics=numbers) as writer:
        for group in _groups(itertools.chain([first], tables)):
            table = pa.concat_tables(group).replace_schema_metadata(metadata)
            writer.write_table(table)
            rows += len(table)
    return rows


def _groups(tables: Iterable[pa.Table]) -> Iterator[list[pa.Table]]:
    """Group tables that are written together."""
    group: list[pa.Table] = []
    for table in tables:
        group.append(table)
        if len(group) == _GROUP or sum(part.nbytes for part in group) > _GROUP_BYTES:
            yield group
            group = []
    if group:
        yield group
