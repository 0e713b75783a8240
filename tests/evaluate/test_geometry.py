"""Alignment and uniformity against the definitions, pair by pair."""

import numpy as np
import pytest

from st_static.evaluate.geometry import alignment, uniformity


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
