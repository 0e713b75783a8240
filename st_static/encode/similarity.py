"""Compute similarities of vectors, by the measures of sentence-transformers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from st_static.arguments import as_numbers
from st_static.cluster.processes import unblock_torch
from st_static.model.vectors import unit_rows

Measure = Callable[[NDArray[np.float32], NDArray[np.float32]], NDArray[np.float32]]


def _distances(p: float) -> Measure:
    """Make a measure of the negative distance by the p-norm."""

    def negative_distances(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
        """Compute negative distances of all pairs of vectors, [n, D] and [m, D] -> [n, m]."""
        import torch  # other measures do not need it

        unblock_torch()
        distances = torch.cdist(torch.from_numpy(a), torch.from_numpy(b), p)
        similar: NDArray[np.float32] = -distances.numpy()
        return similar

    return negative_distances


_MEASURES: dict[str, Measure] = {
    "cosine": lambda a, b: unit_rows(a) @ unit_rows(b).T,
    "dot": lambda a, b: a @ b.T,
    "euclidean": _distances(2.0),
    "manhattan": _distances(1.0),
}


def similarities(embeddings1: Any, embeddings2: Any, measure: str) -> NDArray[np.float32]:
    """Compute the similarities of all pairs of vectors.

    Args:
        embeddings1: Vectors [n, D], or one [D]; of numpy or torch, or a list of such.
        embeddings2: Likewise, [m, D].
        measure: cosine, dot, or the negative distance euclidean or manhattan.

    Returns:
        Similarities [n, m], computed in float32: in float16, a zero vector's cosine would be NaN.

    Raises:
        ValueError: There is no such measure, or these are not vectors of the same width.
        TypeError: They are not numbers.

    Example:
        >>> similarities([1.0, 0.0], [[2.0, 0.0], [0.0, 0.0]], "cosine").tolist()
        [[1.0, 0.0]]
    """
    if measure not in _MEASURES:
        raise ValueError(f"Expected a measure of {', '.join(_MEASURES)}, but got {measure!r}.")
    first, second = _matrix(embeddings1), _matrix(embeddings2)
    if first.shape[1] != second.shape[1]:
        raise ValueError(
            "Expected vectors of the same width, but got vectors of "
            f"{first.shape[1]} and of {second.shape[1]} dimensions."
        )
    return _MEASURES[measure](first, second)


def _matrix(embeddings: Any) -> NDArray[np.float32]:
    """Convert vectors to a matrix of float32, [n, D]."""
    if isinstance(embeddings, (list, tuple)):
        embeddings = [_without_torch(embedding) for embedding in embeddings]
    wanted = "vectors [n, D], or one [D]"
    array = np.atleast_2d(as_numbers(_without_torch(embeddings), wanted))
    if array.ndim != 2 or not np.ndim(embeddings):
        raise ValueError(
            f"Expected {wanted}, but got an array of the shape {np.shape(embeddings)}."
        )
    return np.ascontiguousarray(array, dtype=np.float32)


def _without_torch(embeddings: Any) -> Any:
    is_tensor = hasattr(embeddings, "detach")
    return embeddings.detach().float().cpu().numpy() if is_tensor else embeddings
