"""Treat texts without any known word: as zeros, null, left out or an error."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

UnknownInArray = Literal["zero", "error"]
Unknown = Literal["zero", "null", "skip", "error"]

_SHOWN_CHARACTERS = 60


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
    """Find the vectors that are all zeros, [B, D] -> [B].

    Example:
        >>> are_zeros(np.array([[0, 1], [0, 0]])).tolist()
        [False, True]
    """
    found: NDArray[np.bool_] = vectors[:, 0] == 0
    candidates = np.flatnonzero(found)  # few, so the other columns are hardly read
    found[candidates] = ~vectors[candidates].any(axis=1)
    return found


def unknown_text(which: str, text: str, more: str) -> ValueError:
    """Make the error that a text has no known word, with further advice."""
    shown = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
    return ValueError(f"{which} has no word that the model knows: {shown!r}{more}")
