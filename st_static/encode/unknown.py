"""Treat texts without any known word: as zeros, null, left out or an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from st_static.texts.columns import Null

UnknownInArray = Literal["zero", "error"]
Unknown = Literal["zero", "null", "skip", "error"]

_SHOWN_CHARACTERS = 60
_INSTEAD = '. Leave such texts out, or say unknown="zero" for vectors of zeros.'


def check_unknown_in_array(unknown: str) -> None:
    """Check the option `unknown` for an array.

    Raises:
        ValueError: There is no such value, or it is only for tables.
    """
    if unknown in get_args(UnknownInArray):
        return
    why = ""
    if unknown in get_args(Unknown):
        why = ": an array has a row of numbers for each text. encode_to and ArrowEncoder take it"
    raise ValueError(f'Expected unknown to be "zero" or "error", but got {unknown!r}{why}.')


def check_unknown(unknown: str, output_format: str = "parquet") -> None:
    """Check the option `unknown` for a table or file.

    Args:
        unknown: The option's value.
        output_format: The format of the file.

    Raises:
        ValueError: There is no such value, or the format has no null.
    """
    if unknown not in get_args(Unknown):
        raise ValueError(
            f'Expected unknown to be "zero", "null", "skip" or "error", but got {unknown!r}.'
        )
    if unknown == "null" and output_format == "npy":
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


def check_known(vectors: NDArray[np.floating], texts: Any, null: Null) -> None:
    """Check that each text has a word that the model knows.

    Args:
        vectors: The texts' vectors, [B, D], or [D] for one str.
        texts: A str, list or column.
        null: As they were encoded with.

    Raises:
        ValueError: One has none; names its position.
    """
    rows = np.flatnonzero(are_zeros(np.atleast_2d(vectors)))
    if not len(rows):
        return
    if isinstance(texts, str):
        raise unknown_text("The text", texts, _INSTEAD)
    from st_static.texts.columns import text_column  # needs pyarrow

    column, first = text_column(texts, null), int(rows[0])
    more = f" ({len(rows):,} of the {len(column):,} texts have none)" if len(rows) > 1 else ""
    raise unknown_text(f"The text at position {first}", column[first].as_py(), more + _INSTEAD)


def unknown_text(which: str, text: str, more: str) -> ValueError:
    """Make the error that a text has no known word, with further advice."""
    shown = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
    return ValueError(f"{which} has no word that the model knows: {shown!r}{more}")
