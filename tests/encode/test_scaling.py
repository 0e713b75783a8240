"""Scaling of sums, against the formula in float64, one vector and one segment at a time."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from st_static.encode.scaling import Scaling
from st_static.model.modules import Segment
from st_static.model.static_model import StaticModel
from st_static.model.tokenizer import build_tokenizer

TOKENIZER = build_tokenizer(["a"])


def scaling_of(parts: list[tuple[int, float]], normalize: bool = False) -> Scaling:
    segments = tuple(Segment(*part) for part in parts)
    table = np.zeros((3, sum(part.width for part in segments) or 5), np.float32)
    return Scaling(StaticModel(TOKENIZER, table, normalize, segments=segments))


def written(scaling: Scaling, sums: np.ndarray, out: np.ndarray) -> np.ndarray:
    lengths = torch.full((len(sums),), 2)
    scaling.write(torch.from_numpy(sums.copy()), lengths, torch.from_numpy(out))
    return out


def by_hand(sums: np.ndarray, parts: list[tuple[int, float]]) -> np.ndarray:
    total = math.sqrt(sum(weight**2 for _, weight in parts))
    scaled = sums.astype(np.float64)
    for vector in scaled:
        start = 0
        for width, weight in parts:
            segment = vector[start : start + width]
            segment *= weight / total / max(np.linalg.norm(segment), 1e-12)
            start += width
    return scaled


weights = st.floats(0.1, 3)
widths = st.sampled_from([1, 7, 32, 64, 128, 192])


@given(st.lists(st.tuples(widths, weights), min_size=1, max_size=4), st.integers(0, 4))
def test_each_segment_gets_its_length(parts, n):
    scaling = scaling_of(parts)
    width = sum(width for width, _ in parts)
    sums = np.random.default_rng(n).normal(size=(n, width)).astype(np.float32)
    sums[:1, : parts[0][0]] = 0
    expected = by_hand(sums, parts)
    out = written(scaling, sums, np.full_like(sums, np.nan))
    np.testing.assert_allclose(out, expected, atol=1e-6)
    for vector, scaled in zip(sums, expected, strict=True):
        scaling.scale_one(vector, 2)
        np.testing.assert_allclose(vector, scaled, atol=1e-6)


@pytest.mark.parametrize("kept", [5, 3])
def test_the_first_dimensions_of_what_was_scaled_as_a_whole(kept):
    sums = np.array([[3, 4, 0, 0, 12], [0, 0, 0, 0, 0]], dtype=np.float32)
    out = np.full((2, kept), np.nan, np.float16)
    written(scaling_of([], normalize=True), sums, out)
    expected = [np.array([3, 4, 0, 0, 12])[:kept] / 13, [0] * kept]
    np.testing.assert_allclose(out, expected, atol=1e-3)


def test_what_is_not_scaled_is_a_mean():
    sums = np.array([[3, 4, 0, 0, 12]], dtype=np.float32)
    scaling = scaling_of([])
    out = written(scaling, sums, np.empty_like(sums))
    scaling.scale_one(sums[0], 2)
    assert out.tolist() == sums.tolist() == [[1.5, 2, 0, 0, 6]]
