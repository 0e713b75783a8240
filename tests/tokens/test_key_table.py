"""Look-ups of many short strings at a time, against a dict."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from st_static.tokens.chunks import Spans
from st_static.tokens.key_table import KeyTable, keys_of

# Strings that differ in length, in a NUL at the end, or in the last byte of a key alone.
strings = st.text(st.sampled_from("ab\x00é東"), max_size=16)


def keys(values):
    return keys_of(Spans.of(pa.array(values, pa.large_string())))


@given(st.lists(st.lists(strings, unique=True, max_size=12), max_size=4), st.lists(strings))
def test_find_and_insert_do_as_a_dict(batches, wanted):
    table, expected = KeyTable(2), {}
    for batch in batches:
        new = [s for s in batch if s not in expected and len(s.encode()) <= 15]
        rows = np.arange(len(expected), len(expected) + len(new))
        table.insert(keys(new), rows)
        expected.update(zip(new, rows, strict=True))
    assert table.size == len(expected)
    everything = [*wanted, *expected]
    assert table.find(keys(everything)).tolist() == [expected.get(s, -1) for s in everything]


@given(st.lists(strings, unique=True))
def test_no_two_short_strings_share_a_key_and_long_ones_have_none(values):
    found = keys(values)
    is_long = [len(s.encode()) > 15 for s in values]
    assert found.is_long.tolist() == is_long
    pairs = [pair for pair, long in zip(zip(*found, strict=True), is_long, strict=True) if not long]
    assert len(set(pairs)) == len(pairs)


def test_many_keys_and_a_copy():
    table = KeyTable()
    words = [f"word{i}" for i in range(50_000)]
    table.insert(keys(words[:100]), np.arange(100))
    copy = table.copy()
    table.insert(keys(words[100:]), np.arange(100, 50_000))
    np.testing.assert_array_equal(table.find(keys(words)), np.arange(50_000))
    assert (copy.find(keys(words)) >= 0).sum() == 100
    assert table.nbytes >= 50_000 * 2 * 24


class Watched(np.ndarray):
    """An array that calls a function after each change."""

    def __setitem__(self, places, values):
        super().__setitem__(places, values)
        self.changed()


def test_what_another_thread_finds_during_an_insert_is_right_or_missing():
    # The low number of the first 16 is 0, as it is in a slot whose key is half written.
    wanted = keys(["\x00" * i for i in range(16)] + [f"a{i:0{3 + i % 12}}" for i in range(490)])
    expected = np.arange(506)
    n_found = []

    def find():
        found = table.find(wanted)
        assert ((found == expected) | (found == -1)).all()
        n_found.append(np.count_nonzero(found >= 0))

    table = KeyTable(1024)
    table._slots = type(table._slots)(*(array.view(Watched) for array in table._slots))
    for array in table._slots:
        array.changed = find
    table.insert(wanted.take(expected[16:]), expected[16:])
    table.insert(wanted.take(expected[:16]), expected[:16])
    assert len(set(n_found)) > 3
    assert n_found[-1] == 506


@pytest.mark.parametrize("values", [["", "a", "é" * 40], ["x"], []])
def test_spans_give_their_strings_back(values):
    for array in (pa.array(values, pa.string()), pa.array(["z", *values, "z"], pa.string())[1:-1]):
        spans = Spans.of(array)
        assert spans.strings(np.arange(len(values))).to_pylist() == values
        assert spans.strings(np.arange(len(values))[::-1]).to_pylist() == values[::-1]
