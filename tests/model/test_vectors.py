"""Small computations on word tables, against plain loops."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from st_static.model.vectors import sentence_means, unit_rows
from st_static.tokens.ragged import Ragged, offsets_of, ragged_of


def test_unit_rows_have_length_one_and_zero_rows_stay_zero():
    unit = unit_rows(np.array([[3.0, 4.0], [0.0, 0.0], [-2.0, 0.0]]))
    np.testing.assert_allclose(unit, [[0.6, 0.8], [0, 0], [-1, 0]], atol=1e-7)
    assert unit.dtype == np.float32


def test_unit_rows_leave_their_argument_as_it_is():
    given_vectors = np.array([[3, 4]], dtype=np.float32)
    unit_rows(given_vectors)
    assert given_vectors.tolist() == [[3, 4]]


def test_unit_rows_of_half_precision_do_not_overflow():
    np.testing.assert_allclose(
        unit_rows(np.full((1, 4), 60000, dtype=np.float16)), [[0.5] * 4], rtol=1e-6
    )


def test_means_by_hand():
    table = np.array([[0, 0], [2, 0], [0, 4], [4, 2]], dtype=np.float32)
    means = sentence_means(table, ragged_of([[1, 2], [], [0, 0], [3, 0, 1], [2, 2, 1]]))
    expected = [[1, 2], [0, 0], [0, 0], [3, 1], [2 / 3, 8 / 3]]
    np.testing.assert_allclose(means, expected, rtol=1e-6)


@given(st.lists(st.lists(st.integers(0, 7), max_size=6), max_size=8))
def test_means_equal_a_loop(rows):
    table = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
    table[[0, 5]] = 0
    expected = np.zeros((len(rows), 3))
    for number, row in enumerate(rows):
        words = [table[i].astype(np.float64) for i in row if table[i].any()]
        if words:
            expected[number] = sum(words) / len(words)
    means = sentence_means(table, ragged_of(rows))
    assert means.dtype == np.float32
    np.testing.assert_allclose(means, expected, rtol=1e-5, atol=1e-6)


def test_means_of_more_words_than_are_gathered_at_once():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(50, 100)).astype(np.float32)
    # 260,000 words of 100 numbers are more than the 25 million that one part may hold; empty
    # rows stand where a part may end.
    words = rng.integers(0, 50, (26_000, 10)).astype(np.int32)
    lengths = np.tile([10, 0], 26_000)
    means = sentence_means(table, Ragged(words.ravel(), offsets_of(lengths)))
    np.testing.assert_allclose(means[0::2], table[words].mean(1), atol=1e-5)
    assert not means[1::2].any()
