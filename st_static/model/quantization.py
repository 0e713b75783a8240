"""Rows of a table in int8, each with a scale of its own."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# The largest number that a row holds; -128 is not used, so that signs are alike.
_LARGEST = 127
# Rows that are rounded at a time.
_PART = 8_192


class QuantizedTable(NamedTuple):
    """A table of which row v is about `rows[v] * scales[v]`.

    Attributes:
        rows: [V, D], int8.
        scales: [V], float32; 0 for a row of zeros.
    """

    rows: NDArray[np.int8]
    scales: NDArray[np.float32]

    def restored(self) -> NDArray[np.float32]:
        """The table in float32, [V, D]."""
        table: NDArray[np.float32] = self.rows * self.scales[:, None]
        return table


def quantize_rows(table: NDArray[Any]) -> QuantizedTable:
    """Round each row to multiples of 1/127 of its largest number.

    A number is wrong by at most half of that, and rows of zeros stay zeros.

    Args:
        table: [V, D], float.

    Raises:
        ValueError: It holds numbers that are not finite.
    """
    largest = np.maximum(table.max(axis=1, initial=0), -table.min(axis=1, initial=0))
    scales = largest.astype(np.float32) / np.float32(_LARGEST)
    if not np.isfinite(scales).all():
        raise ValueError(
            "The table holds numbers that are not finite, for which int8 has no place. "
            "Take float32."
        )
    scales[scales < np.finfo(np.float32).tiny] = 0  # there, 1 / scale is too large a number
    inverse = np.divide(1, scales, out=np.zeros_like(scales), where=scales > 0)
    rows = np.empty(table.shape, np.int8)
    for start in range(0, len(table), _PART):  # without a second table in float32
        part = slice(start, start + _PART)
        rounded = np.rint(table[part].astype(np.float32) * inverse[part, None])
        rows[part] = np.clip(rounded, -_LARGEST, _LARGEST)
    return QuantizedTable(rows, scales)
