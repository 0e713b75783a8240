"""A table in int8 in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from st_static.model.quantization import dimensions_of, quantize_rows
from st_static.model.vectors import in_format

# Behind the numbers of a row stand its scale and bias, in float32.
_BYTES_OF_SCALE = 8
# The bit that tells an int8 from the same number plus 128 in uint8.
_SIGN = np.uint8(128)
# So many rows may be added up at a time. torch rounds otherwise than numpy, which sums of more rows
# would show. Fewer rows take longer: of most blocks of texts, one is then in several parts.
ROWS_IN_A_SUM = 256
# Rows that are rounded at a time: few, as others need not be in memory meanwhile.
_PART = 2_048


class Int8Table:
    """A table [V, D] of int8 rows, each with a scale of its own, in about a quarter of the memory.

    For numpy it is an array of float32, which `np.asarray` makes.

    Attributes:
        packed: Of each segment of a fused ensemble, else of whole rows, [V, W + 8], uint8, as
            torch's kernel for such tables reads it: a row's numbers plus 128, then as float32 its
            scale s and the bias -128 s.
    """

    dtype = np.dtype(np.float32)

    def __init__(self, packed: list[NDArray[np.uint8]]) -> None:
        self.packed = packed

    @classmethod
    def of(
        cls,
        rows: Callable[[slice], NDArray[Any]],
        shape: Sequence[int],
        widths: Sequence[int] = (),
    ) -> Int8Table:
        """Round a table, some of its rows at a time.

        Args:
            rows: Gives rows of the table, which need not be in memory as a whole.
            shape: Its shape, V and D.
            widths: Dimensions of each segment, which has scales of its own, see `quantize_rows`.

        Raises:
            ValueError: It has another number of dimensions, or holds numbers that are not finite,
                or too large for float32.
        """
        if len(shape) != 2:
            raise ValueError(f"Expected a table of the shape [V, D], but it has {list(shape)}.")
        n_rows, width = shape
        segments = dimensions_of(widths, width)
        packed = [
            np.empty((n_rows, segment.stop - segment.start + _BYTES_OF_SCALE), np.uint8)
            for segment in segments
        ]
        for start in range(0, n_rows, _PART):
            part = slice(start, start + _PART)
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
        """Rows of the table, [n, D], as the method of an array gives them along axis 0."""
        return _restored([segment.take(rows, axis) for segment in self.packed])

    def clear(self, row: int) -> None:
        """Make a row zeros."""
        for segment in self.packed:
            segment[row, -_BYTES_OF_SCALE:] = 0


Table = NDArray[Any] | Int8Table
"""[V, D]; for numpy an array."""


def _restored(packed: list[NDArray[np.uint8]]) -> NDArray[np.float32]:
    """The numbers of packed rows, [n, D]."""
    segments = []
    for segment in packed:
        rows = (segment[:, :-_BYTES_OF_SCALE] ^ _SIGN).view(np.int8)
        scales = segment[:, -_BYTES_OF_SCALE : -_BYTES_OF_SCALE // 2].view(np.float32)
        segments.append(rows * scales)
    return segments[0] if len(segments) == 1 else np.concatenate(segments, axis=1)
