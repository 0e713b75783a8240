"""The interface of models for ensembles, agreement and evaluation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from st_static.arguments import shown

EncodeTexts = Callable[[list[str]], NDArray[np.floating]]
"""Texts [B] to vectors [B, D]."""


class Encoder(Protocol):
    """A `FastEncoder`, a SentenceTransformer, or anything with the same `encode`."""

    def encode(self, texts: list[str], /) -> ArrayLike:
        """Encode texts [B] into vectors [B, D]."""


def check_encoder(encoder: Any, name: str) -> None:
    """Check that a model, which the message calls by a name, encodes texts, and is no class."""
    if isinstance(encoder, str | type) or not hasattr(encoder, "encode"):
        raise ValueError(
            f"Expected models that encode texts, but {name} is {shown(encoder)}. "
            "Load it, for example with FastEncoder.from_pretrained."
        )
