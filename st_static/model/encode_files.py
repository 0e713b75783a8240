"""More text than fits into memory, encoded into a file."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from st_static.model import arrow
from st_static.model.columns import Null, text_column
from st_static.model.ragged import offsets_of

# Writes the vectors of texts [B] into an array [B, D].
Encode = Callable[[pa.ChunkedArray, NDArray[np.floating]], None]
Encoded = tuple[pa.ChunkedArray, NDArray[np.floating]]
OutputFormat = Literal["npy", "parquet"]
InputFormat = Literal["txt", "jsonl", "parquet"]

# Texts that are read, encoded and written at a time: twice as many are hardly faster, and take
# 30 MB more on two processors.
BATCH_TEXTS = 1_536
# Batches in a row group of Parquet.
_GROUP = 8


def batches(texts: Any, null: Null = "error") -> Iterator[pa.ChunkedArray]:
    """Texts in columns: one as for `FastEncoder.encode`, or any iterable of str, in batches."""
    if hasattr(texts, "__len__"):
        yield text_column(texts, null)
        return
    rest = iter(texts)
    done = 0
    while batch := list(itertools.islice(rest, BATCH_TEXTS)):
        yield text_column(batch, null, done)
        done += len(batch)


def read_texts(
    stream: IO[bytes], input_format: InputFormat, column: str = "text", null: Null = "error"
) -> Iterator[pa.ChunkedArray]:
    """Read texts from a file in batches.

    Args:
        stream: The file, open in binary mode.
        input_format: txt is a text a line, in UTF-8; jsonl and parquet have a column of texts.
        column: Name of that column.
        null: Whether a missing text is an error or an empty text.

    Raises:
        ValueError: The file is not what the format says, or has no such column.
        TypeError: A text is missing or no str.
    """
    if input_format == "txt":
        yield from _read_lines(stream)
        return
    read = _read_jsonl if input_format == "jsonl" else _read_parquet
    done = 0
    for table in read(stream, column):
        yield text_column(table, null, done)
        done += len(table)


def _read_lines(stream: IO[bytes]) -> Iterator[pa.ChunkedArray]:
    done = 0
    while lines := list(itertools.islice(stream, BATCH_TEXTS)):
        yield pa.chunked_array([_without_ends(lines, done)])
        done += len(lines)


def _without_ends(lines: list[bytes], done: int) -> pa.Array:
    """Lines as strings without their ends; they are the lines after number `done` of a file."""
    offsets = offsets_of(np.fromiter(map(len, lines), np.int64, len(lines)))
    column = arrow.strings_of_bytes(offsets, np.frombuffer(b"".join(lines), np.uint8))
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        number = next(i for i, line in enumerate(lines, done + 1) if not _is_text(line))
        raise ValueError(
            f"Line {number}: expected text in UTF-8, but there is other data."
        ) from error
    return pc.ascii_rtrim(column, "\r\n")


def _is_text(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _read_jsonl(stream: IO[bytes], column: str) -> Iterator[pa.Array]:
    lines = enumerate(stream, 1)
    while batch := list(itertools.islice(lines, BATCH_TEXTS)):
        yield pa.array(
            [_text_of(line, number, column) for number, line in batch], pa.large_string()
        )


def _text_of(line: bytes, number: int, column: str) -> str | None:
    try:
        text = json.loads(line)[column]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"Line {number}: expected a JSON object with {column!r}, but got {line[:80]!r}."
        ) from error
    if text is not None and not isinstance(text, str):
        raise TypeError(f"Line {number}: expected {column!r} to be a string, but got {text!r}.")
    return text


def _read_parquet(stream: IO[bytes], column: str) -> Iterator[pa.Array]:
    import pyarrow.parquet as pq

    if not stream.seekable():  # a pipe: Parquet is read from its end
        spooled = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the reader)
        shutil.copyfileobj(stream, spooled)
        stream = spooled
    try:
        file = pq.ParquetFile(stream)
    except pa.ArrowInvalid as error:
        raise ValueError(f"Expected a Parquet file: {error}") from error
    if column not in file.schema_arrow.names:
        names = ", ".join(file.schema_arrow.names)
        raise ValueError(f"There is no column {column!r} in the file, but {names}.")
    for batch in file.iter_batches(BATCH_TEXTS, columns=[column]):
        yield batch.column(0)


def encode_batches(
    encode: Encode,
    threads: int,
    texts: Iterable[pa.ChunkedArray],
    stream: IO[bytes],
    dimension: int,
    dtype: np.dtype[Any],
    output_format: OutputFormat,
) -> int:
    """Encode batches of texts and write the vectors; returns the number of texts.

    Args:
        encode: Writes the vectors of texts [B] into an array [B, D].
        threads: So many batches are encoded at a time, while others are read and written.
        texts: Columns of texts, of any length.
        stream: Where to, open in binary mode.
        dimension: D.
        dtype: Number format of the vectors.
        output_format: npy is one array [N, D]; parquet has the columns `text` and `embedding`.
    """
    rooms = [np.empty((BATCH_TEXTS, dimension), dtype) for _ in range(threads + 1)]
    encoded = _encoded(encode, threads, _cut(texts), rooms)
    write = _write_npy if output_format == "npy" else _write_parquet
    return write(encoded, stream, dimension, dtype)


def _cut(texts: Iterable[pa.ChunkedArray]) -> Iterator[pa.ChunkedArray]:
    """Columns of texts in batches of at most `BATCH_TEXTS`, each text checked to be one."""
    done = 0
    for given in texts:
        column = text_column(given, first=done)
        for start in range(0, len(column), BATCH_TEXTS):
            yield column.slice(start, BATCH_TEXTS)
        done += len(column)


def _encoded(
    encode: Encode,
    threads: int,
    texts: Iterable[pa.ChunkedArray],
    rooms: list[NDArray[np.floating]],
) -> Iterator[Encoded]:
    """Batches and their vectors, in order; these last until the next ones are asked for.

    The rooms [BATCH_TEXTS, D], one more than threads, hold the vectors of one batch after the
    other: the allocator would keep what belongs to no batch any more.
    """
    waiting: deque[tuple[Encoded, Future[None]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for batch, room in zip(texts, itertools.cycle(rooms), strict=False):
            vectors = room[: len(batch)]
            waiting.append(((batch, vectors), pool.submit(encode, batch, vectors)))
            if len(waiting) == len(rooms):
                yield _finished(*waiting.popleft())
        while waiting:
            yield _finished(*waiting.popleft())


def _finished(encoded: Encoded, future: Future[None]) -> Encoded:
    future.result()
    return encoded


def _write_npy(
    encoded: Iterable[Encoded], stream: IO[bytes], dimension: int, dtype: np.dtype[Any]
) -> int:
    # The number of rows stands in front and is known at the end: into a pipe it goes at last.
    direct = stream.seekable() and not _appends(stream)
    with contextlib.nullcontext(stream) if direct else tempfile.TemporaryFile() as file:
        start = file.tell()
        rows = 0
        # Until all is written the file has zeros in front, which numpy refuses.
        file.write(bytes(len(_npy_header(0, dimension, dtype))))
        for _, vectors in encoded:
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
    """Whether a file was opened to append to, so that its beginning cannot be written again."""
    try:
        import fcntl
    except ImportError:  # Windows
        return False
    try:
        return bool(fcntl.fcntl(stream.fileno(), fcntl.F_GETFL) & os.O_APPEND)
    except OSError:  # no file of the system
        return False


def _npy_header(rows: int, dimension: int, dtype: np.dtype[Any]) -> bytes:
    """The header of an array [rows, D]; numpy leaves room for the number of rows to grow."""
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
    schema = pa.schema([("text", pa.large_string()), ("embedding", vector)])
    rows = 0
    tables = (
        pa.table([texts, _as_lists(vectors.copy())], schema=schema) for texts, vectors in encoded
    )
    with pq.ParquetWriter(stream, schema, use_dictionary=["text"]) as writer:
        while group := list(itertools.islice(tables, _GROUP)):
            table = pa.concat_tables(group)
            writer.write_table(table)
            rows += len(table)
    return rows


def _as_lists(vectors: NDArray[np.floating]) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])


def format_of(path: Path | None, formats: Sequence[str]) -> Any:
    """The format that a file's name ends with; the first one for other names and for none."""
    suffix = path.suffix.removeprefix(".") if path else ""
    return suffix if suffix in formats else formats[0]
