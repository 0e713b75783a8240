"""Texts cut at spaces, each distinct chunk stored once."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_SPACE = 0x20


class Cut(enum.Enum):
    """Where texts are cut."""

    AT_SPACES = "at spaces"
    """At each space character (U+0020), which belongs to no chunk."""
    BEFORE_SPACES = "before spaces"
    """Before a space that follows a visible ASCII character; chunks keep their spaces."""


class Chunks(NamedTuple):
    """Texts cut at spaces, each distinct chunk stored once.

    Attributes:
        distinct: The distinct chunks, large_string [U].
        codes: For each text one after the other, the index of each chunk in `distinct`, [C].
        offsets: Where each text's chunks begin in `codes`, [B + 1].
    """

    distinct: pa.Array
    codes: NDArray[np.int32]
    offsets: NDArray[np.int64]


def split_chunks(texts: Sequence[str] | pa.Array, cut: Cut = Cut.AT_SPACES) -> Chunks:
    """Cut texts [B], a list of str or an Arrow string array."""
    array = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.large_string())
    array = array.cast(pa.large_string())
    if cut is Cut.AT_SPACES:  # so that all chunks end with a space
        end, space = (pa.scalar(s, pa.large_string()) for s in ("", " "))
        array = pc.binary_join_element_wise(array, end, space)
    offsets, data = _buffers(array)
    is_start = np.zeros(len(data) + 1, dtype=np.bool_)
    if cut is Cut.AT_SPACES:
        np.equal(data, _SPACE, out=is_start[1:])
    else:
        visible = (data > _SPACE) & (data < 0x7F)
        is_start[1:-1] = (data[1:] == _SPACE) & visible[:-1]
    is_start[offsets] = True
    starts = np.flatnonzero(is_start)
    chunks = pa.LargeStringArray.from_buffers(
        len(starts) - 1, pa.py_buffer(starts), pa.py_buffer(data)
    )
    encoded = chunks.dictionary_encode()
    distinct = encoded.dictionary
    if cut is Cut.AT_SPACES:
        distinct = pc.ascii_rtrim(distinct, " ")
    return Chunks(distinct, encoded.indices.to_numpy(), np.searchsorted(starts, offsets))


def _buffers(array: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Boundaries [B + 1] and bytes of a large_string array, without copying the bytes."""
    _, offsets_buffer, data_buffer = array.buffers()
    if not len(array):
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    offsets = np.frombuffer(offsets_buffer, np.int64)[array.offset :][: len(array) + 1]
    data = np.frombuffer(data_buffer or b"", np.uint8)[offsets[0] : offsets[-1]]
    return offsets - offsets[0], data
