"""Rows of files: what is read at a time, on the way to vectors."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from typing import IO, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from st_static.texts import arrow

# Texts that are read, encoded and written at a time: twice as many are hardly faster, and take
# 30 MB more on two processors.
BATCH_TEXTS = 1_536
# Lines of so many bytes are read at a time, and rows of a table of so many characters.
BYTES_OF_LINES = 1_000_000
EMBEDDING = "embedding"
# By this key, a Parquet file tells what it was made of.
SOURCE = b"st_static.source"
NOT_UTF8 = "expected text in UTF-8, but there is other data"


class Rows(NamedTuple):
    """Some rows of a file.

    Attributes:
        texts: Their texts, large_string [B]; empty where there is none.
        columns: What is kept of them beside the vectors, [B].
        numbers: Their numbers, [B].
        unread: Which of them could not be read and have no text, [B].
        unit: What the numbers count: "line", "row" or "position".
    """

    texts: pa.ChunkedArray
    columns: pa.Table
    numbers: NDArray[np.int64]
    unread: NDArray[np.bool_]
    unit: str

    def slice(self, start: int, length: int) -> Rows:
        """Some of them."""
        these = slice(start, start + length)
        return Rows(
            self.texts.slice(start, length),
            self.columns.slice(start, length),
            self.numbers[these],
            self.unread[these],
            self.unit,
        )

    def where(self, kept: NDArray[np.bool_]) -> Rows:
        """Those that are to be kept, [B]."""
        return Rows(
            self.texts.filter(arrow.of_mask(kept)),
            arrow.rows_where(self.columns, kept),
            self.numbers[kept],
            self.unread[kept],
            self.unit,
        )


class Batch(NamedTuple):
    """Rows as they were read.

    Attributes:
        texts: large_string [B], null where the text is missing or cannot be read.
        columns: All columns of the rows, [B]; None is the texts alone.
        numbers: Their numbers, [B].
        faults: What is wrong with a row, by its place.
    """

    texts: pa.ChunkedArray
    columns: pa.Table | None
    numbers: NDArray[np.int64]
    faults: dict[int, str]


def line_groups(stream: IO[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    """Lines, a batch at a time, behind the number of those before; without a byte order mark."""
    done = 0
    while lines := stream.readlines(BYTES_OF_LINES):  # stops after so many
        if not done:
            lines[0] = lines[0].removeprefix(codecs.BOM_UTF8)
        for start in range(0, len(lines), BATCH_TEXTS):
            yield done + start, lines[start : start + BATCH_TEXTS]
        done += len(lines)


def check_embedding(names: Iterable[str]) -> None:
    """Check that no column of the input has the name of the vectors' column.

    Raises:
        ValueError: One has.
    """
    if EMBEDDING in names:
        raise ValueError(
            f"The input has a column {EMBEDDING!r}, as the vectors' is called: rename it. One file "
            "can also be encoded without --keep."
        )
