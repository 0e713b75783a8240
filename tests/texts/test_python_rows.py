"""Rows of Arrow as values of Python and as JSON: exact, or Arrow's text."""

import datetime
import itertools
import json
import sys
import uuid
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from st_static.texts.python_rows import json_line, python_row

UNITS = ["s", "ms", "us", "ns"]
ZONES = [None, "UTC", "Asia/Tokyo", "America/New_York", "+09:00", "Not/AZone"]
KINDS = [
    *(pa.timestamp(unit, zone) for unit, zone in itertools.product(UNITS, ZONES)),
    *(pa.duration(unit) for unit in UNITS),
    *(pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
]


def of_number(number: int, kind: pa.DataType) -> pa.Array:
    """The time that Arrow keeps as a number."""
    numbers = pa.array([number], pa.int32() if kind.bit_width == 32 else pa.int64())
    return pa.Array.from_buffers(kind, 1, numbers.buffers())


def shown(number: int, kind: pa.DataType) -> object:
    return python_row(pa.table({"when": of_number(number, kind)}), 0)["when"]


@pytest.mark.parametrize(
    ("number", "kind", "expected"),
    [
        (253402300799, pa.timestamp("s", "Asia/Tokyo"), "9999-12-31 23:59:59Z"),
        (253402300800, pa.timestamp("s"), "10000-01-01 00:00:00"),
        (-62135596801, pa.timestamp("s"), "0000-12-31 23:59:59"),
        (2**63 - 1, pa.timestamp("s"), f"<value out of range: {2**63 - 1}>"),
        (-(2**63), pa.timestamp("ns", "UTC"), "1677-09-21 00:12:43.145224192Z"),
        (2**63 - 1, pa.timestamp("ns", "Asia/Tokyo"), "2262-04-11 23:47:16.854775807Z"),
        (5, pa.timestamp("s", "Not/AZone"), "1970-01-01 00:00:05Z"),
        (1_000, pa.timestamp("ns"), datetime.datetime(1970, 1, 1, 0, 0, 0, 1)),
        (1_001, pa.timestamp("ns"), "1970-01-01 00:00:00.000001001"),
        (2932897, pa.date32(), "10000-01-01"),
        (-719163, pa.date32(), "0000-12-31"),
        (1_000, pa.time64("ns"), datetime.time(0, 0, 0, 1)),
        (1_001, pa.time64("ns"), "00:00:00.000001001"),
        (-5, pa.time32("s"), "<value out of range: -5>"),  # which pyarrow takes for 23:59:55
        (2**63 - 1, pa.duration("s"), f"{2**63 - 1} s"),
        (1_001, pa.duration("ns"), "1001 ns"),
        (1_000, pa.duration("ns"), datetime.timedelta(microseconds=1)),
    ],
)
def test_what_python_cannot_hold_is_text(number: int, kind: pa.DataType, expected: object) -> None:
    assert shown(number, kind) == expected


@given(
    st.sampled_from(KINDS),
    st.integers(-(2**63), 2**63 - 1) | st.integers(-(10**12), 10**12) | st.integers(-9, 9_000_000),
)
def test_times_are_exact_or_text(kind: pa.DataType, number: int) -> None:
    if kind.bit_width == 32 and not -(2**31) <= number < 2**31:
        return
    value = shown(number, kind)
    assert type(value) in (str, datetime.datetime, datetime.date, datetime.time, datetime.timedelta)
    if not isinstance(value, str):
        assert of_number(number, kind) == pa.array([value], kind)
    assert json.loads(json_line({"when": value})) == {"when": str(value)}


def test_values_inside_of_others_are_found_too() -> None:
    times = [datetime.time(1), None]
    late = of_number(253402300800, pa.timestamp("s"))
    text = "10000-01-01 00:00:00"
    of_lists = [
        pa.ListArray.from_arrays([0, 1], late),
        pa.LargeListArray.from_arrays([0, 1], late),
        pa.FixedSizeListArray.from_arrays(late, 1),
        pa.ListViewArray.from_arrays([0], [1], late),
    ]
    arrays = {
        "struct": (pa.StructArray.from_arrays([late], ["a"]), {"a": text}),
        "twice": (pa.StructArray.from_arrays([late, late], ["a", "a"]), [("a", text)] * 2),
        "map": (pa.MapArray.from_arrays([0, 1], ["k"], late), [("k", text)]),
        "dictionary": (pa.DictionaryArray.from_arrays([0], late), text),
        "runs": (pa.RunEndEncodedArray.from_arrays([1], late), text),
        "union": (pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [late]), text),
        "times": (pa.array([times], pa.list_(pa.time64("ns"))), times),
        **{str(of_list.type): (of_list, [text]) for of_list in of_lists},
    }
    found = python_row(pa.table({name: array for name, (array, _) in arrays.items()}), 0)
    assert found == {name: expected for name, (_, expected) in arrays.items()}


def test_other_values_are_those_of_arrow() -> None:
    table = pa.table(
        {
            "text": pa.array(["one", None]),
            "view": pa.array(["one", "two"], pa.string_view()),
            "number": [1.5, float("inf")],
            "decimal": [Decimal("1.50"), None],
            "bytes": [b"\xff", b""],
            "flag": [True, None],
            "list": [[1, None], None],
            "struct": [{"a": 1, "b": None}, None],
            "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int8())),
            "kind": pa.array(["a", "b"]).dictionary_encode(),
            "interval": pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
            "null": pa.nulls(2),
            "id": pa.array([uuid.UUID(int=5).bytes, None], pa.binary(16)),
            "day": [datetime.date(2026, 1, 2), None],
            "when": pa.array([datetime.datetime(2026, 1, 2), None], pa.timestamp("ms", "UTC")),
        }
    )
    table = pa.concat_tables([table, table])
    assert [python_row(table, i) for i in range(4)] == table.to_pylist()


def test_times_are_the_same_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = 5_000, 5_001
    kinds = [kind for kind in KINDS if getattr(kind, "unit", "") == "ns"]
    found = [shown(number, kind) for number in numbers for kind in kinds]
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert [shown(number, kind) for number in numbers for kind in kinds] == found
    assert "pandas" not in {type(value).__module__.split(".")[0] for value in found}


def test_json_has_no_nan() -> None:
    nan = float("nan")
    row = {"a": nan, "list": [nan, 1.0], "struct": {"b": -float("inf")}, "map": [("k", nan)]}
    line = json_line({**row, "text": "ü"})
    found = json.loads(line, parse_constant=pytest.fail)
    nulls = {"a": None, "list": [None, 1.0], "struct": {"b": None}, "map": [["k", None]]}
    assert found == {**nulls, "text": "ü"}
    assert line.endswith("}\n")
    assert "ü" in line
