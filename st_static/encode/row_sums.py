"""Add up a table's rows for each of many texts: by scipy, or by torch where it is loaded already.

torch's kernel takes half as long on processors with AVX-512, but its import takes seconds, and its
package a gigabyte.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from st_static.cluster.processes import unblock_torch
from st_static.model.table import ROWS_IN_A_SUM
from st_static.tokens.ragged import Ragged

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


def sum_rows(rows: NDArray[np.float32], ids: Ragged) -> NDArray[np.float32]:
    """Add up the rows [V, D] of token ids [B rows], [B, D]."""
    if ids.lengths.max(initial=0) > ROWS_IN_A_SUM:
        parts, text_of_part = ids.cut(ROWS_IN_A_SUM)
        first = np.flatnonzero(np.diff(text_of_part, prepend=-1))
        of_parts = sum_rows(rows, parts)
        return np.add.reduceat(of_parts, first, axis=0, dtype=np.float64).astype(np.float32)
    if "torch" in sys.modules:
        return _sum_by_torch(rows, ids)
    counts = np.ones(len(ids.values), np.float32)
    shape = len(ids.offsets) - 1, len(rows)
    sums: NDArray[np.float32] = csr_array((counts, ids.values, ids.offsets), shape) @ rows
    return sums


def stay_in_this_thread() -> contextlib.AbstractContextManager[Any]:
    """Keep torch in the calling thread, until the context that it returns ends, if it is entered:
    torch's own threads would wait for those of a pool."""
    if "torch" not in sys.modules:
        return contextlib.nullcontext()
    import torch

    torch.get_num_threads()  # the first call in a new thread sets the number
    limited: contextlib.AbstractContextManager[Any] = _openmp().limit(limits=1)
    return limited


def _sum_by_torch(rows: NDArray[np.float32], ids: Ragged) -> NDArray[np.float32]:
    import torch

    unblock_torch()
    with torch.inference_mode():
        sums = torch.nn.functional.embedding_bag(
            torch.from_numpy(ids.values),
            torch.from_numpy(rows),
            torch.from_numpy(ids.offsets[:-1].astype(np.int32)),
            mode="sum",
        )
    of_texts: NDArray[np.float32] = sums.numpy()
    return of_texts


@functools.cache
def _openmp() -> ThreadpoolController:
    """Make the controller of OpenMP's number of threads, a setting of each calling thread."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="openmp")
