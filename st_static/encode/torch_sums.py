"""Add up rows with torch, faster than with scipy, where a program has loaded it anyway.

Its import would take seconds, and its package a gigabyte.
"""

from __future__ import annotations

import functools

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from st_static.tokens.ragged import Ragged


def sum_rows_by_torch(rows: NDArray[np.float32], ids: Ragged) -> NDArray[np.float32]:
    """Add up the rows [V, D] of token ids [B rows], [B, D]: to the last bit what scipy does."""
    torch.get_num_threads()  # the first call in a new thread sets the number
    # torch's own threads would wait for those of FastEncoder.
    with torch.inference_mode(), _openmp().limit(limits=1):
        sums = F.embedding_bag(
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
    return ThreadpoolController().select(user_api="openmp")
