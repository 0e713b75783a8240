"""Second-order collapse, alignment and uniformity against their definitions."""

# ruff: noqa: N803, N806 - X and S are the names in the definition.

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import sqrtm

from st_static.evaluate.analysis.geometry import mean_socm, sphere


def socm(X1, X2):
    return mean_socm([X1, X2])["SOCM x 100"] / 100


def parts(X1, X2):
    """d_mu and d_Sigma with d x d matrices and SciPy's matrix root."""
    X1, X2 = (X / np.linalg.norm(X.mean(axis=0)) for X in (X1, X2))
    S1, S2 = (np.cov(X, rowvar=False, bias=True) for X in (X1, X2))
    root = sqrtm(S1)
    d_mu = np.sum((X1.mean(axis=0) - X2.mean(axis=0)) ** 2) / 4
    d_sigma = np.trace(S1 + S2 - 2 * np.real(sqrtm(root @ S2 @ root))) / 4
    return d_mu, d_sigma


def direct(X1, X2):
    d_mu, d_sigma = parts(X1, X2)
    return (1 - d_mu) * d_sigma


def text(seed, tokens, dimension=6, spread=1.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=dimension) + spread * rng.normal(size=(tokens, dimension))


# With more tokens than dimensions the covariances have full rank, as `sqrtm` needs.
tokens = st.integers(8, 30)


@given(st.integers(0, 10**6), tokens, tokens, st.floats(0.05, 2))
def test_equals_the_direct_formula(seed, first, second, spread):
    X1, X2 = text(seed, first, spread=spread), text(seed + 1, second, spread=spread / 2)
    assert socm(X1, X2) == pytest.approx(direct(X1, X2), rel=1e-6)


def test_fewer_tokens_than_dimensions_by_hand():
    # Unit means along x and y; one text spreads along z by 1, the other not at all.
    X1 = np.array([[1.0, 0, 1], [1, 0, -1]])
    X2 = np.array([[0.0, 3, 0]])
    assert socm(X1, X2) == pytest.approx((1 - 2 / 4) * 1 / 4)


def test_is_symmetric_and_does_not_depend_on_scale_rotation_or_order_of_tokens():
    X1, X2 = text(0, 9), text(1, 4)
    expected = socm(X1, X2)
    rotation = np.linalg.qr(np.random.default_rng(2).normal(size=(6, 6)))[0]
    assert socm(X2, X1) == pytest.approx(expected)
    assert socm(7 * X1, 0.1 * X2) == pytest.approx(expected)
    assert socm(X1 @ rotation, X2 @ rotation) == pytest.approx(expected)
    assert socm(X1[::-1], X2) == pytest.approx(expected)


def pair(cosine, first, second):
    """Two texts with the given cosine of means; each spreads in a direction of its own.

    Their d_mu is (1 - cosine) / 2, their d_Sigma (first^2 + second^2) / 4.
    """
    spreads = np.array([[1.0], [-1.0]])
    X1 = np.array([1.0, 0, 0, 0]) + first * spreads * np.array([0, 0, 1.0, 0])
    mean = np.array([cosine, np.sqrt(1 - cosine**2), 0, 0])
    X2 = mean + second * spreads * np.array([0, 0, 0, 1.0])
    return X1, X2


def test_a_is_one_only_for_equal_means_and_the_largest_spread():
    assert socm(*pair(1.0, np.sqrt(2), np.sqrt(2))) == pytest.approx(1)
    assert socm(*pair(0.99, np.sqrt(2), np.sqrt(2))) < 0.999
    assert socm(*pair(1.0, np.sqrt(2), 1.3)) < 0.999


def test_b_is_zero_only_for_opposite_means_or_equal_spreads():
    assert socm(*pair(-1.0, 1, 1)) == pytest.approx(0)
    assert socm(*pair(0.5, 0, 0)) == pytest.approx(0)
    X1, _ = pair(1.0, 1, 1)
    assert socm(X1, X1) == pytest.approx(0)
    assert socm(*pair(-0.99, 1, 1)) > 1e-3
    assert socm(*pair(0.5, 0.1, 0)) > 1e-3


def test_the_mean_over_pairs_is_the_mean_of_pairs():
    texts = [text(seed, n) for seed, n in enumerate([3, 1, 12, 3, 7, 1, 3])]
    result = mean_socm(texts)
    expected = np.mean([socm(a, b) for a, b in itertools.combinations(texts, 2)])
    assert result["SOCM x 100"] == pytest.approx(100 * expected, rel=1e-9)
    assert (result["pairs"], result["texts"]) == (21, 7)


def test_texts_with_too_large_a_trace_are_counted():
    narrow, wide = pair(1.0, 1.0, 2.0)
    assert mean_socm([narrow, wide, narrow])["texts with tr(Sigma) > 2"] == 1


@pytest.mark.parametrize(
    ("X", "says"),
    [
        (np.array([[1.0, 0, 0], [-1, 0, 0]]), "mean of the token vectors is zero"),
        (np.array([[np.nan, 0, 0]]), "NaN or infinity"),
    ],
)
def test_texts_that_cannot_be_compared(X, says):
    with pytest.raises(ValueError, match=says):
        mean_socm([np.ones((2, 3)), X])


def test_one_text_has_no_pair():
    with pytest.raises(ValueError, match="at least two texts"):
        mean_socm([np.ones((2, 3))])


@pytest.mark.parametrize("n", [2, 3])
def test_alignment_and_uniformity_follow_their_definitions(n):
    """Few texts have but one circle of pairs: all of them."""
    x, y = np.random.default_rng(n).normal(size=(2, n, 4))
    vectors = {"first": x, "second": y}
    model = SimpleNamespace(
        tables={"stage": None},
        tokenize=lambda texts: "first" if texts[0] == "text 0" else "second",
        text_vectors=lambda ids, stage: vectors[ids],
    )
    [row] = sphere(model, [(f"text {i}", "a paraphrase") for i in range(n)]).to_dicts()
    x, y = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (x, y))
    assert row["alignment"] == pytest.approx(np.square(x - y).sum(axis=1).mean(), rel=1e-5)
    every = [np.exp(-2 * np.sum((a - b) ** 2)) for a, b in itertools.combinations(x, 2)]
    assert row["uniformity"] == pytest.approx(np.log(np.mean(every)), rel=1e-5)
