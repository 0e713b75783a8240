"""Rows of different lengths, against lists of lists."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from ragged_rows import rows

from st_static.tokens.ragged import concatenate, ragged_of

many_rows = st.lists(st.lists(st.integers(0, 9), max_size=7), max_size=6)


@given(many_rows)
def test_lengths_and_rows_of_values(rows_):
    table = ragged_of(rows_)
    assert table.lengths.tolist() == [len(row) for row in rows_]
    assert table.row_of_value.tolist() == [i for i, row in enumerate(rows_) for _ in row]


@given(many_rows)
def test_filter_keeps_rows(rows_):
    table = ragged_of(rows_)
    expected = [[value for value in row if value % 2] for row in rows_]
    assert rows(table.filter(table.values % 2 == 1)) == expected


@given(many_rows.flatmap(lambda r: st.tuples(st.just(r), st.permutations(range(len(r))))))
def test_take_copies_rows_in_the_given_order(example):
    rows_, order = example
    taken = ragged_of(rows_).take(np.array([*order, *order], dtype=np.int64))
    assert rows(taken) == [rows_[i] for i in [*order, *order]]


@given(many_rows, st.integers(0, 8))
def test_first_cuts_rows(rows_, n):
    assert rows(ragged_of(rows_).first(n)) == [row[:n] for row in rows_]


@given(many_rows, st.integers(1, 8))
def test_cut_gives_pieces_in_order(rows_, longest):
    pieces, row = ragged_of(rows_).cut(longest)
    expected = [
        (i, values[start : start + longest])
        for i, values in enumerate(rows_)
        for start in range(0, max(1, len(values)), longest)
    ]
    assert list(zip(row.tolist(), rows(pieces), strict=True)) == expected


@given(st.lists(many_rows, max_size=3))
def test_concatenate_puts_rows_one_after_the_other(tables):
    assert rows(concatenate([ragged_of(table) for table in tables])) == [
        row for table in tables for row in table
    ]
