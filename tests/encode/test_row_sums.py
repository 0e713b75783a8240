"""Sums of rows, of tables in any format."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from st_static import threads
from st_static.encode.row_sums import sum_rows, used_rows
from st_static.model.table import ROWS_IN_A_SUM, Int8Table
from st_static.tokens.ragged import Ragged, offsets_of, ragged_of


@settings(max_examples=50)
@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=9),
    width=st.integers(1, 300),
    seed=st.integers(0, 99),
)
def test_sums_by_scipy_and_by_torch_are_equal_to_the_last_bit(lengths, width, seed):
    rng = np.random.default_rng(seed)
    rows, offsets = rng.normal(size=(50, width)).astype(np.float32), offsets_of(np.array(lengths))
    ids = Ragged(rng.integers(0, 50, offsets[-1]).astype(np.int32), offsets)
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(sys.modules, "torch")
        expected = sum_rows(rows, ids)
    np.testing.assert_array_equal(sum_rows(rows, ids), expected)


@pytest.fixture
def asked(monkeypatch):
    """How many threads torch had in each call of its kernel, with two outside."""
    before, asked = torch.get_num_threads(), []
    kernel = torch.nn.functional.embedding_bag

    def add_up(*arguments, **options):
        asked.append(torch.get_num_threads())
        return kernel(*arguments, **options)

    monkeypatch.setattr(torch.nn.functional, "embedding_bag", add_up)
    torch.set_num_threads(2)
    yield asked
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


def test_torch_stays_in_the_thread(asked):
    rows, ids = np.ones((9, 4), np.float32), ragged_of([[1, 2]] * 9)
    sum_rows(rows, ids)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(sum_rows, [rows] * 4, [ids] * 4))
    assert asked == [1] * 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_leaves_torch_alone(asked, monkeypatch):
    monkeypatch.setattr(threads, "_process", os.getppid())
    sum_rows(np.ones((9, 4), np.float32), ragged_of([[1, 2]]))
    assert asked == []


def test_long_texts_are_added_up_in_float64():
    rng = np.random.default_rng(0)
    lengths = np.array([3, 100 * ROWS_IN_A_SUM + 1, 0, ROWS_IN_A_SUM])
    rows, offsets = rng.random((5, 4), np.float32), offsets_of(lengths)
    ids = Ragged(rng.integers(0, 5, offsets[-1]).astype(np.int32), offsets)
    exact = [rows[ids.values[a:b]].sum(axis=0, dtype=np.float64) for a, b in pairwise(offsets)]
    np.testing.assert_allclose(sum_rows(rows, ids), exact, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8"])
def test_rows_of_other_formats_are_those_that_are_used(dtype):
    table = np.random.default_rng(0).normal(size=(2_000, 4)).astype(np.float32)
    table = Int8Table.of(table) if dtype == "int8" else table.astype(dtype)
    ids = ragged_of([list(range(7, 1_900, 3)), [], [7, 10]])
    rows, places = used_rows(table, ids)
    assert (rows.shape, rows.dtype) == ((631, 4), np.float32)
    exact = np.asarray(table).astype(np.float32)
    np.testing.assert_array_equal(rows[places.values], exact[ids.values])
    np.testing.assert_array_equal(places.offsets, ids.offsets)


def test_a_table_in_float32_is_not_copied():
    table = np.ones((9, 4), np.float32)
    assert used_rows(table, ragged_of([[1]]))[0] is table
