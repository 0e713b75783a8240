"""Tables in int8, which numpy takes as arrays of float32."""

import pickle
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from safetensors.numpy import load_file, save_file

from st_static.model.table import Int8Table, read_table

NUMBERS = st.floats(-1e4, 1e4, width=32)
TABLES = st.tuples(st.integers(1, 9), st.integers(1, 9)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=NUMBERS)
)


def rounded(table):
    found = Int8Table.of(table)
    return found.rows * found.scales


@given(TABLES)
def test_a_number_is_wrong_by_half_a_step_at_most(table):
    quantized = Int8Table.of(table)
    steps = np.abs(table).max(axis=1, keepdims=True) / 127
    wrong = np.abs(rounded(table) - table)
    assert quantized.rows.dtype == np.int8
    # A row whose scale would be less than the smallest normal number becomes zeros.
    assert (wrong <= steps * 0.501 + 127 * np.finfo(np.float32).tiny).all()


def test_each_row_has_a_scale_and_zeros_stay():
    table = np.array([[0, 0], [127, -127], [1e-3, 5e-4]], np.float32)
    quantized = Int8Table.of(table)
    np.testing.assert_array_equal(quantized.rows, [[0, 0], [127, -127], [127, 64]])
    np.testing.assert_allclose(quantized.scales, [[0], [1], [1e-3 / 127]], rtol=1e-6)


@given(TABLES, st.data())
def test_segments_are_rounded_as_if_each_was_a_table(table, data):
    cut = data.draw(st.integers(1, table.shape[1]))
    widths = [cut, table.shape[1] - cut]
    quantized = Int8Table.of(table, widths)
    for i, segment in enumerate((slice(cut), slice(cut, None))):
        alone = Int8Table.of(table[:, segment])
        np.testing.assert_array_equal(quantized.rows[:, segment], alone.rows)
        np.testing.assert_array_equal(quantized.scales[:, [i]], alone.scales)


def test_parts_do_not_matter():
    table = np.random.default_rng(0).normal(size=(20_000, 3)).astype(np.float32)
    whole = Int8Table.of(table)
    np.testing.assert_array_equal(whole.rows[9_000:], Int8Table.of(table[9_000:]).rows)


@given(TABLES)
def test_numpy_takes_it_as_the_rounded_table(table):
    expected = rounded(table)
    found = Int8Table.of(table)
    assert (found.shape, len(found)) == (table.shape, len(table))
    np.testing.assert_array_equal(np.asarray(found), expected)
    assert np.asarray(found).dtype == found.dtype == np.float32
    np.testing.assert_array_equal(np.asarray(found, np.float64), expected)
    np.testing.assert_array_equal(np.asarray(pickle.loads(pickle.dumps(found))), expected)
    rows = [len(table) - 1, 0, 0]
    np.testing.assert_array_equal(found.take(rows, axis=0), expected[rows])


def test_each_segment_of_a_row_has_a_scale():
    table = np.random.default_rng(0).normal(size=(5_000, 9)).astype(np.float32)
    found = Int8Table.of(table, [2, 3, 4])
    parts = [rounded(table[:, part]) for part in np.s_[:2, 2:5, 5:]]
    np.testing.assert_array_equal(np.asarray(found), np.hstack(parts))
    np.testing.assert_array_equal(found.take([4_000, 0], axis=0), np.hstack(parts)[[4_000, 0]])
    assert (found.shape, found.nbytes) == ((5_000, 9), 5_000 * (9 + 3 * 4))


def test_it_is_no_array_without_a_copy():
    with pytest.raises(ValueError, match="only as a copy"):
        np.array(Int8Table.of(np.ones((2, 3))), copy=False)


@pytest.mark.parametrize("stored", ["float64", "float32", "float16", "int8", "uint8"])
def test_a_file_is_rounded_as_it_is_read(tmp_path, stored):
    table = np.random.default_rng(0).normal(scale=30, size=(5_000, 10)).astype(stored)
    save_file({"a": np.ones(3), "embedding.weight": table}, tmp_path / "t")
    expected = rounded(table.astype(np.float32))
    np.testing.assert_array_equal(np.asarray(read_table(tmp_path / "t", form="int8")), expected)


def test_a_file_in_bfloat16(tmp_path):
    from safetensors.torch import save_file

    table = torch.randn(9, 4, generator=torch.manual_seed(0)).bfloat16()
    save_file({"embeddings": table}, tmp_path / "t")
    expected = rounded(table.float().numpy())
    np.testing.assert_array_equal(np.asarray(read_table(tmp_path / "t", form="int8")), expected)


def test_rows_that_go_through_a_mapping_and_weights(tmp_path):
    table = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    arrays = {
        "embeddings": table,
        "mapping": np.array([2, 0, 2]),
        "weights": np.array([1, 2, -3.0]),
    }
    save_file(arrays, tmp_path / "t")
    expected = rounded(table[[2, 0, 2]] * np.array([[1], [2], [-3]], np.float32))
    np.testing.assert_array_equal(np.asarray(read_table(tmp_path / "t", form="int8")), expected)


def test_little_of_a_file_is_ever_in_memory(tmp_path):
    table = np.random.default_rng(0).normal(size=(30_000, 64)).astype(np.float32)
    save_file({"embeddings": table}, tmp_path / "t")
    tracemalloc.start()
    found = read_table(tmp_path / "t", form="int8")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.nbytes < 0.3 * table.nbytes
    assert peak < 0.6 * table.nbytes
    assert load_file(tmp_path / "t")["embeddings"].nbytes == table.nbytes


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite(number):
    table = np.ones((3, 4), np.float32)
    table[1, 2] = number
    with pytest.raises(ValueError, match=r"not finite, for which int8 has no place\. Take float32"):
        Int8Table.of(table)
