"""Similarities of vectors, by the measures that sentence-transformers has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from st_static.arguments import as_numbers

_MEASURES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cosine": lambda a, b: F.normalize(a, dim=1) @ F.normalize(b, dim=1).T,
    "dot": lambda a, b: a @ b.T,
    "euclidean": lambda a, b: -torch.cdist(a, b, p=2.0),
    "manhattan": lambda a, b: -torch.cdist(a, b, p=1.0),
}


def similarities(embeddings1: Any, embeddings2: Any, measure: str) -> NDArray[np.float32]:
    """Similarities of all pairs of vectors.

    Args:
        embeddings1: Vectors [n, D], or one [D]; of numpy or torch, or a list of such.
        embeddings2: The same, [m, D].
        measure: cosine, dot, or the negative distance euclidean or manhattan.

    Returns:
        Similarities [n, m], computed in float32: float16 would make NaN of a zero vector's cosine.

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
    similar: NDArray[np.float32] = _MEASURES[measure](first, second).numpy()
    return similar


def _matrix(embeddings: Any) -> Tensor:
    """Vectors as a matrix of float32, [n, D]."""
    if isinstance(embeddings, (list, tuple)):
        embeddings = [_without_torch(embedding) for embedding in embeddings]
    wanted = "vectors [n, D], or one [D]"
    array = np.atleast_2d(as_numbers(_without_torch(embeddings), wanted))
    if array.ndim != 2 or not np.ndim(embeddings):
        raise ValueError(
            f"Expected {wanted}, but got an array of the shape {np.shape(embeddings)}."
        )
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))


def _without_torch(embeddings: Any) -> Any:
    return (
        embeddings.detach().float().cpu().numpy() if isinstance(embeddings, Tensor) else embeddings
    )
