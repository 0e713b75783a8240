"""Conversions between Python, numpy and Arrow on the way from a text file to vectors.

pyarrow's own conversions import pandas where it is installed: 0.4 s and 36 MB for nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

LARGE_STRING = pa.large_string()
Batch = TypeVar("Batch", pa.Table, pa.RecordBatch)


def strings(texts: Sequence[str]) -> pa.Array:
    """Make a large_string array of texts [B]."""
    encoded = [text.encode() for text in texts]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=offsets[1:])
    return strings_of_bytes(offsets, np.frombuffer(b"".join(encoded), np.uint8))


def scalar(text: str) -> pa.Scalar:
    """Make a large_string scalar, without pandas."""
    return strings([text])[0]


def strings_of_bytes(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> pa.Array:
    """Make a large_string array of boundaries [B + 1] and bytes, without copying them."""
    buffers = pa.py_buffer(offsets), pa.py_buffer(data)
    return pa.LargeStringArray.from_buffers(len(offsets) - 1, *buffers)


def bytes_of_strings(array: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Take the boundaries [B + 1] and bytes of a large_string array; the bytes are not copied."""
    _, offsets_buffer, data_buffer = array.buffers()
    if not len(array):
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    offsets = np.frombuffer(offsets_buffer, np.int64)[array.offset :][: len(array) + 1]
    data = np.frombuffer(data_buffer or b"", np.uint8)[offsets[0] : offsets[-1]]
    return offsets - offsets[0], data


def begin_characters(data: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Find the bytes of UTF-8 that begin a character, [bytes]."""
    begins: NDArray[np.bool_] = (data & 0xC0) != 0x80
    return begins


def code_points(data: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Decode UTF-8 into code points, [characters]."""
    return np.frombuffer(str(data.data, "utf-8").encode("utf-32-le"), np.uint32)


def numbers(array: pa.Array) -> NDArray[Any]:
    """Convert an array of numbers without nulls to numpy, [B]: a view, never written to."""
    return np.from_dlpack(array)


def mask(array: pa.Array) -> NDArray[np.bool_]:
    """Convert an Arrow boolean array without nulls to numpy, [B]."""
    return numbers(array.cast(pa.uint8())).view(np.bool_)


def contain_any(texts: pa.Array, strings: Sequence[str]) -> NDArray[np.bool_]:
    """Find the texts [B] that contain one of the strings, [B]."""
    matches = np.zeros(len(texts), np.bool_)
    for string in strings:
        matches |= mask(pc.match_substring(texts, string))
    return matches


def of_mask(values: NDArray[np.bool_]) -> pa.Array:
    """Convert booleans of numpy to Arrow, [B]."""
    bits = np.packbits(values, bitorder="little")
    return pa.BooleanArray.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)])


def lists(vectors: NDArray[np.floating], missing: NDArray[np.bool_]) -> pa.FixedSizeListArray:
    """Convert vectors [B, D] to lists of D numbers, null where they are missing, [B]."""
    mask = of_mask(missing) if missing.any() else None
    values = pa.array(vectors.reshape(-1))
    return pa.FixedSizeListArray.from_arrays(values, vectors.shape[1], mask=mask)


def rows_where(table: Batch, mask: NDArray[np.bool_]) -> Batch:
    """Keep the rows of a table or batch where `mask` [B] is true, also of columns of views."""
    with contextlib.suppress(pa.ArrowNotImplementedError):  # of views, which slices take
        return table.filter(of_mask(mask))
    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False)).reshape(-1, 2)
    rows = table if isinstance(table, pa.Table) else pa.Table.from_batches([table])
    runs = [rows.slice(start, end - start) for start, end in edges.tolist()]
    rows = pa.concat_tables(runs or [rows.slice(0, 0)])
    columns = [column.combine_chunks() for column in rows.columns]
    return type(table).from_arrays(columns, schema=rows.schema)
