"""The teacher's cosines as a target, and the agreement with them: 100 for the teacher itself."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import rankdata

from st_static.distill.agreement import (
    TableAgreement,
    Target,
    TeacherAgreement,
    held_out_pairs,
    mean_direction,
    teacher_agreement,
)
from st_static.model.vectors import unit_rows
from st_static.tokens.ragged import Ragged


def random_vectors(n: int, d: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


TEACHER = random_vectors(60, 8, seed=0)


def test_the_teacher_agrees_with_itself():
    assert teacher_agreement(TEACHER, TEACHER) == pytest.approx(100)


def test_lengths_and_rotations_do_not_matter():
    scale = np.random.default_rng(1).uniform(0.1, 9, (60, 1))
    rotation = np.linalg.qr(random_vectors(8, 8, seed=2))[0]
    assert teacher_agreement(TEACHER * scale, TEACHER) == pytest.approx(100, abs=0.01)
    assert teacher_agreement(TEACHER @ rotation, TEACHER) == pytest.approx(100, abs=0.01)


def test_agreement_equals_a_plain_computation():
    student = random_vectors(60, 5, seed=3)
    scores = []
    for vectors in (student, TEACHER):
        pairs = held_out_pairs(TEACHER)
        unit = vectors.astype(np.float64) / np.linalg.norm(vectors, axis=1, keepdims=True)
        scores.append([float(unit[i] @ unit[j]) for i, j in pairs])
    ranks = [rankdata(np.round(row, 6)) for row in scores]
    expected = 100 * np.corrcoef(ranks)[0, 1]
    assert teacher_agreement(student, TEACHER) == pytest.approx(expected, abs=0.05)


def test_agreement_of_a_table_is_that_of_its_sentence_means():
    table = random_vectors(6, 8, seed=5)
    table[0] = 0
    ids = Ragged(np.tile([1, 0, 2, 3, 4, 5], 20).astype(np.int32), np.arange(0, 121, 2))
    means = np.stack([table[[1]][0], table[[2, 3]].mean(0), table[[4, 5]].mean(0)] * 20)
    expected = teacher_agreement(means, TEACHER)
    assert TableAgreement(ids, TEACHER)(table) == pytest.approx(expected, abs=1e-3)


def test_each_sentence_is_paired_with_its_nearest_and_as_many_others():
    pairs = held_out_pairs(TEACHER, seed=0)
    assert pairs.shape == (2 * 10 * 60, 2)
    near, other = pairs[:600], pairs[600:]
    for half in (near, other):
        np.testing.assert_array_equal(half[:, 0], np.repeat(np.arange(60), 10))
    unit = TEACHER / np.linalg.norm(TEACHER, axis=1, keepdims=True)
    scores = unit @ unit.T
    for sentence in range(60):
        others = [j for j in np.argsort(-scores[sentence]) if j != sentence]
        assert set(near[near[:, 0] == sentence, 1].tolist()) == set(others[:10])


def test_no_sentence_is_paired_with_itself():
    for n in (2, 3, 11, 60):
        for seed in range(20):
            pairs = held_out_pairs(TEACHER[:n], seed)
            assert (pairs[:, 0] != pairs[:, 1]).all()
            assert pairs.min() >= 0
            assert pairs.max() < n


def test_few_sentences_have_fewer_neighbours():
    assert held_out_pairs(TEACHER[:2], seed=0).shape == (4, 2)
    assert held_out_pairs(TEACHER[:5], seed=0).shape == (2 * 4 * 5, 2)


def test_pairs_follow_the_seed_in_their_random_half_only():
    first, second = held_out_pairs(TEACHER, seed=0), held_out_pairs(TEACHER, seed=1)
    np.testing.assert_array_equal(first[:600], second[:600])
    assert not np.array_equal(first[600:], second[600:])
    np.testing.assert_array_equal(first, held_out_pairs(TEACHER, seed=0))


def test_random_partners_cover_the_other_sentences():
    other = held_out_pairs(TEACHER, seed=0)[600:]
    assert len(set(other[:, 1].tolist())) > 55
    assert len({(i, j) for i, j in other.tolist()}) > 500


def test_more_sentences_than_are_compared_at_once():
    teacher = random_vectors(1500, 4, seed=0)
    near = held_out_pairs(teacher, seed=0)[: 10 * 1500]
    unit = teacher / np.linalg.norm(teacher, axis=1, keepdims=True)
    scores = unit @ unit.T
    np.fill_diagonal(scores, -np.inf)
    tenth = np.sort(scores, axis=1)[:, -10]
    assert (scores[near[:, 0], near[:, 1]] >= tenth[near[:, 0]] - 1e-6).all()
    assert len(np.unique(near, axis=0)) == 15_000


def test_a_text_is_no_pair_with_its_own_copy():
    """All encoders give copies the cosine 1, which says nothing of how they rank."""
    rng = np.random.default_rng(0)
    texts = [f"text {i}" for i in range(40)]
    vectors = rng.normal(size=(40, 6))
    student = dict(zip(texts, rng.normal(size=(40, 6)), strict=True))
    encoder = SimpleNamespace(encode=lambda texts: np.stack([student[t] for t in texts]))
    once = TeacherAgreement(texts, vectors)(encoder)
    twice = TeacherAgreement(texts + texts, np.concatenate([vectors, vectors]))(encoder)
    assert twice == pytest.approx(once)
    with pytest.raises(ValueError, match=r"three different texts, .* \(2 different\)"):
        TeacherAgreement(["a", "b", "a", "b"], vectors[:4])


SPREAD = np.random.default_rng(0).normal(size=(500, 16)).astype(np.float16)
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
    lengths = np.random.default_rng(1).uniform(0.5, 2, 500).astype(np.float32)[:, None]
    norms = np.linalg.norm(NARROW[rows].astype(np.float32), axis=1, keepdims=True)
    expected = (NARROW[rows] / norms).mean(axis=0)
    assert mean_direction(NARROW * lengths, rows) == pytest.approx(expected, abs=1e-3)


def test_a_mean_over_several_parts_is_that_over_all(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = mean_direction(NARROW, ALL)
    monkeypatch.setattr("st_static.distill.agreement._ROWS_AT_A_TIME", 7)
    assert mean_direction(NARROW, ALL) == pytest.approx(whole, abs=1e-6)
