"""Drawing distillation batches: at random, or in groups of sentences that mean like things."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sentence_transformers.base.sampler import DefaultBatchSampler
from sklearn.cluster import MiniBatchKMeans
from torch.utils.data import SequentialSampler

from st_static.distill.config import DistillationConfig
from st_static.distill.progress import bar
from st_static.model.vectors import unit_rows

_CLUSTERS = 8192
# Few steps on large samples: clusters need to be tight, not optimal.
_KMEANS_SAMPLE = 8192
_KMEANS_STEPS = 16
_MIN_SENTENCES_PER_CLUSTER = 32


def cluster(
    vectors: NDArray[np.floating], rows: NDArray[np.int64], n_clusters: int, seed: int
) -> NDArray[np.int32]:
    """Cluster sentences by the teacher's vectors (k-means on directions).

    Args:
        vectors: Sentence vectors; may be mapped into memory, and are read in parts.
        rows: The sentences to cluster, ascending, [S].
        n_clusters: Clusters; fewer where that would leave less than 32 sentences in one.
        seed: Seed of the initial centres.

    Returns:
        The cluster of each sentence, [S].
    """
    n_clusters = max(1, min(n_clusters, len(rows) // _MIN_SENTENCES_PER_CLUSTER))
    rng = np.random.default_rng(seed)
    kmeans = MiniBatchKMeans(
        n_clusters,
        init=unit_rows(vectors[np.sort(rng.choice(rows, n_clusters, replace=False))]),
        n_init=1,
        reassignment_ratio=0.0,
        random_state=seed,
    )
    for _ in range(_KMEANS_STEPS):
        size = min(max(_KMEANS_SAMPLE, n_clusters), len(rows))
        sample = rng.choice(rows, size, replace=False)
        kmeans.partial_fit(unit_rows(vectors[np.sort(sample)]))
    parts = np.array_split(rows, 1 + len(rows) // 65_536)
    clusters = []
    with bar("clusters", len(rows), "sentence") as progress:
        for part in parts:
            clusters.append(kmeans.predict(unit_rows(vectors[part])))
            progress.update(len(part))
    return np.concatenate(clusters)


class RandomBatches(DefaultBatchSampler):
    """Each epoch goes through all sentences in a new random order (the paper's way).

    Args:
        n_sentences: Number of sentences, S.
        batch_size: Sentences in a batch, K.
        seed: Seed; with the epoch it determines the order.
    """

    def __init__(self, n_sentences: int, batch_size: int, seed: int = 0) -> None:
        super().__init__(SequentialSampler(range(n_sentences)), batch_size, drop_last=True)
        self.n_sentences = n_sentences
        self.seed = seed

    def order(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """The order in which sentences are cut into batches, [S]."""
        return rng.permutation(self.n_sentences)

    def __iter__(self) -> Iterator[list[int]]:
        """Yield each batch's sentence numbers."""
        order = self.order(np.random.default_rng([self.seed, self.epoch]))
        for start in range(0, len(self) * self.batch_size, self.batch_size):
            yield order[start : start + self.batch_size].tolist()


class ClusteredBatches(RandomBatches):
    """Each batch holds groups of sentences that are close: neighbours when ordered by cluster.

    A group lies within one cluster, or begins with the rest of one and goes on in the next.

    Similarities within a batch are then spread widely, from paraphrases to strangers, and the
    student learns from both.

    Args:
        clusters: The cluster of each sentence, [S].
        batch_size: Sentences in a batch, K.
        group_size: Sentences in a group.
        seed: Seed; with the epoch it determines the order.
    """

    def __init__(
        self, clusters: NDArray[np.integer], batch_size: int, group_size: int, seed: int = 0
    ) -> None:
        super().__init__(len(clusters), batch_size, seed)
        self.clusters = clusters
        self.group_size = group_size

    def order(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Groups in random order; a cluster's rest joins the next cluster's in a group."""
        shuffled = rng.permutation(self.n_sentences)
        by_cluster = shuffled[np.argsort(self.clusters[shuffled], kind="stable")]
        n_groups = self.n_sentences // self.group_size
        groups = by_cluster[: n_groups * self.group_size].reshape(n_groups, self.group_size)
        return groups[rng.permutation(n_groups)].ravel()

    def __len__(self) -> int:
        """Batches in an epoch."""
        grouped = self.n_sentences // self.group_size * self.group_size
        return grouped // self.batch_size


def batch_sampler(
    vectors: NDArray[np.floating],
    rows: NDArray[np.int64],
    config: DistillationConfig,
    seed: int,
) -> Callable[..., DefaultBatchSampler]:
    """The recipe's way of drawing batches, for `SentenceTransformerTrainingArguments`.

    Args:
        vectors: The teacher's sentence vectors.
        rows: The training sentences, ascending, [S].
        config: Says which way, and how many groups.
        seed: Seed of clusters and order.
    """
    clusters = None
    if config.batches == "clustered":
        clusters = cluster(vectors, rows, _CLUSTERS, seed)
    return functools.partial(
        _make_sampler, first=int(rows[0]), clusters=clusters, groups=config.groups_per_batch
    )


def _make_sampler(
    dataset: Any,
    batch_size: int,
    first: int,
    clusters: NDArray[np.int32] | None,
    groups: int,
    seed: int = 0,
    **_: object,
) -> DefaultBatchSampler:
    # The held-out sentences are drawn at random: their dataset begins with another one.
    if clusters is None or dataset[0]["sentence"] != first:
        return RandomBatches(len(dataset), batch_size, seed)
    return ClusteredBatches(clusters, batch_size, batch_size // groups, seed)
