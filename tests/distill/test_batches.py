"""Drawing distillation batches: every sentence once an epoch, epochs differ, groups are alike."""

import collections

import numpy as np
import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st

from st_static.distill import batches
from st_static.distill.batches import ClusteredBatches, RandomBatches, batch_sampler, cluster
from st_static.distill.config import DistillationConfig


def epoch(sampler: RandomBatches, number: int = 0) -> list[list[int]]:
    sampler.set_epoch(number)
    return list(sampler)


def blobs(n_blobs: int, per_blob: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Well separated directions, shuffled: vectors and the blob of each."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_blobs, 16)) * 5
    labels = rng.permutation(np.repeat(np.arange(n_blobs), per_blob))
    return (centres[labels] + 0.05 * rng.normal(size=(len(labels), 16))).astype("f2"), labels


sizes = st.tuples(st.integers(1, 60), st.integers(1, 12), st.integers(0, 5), st.integers(0, 3))


@given(sizes)
def test_a_random_epoch_is_a_permutation(example):
    n_sentences, batch_size, seed, number = example
    sampler = RandomBatches(n_sentences, batch_size, seed)
    drawn = epoch(sampler, number)
    assert len(drawn) == len(sampler) == n_sentences // batch_size
    assert all(len(batch) == batch_size for batch in drawn)
    flat = [sentence for batch in drawn for sentence in batch]
    assert len(set(flat)) == len(flat)
    assert set(flat) <= set(range(n_sentences))
    assert n_sentences - len(flat) < batch_size


@given(sizes, st.integers(1, 6), st.integers(1, 9))
def test_a_clustered_epoch_is_a_permutation(example, group_size, n_clusters):
    n_sentences, n_groups, seed, number = example
    batch_size = group_size * n_groups
    clusters = np.random.default_rng(seed).integers(0, n_clusters, n_sentences)
    sampler = ClusteredBatches(clusters, batch_size, group_size, seed)
    drawn = epoch(sampler, number)
    assert len(drawn) == len(sampler) == n_sentences // group_size * group_size // batch_size
    assert all(len(batch) == batch_size for batch in drawn)
    flat = [sentence for batch in drawn for sentence in batch]
    assert len(set(flat)) == len(flat)
    assert set(flat) <= set(range(n_sentences))


def make_samplers(seed: int = 0) -> list[RandomBatches]:
    clusters = np.arange(240) % 6
    return [RandomBatches(240, 16, seed), ClusteredBatches(clusters, 16, 4, seed)]


@pytest.mark.parametrize("kind", [0, 1], ids=["random", "clustered"])
def test_epochs_and_seeds_differ_and_repeat(kind):
    sampler = make_samplers()[kind]
    first = epoch(sampler, 0)
    assert first == epoch(sampler, 0) == epoch(make_samplers()[kind], 0)
    assert first != epoch(sampler, 1)
    assert first != epoch(make_samplers(seed=1)[kind], 0)
    # Not the next seed's epochs in another order either.
    assert epoch(sampler, 1) != epoch(make_samplers(seed=1)[kind], 0)


@pytest.mark.parametrize("kind", [0, 1], ids=["random", "clustered"])
def test_every_sentence_comes_into_batches_with_many_others(kind):
    company: dict[int, set[int]] = collections.defaultdict(set)
    sampler = make_samplers()[kind]
    for number in range(12):
        for batch in epoch(sampler, number):
            for sentence in batch:
                company[sentence].update(batch)
    assert len(company) == 240
    assert min(map(len, company.values())) > 60


def test_groups_hold_one_cluster():
    # 40 sentences a cluster, a multiple of the group size: no group mixes.
    clusters = np.random.default_rng(0).permutation(np.repeat(np.arange(6), 40))
    for batch in epoch(ClusteredBatches(clusters, 20, 4, seed=3)):
        groups = clusters[np.array(batch)].reshape(5, 4)
        assert (groups == groups[:, :1]).all()


def test_only_a_clusters_rest_joins_the_next_cluster():
    rng = np.random.default_rng(0)
    clusters = rng.permutation(np.repeat(np.arange(10), rng.integers(20, 40, 10)))
    drawn = epoch(ClusteredBatches(clusters, 16, 4))
    groups = clusters[np.array(drawn)].reshape(-1, 4)
    mixed = (groups != groups[:, :1]).any(axis=1)
    assert mixed.sum() <= 9  # one at each boundary
    assert all(len(set(group)) == 2 for group in groups[mixed].tolist())


def test_a_batch_holds_several_clusters():
    clusters = np.repeat(np.arange(20), 16)
    drawn = epoch(ClusteredBatches(clusters, 32, 4))
    distinct = [len(set(clusters[batch].tolist())) for batch in drawn]
    assert np.mean(distinct) > 5


def cluster_all(vectors: np.ndarray, n_clusters: int, seed: int) -> np.ndarray:
    return cluster(vectors, np.arange(len(vectors)), n_clusters, seed)


def test_clusters_do_not_mix_separated_sentences():
    vectors, blob = blobs(4, 100)
    # More clusters than blobs, so that each blob has a centre to begin with.
    found = cluster_all(vectors, 12, seed=0)
    assert found.shape == (400,)
    pairs = set(zip(found.tolist(), blob.tolist(), strict=True))
    assert len(pairs) == len(set(found.tolist())) <= 12
    assert {number for _, number in pairs} == {0, 1, 2, 3}


def test_only_the_given_sentences_are_clustered():
    vectors, _ = blobs(4, 100)
    rows = np.flatnonzero(np.arange(400) % 5)
    among_others = vectors.copy()
    among_others[::5] = np.nan
    expected = cluster_all(vectors[rows], 8, seed=0)
    np.testing.assert_array_equal(cluster(among_others, rows, 8, seed=0), expected)


def test_length_does_not_count_for_clusters():
    vectors, _ = blobs(3, 50)
    scale = np.random.default_rng(0).uniform(0.1, 10, (150, 1))
    scaled = cluster_all((vectors.astype("f4") * scale).astype("f4"), 3, seed=0)
    np.testing.assert_array_equal(scaled, cluster_all(vectors.astype("f4"), 3, seed=0))


def test_clusters_are_the_same_for_a_seed():
    vectors, _ = blobs(8, 40)
    np.testing.assert_array_equal(cluster_all(vectors, 8, seed=5), cluster_all(vectors, 8, seed=5))


@pytest.mark.parametrize(
    ("n_sentences", "asked", "most"), [(320, 64, 10), (31, 8, 1), (1, 8, 1), (640, 5, 5)]
)
def test_clusters_are_fewer_where_they_would_be_small(n_sentences, asked, most):
    vectors = np.random.default_rng(0).normal(size=(n_sentences, 4)).astype("f4")
    found = cluster_all(vectors, asked, seed=0)
    assert found.max() < most
    assert len(found) == n_sentences


def test_more_clusters_than_one_sample_of_sentences(monkeypatch):
    monkeypatch.setattr(batches, "_KMEANS_SAMPLE", 16)
    vectors, _ = blobs(20, 40)
    assert len(set(cluster_all(vectors, 20, seed=0).tolist())) > 10


def sentences(start: int, stop: int) -> list[dict[str, int]]:
    return [{"sentence": number} for number in range(start, stop)]


def test_the_recipe_chooses_the_way_of_drawing():
    vectors, blob = blobs(6, 64)
    rows = np.arange(384)
    dataset = Dataset.from_dict({"sentence": rows})
    config = DistillationConfig(groups_per_batch=4, batch_size=16)
    sampler = batch_sampler(vectors, rows, config, seed=0)(dataset, batch_size=16, seed=7)
    assert type(sampler) is ClusteredBatches
    assert (sampler.group_size, sampler.seed) == (4, 7)
    groups = blob[np.array(epoch(sampler))].reshape(-1, 4)
    assert (groups == groups[:, :1]).all(axis=1).mean() > 0.8

    random = batch_sampler(vectors, rows, DistillationConfig(groups_per_batch=0), seed=0)
    sampler = random(dataset, batch_size=16, drop_last=True, valid_label_columns=["label"])
    assert type(sampler) is RandomBatches
    groups = blob[np.array(epoch(sampler))].reshape(-1, 4)
    assert (groups == groups[:, :1]).all(axis=1).mean() < 0.2


@pytest.mark.parametrize("n_held_out", [100, 192])
def test_held_out_sentences_are_drawn_at_random(n_held_out):
    vectors, _ = blobs(6, 64)
    train, held_out = np.arange(0, 384, 2), np.arange(1, 384, 2)[:n_held_out]
    make_sampler = batch_sampler(vectors, train, DistillationConfig(), seed=0)
    sampler = make_sampler(Dataset.from_dict({"sentence": train}), batch_size=16)
    assert type(sampler) is ClusteredBatches
    sampler = make_sampler(Dataset.from_dict({"sentence": held_out}), batch_size=16)
    assert type(sampler) is RandomBatches
    assert len(sampler) == n_held_out // 16
