"""Compute with word tables and sentence vectors, in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from st_static.tokens.ragged import Ragged


def unit_rows(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    """Scale each vector to length 1; zero vectors stay zero. [n, d] -> [n, d]."""
    vectors = np.asarray(vectors, dtype=np.float32)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    norms[norms == 0] = 1
    unit: NDArray[np.float32] = vectors / norms
    return unit


def in_format(table: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Convert a table [V, D] to a contiguous one; a ValueError if values are too large."""
    with np.errstate(over="ignore"):
        converted = np.ascontiguousarray(table, dtype)
    narrower = dtype.itemsize < table.dtype.itemsize
    if narrower and np.isinf(converted).any() and np.isfinite(table).all():
        raise ValueError(f"The table holds values that are too large for {dtype}. Take float32.")
    return converted


def has_vector(table: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Find which tokens have a vector, [V]; a token without one has a row of zeros."""
    has: NDArray[np.bool_] = np.any(table, axis=1)
    return has


def sentence_means(table: NDArray[np.floating], ids: Ragged) -> NDArray[np.float32]:
    """Average the word vectors [V, d] of M sentences, [M, d]; rows of zeros do not count."""
    words = ids.filter(has_vector(table)[ids.values])
    means = np.zeros((len(words.offsets) - 1, table.shape[1]), dtype=np.float32)
    filled = np.flatnonzero(words.lengths)
    # In parts, so that the gathered word vectors take at most about 100 MB.
    for part in np.array_split(filled, 1 + len(words.values) * table.shape[1] // 25_000_000):
        if len(part):
            rows = words.take(part)
            sums = np.add.reduceat(table[rows.values], rows.offsets[:-1], axis=0)
            means[part] = sums / rows.lengths[:, None]
    return means
