"""Rows of Arrow as values of Python, and as lines of JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa


def python_row(table: pa.Table, position: int) -> dict[str, Any]:
    """Take a row of a table as values of Python, by the names of columns.

    They are those of Arrow's `to_pylist`, whether pandas is installed or not. What Python cannot
    hold becomes Arrow's text: times in nanoseconds or out of range, such as the year 10000, and
    those of unknown time zones; times with a zone are in UTC then.
    """
    columns = zip(table.column_names, table.columns, strict=True)
    return {name: _value(column[position]) for name, column in columns}


def _value(scalar: pa.Scalar) -> Any:
    kind = scalar.type
    if not scalar.is_valid:
        return None
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        pairs = [(name, _value(scalar[i])) for i, name in enumerate(names)]
        return dict(pairs) if len(set(names)) == len(names) else pairs
    if pa.types.is_map(kind):
        return [(_value(entry[0]), _value(entry[1])) for entry in scalar.values]
    if isinstance(scalar, pa.ListScalar):  # of any kind of list
        return [_value(part) for part in scalar.values]
    if isinstance(scalar, pa.DictionaryScalar | pa.UnionScalar | pa.RunEndEncodedScalar):
        return _value(scalar.value)
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return _time(scalar)
    return scalar.as_py()


def _time(scalar: pa.Scalar) -> Any:
    """Convert a date, time, timestamp or duration; to text if Python would hold another one."""
    kind = scalar.type
    try:
        # pyarrow drops nanoseconds of times, and needs pandas for those of other kinds.
        held = scalar.cast(_in_microseconds(kind)) if getattr(kind, "unit", "") == "ns" else scalar
        value = held.as_py()
        if pa.scalar(value, held.type) == held:
            return value
    except (pa.ArrowInvalid, ArithmeticError, ValueError, LookupError):  # a zone is looked up
        pass
    if pa.types.is_duration(kind):
        return f"{scalar.cast(pa.string())} {kind.unit}"
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return f"{scalar.cast(pa.timestamp(kind.unit)).cast(pa.string())}Z"
    return str(scalar.cast(pa.string()))


def _in_microseconds(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return pa.duration("us") if pa.types.is_duration(kind) else pa.time64("us")


def json_line(row: dict[str, Any]) -> str:
    """Write values of Python as a line of JSON. NaN and infinity become null, and what JSON lacks,
    such as dates, text."""
    return json.dumps(_finite(row), ensure_ascii=False, allow_nan=False, default=str) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
