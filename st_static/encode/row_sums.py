"""Add up the rows of a table for each text."""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from st_static.model.table import ROWS_IN_A_SUM, Table
from st_static.threads import forks_wait, is_forked
from st_static.tokens.ragged import Ragged

# Rows that are converted to float32 at a time: these stay in the cache.
_PART = 256


def used_rows(table: Table, ids: Ragged) -> tuple[NDArray[np.float32], Ragged]:
    """Take the rows that token ids [B rows] use, [n, D] in float32, with ids that index them; a
    table that is in float32 already is returned whole, with the same ids."""
    if isinstance(table, np.ndarray) and table.dtype == np.float32:
        return table, ids
    is_used = np.zeros(len(table), np.bool_)
    is_used[ids.values] = True
    positions = np.cumsum(is_used, dtype=np.int32) - np.int32(1)
    used = np.flatnonzero(is_used)
    rows = np.empty((len(used), table.shape[1]), np.float32)
    for start in range(0, len(used), _PART):
        part = slice(start, start + _PART)
        rows[part] = table.take(used[part], 0)
    return rows, Ragged(positions[ids.values], ids.offsets)


def sum_rows(rows: NDArray[np.float32], ids: Ragged) -> NDArray[np.float32]:
    """Add up the rows [V, D] of token ids [B rows], [B, D]."""
    if ids.lengths.max(initial=0) > ROWS_IN_A_SUM:
        parts, text_of_part = ids.cut(ROWS_IN_A_SUM)
        first = np.flatnonzero(np.diff(text_of_part, prepend=-1))
        of_parts = sum_rows(rows, parts)
        return np.add.reduceat(of_parts, first, axis=0, dtype=np.float64).astype(np.float32)
    # In a forked process, torch would wait for threads that only the parent has.
    if "torch" in sys.modules and not is_forked():
        with forks_wait:
            from st_static.encode.torch_sums import sum_rows_by_torch

        return sum_rows_by_torch(rows, ids)
    # How often each text has each row; repeated rows add up.
    counts = np.ones(len(ids.values), np.float32)
    shape = len(ids.offsets) - 1, len(rows)
    sums: NDArray[np.float32] = csr_array((counts, ids.values, ids.offsets), shape) @ rows
    return sums
