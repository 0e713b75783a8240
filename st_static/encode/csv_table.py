"""CSV and TSV as rows: a header, then records, each of which may span several lines."""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa

from st_static.encode import file_rows
from st_static.encode.file_rows import NOT_UTF8, Batch
from st_static.tokens.columns import is_broken

_ANY_LENGTH = 2**31 - 1


class _Record(NamedTuple):
    """The line that a record begins with, its cells, and what is wrong with it."""

    line: int
    cells: list[Any]
    fault: str


class CsvTable:
    """Reads a table in CSV or TSV.

    Args:
        stream: The file, open in binary mode, before its header.
        delimiter: What stands between two cells.

    Attributes:
        header: Names of the columns; none if the file is empty.
    """

    def __init__(self, stream: IO[bytes], delimiter: str) -> None:
        # What is not UTF-8 is told row by row. Strict, for else a quote that is not closed takes
        # the rest of the file into one cell. The wrapper is kept: when dropped, it closes the file.
        self._lines = io.TextIOWrapper(stream, "utf-8-sig", "surrogateescape", newline="")
        self._reader = csv.reader(self._lines, delimiter=delimiter, strict=True)
        with _cells_of_any_length():
            self.header: list[str] = next((row for row in self._reader if row), [])

    def read(self, column: str, keep: bool, where: Callable[[int], str]) -> Iterator[Batch]:
        """Read the rows in batches.

        Args:
            column: Name of the column of texts.
            keep: Whether all columns are kept, not only the texts.
            where: Says in words where a line is.

        Raises:
            ValueError: A quote is not closed where it should be.
        """
        kept = [i for i, name in enumerate(self.header) if keep or name == column]
        names = [self.header[i] for i in kept]
        records = self._records(where)
        while batch := _next_records(records):
            rows, faults = self._checked(batch, self.header.index(column), kept)
            numbers = np.fromiter((record.line for record in batch), np.int64)
            columns = [pa.array([row[i] for row in rows], pa.large_string()) for i in kept]
            table = pa.table(columns, names)
            yield Batch(table[column], table if keep else None, numbers, faults)

    def _checked(
        self, batch: list[_Record], text: int, kept: list[int]
    ) -> tuple[list[list[Any]], dict[int, str]]:
        """The cells of records, None for what cannot be read, and the faults by place."""
        faults = {place: record.fault for place, record in enumerate(batch) if record.fault}
        nothing: list[Any] = [None] * len(self.header)
        rows = [record.cells or nothing for record in batch]
        for place, row in enumerate(rows):
            if row is not nothing and any(is_broken(row[i]) for i in kept):
                faults[place] = NOT_UTF8
                rows[place] = [
                    None if i == text or is_broken(cell) else cell for i, cell in enumerate(row)
                ]
        return rows, faults

    def _records(self, where: Callable[[int], str]) -> Iterator[_Record]:
        """The records after the header.

        Raises:
            ValueError: A quote may have taken other records into a cell: how many, cannot be known.
        """
        width = len(self.header)
        while True:
            line = self._reader.line_num + 1
            try:
                with _cells_of_any_length():
                    row = next(self._reader)
            except StopIteration:
                return
            except csv.Error as error:
                _check_quote(str(error), line, self._reader.line_num, where)
                yield _Record(line, [], f"expected a row of the table, but it is broken ({error})")
                continue
            if len(row) == width:
                yield _Record(line, row, "")
            elif row:  # else a blank line
                fault = f"expected {width} cells, as in the header, but got {len(row)}"
                yield _Record(line, [], fault)


@contextlib.contextmanager
def _cells_of_any_length() -> Iterator[None]:
    """Lift the limit that Python's csv has for cells, which holds for the whole process."""
    limit = csv.field_size_limit(_ANY_LENGTH)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _check_quote(error: str, first: int, last: int, where: Callable[[int], str]) -> None:
    """Check that a broken record is one line, which can be left out alone."""
    if "end of data" in error:
        fate = "and never closed, so the rest of the file"
    elif last > first:
        fate = f"that line {last} closes in the middle of a cell, so what lies between"
    else:
        return
    raise ValueError(
        f"{where(first)}: a quote is opened {fate} cannot be read. Close it where the text ends; "
        'a quote in a text is written twice, and the text in quotes: "a ""quoted"" word".'
    )


def _next_records(records: Iterator[_Record]) -> list[_Record]:
    """The next records: as many as are few, and not of many characters together."""
    batch, size = [], 0
    for record in itertools.islice(records, file_rows.BATCH_TEXTS):
        batch.append(record)
        size += sum(map(len, record.cells))
        if size > file_rows.BYTES_OF_LINES:
            break
    return batch
