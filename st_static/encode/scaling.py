"""Turn sums of rows into vectors: by the mean, a head, and a length for each segment."""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from st_static.model.static_model import StaticModel

UnknownInArray = Literal["zero", "error"]
Unknown = Literal["zero", "null", "skip", "error"]

_SHOWN_CHARACTERS = 60
_SMALLEST_NORM = 1e-12  # as in torch's normalize
# Scale this many vectors at a time: their copies in float32 stay in the cache.
_SCALED_VECTORS = 512
# OpenBLAS stays in one thread for a product of at most this many multiplications; of so few, this
# many rows at a time are fast.
_ALONE, _ALONE_ROWS = 262_144, 8


class Scaling:
    """Passes sums of a model's rows through its head, and scales or averages them."""

    def __init__(self, model: StaticModel) -> None:
        self._scaled = model.scaled
        # The head's layers (see `Head`), transposed to be multiplied from the right.
        layers = (model.head.first, model.head.second) if model.head else ()
        self._layers = [np.ascontiguousarray(layer.T, np.float32) for layer in layers]

    def write(
        self, sums: NDArray[np.float32], lengths: NDArray[np.integer], out: NDArray[np.floating]
    ) -> None:
        """Scale sums [B, width] of `lengths` rows, in place; copy D dimensions to `out`, [B, D]."""
        if not self._scaled:  # otherwise the length is scaled away
            sums /= np.maximum(lengths, 1).astype(np.float32)[:, np.newaxis]
        if self._layers:
            first, second = self._layers
            hidden = _product(sums, first)
            sums += _product(np.maximum(hidden, 0, out=hidden), second)
        for dimensions, length in self._scaled:
            segment = sums[:, dimensions]
            norms = np.sqrt(np.einsum("ij,ij->i", segment, segment))
            # Zeros, from a text without a known word, are divided by the smallest norm and stay.
            segment *= (np.float32(length) / np.maximum(norms, _SMALLEST_NORM))[:, np.newaxis]
        out[:] = sums[:, : out.shape[1]]

    def scale_one(self, vector: NDArray[np.float32], n_rows: int) -> None:
        """Scale one vector, the sum of `n_rows` rows, in place, [width]."""
        if not self._scaled:
            vector /= max(1, n_rows)
        if self._layers:
            first, second = self._layers
            vector += np.maximum(vector @ first, 0) @ second
        for dimensions, length in self._scaled:
            segment = vector[dimensions]
            norm = math.sqrt(segment.dot(segment))
            segment *= length / (_SMALLEST_NORM if norm < _SMALLEST_NORM else norm)


def _product(left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
    """Multiply matrices [n, K] and [K, M] in the calling thread, as several call it at a time.

    OpenBLAS, numpy's library, would start threads of its own for a larger product, which wait for
    each other.
    """
    n_rows, width = left.shape
    product = np.empty((n_rows, right.shape[1]), np.float32)
    whole = n_rows // _ALONE_ROWS * _ALONE_ROWS
    # Views of eight rows each, which numpy multiplies one after the other.
    lefts, products = (of[:whole].reshape(-1, _ALONE_ROWS, of.shape[1]) for of in (left, product))
    columns = max(1, _ALONE // (_ALONE_ROWS * width))
    for start in range(0, right.shape[1], columns):
        part = slice(start, start + columns)
        products[:, :, part] = lefts @ right[:, part]
        product[whole:, part] = left[whole:] @ right[:, part]
    return product


def scale_to_unit(vectors: NDArray[np.floating]) -> None:
    """Scale vectors [..., D] in place to length 1; zeros stay zeros, even in float16."""
    rows = np.atleast_2d(vectors)
    for start in range(0, len(rows), _SCALED_VECTORS):
        part = rows[start : start + _SCALED_VECTORS]
        exact = part.astype(np.float32, copy=False)
        norms = np.sqrt(np.einsum("ij,ij->i", exact, exact))
        part[:] = exact / np.maximum(norms, _SMALLEST_NORM)[:, np.newaxis]


def check_unknown(unknown: str, output: str = "parquet") -> None:
    """Check the option `unknown` for an "array", or a file in npy or parquet."""
    allowed = get_args(UnknownInArray if output == "array" else Unknown)
    if unknown not in allowed:
        *others, last = (f'"{word}"' for word in allowed)
        why = ": an array has a row of numbers for each text. encode_to and ArrowEncoder take it"
        raise ValueError(
            f"Expected unknown to be {', '.join(others)} or {last}, but got {unknown!r}"
            f"{why if unknown in get_args(Unknown) else ''}."
        )
    if unknown == "null" and output == "npy":
        raise ValueError(
            'There is no null in npy: write parquet, or say unknown="zero" or "skip" (on the '
            "command line --unknown)."
        )


def are_zeros(vectors: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Find the vectors that are all zeros, [B, D] -> [B]."""
    is_zero: NDArray[np.bool_] = vectors[:, 0] == 0
    candidates = np.flatnonzero(is_zero)  # few, so the other columns are hardly read
    is_zero[candidates] = ~vectors[candidates].any(axis=1)
    return is_zero


def unknown_text(subject: str, text: str, more: str) -> ValueError:
    """Make the error that a text has no known word, with further advice."""
    shown = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
    return ValueError(f"{subject} has no word that the model knows: {shown!r}{more}")
