"""Compute similarities of vectors, by the measures of sentence-transformers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from st_static.arguments import as_numbers
from st_static.model.vectors import unit_rows
from st_static.threads import forks_wait

_MEASURES = ("cosine", "dot", "euclidean", "manhattan")


def similarities(embeddings1: Any, embeddings2: Any, measure: str) -> NDArray[np.float32]:
    """Compute similarities [n, m] of all pairs of vectors [n, D] or [D]; distances are negative. In
    float32, as float16 would make a zero vector's cosine NaN. TypeError or ValueError if unfit."""
    if measure not in _MEASURES:
        raise ValueError(f"Expected a measure of {', '.join(_MEASURES)}, but got {measure!r}.")
    first, second = _matrix(embeddings1), _matrix(embeddings2)
    if first.shape[1] != second.shape[1]:
        raise ValueError(
            "Expected vectors of the same width, but got vectors of "
            f"{first.shape[1]} and of {second.shape[1]} dimensions."
        )
    if measure == "cosine":
        first, second = unit_rows(first), unit_rows(second)
    if measure in ("cosine", "dot"):
        return first @ second.T
    with forks_wait:
        from scipy.spatial.distance import cdist  # slow to import

    distances = cdist(first, second, "cityblock" if measure == "manhattan" else measure)
    similar: NDArray[np.float32] = -distances.astype(np.float32)
    return similar


def _matrix(embeddings: Any) -> NDArray[np.float32]:
    """Convert vectors to a matrix of float32, [n, D]."""
    if isinstance(embeddings, (list, tuple)):
        embeddings = [_without_torch(embedding) for embedding in embeddings]
    wanted = "vectors [n, D], or one [D]"
    array = np.atleast_2d(as_numbers(_without_torch(embeddings), wanted))
    if array.ndim != 2 or not np.ndim(embeddings):
        raise ValueError(f"Expected {wanted}, but got the shape {np.shape(embeddings)}.")
    return np.ascontiguousarray(array, dtype=np.float32)


def _without_torch(embeddings: Any) -> Any:
    is_tensor = hasattr(embeddings, "detach")
    return embeddings.detach().float().cpu().numpy() if is_tensor else embeddings
