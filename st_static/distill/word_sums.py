"""Sums of word vectors over sentences, and their means (paper section 2.1)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from st_static.files import read_arrays, write_arrays


class WordVectors(NamedTuple):
    """What a batch adds to the sums.

    Attributes:
        word: Distinct words, [U].
        sums: Sum over sentences of each word's vector, [U, h].
        counts: Number of those sentences, [U].
    """

    word: NDArray[np.int64]
    sums: NDArray[np.float32]
    counts: NDArray[np.int64]


class WordSums:
    """Sums of word vectors; adding is associative and commutative, up to rounding.

    Batches are added in the order of the sentences within a shard, and shards in their order, so
    that the same sentences give the same bytes, whatever process ran which. A batch that was halved
    may round differently.

    Args:
        n_tokens: Rows, one for each token id of the student, V.
        dimension: The dimension of token vectors, h.

    Attributes:
        sums: Sum over sentences of each word's vector, [V, h].
        counts: Number of those sentences, [V].
    """

    def __init__(self, n_tokens: int, dimension: int) -> None:
        # float32 holds sums of some hundred vectors, N per word, to six digits.
        self.sums = np.zeros((n_tokens, dimension), dtype=np.float32)
        self.counts = np.zeros(n_tokens, dtype=np.int64)

    def add(self, words: WordVectors) -> None:
        """Add the sums and counts of distinct words."""
        # Right only as words are distinct: of a repeated index, `+=` would keep one summand.
        self.sums[words.word] += words.sums
        self.counts[words.word] += words.counts

    def means(self) -> NDArray[np.float32]:
        """The mean vector of each word, [V, h]; zero for a word without a sentence."""
        counts = np.maximum(self.counts, 1).astype(np.float32)
        means: NDArray[np.float32] = self.sums / counts[:, None]
        return means

    def save(self, file: Path) -> None:
        """Write sums and counts, atomically."""
        write_arrays(file, {"sums": self.sums, "counts": self.counts})

    @classmethod
    def load(cls, file: Path) -> Self:
        """The sums that `save` wrote."""
        saved = read_arrays(file)
        sums = cls(*saved["sums"].shape)
        sums.sums, sums.counts = saved["sums"], saved["counts"]
        return sums
