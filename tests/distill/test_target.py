"""The target of distillation: centred where all of a teacher's cosines are high, and only there."""

import numpy as np
import pytest
from numpy.typing import NDArray

from st_static.distill.agreement import Target, mean_direction
from st_static.model.vectors import unit_rows

RNG = np.random.default_rng(0)
SPREAD = RNG.normal(size=(500, 16)).astype(np.float16)
# All cosines are high: a common direction outweighs what differs.
NARROW = (SPREAD + 12 * np.eye(16)[0]).astype(np.float16)
ALL = np.arange(500)


def cosines(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    unit = unit_rows(vectors)
    return (unit @ unit.T)[np.triu_indices(len(unit), 1)]


def test_vectors_whose_cosines_spread_stay_as_they_are() -> None:
    target = Target.fit(SPREAD, ALL)
    assert not target.is_centered
    np.testing.assert_array_equal(target(SPREAD), SPREAD.astype(np.float32))


def test_vectors_whose_cosines_are_all_high_lose_their_mean() -> None:
    assert cosines(NARROW).min() > 0.6
    target = Target.fit(NARROW, ALL)
    assert target.is_centered
    assert target(NARROW).mean(axis=0) == pytest.approx(0, abs=1e-6)
    assert cosines(target(NARROW)).std() > 5 * cosines(NARROW).std()


def test_the_limit_is_a_mean_cosine_of_pairs_of_three_tenths() -> None:
    for shift, expected in ((1.8, False), (4.0, True)):
        vectors = SPREAD.astype(np.float32) + shift * np.eye(16)[0]
        assert (cosines(vectors).mean() > 0.3) == expected
        assert Target.fit(vectors, ALL).is_centered == expected


@pytest.mark.parametrize("vectors", [SPREAD, NARROW])
@pytest.mark.parametrize("center", [True, False])
def test_a_recipe_may_decide(vectors: NDArray[np.float16], center: bool) -> None:
    assert Target.fit(vectors, ALL, center).is_centered == center


def test_the_mean_is_of_the_given_rows_alone_and_of_vectors_of_length_1() -> None:
    rows = np.arange(0, 500, 3)
    lengths = RNG.uniform(0.5, 2, 500).astype(np.float32)[:, None]
    norms = np.linalg.norm(NARROW[rows].astype(np.float32), axis=1, keepdims=True)
    expected = (NARROW[rows] / norms).mean(axis=0)
    assert mean_direction(NARROW * lengths, rows) == pytest.approx(expected, abs=1e-3)


def test_a_mean_over_several_parts_is_that_over_all(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = mean_direction(NARROW, ALL)
    monkeypatch.setattr("st_static.distill.agreement._ROWS_AT_A_TIME", 7)
    assert mean_direction(NARROW, ALL) == pytest.approx(whole, abs=1e-6)
