"""CSV and TSV as rows: a header, then records, each of which may span several lines."""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import re
from collections.abc import Callable, Iterator
from typing import IO, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from st_static.texts import file_rows
from st_static.texts.columns import is_broken
from st_static.texts.file_rows import NOT_UTF8, Batch

Quoting = Literal["double", "none"]

_ANY_LENGTH = 2**31 - 1
_LINE_END = re.compile(r"\r\n|\r|\n")
# What to do where quotes may be text.
_AS_TEXT = 'say quoting="none" (on the command line --quoting none)'


class _Record(NamedTuple):
    """The line that a record begins with, its cells, and what is wrong with it."""

    line: int
    cells: list[Any]
    fault: str


class CsvTable:
    """Reads a binary stream of CSV or TSV; `where` says in words where a line is.

    Where quotes are text, one that is not closed takes the next lines into its cell, up to another
    quote: a record may be several rows if its first line and another each have as many cells as the
    header. With the quoting "double" it is one row; with "none", quotes are text. Without either,
    such records are counted in CSV, and refused in TSV.
    """

    def __init__(
        self,
        stream: IO[bytes],
        delimiter: str,
        where: Callable[[int], str],
        quoting: Quoting | None = None,
    ) -> None:
        self._delimiter, self._where, self._quoting = delimiter, where, quoting
        self.n_doubtful, self.first_doubtful = 0, ""  # records that may be several rows
        # Rows that are not UTF-8 are found one by one. Strict, or a quote that is not closed takes
        # the rest of the file into one cell. A wrapper that is dropped would close the file.
        self._lines = io.TextIOWrapper(stream, "utf-8-sig", "surrogateescape", newline="")
        self._reader = csv.reader(
            self._lines,
            delimiter=delimiter,
            quoting=csv.QUOTE_NONE if quoting == "none" else csv.QUOTE_MINIMAL,
            strict=True,
        )
        first = next(self._records(None), None)
        if first and first.fault:
            raise ValueError(f"{where(first.line)}: {first.fault}")
        if first and any(map(is_broken, first.cells)):
            raise ValueError(f"{where(first.line)}: the header is not UTF-8 text. Convert it.")
        self.header: list[str] = first.cells if first else []

    def read(self, column: str, keep: bool) -> Iterator[Batch]:
        """Read batches, with all columns if `keep`; a ValueError if a quote is not closed."""
        indices = [i for i, name in enumerate(self.header) if keep or name == column]
        names = [self.header[i] for i in indices]
        records = self._records(len(self.header))
        empty_row: list[Any] = [None] * len(self.header)
        text = self.header.index(column)
        while batch := _next_records(records):
            numbers = np.fromiter((record.line for record in batch), np.int64)
            faults = {i: record.fault for i, record in enumerate(batch) if record.fault}
            rows = [record.cells or empty_row for record in batch]
            for position, row in enumerate(rows):
                if row is not empty_row and any(is_broken(row[i]) for i in indices):
                    faults[position] = NOT_UTF8
                    rows[position] = [None if is_broken(cell) else cell for cell in row]
                    rows[position][text] = None
            columns = [pa.array([row[i] for row in rows], pa.large_string()) for i in indices]
            table = pa.table(columns, names)
            yield Batch(table[column], table if keep else None, numbers, faults)

    def _records(self, width: int | None) -> Iterator[_Record]:
        """Read records of `width` cells; a ValueError if a quote may have swallowed others."""
        while True:
            line = self._reader.line_num + 1
            try:
                with _cells_of_any_length():
                    row = next(self._reader)
            except StopIteration:
                return
            except csv.Error as error:
                self._check_quote(str(error), line)
                fault = (
                    f"expected a row of the table, but it is broken ({error}); if quotes are text "
                    f"in this file, {_AS_TEXT}"
                )
                yield _Record(line, [], fault)
                continue
            if not row:  # a blank line
                continue
            if not self._quoting and self._reader.line_num > line:
                self._check_lines(row, line, width)
            if width in (None, len(row)):
                yield _Record(line, row, "")
            else:
                fault = f"expected {width} cells, as in the header, but got {len(row)}"
                yield _Record(line, [], fault)

    def _check_quote(self, error: str, first: int) -> None:
        """Check that a broken record is one line, which can be left out alone."""
        last = self._reader.line_num
        if "end of data" in error:
            fate = "and never closed, so the rest of the file"
        elif last > first:
            fate = f"that line {last} closes in the middle of a cell, so what lies between"
        else:
            return
        raise ValueError(
            f"{self._where(first)}: a quote is opened {fate} cannot be read. Close it where the "
            "text ends; a quote in a text is written twice, and the text in quotes: "
            f'"a ""quoted"" word". If quotes are text in this file, {_AS_TEXT}.'
        )

    def _check_lines(self, row: list[str], first: int, width: int | None) -> None:
        """Count a record of several lines that may be several rows; a ValueError in TSV, where
        cells seldom have tabs, or if the record is not a whole row."""
        n_between = (width or len(row)) - 1
        # Its lines have the same delimiters as those of the file: only quotes are gone.
        lines = _LINE_END.split(self._delimiter.join(row))
        first_is_row, *further_are_rows = (
            line.count(self._delimiter) == n_between for line in lines
        )
        if not first_is_row or not any(further_are_rows):
            return
        last = self._reader.line_num
        if self._delimiter == "\t" or width not in (None, len(row)):
            raise ValueError(
                f"{self._where(first)}: a quote is opened that line {last} closes, so that the "
                "lines between are taken for one cell, and each could be a row. If quotes are text "
                f'in this file, {_AS_TEXT}; else say quoting="double" (--quoting double).'
            )
        self.n_doubtful += 1
        self.first_doubtful = self.first_doubtful or f"{self._where(first)} to {last}"


@contextlib.contextmanager
def _cells_of_any_length() -> Iterator[None]:
    """Lift the limit that Python's csv has for cells, which holds for the whole process."""
    limit = csv.field_size_limit(_ANY_LENGTH)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _next_records(records: Iterator[_Record]) -> list[_Record]:
    """Take the next records, up to a limit on their number and their characters."""
    batch, size = [], 0
    for record in itertools.islice(records, file_rows.BATCH_TEXTS):
        batch.append(record)
        size += sum(map(len, record.cells))
        if size > file_rows.BYTES_OF_LINES:
            break
    return batch
