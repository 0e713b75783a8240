"""The interface of models for ensembles, agreement and evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def check_vectors(
    vectors: NDArray[Any], texts: Sequence[str], who: str, advice: str = ""
) -> NDArray[Any]:
    """Return the vectors of texts; a ValueError names the first text without a finite one."""
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise ValueError(
            f"{who} gave vectors of the shape {vectors.shape} for {len(texts)} texts; expected one "
            "row per text."
        )
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise ValueError(
            f"{who} gave NaN or infinity for {len(bad)} of {len(texts)} texts, the first of which "
            f"is {texts[bad[0]][:100]!r}.{advice}"
        )
    return vectors
