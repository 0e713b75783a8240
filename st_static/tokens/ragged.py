"""Rows of different lengths in two flat arrays."""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# `take` copies this many values of each row a column at a time, which suits short rows.
_COLUMNS = 4


class Ragged(NamedTuple):
    """Rows of different lengths: row i is `values[offsets[i] : offsets[i + 1]]`."""

    values: NDArray[np.int32]  # all rows one after the other, [T]
    offsets: NDArray[np.int64]  # row boundaries, [B + 1], starting at 0 and ending at T

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of values in each row, [B]."""
        return np.diff(self.offsets)

    @property
    def row_of_value(self) -> NDArray[np.int64]:
        """The row that each value belongs to, [T]."""
        return np.repeat(np.arange(len(self.offsets) - 1), self.lengths)

    def filter(self, mask: NDArray[np.bool_]) -> Ragged:
        """Keep the values where `mask` [T] is true; rows get shorter, but none is dropped."""
        return Ragged(self.values[mask], offsets_of(mask)[self.offsets])

    def rows(self, start: int, stop: int) -> Ragged:
        """Take the rows from `start` to before `stop`, without copying their values."""
        offsets = self.offsets[start : stop + 1]
        return Ragged(self.values[offsets[0] : offsets[-1]], offsets - offsets[0])

    def take(self, rows: NDArray[np.integer]) -> Ragged:
        """Copy the given rows, in the given order."""
        source = self.offsets[rows]
        left = self.offsets[np.asarray(rows) + 1] - source
        offsets = offsets_of(left)
        values = np.empty(offsets[-1], dtype=self.values.dtype)
        target = offsets[:-1]
        for _ in range(_COLUMNS):
            more = np.flatnonzero(left)
            source, target, left = source[more], target[more], left[more]
            values[target] = self.values[source]
            source, target, left = source + 1, target + 1, left - 1
        steps = np.arange(left.sum()) - np.repeat(np.cumsum(left) - left, left)
        values[np.repeat(target, left) + steps] = self.values[np.repeat(source, left) + steps]
        return Ragged(values, offsets)

    def cut(self, longest: int) -> tuple[Ragged, NDArray[np.int64]]:
        """Cut each row into one or more pieces of at most `longest`; also return their rows."""
        n_pieces = np.maximum(1, -(-self.lengths // longest))
        row = np.repeat(np.arange(len(n_pieces)), n_pieces)
        position = np.arange(len(row)) - np.repeat(np.cumsum(n_pieces) - n_pieces, n_pieces)
        starts = self.offsets[row] + longest * position
        return Ragged(self.values, np.append(starts, self.offsets[-1])), row

    def first(self, n: int) -> Ragged:
        """Take the first `n` values of each row."""
        position = np.arange(len(self.values)) - np.repeat(self.offsets[:-1], self.lengths)
        return self.filter(position < n)


def offsets_of(lengths: NDArray[np.integer] | NDArray[np.bool_]) -> NDArray[np.int64]:
    """Compute the boundaries [B + 1] of rows with the given lengths [B]."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def ragged_of(rows: list[list[int]]) -> Ragged:
    """Make ragged rows of Python lists."""
    offsets = offsets_of(np.fromiter(map(len, rows), np.int64, len(rows)))
    return Ragged(np.fromiter(chain.from_iterable(rows), np.int32), offsets)


def concatenate(parts: list[Ragged]) -> Ragged:
    """Put the rows of several parts one after the other."""
    if not parts:
        return Ragged(np.empty(0, np.int32), np.zeros(1, np.int64))
    if len(parts) == 1:
        return parts[0]
    values = np.concatenate([part.values for part in parts])
    return Ragged(values, offsets_of(np.concatenate([part.lengths for part in parts])))


def interleave(second: NDArray[np.bool_], rows: list[Ragged]) -> Ragged:
    """Merge two groups of rows in order: `second` [B] tells which rows are in the second group."""
    order = np.concatenate([np.flatnonzero(~second), np.flatnonzero(second)])
    return concatenate(rows).take(np.argsort(order))
