"""Sums of rows through a model's head."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from st_static.encode.scaling import Scaling
from st_static.model.head import Head
from st_static.model.static_model import StaticModel

# So many vectors go through the head at a time: what its hidden units give stays in the cache.
_ROWS = 512


class HeadScaling(Scaling):
    """Takes sums of rows through a head, and then scales them; see `Head` for the formula.

    The modules of the folder carry the vector past the head in hidden units of their own. Here it
    is added, and these are left out.

    Args:
        model: The model.
        head: Its head.
    """

    def __init__(self, model: StaticModel, head: Head) -> None:
        super().__init__(model)
        self._first, self._second = (
            torch.from_numpy(np.ascontiguousarray(layer.T, np.float32))
            for layer in (head.first, head.second)
        )

    def write(self, sums: torch.Tensor, out: torch.Tensor) -> None:
        """As in the base class: many vectors."""
        for start in range(0, len(out), _ROWS):
            part = sums[:, start : start + _ROWS]
            hidden = (part[0] @ self._first).relu_()
            part[0].addmm_(hidden, self._second)
            super().write(part, out[start : start + _ROWS])

    def scale_one(self, vector: NDArray[np.float32]) -> None:
        """As in the base class: one vector."""
        hidden = np.maximum(vector @ self._first.numpy(), 0)
        vector += hidden @ self._second.numpy()
        super().scale_one(vector)
