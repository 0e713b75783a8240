"""Sums of rows are the same to the last bit, by scipy and by torch."""

import sys
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from st_static.encode.row_sums import stay_in_this_thread, sum_rows
from st_static.model.table import ROWS_IN_A_SUM, Int8Table, used_rows
from st_static.tokens.ragged import Ragged, offsets_of, ragged_of

LENGTHS = st.lists(st.integers(0, 40) | st.just(2 * ROWS_IN_A_SUM + 1), min_size=1, max_size=9)


def without_torch(rows, ids):
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(sys.modules, "torch")
        return sum_rows(rows, ids)


@settings(max_examples=50)
@given(lengths=LENGTHS, width=st.integers(1, 300), seed=st.integers(0, 99))
def test_scipy_and_torch_add_up_equally(lengths, width, seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(50, width)).astype(np.float32)
    offsets = offsets_of(np.array(lengths))
    ids = Ragged(rng.integers(0, 50, offsets[-1]).astype(np.int32), offsets)
    found, expected = without_torch(rows, ids), sum_rows(rows, ids)
    np.testing.assert_array_equal(found, expected)
    exact = [rows[ids.values[a:b]].sum(axis=0, dtype=np.float64) for a, b in pairwise(offsets)]
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=2e-4)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8"])
def test_rows_of_other_formats_are_those_that_are_used(dtype):
    table = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    table = Int8Table.of(table) if dtype == "int8" else table.astype(dtype)
    ids = ragged_of([[7, 2, 7], [], [2]])
    rows, places = used_rows(table, ids)
    assert (rows.shape, rows.dtype) == ((2, 4), np.float32)
    exact = np.asarray(table).astype(np.float32)
    np.testing.assert_array_equal(rows[places.values], exact[ids.values])
    np.testing.assert_array_equal(places.offsets, ids.offsets)


def test_a_table_in_float32_is_not_copied():
    table, ids = np.ones((9, 4), np.float32), ragged_of([[1]])
    assert used_rows(table, ids)[0] is table


def test_torch_stays_in_the_thread_only_where_it_is_loaded():
    before = torch.get_num_threads()
    with stay_in_this_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(sys.modules, "torch")
        patch.setitem(sys.modules, "threadpoolctl", None)
        with stay_in_this_thread():
            pass
