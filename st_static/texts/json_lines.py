"""JSON objects, one per line, as rows."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import NoneType
from typing import IO, Any

import numpy as np
import pyarrow as pa

from st_static.texts.columns import is_broken
from st_static.texts.file_rows import Batch, line_groups, repaired

# The integers that a column of numbers keeps as they are.
_INTEGERS = {
    pa.int64(): range(-(2**63), 2**63),
    pa.uint64(): range(2**64),
    pa.float64(): range(-(2**53), 2**53 + 1),
}


def json_lines(
    stream: IO[bytes], undecodable: Callable[[], None] | None = None
) -> Iterator[tuple[list[int], list[dict[str, Any]], dict[int, str]]]:
    """Read JSON objects, one per line, in batches: the numbers of the lines that are not blank,
    their objects, and the faults of lines without one, by position. `undecodable` is called
    where a line is not UTF-8, which is then repaired; without it, that is a fault."""
    for done, lines in line_groups(stream):
        numbers = [i for i, line in enumerate(lines, done + 1) if not line.isspace()]
        records, faults = [], {}
        for position, number in enumerate(numbers):
            line, reason = lines[number - done - 1], ""
            if undecodable and not line.isascii() and (mended := repaired(line)) != line:
                undecodable()
                line = mended
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                record, reason = None, f" ({error})".replace("line 1 ", "")
            if not isinstance(record, dict):
                faults[position] = f"expected a JSON object, but got {line.strip()[:60]!r}{reason}"
                record = {}
            records.append(record)
        if numbers:
            yield numbers, records, faults


@dataclass
class JsonTable:
    """Reads JSON lines as a table with a column of texts."""

    column: str
    keep: bool
    undecodable: Callable[[], None] | None  # called where a text is not Unicode; else it is a fault
    no_column: Callable[[Iterable[str]], ValueError]  # from the keys of the first objects
    _schema: pa.Schema | None = field(default=None, init=False)
    _fits: Callable[[Any], bool] = field(default=bool, init=False)

    def read(self, stream: IO[bytes]) -> Iterator[Batch]:
        """Read the objects of a file, in batches."""
        batches = json_lines(stream, self.undecodable)
        for i, (numbers, records, faults) in enumerate(batches):
            for position, record in enumerate(records):
                if position not in faults and (fault := self._fault_of(record)):
                    faults[position] = fault
            # A fault of each line would hide that the key is wrong.
            keys = dict.fromkeys(key for record in records for key in record)
            if not i and keys and self.column not in keys:
                raise self.no_column(keys)
            table = self._table(records, faults) if self.keep else None
            # The table may have found faults.
            texts = [
                None if position in faults else record[self.column]
                for position, record in enumerate(records)
            ]
            column = pa.chunked_array([pa.array(texts, pa.large_string())])
            yield Batch(column, table, np.array(numbers), faults)

    def _fault_of(self, record: dict[str, Any]) -> str:
        """Say what is wrong with an object; mend its texts if they may be undecodable."""
        if self.column not in record:
            keys = f"{list(record)!s:.80}"
            return f"expected a JSON object with {self.column!r}, but got the keys {keys}"
        text = record[self.column]
        if text is not None and not isinstance(text, str):
            return f"expected {self.column!r} to be a string, but got {text!r:.80}"
        for key in record if self.keep else [self.column]:
            value = record[key]
            if not isinstance(value, str) or not is_broken(value):
                continue
            if not self.undecodable:
                return f"{key!r} is not valid Unicode: it holds half of a character"
            # JSON may spell half of a surrogate pair, which is no text.
            record[key] = value.encode("utf-8", "replace").decode()
        return ""

    def _table(self, records: list[dict[str, Any]], faults: dict[int, str]) -> pa.Table:
        """Make a table of objects; those that do not fit get a fault."""
        if self._schema is None:
            intact = [record for position, record in enumerate(records) if position not in faults]
            self._schema = _schema_of(intact, self.column)
            self._fits = _checker(pa.struct(list(self._schema)))
        for position, record in enumerate(records):
            if not self._fits(record) and position not in faults:
                faults[position] = self._misfit(record)
        for position in faults:  # such a row may stay, so keep the values that fit
            record = records[position]
            fitting = {key: value for key, value in record.items() if self._fits({key: value})}
            records[position] = fitting | {self.column: None}
        return pa.Table.from_pylist(records, self._schema)

    def _misfit(self, record: dict[str, Any]) -> str:
        """Say which value of an object does not fit the columns."""
        key, value = next((k, v) for k, v in record.items() if not self._fits({k: v}))
        if self._schema is None or key not in self._schema.names:
            return f"the first lines have no key {key!r}, and only their keys are kept"
        return (
            f"its values are not of the types of the first lines: {key!r} is {value!r:.80}, and "
            f"not {self._schema.field(key).type}"
        )


def _checker(kind: pa.DataType) -> Callable[[Any], bool]:
    """Make a check that a column keeps a value as it is: Arrow would cut 1.5 to 1 in a column of
    integers, and leave out keys of nested objects."""
    if pa.types.is_struct(kind):
        checkers = {field.name: _checker(field.type) for field in kind}
        return lambda value: (
            value is None
            or (
                isinstance(value, dict)
                and all(key in checkers and checkers[key](part) for key, part in value.items())
            )
        )
    if pa.types.is_list(kind):
        fits = _checker(kind.value_type)
        return lambda value: value is None or (isinstance(value, list) and all(map(fits, value)))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return lambda value: value is None or (type(value) is str and not is_broken(value))
    types: set[type] = {NoneType}
    integers = _INTEGERS.get(kind, ())
    if pa.types.is_boolean(kind):
        types.add(bool)
    elif pa.types.is_floating(kind):
        types.add(float)
    return lambda value: type(value) in types or (type(value) is int and value in integers)


def _schema_of(records: list[dict[str, Any]], column: str) -> pa.Schema:
    """Find the names and types of objects' values; those that are always missing are strings."""
    names = dict.fromkeys(itertools.chain.from_iterable(records)) or {column: None}
    fields = []
    for name in names:
        try:
            kind = pa.array([record.get(name) for record in records]).type
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise ValueError(
                f"The values of {name!r} cannot be kept in one column ({error}). Make them of one "
                "type, or leave out --keep."
            ) from error
        is_text = name == column or pa.types.is_null(kind)
        fields.append(pa.field(name, pa.large_string() if is_text else kind))
    return pa.schema(fields)
