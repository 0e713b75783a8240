"""Rows of a table in int8, with a scale for each row, or for each segment of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# The largest number that a row holds; -128 is not used, so that signs are alike.
_LARGEST = 127
# Rows that are rounded at a time.
_PART = 8_192


class QuantizedTable(NamedTuple):
    """A table of which segment l of row v is about `rows[v, segments[l]] * scales[v, l]`.

    Attributes:
        rows: [V, D], int8.
        scales: [V, L], float32; 0 for a segment of zeros.
        segments: The dimensions of each segment, L of them.
    """

    rows: NDArray[np.int8]
    scales: NDArray[np.float32]
    segments: list[slice]

    def restored(self) -> NDArray[np.float32]:
        """The table in float32, [V, D]."""
        table = np.empty(self.rows.shape, np.float32)
        for i, segment in enumerate(self.segments):
            np.multiply(self.rows[:, segment], self.scales[:, [i]], out=table[:, segment])
        return table


def dimensions_of(widths: Sequence[int], width: int) -> list[slice]:
    """The dimensions of each segment of rows [D]; without any widths, rows are one segment.

    The last takes what is left: `StaticModel` refuses widths that do not add up to those of its
    table.

    Example:
        >>> dimensions_of([2, 3], 5), dimensions_of([], 5)
        ([slice(0, 2, None), slice(2, 5, None)], [slice(0, 5, None)])
    """
    ends = [*list(accumulate(widths))[:-1], width]
    return [slice(begin, end) for begin, end in pairwise([0, *ends])]


def quantize_rows(table: NDArray[Any], widths: Sequence[int] = ()) -> QuantizedTable:
    """Round each segment of each row to multiples of 1/127 of its largest number.

    A number is wrong by at most half of that, and segments of zeros stay zeros.

    Args:
        table: [V, D], float.
        widths: Number of dimensions of each segment, [L], in a fused ensemble: its members differ
            in length, and the short ones would be rounded away. By default a row is one segment.

    Raises:
        ValueError: It holds numbers that are not finite.
    """
    segments = dimensions_of(widths, table.shape[1])
    rows = np.empty(table.shape, np.int8)
    scales = [_round(table[:, segment], rows[:, segment]) for segment in segments]
    return QuantizedTable(rows, np.stack(scales, axis=1), segments)


def _round(table: NDArray[Any], rows: NDArray[np.int8]) -> NDArray[np.float32]:
    """Write rows [V, W] in int8 to `rows`; gives their scales, [V]."""
    largest = np.maximum(table.max(axis=1, initial=0), -table.min(axis=1, initial=0))
    scales: NDArray[np.float32] = largest.astype(np.float32) / np.float32(_LARGEST)
    if not np.isfinite(scales).all():
        raise ValueError(
            "The table holds numbers that are not finite, for which int8 has no place. "
            "Take float32."
        )
    scales[scales < np.finfo(np.float32).tiny] = 0  # there, 1 / scale is too large a number
    inverse = np.divide(1, scales, out=np.zeros_like(scales), where=scales > 0)
    for start in range(0, len(table), _PART):  # without a second table in float32
        part = slice(start, start + _PART)
        rounded = np.rint(table[part].astype(np.float32) * inverse[part, None])
        rows[part] = np.clip(rounded, -_LARGEST, _LARGEST)
    return scales
