"""Rows of different lengths, as lists."""

from st_static.tokens.ragged import Ragged


def rows(ragged: Ragged) -> list[list[int]]:
    """The values of each row."""
    bounds = zip(ragged.offsets[:-1], ragged.offsets[1:], strict=True)
    return [ragged.values[start:stop].tolist() for start, stop in bounds]
