"""Lines of text vectors: bytes in, words and their numbers out, with the line of what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from st_static.texts import arrow
from st_static.tokens.ragged import offsets_of

_SPACE, _TAB, _NEWLINE = b" \t\n"


class LineError(ValueError):
    """What is wrong with a line.

    Attributes:
        row: The line, counted from 0 in its block.
    """

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row


class Header(NamedTuple):
    """The first line of word2vec's text format."""

    n_words: int
    dimension: int


def read_header(line: bytes) -> Header | None:
    """A first line of two whole numbers; None if it is something else."""
    match line.split():
        case [n_words, dimension] if n_words.isdigit() and dimension.isdigit():
            return Header(int(n_words), int(dimension))
    return None


def dimension_of(line: bytes) -> int:
    """How many numbers a line ends with, behind a word, which may be a number itself.

    Example:
        >>> dimension_of(b"new york 0.5 1"), dimension_of(b"1995 0.5 1"), dimension_of(b"a b")
        (2, 2, 0)
    """
    values = line.split()[1:]
    words = [i for i, value in enumerate(values, 1) if not _is_number(value)]
    return len(values) - max(words, default=0)


def parse_lines(block: bytes, dimension: int) -> tuple[list[str], NDArray[np.float32]]:
    """Take whole lines apart: a word, and its numbers behind it, each after spaces or tabs.

    A word may hold spaces. What stands before a line's end, as fastText's space, does not count.

    Args:
        block: Lines, each with its end.
        dimension: Numbers in a line, D.

    Returns:
        The words, and their vectors [n, D].

    Raises:
        LineError: A line has another number of numbers, numbers that are none or not finite, no
            word at its beginning, or one that is not UTF-8.
    """
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    text = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(text == _NEWLINE)
    starts = np.concatenate([[0], ends[:-1] + 1])
    begins, stops = _parts(text)
    first, after = np.searchsorted(begins, starts), np.searchsorted(begins, ends)
    n_numbers = after - first - 1
    for row in np.flatnonzero(_is_blank(text[starts]))[:1].tolist():
        raise LineError(row, "expected a word at the beginning, but got white space")
    for row in np.flatnonzero(n_numbers < dimension)[:1].tolist():
        raise _wrong_length(row, dimension, max(0, int(n_numbers[row])))
    bounds = zip(starts.tolist(), stops[after - dimension - 1].tolist(), strict=True)
    words = [block[start:stop] for start, stop in bounds]
    _check_words(words, np.flatnonzero(n_numbers > dimension), dimension)
    numbers = (after - dimension)[:, None] + np.arange(dimension)
    return _decoded(words), _numbers(text, begins[numbers], stops[numbers])


def _parts(text: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where what stands between white space begins, and where it stops; the text ends with some."""
    is_inside = ~(_is_blank(text) | (text == _NEWLINE))
    changes = np.flatnonzero(is_inside[1:] != is_inside[:-1]) + 1
    if is_inside[:1].any():
        changes = np.concatenate([[0], changes])
    return changes[::2], changes[1::2]


def _is_blank(text: NDArray[np.uint8]) -> NDArray[np.bool_]:
    is_blank: NDArray[np.bool_] = (text == _SPACE) | (text == _TAB)
    return is_blank


def _check_words(words: Sequence[bytes], spaced: NDArray[np.int64], dimension: int) -> None:
    """Check that words with spaces are not words and numbers, of lines with too many of these.

    A number may stand inside of such a word; so many as in a line are another line without its end.
    """
    for row in spaced.tolist():
        n_inside = sum(map(_is_number, words[row].split()[1:]))
        if dimension_of(words[row]) or n_inside >= dimension:
            raise _wrong_length(row, dimension, dimension + n_inside)


def _wrong_length(row: int, expected: int, found: int) -> LineError:
    return LineError(row, f"expected {expected} numbers after the word, but got {found}")


def _decoded(words: Sequence[bytes]) -> list[str]:
    try:
        return b"\n".join(words).decode().split("\n")
    except UnicodeDecodeError as error:
        row = error.object.count(b"\n", 0, error.start)
        reason = f"the word {words[row]!r} is not UTF-8. Save the file as UTF-8"
        raise LineError(row, reason) from error


def _numbers(
    text: NDArray[np.uint8], begins: NDArray[np.int64], stops: NDArray[np.int64]
) -> NDArray[np.float32]:
    """The numbers [n, D] from their begins [n, D] to their stops [n, D]."""
    changes = np.zeros(len(text), np.int8)
    changes[begins] = 1
    changes[stops] = -1
    is_inside = np.cumsum(changes, dtype=np.int8).view(np.bool_)
    lengths = (stops - begins).ravel()
    strings = arrow.strings_of_bytes(offsets_of(lengths), text[is_inside])
    try:
        values = arrow.numbers(pc.cast(strings, pa.float32())).reshape(begins.shape)
    except pa.ArrowInvalid as error:
        raise _first_that_is_none(strings, begins.shape[1]) from error
    for row, column in np.argwhere(~np.isfinite(values))[:1].tolist():
        value = strings[row * begins.shape[1] + column].as_py()
        raise LineError(row, f"expected finite numbers, but number {column + 1} is {value}")
    return values


def _first_that_is_none(strings: pa.Array, dimension: int) -> LineError:
    """The error of the first string [n * D] that is no number."""
    for place, value in enumerate(strings.cast(pa.large_binary()).to_pylist()):
        if not _is_number(value):
            row, column = divmod(place, dimension)
            shown = value.decode(errors="replace")
            return LineError(row, f"expected numbers, but number {column + 1} is {shown!r}")
    raise AssertionError("Arrow takes every number that is one by itself")


def _is_number(value: bytes) -> bool:
    """Whether Arrow reads bytes as a number."""
    try:
        pc.cast(
            arrow.strings_of_bytes(np.array([0, len(value)]), np.frombuffer(value, np.uint8)),
            pa.float32(),
        )
    except pa.ArrowInvalid:
        return False
    return True
