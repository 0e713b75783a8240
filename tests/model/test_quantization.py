"""Rows of a table in int8."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from st_static.model.int8_table import quantize_rows

tables = arrays(
    np.float32,
    array_shapes(min_dims=2, max_dims=2, max_side=9),
    elements=st.floats(-1e4, 1e4, width=32),
)


@given(tables)
def test_a_number_is_wrong_by_half_a_step_at_most(table):
    quantized = quantize_rows(table)
    steps = np.abs(table).max(axis=1, keepdims=True) / 127
    wrong = np.abs(quantized.restored() - table)
    assert quantized.rows.dtype == np.int8
    assert (wrong <= steps * 0.501 + 1e-37).all()


def test_each_row_has_a_scale_and_zeros_stay():
    table = np.array([[0, 0], [127, -127], [1e-3, 5e-4]], np.float32)
    quantized = quantize_rows(table)
    np.testing.assert_array_equal(quantized.rows, [[0, 0], [127, -127], [127, 64]])
    np.testing.assert_allclose(quantized.scales, [[0], [1], [1e-3 / 127]], rtol=1e-6)


@given(tables, st.data())
def test_segments_are_rounded_as_if_each_was_a_table(table, data):
    cut = data.draw(st.integers(1, table.shape[1]))
    widths = [cut, table.shape[1] - cut]
    quantized = quantize_rows(table, widths)
    for i, segment in enumerate((table[:, :cut], table[:, cut:])):
        alone = quantize_rows(segment)
        np.testing.assert_array_equal(quantized.rows[:, quantized.segments[i]], alone.rows)
        np.testing.assert_array_equal(quantized.scales[:, [i]], alone.scales)


def test_parts_do_not_matter():
    table = np.random.default_rng(0).normal(size=(20_000, 3)).astype(np.float32)
    whole = quantize_rows(table)
    np.testing.assert_array_equal(whole.rows[9_000:], quantize_rows(table[9_000:]).rows)
