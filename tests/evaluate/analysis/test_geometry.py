"""Alignment and uniformity against the definitions, pair by pair."""

import numpy as np
import pytest

from st_static.evaluate.analysis.geometry import alignment, random_pairs, uniformity


def test_equal_the_definitions_pair_by_pair():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 20, 5))
    distances = [
        np.sum((a / np.linalg.norm(a) - b / np.linalg.norm(b)) ** 2)
        for a, b in zip(x, y, strict=True)
    ]
    assert alignment(x, y) == pytest.approx(np.mean(distances), rel=1e-5)
    expected = np.log(np.mean([np.exp(-2 * d) for d in distances]))
    assert uniformity(x, y) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("shape", [(0, 3), (2, 4)])
def test_other_shapes_are_refused(shape):
    for measure in (alignment, uniformity):
        with pytest.raises(ValueError, match=r"pairs of vectors, .* \(2, 3\)"):
            measure(np.ones((2, 3)), np.ones(shape))


@pytest.mark.parametrize("n", [2, 3, 4, 100, 1001])
def test_random_pairs_are_of_different_texts_and_no_pair_comes_twice(n):
    for seed in range(20):
        pairs = random_pairs(n, seed)
        assert (pairs[:, 0] != pairs[:, 1]).all()
        assert (
            len({frozenset(pair) for pair in pairs.tolist()}) == len(pairs) == (n if n > 2 else 1)
        )
        assert set(pairs.ravel().tolist()) == set(range(n))
    assert not np.array_equal(random_pairs(100), random_pairs(100, 1))


def test_one_text_has_no_other():
    with pytest.raises(ValueError, match="at least two different texts to pair, but got 1"):
        random_pairs(1)


def test_three_texts_are_all_pairs():
    x = np.random.default_rng(0).normal(size=(3, 4))
    i, j = random_pairs(3).T
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    every = [np.exp(-2 * np.sum((unit[a] - unit[b]) ** 2)) for a in range(3) for b in range(a)]
    assert uniformity(x[i], x[j]) == pytest.approx(np.log(np.mean(every)), rel=1e-6)
