"""Other ways to make a text's vector of word vectors: with frequency weights, and floors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from st_static.model.text_vectors import WordVectors
from st_static.model.vectors import has_vector, sentence_means
from st_static.tokens.ragged import Ragged

Pooling = Literal["mean", "max", "sum"]


class SmoothInverseFrequency:
    """SIF (Arora et al. 2017): words weighted by a / (a + p(w)), the common direction removed.

    Args:
        vectors: Word vectors.
        counts: How often each word occurs in a corpus; at least one does.
        texts: A sample of the corpus with some of the words, from which the common direction is
            taken.
        a: The weight's parameter.
    """

    def __init__(
        self,
        vectors: WordVectors,
        counts: Mapping[str, int],
        texts: Sequence[str],
        a: float = 1e-3,
    ) -> None:
        self.vectors = vectors
        total = sum(counts.values())
        p = np.array([counts.get(word, 0) / total for word in vectors.words], dtype=np.float32)
        self.table = vectors.table * (a / (a + p))[:, None]
        means = sentence_means(self.table, vectors.tokenize(texts))
        # The first right singular vector, not centred (their algorithm 1).
        self.common = np.linalg.svd(means, full_matrices=False)[2][0]

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Texts [B] to vectors [B, D]."""
        means = sentence_means(self.table, self.vectors.tokenize(texts))
        vectors: NDArray[np.float32] = means - np.outer(means @ self.common, self.common)
        return vectors


@dataclass(frozen=True)
class RandomProjection:
    """Bag of random embedding projections (BOREP, Wieting and Kiela 2019): a floor.

    Each word vector goes through one random matrix, W ~ U[-1/sqrt(d), 1/sqrt(d)].

    Args:
        vectors: Word vectors, of dimension d.
        dimension: Output dimension D.
        pooling: How a text's words are pooled. The sum has the cosines of the mean, but longer
            vectors for longer texts, which a classifier may use.
        relu: Negative values of the pooled vector become 0.
        seed: Seed of the matrix.
    """

    vectors: WordVectors
    dimension: int = 4096
    pooling: Pooling = "mean"
    relu: bool = False
    seed: int = 0
    projection: NDArray[np.float32] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        d = self.vectors.table.shape[1]
        rng = np.random.default_rng(self.seed)
        matrix = rng.uniform(-1 / np.sqrt(d), 1 / np.sqrt(d), (d, self.dimension))
        object.__setattr__(self, "projection", matrix.astype(np.float32))

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Texts [B] to vectors [B, D]; zero for a text without a known word."""
        table = self.vectors.table
        ids = self.vectors.tokenize(texts)
        words = ids.filter(has_vector(table)[ids.values])
        if self.pooling == "max":
            pooled = self._maxima(words)
        else:
            # A mean commutes with the projection, and so does a sum.
            pooled = sentence_means(table, words) @ self.projection
            if self.pooling == "sum":
                pooled *= words.lengths.astype(np.float32)[:, None]
        return np.maximum(pooled, 0) if self.relu else pooled

    def _maxima(self, words: Ragged) -> NDArray[np.float32]:
        """Rows of each text's words [B rows] to the maxima of their projections [B, D]."""
        pooled = np.zeros((len(words.lengths), self.dimension), dtype=np.float32)
        for row, (start, stop) in enumerate(zip(words.offsets, words.offsets[1:], strict=False)):
            if stop > start:
                projected = self.vectors.table[words.values[start:stop]] @ self.projection
                pooled[row] = projected.max(axis=0)
        return pooled
