"""The target of distillation: the teacher's vectors, centred where all cosines are high."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from st_static.model.vectors import unit_rows

# Between teachers whose unrelated sentences have cosines near 0 (all-MiniLM-L6-v2: 0.08) and those
# whose have cosines near 1 (multilingual-e5-small: 0.82).
_HIGH_COSINE = 0.3
_ROWS_AT_A_TIME = 65_536


class Target:
    """The vectors whose cosines the student learns, made of the teacher's.

    Contrastive training at a low temperature leaves some teachers with cosines of 0.7 to 1 for any
    two sentences. Their softmax at the distillation's temperature is nearly flat, and what all
    sentences share drowns what tells them apart. Without their mean, cosines spread again.

    Args:
        mean: What is taken away from each vector of length 1, [d]; None for nothing.
    """

    def __init__(self, mean: NDArray[np.float32] | None = None) -> None:
        self.mean = mean

    @classmethod
    def fit(
        cls,
        vectors: NDArray[np.floating],
        rows: NDArray[np.int64],
        center: bool | Literal["auto"] = "auto",
    ) -> Target:
        """Decide by a teacher's vectors.

        Args:
            vectors: The teacher's sentence vectors, [S, d]; may be mapped into memory.
            rows: The sentences that the mean is taken of.
            center: Whether to take it away; `auto` does where the mean cosine of two sentences is
                above 0.3.
        """
        mean = mean_direction(vectors, rows)
        # The mean cosine of all pairs is the squared length of the mean of unit vectors.
        high = float(mean @ mean) > _HIGH_COSINE
        return cls(mean if center is True or (center == "auto" and high) else None)

    @property
    def is_centered(self) -> bool:
        """True if a mean is taken away."""
        return self.mean is not None

    def __call__(self, vectors: NDArray[np.floating]) -> NDArray[np.float32]:
        """The target for teacher vectors, [n, d] -> [n, d]."""
        if self.mean is None:
            return np.asarray(vectors, dtype=np.float32)
        centred: NDArray[np.float32] = unit_rows(vectors) - self.mean
        return centred


def mean_direction(vectors: NDArray[np.floating], rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """The mean of the given vectors, each scaled to length 1, [d]."""
    total = np.zeros(vectors.shape[1], dtype=np.float64)
    for start in range(0, len(rows), _ROWS_AT_A_TIME):
        part = unit_rows(vectors[rows[start : start + _ROWS_AT_A_TIME]])
        total += part.sum(axis=0, dtype=np.float64)
    mean: NDArray[np.float32] = (total / max(len(rows), 1)).astype(np.float32)
    return mean
