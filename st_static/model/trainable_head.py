"""A head as a module that trains behind a `StaticWordEmbedding`."""

from __future__ import annotations

import math
from typing import Any, Self

import torch
import torch.nn.functional as F
from sentence_transformers.base.modules import Module
from torch import Tensor, nn

from st_static.model.head import Head


class TrainableHead(Module):
    """z = x + B relu(A x), with x the mean of word vectors scaled to the length sqrt(D).

    The scaling changes the length of z alone, see `Head`; it keeps gradients of the same size
    whatever the length of the table's rows. B begins with zeros, so that training starts from the
    table's own vectors.

    Args:
        dimension: Dimension D of the vectors that it takes and gives.
        units: Hidden units H.
        sparse: Whether gradients are sparse tensors, as those of a `StaticWordEmbedding` are.

    Raises:
        ValueError: A number is not positive.
    """

    config_keys: list[str] = ["dimension", "units", "sparse"]  # noqa: RUF012 (so in the base class)

    def __init__(self, dimension: int, units: int, sparse: bool = True) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        if min(dimension, units) < 1:
            raise ValueError(f"Expected a positive size of a head, but got {dimension}, {units}.")
        self.dimension, self.units, self.sparse = dimension, units, sparse
        self.first = nn.Linear(dimension, units, bias=False)
        self.second = nn.Linear(units, dimension, bias=False)
        nn.init.zeros_(self.second.weight)

    def forward(self, features: dict[str, Tensor], **kwargs: Any) -> dict[str, Tensor]:
        """Replace `sentence_embedding` [B, D]."""
        x = math.sqrt(self.dimension) * F.normalize(features["sentence_embedding"], dim=1)
        hidden = F.linear(x, self._weight(self.first)).relu()
        features["sentence_embedding"] = x + F.linear(hidden, self._weight(self.second))
        return features

    def _weight(self, layer: nn.Linear) -> Tensor:
        """A layer's weight; looked up by row, it has a sparse gradient, of all rows."""
        weight = layer.weight
        if not self.sparse:
            return weight
        return F.embedding(torch.arange(len(weight), device=weight.device), weight, sparse=True)

    def get_embedding_dimension(self) -> int:
        """The dimension D."""
        return self.dimension

    def save(
        self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any
    ) -> None:
        """Write the layers and the config into a folder."""
        self.save_torch_weights(output_path, safe_serialization=safe_serialization)
        self.save_config(output_path)

    @classmethod
    def load(  # type: ignore[override]  # newer arguments pass through kwargs
        cls, model_name_or_path: str, subfolder: str = "", **kwargs: Any
    ) -> Self:
        """Read a folder that `save` wrote: of a checkpoint, which is never on the Hub."""
        source: dict[str, Any] = {"model_name_or_path": model_name_or_path, "subfolder": subfolder}
        model = cls(**cls.load_config(**source))
        cls.load_torch_weights(**source, model=model)
        return model

    def as_head(self) -> Head:
        """What was trained."""
        first, second = (layer.weight.detach().cpu().numpy() for layer in (self.first, self.second))
        return Head(first.copy(), second.copy())
