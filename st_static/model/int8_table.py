"""Tables in int8: rows of numbers, with a scale for each row or for each of its segments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from st_static.model.vectors import in_format

# The largest number in a row; -128 is not used, so that signs are symmetric.
_LARGEST = 127
# Rows that are rounded at a time, if the table is in memory.
_PART = 8_192
# Rows that are rounded at a time otherwise.
_FEW_ROWS = 2_048
# The numbers of a row are followed by its scale and bias, in float32.
_BYTES_OF_SCALE = 8
# The bit that tells an int8 from the same number plus 128 in uint8.
_SIGN = np.uint8(128)
ROWS_IN_A_SUM = 256
"""The most rows that may be added up at a time.

torch and numpy round differently, which sums of more rows would show. Fewer rows take longer: most
blocks of texts would have a text in several parts.
"""


class QuantizedTable(NamedTuple):
    """A table whose segment l of row v is about `rows[v, segments[l]] * scales[v, l]`."""

    rows: NDArray[np.int8]  # [V, D]
    scales: NDArray[np.float32]  # [V, L], 0 for a segment of zeros
    segments: list[slice]  # the dimensions of each, [L]

    def restored(self) -> NDArray[np.float32]:
        """Convert the table back to float32, [V, D]."""
        table = np.empty(self.rows.shape, np.float32)
        for i, segment in enumerate(self.segments):
            np.multiply(self.rows[:, segment], self.scales[:, [i]], out=table[:, segment])
        return table


def dimensions_of(widths: Sequence[int], width: int) -> list[slice]:
    """Cut rows [D] into segments; without widths, into a single one.

    The last segment takes the rest: `StaticModel` checks that widths add up to its table's.

    Example:
        >>> dimensions_of([2, 3], 5), dimensions_of([], 5)
        ([slice(0, 2, None), slice(2, 5, None)], [slice(0, 5, None)])
    """
    ends = [*list(accumulate(widths))[:-1], width]
    return [slice(begin, end) for begin, end in pairwise([0, *ends])]


def quantize_rows(table: NDArray[Any], widths: Sequence[int] = ()) -> QuantizedTable:
    """Round each segment of each row of a table [V, D] to multiples of 1/127 of its largest number.

    The error of a number is at most half of that, and segments of zeros stay zeros. Without
    `widths` [L], a row is one segment. The members of a fused ensemble differ in length, and the
    short ones would be rounded away: each is a segment. Numbers that are not finite are a
    ValueError.
    """
    segments = dimensions_of(widths, table.shape[1])
    rows = np.empty(table.shape, np.int8)
    scales = np.empty((len(table), len(segments)), np.float32)
    for i, segment in enumerate(segments):
        numbers = table[:, segment]
        largest = np.maximum(numbers.max(axis=1, initial=0), -numbers.min(axis=1, initial=0))
        scale = largest.astype(np.float32) / np.float32(_LARGEST)
        if not np.isfinite(scale).all():
            raise ValueError(
                "The table holds numbers that are not finite, for which int8 has no place. "
                "Take float32."
            )
        scale[scale < np.finfo(np.float32).tiny] = 0  # 1 / scale would overflow
        inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
        for start in range(0, len(table), _PART):  # avoids a second table in float32
            part = slice(start, start + _PART)
            rounded = np.rint(numbers[part].astype(np.float32) * inverse[part, None])
            rows[part, segment] = np.clip(rounded, -_LARGEST, _LARGEST)
        scales[:, i] = scale
    return QuantizedTable(rows, scales, segments)


class Int8Table:
    """A table [V, D] of int8 rows, each with its own scale, in about a quarter of the memory.

    `np.asarray` converts it to an array of float32. It is packed as torch's kernel reads it: for
    each segment of a fused ensemble, otherwise for whole rows, [V, W + 8] in uint8, with a row's
    numbers plus 128, then its scale s and the bias -128 s in float32.
    """

    dtype = np.dtype(np.float32)

    def __init__(self, packed: list[NDArray[np.uint8]]) -> None:
        self.packed = packed

    @classmethod
    def of(
        cls, rows: Callable[[slice], NDArray[Any]], shape: Sequence[int], widths: Sequence[int] = ()
    ) -> Int8Table:
        """Round a table [V, D], of which `rows` gets some; as `quantize_rows`."""
        if len(shape) != 2:
            raise ValueError(f"Expected a table of the shape [V, D], but it has {list(shape)}.")
        n_rows, width = shape
        segments = dimensions_of(widths, width)
        packed = [
            np.empty((n_rows, segment.stop - segment.start + _BYTES_OF_SCALE), np.uint8)
            for segment in segments
        ]
        for start in range(0, n_rows, _FEW_ROWS):
            part = slice(start, start + _FEW_ROWS)
            quantized = quantize_rows(in_format(rows(part), cls.dtype), widths)
            numbers = quantized.rows.view(np.uint8) ^ _SIGN
            scale_and_bias = np.multiply.outer(quantized.scales, np.array([1, -128], np.float32))
            for i, segment in enumerate(segments):
                packed[i][part, :-_BYTES_OF_SCALE] = numbers[:, segment]
                packed[i][part, -_BYTES_OF_SCALE:] = scale_and_bias[:, i].view(np.uint8)
        return cls(packed)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows V and dimensions D."""
        return len(self), sum(segment.shape[1] - _BYTES_OF_SCALE for segment in self.packed)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(segment.nbytes for segment in self.packed)

    def __len__(self) -> int:
        return len(self.packed[0])

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("A table in int8 becomes an array only as a copy.")
        return _restored(self.packed).astype(dtype or self.dtype, copy=False)

    def take(self, rows: Sequence[int] | NDArray[np.integer], axis: int) -> NDArray[np.float32]:
        """Take rows of the table, [n, D], as the method of an array does along axis 0."""
        return _restored([segment.take(rows, axis) for segment in self.packed])

    def __setitem__(self, row: int, zero: Literal[0]) -> None:
        for segment in self.packed:
            segment[row, -_BYTES_OF_SCALE:] = zero


Table = NDArray[Any] | Int8Table
"""A table [V, D] that numpy can use as an array."""


def _restored(packed: list[NDArray[np.uint8]]) -> NDArray[np.float32]:
    """Convert packed rows back to float32, [n, D]."""
    segments = []
    for segment in packed:
        rows = (segment[:, :-_BYTES_OF_SCALE] ^ _SIGN).view(np.int8)
        scales = segment[:, -_BYTES_OF_SCALE : -_BYTES_OF_SCALE // 2].view(np.float32)
        segments.append(rows * scales)
    return segments[0] if len(segments) == 1 else np.concatenate(segments, axis=1)
