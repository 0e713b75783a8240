"""The sentences to train on, and their batches: random, or in groups of similar meaning."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sentence_transformers.base.sampler import DefaultBatchSampler
from sklearn.cluster import MiniBatchKMeans
from torch.utils.data import SequentialSampler

from st_static.distill.config import DistillationConfig
from st_static.distill.stages import TeacherVectors
from st_static.model.vectors import unit_rows
from st_static.progress import bar
from st_static.tokens.ragged import Ragged

_CLUSTERS = 8192
# Few steps on large samples: clusters need to be tight, not optimal.
_KMEANS_SAMPLE = 8192
_KMEANS_STEPS = 16
_MIN_SENTENCES_PER_CLUSTER = 32


class TrainingSentences(NamedTuple):
    """Ascending numbers of sentences: to learn from, and to measure the held-out loss on."""

    train: NDArray[np.int64]
    development: NDArray[np.int64]


def training_sentences(
    words: Ragged, is_held_out: NDArray[np.bool_], config: DistillationConfig, seed: int
) -> TrainingSentences:
    """Divide the sentences [S] that the teacher read, by the words that each was selected for."""
    rng, serves = np.random.default_rng(seed), words.lengths > 0
    # Spans and passages were selected for no word. All are trained on.
    train, others = (np.flatnonzero(~is_held_out & rows) for rows in (serves, ~serves))
    development = np.flatnonzero(is_held_out)
    if config.sentences_per_word is not None:
        if 2 * len(development) > len(train):
            raise ValueError(
                f"With distillation.sentences_per_word, the held-out loss is measured on "
                f"{len(development)} of the selected sentences, but there are only {len(train)}. "
                "Lower selection.held_out, or give more text."
            )
        development = np.sort(rng.choice(train, len(development), replace=False))
        train = np.setdiff1d(train, development)
        # In random order within each word; the first ones are kept.
        of_words = words.take(train)
        order = np.lexsort((rng.random(len(of_words.values)), of_words.values))
        starts = np.flatnonzero(np.diff(of_words.values[order], prepend=-1))
        rank = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
        chosen = order[rank < config.sentences_per_word]
        train = train[np.unique(of_words.row_of_value[chosen])]
    return TrainingSentences(np.union1d(train, others), development)


def cluster(
    vectors: TeacherVectors, rows: NDArray[np.int64], n_clusters: int, seed: int
) -> NDArray[np.int32]:
    """Cluster sentences, ascending `rows` [S], by k-means on directions; at least 32 in each."""
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
    """Batches in a new random order of all sentences in each epoch, as in the paper."""

    def __init__(self, n_sentences: int, batch_size: int, seed: int = 0) -> None:
        super().__init__(SequentialSampler(range(n_sentences)), batch_size, drop_last=True)
        self.n_sentences = n_sentences
        self.seed = seed

    def order(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Order the sentences [S], which are then cut into batches."""
        return rng.permutation(self.n_sentences)

    def __iter__(self) -> Iterator[list[int]]:
        order = self.order(np.random.default_rng([self.seed, self.epoch]))
        for start in range(0, len(self) * self.batch_size, self.batch_size):
            yield order[start : start + self.batch_size].tolist()


class ClusteredBatches(RandomBatches):
    """Batches of groups of neighbours by cluster: similarities from paraphrases to strangers."""

    def __init__(
        self, clusters: NDArray[np.integer], batch_size: int, group_size: int, seed: int = 0
    ) -> None:
        super().__init__(len(clusters), batch_size, seed)
        self.clusters = clusters
        self.group_size = group_size

    def order(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Put whole groups of sentences, each mostly of one cluster, in a random order."""
        shuffled = rng.permutation(self.n_sentences)
        by_cluster = shuffled[np.argsort(self.clusters[shuffled], kind="stable")]
        n_groups = self.n_sentences // self.group_size
        groups = by_cluster[: n_groups * self.group_size].reshape(n_groups, self.group_size)
        return groups[rng.permutation(n_groups)].ravel()

    def __len__(self) -> int:
        grouped = self.n_sentences // self.group_size * self.group_size
        return grouped // self.batch_size


def batch_sampler(
    vectors: TeacherVectors, rows: NDArray[np.int64], config: DistillationConfig, seed: int
) -> Callable[..., DefaultBatchSampler]:
    """Make the Trainer's factory of batch samplers for the training sentences, ascending `rows`."""
    groups = config.groups_per_batch
    clusters = cluster(vectors, rows, _CLUSTERS, seed) if groups else None
    # A partial function, and no closure: checkpoints pickle the Trainer's arguments.
    return functools.partial(_make_sampler, first=int(rows[0]), clusters=clusters, groups=groups)


def _make_sampler(
    dataset: Any,
    batch_size: int,
    first: int,
    clusters: NDArray[np.int32] | None,
    groups: int,
    seed: int = 0,
    **_: object,
) -> DefaultBatchSampler:
    # Held-out sentences come here, too: another number is their first, and batches are random.
    if clusters is None or dataset[0]["sentence"] != first:
        return RandomBatches(len(dataset), batch_size, seed)
    return ClusteredBatches(clusters, batch_size, batch_size // groups, seed)
