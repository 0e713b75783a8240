"""The head of a static model: a small network behind the mean of the word vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from st_static.model.vectors import in_format


class DenseLayer(NamedTuple):
    """A `Dense` module of sentence-transformers without a bias."""

    weight: NDArray[Any]  # [outputs, inputs]
    activation: str  # the class of its activation function, as the module's configuration names it


_RELU = "torch.nn.modules.activation.ReLU"
_IDENTITY = "torch.nn.modules.linear.Identity"


@dataclass(frozen=True)
class Head:
    """Adds to the mean x of word vectors a term that depends on their combination::

        z = x + B relu(A x)

    Without biases, the length of x changes only that of z, and zeros stay zeros.
    """

    first: NDArray[Any]  # A [H, D]
    second: NDArray[Any]  # B [D, H]

    def __post_init__(self) -> None:
        if self.first.ndim != 2 or self.second.shape != self.first.shape[::-1]:
            raise ValueError(
                "Expected the layers of a head as [H, D] and [D, H], but their shapes are "
                f"{self.first.shape} and {self.second.shape}."
            )

    @property
    def units(self) -> int:
        """Hidden units H."""
        return len(self.first)

    @property
    def dimension(self) -> int:
        """Dimension D of the vectors that it takes and gives."""
        return len(self.second)

    def __call__(
        self, vectors: NDArray[np.floating], switched_by: NDArray[np.floating] | None = None
    ) -> NDArray[Any]:
        """Compute z of means x, [B, D]; float64 stays. A vector [D] as `switched_by` switches the
        hidden units on instead of each row, so that the z of its parts add up to its own."""
        x = np.asarray(vectors)
        x = x.astype(np.result_type(x, np.float32), copy=False)
        first, second = (layer.astype(x.dtype) for layer in (self.first, self.second))
        hidden = x @ first.T
        is_on = hidden > 0 if switched_by is None else first @ switched_by > 0
        z: NDArray[Any] = x + np.where(is_on, hidden, 0) @ second.T
        return z

    def in_format(self, dtype: np.dtype[Any]) -> Head:
        """Convert both layers to another number format."""
        return Head(in_format(self.first, dtype), in_format(self.second, dtype))

    def as_dense(self) -> list[DenseLayer]:
        """Convert it to two plain layers, as every sentence-transformers has; 2 D more hidden units
        carry the vector itself: relu(x) - relu(-x) = x, exactly."""
        carried = np.eye(self.dimension, dtype=self.first.dtype)
        return [
            DenseLayer(np.concatenate([self.first, carried, -carried]), _RELU),
            DenseLayer(np.concatenate([self.second, carried, -carried], axis=1), _IDENTITY),
        ]

    @classmethod
    def of_dense(cls, layers: Sequence[DenseLayer]) -> Head:
        """Find the head that `as_dense` wrote as these two layers; a ValueError if none did."""
        (first, _), (second, _) = layers
        units = len(first) - 2 * len(second)
        if units > 0:
            head = cls(first[:units], second[:, :units])
            if all(
                written.activation == other.activation
                and np.array_equal(written.weight, other.weight)
                for written, other in zip(head.as_dense(), layers, strict=True)
            ):
                return head
        raise ValueError(
            "Expected two Dense layers that carry the vector past a head, as st_static writes them."
        )
