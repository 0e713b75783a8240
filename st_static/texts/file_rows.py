"""Rows of files, as they are read and as they go on to be encoded."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from typing import IO, NamedTuple, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from st_static.texts import arrow

# Texts to read, encode and write at a time: twice as many are hardly faster, and take 30 MB more on
# two processors.
BATCH_TEXTS = 1_536
# Lines are read until they have this many bytes, and rows of a table this many characters.
BYTES_OF_LINES = 1_000_000
# The key in a Parquet file's metadata that tells what it was made of.
SOURCE = b"st_static.source"
NOT_UTF8 = "expected text in UTF-8, but there is other data (convert a file in another encoding)"

_BEGINNING = 4_096  # bytes of a file that tell what it is
_BYTE_ORDER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
_SPACES = b"\t\n\r "


class Rows(NamedTuple):
    """A batch of rows of a file."""

    texts: pa.ChunkedArray  # large_string [B]; empty where there is none
    columns: pa.Table  # columns to keep beside the vectors, [B]
    numbers: NDArray[np.int64]  # [B]
    unread: NDArray[np.bool_]  # true for rows that could not be read and have no text, [B]
    unit: str  # what the numbers count: "line", "row" or "position"

    def slice(self, start: int, length: int) -> Rows:
        """Take `length` rows from `start`."""
        texts, columns = self.texts.slice(start, length), self.columns.slice(start, length)
        span = slice(start, start + length)
        return Rows(texts, columns, self.numbers[span], self.unread[span], self.unit)

    def where(self, mask: NDArray[np.bool_]) -> Rows:
        """Keep the rows where `mask` [B] is true."""
        texts = self.texts.filter(arrow.of_mask(mask))
        columns = arrow.rows_where(self.columns, mask)
        return Rows(texts, columns, self.numbers[mask], self.unread[mask], self.unit)


class Batch(NamedTuple):
    """Rows as read, before missing texts and faults are dealt with."""

    texts: pa.ChunkedArray  # large_string [B], null where missing or unreadable
    columns: pa.Table | None  # all columns, [B]; None if only the texts are kept
    numbers: NDArray[np.int64]  # [B]
    faults: dict[int, str]  # what is wrong with a row, by its position


def repaired(line: bytes) -> bytes:
    """Replace what is not UTF-8."""
    return line.decode("utf-8", "replace").encode()


def peekable(stream: IO[bytes]) -> io.BufferedReader:
    """Buffer a stream, unless it is buffered, so that `peek` works."""
    if not hasattr(stream, "peek"):
        return io.BufferedReader(cast("io.RawIOBase", stream))
    return cast("io.BufferedReader", stream)


def checked_text(stream: IO[bytes], name: str) -> IO[bytes]:
    """Check that a stream of text does not begin as UTF-16 or UTF-32; return it from its beginning.

    Their bytes may be valid UTF-8, too: letters with NUL between them.
    """
    stream = peekable(stream)
    begin = stream.peek(_BEGINNING)[:_BEGINNING]
    is_wide = begin.startswith(_BYTE_ORDER_MARKS)
    # A text in UTF-8 may have a NUL, but not one for every second letter, nor with most spaces.
    is_wide |= bool(begin) and 3 * begin.count(0) >= len(begin)
    halves = begin[::2], begin[1::2]
    for low, high in (halves, halves[::-1]):
        with_nul = [above == 0 for below, above in zip(low, high, strict=False) if below in _SPACES]
        is_wide |= 2 * sum(with_nul) > len(with_nul)
    if is_wide:
        raise ValueError(
            f"{name} is not UTF-8 text: it begins as UTF-16 or UTF-32 does. Convert it."
        )
    return stream


def line_groups(stream: IO[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    """Read lines in batches, each with the number of lines before; drop a byte order mark."""
    done = 0
    while lines := stream.readlines(BYTES_OF_LINES):
        if not done:
            lines[0] = lines[0].removeprefix(codecs.BOM_UTF8)
        for start in range(0, len(lines), BATCH_TEXTS):
            yield done + start, lines[start : start + BATCH_TEXTS]
        done += len(lines)
