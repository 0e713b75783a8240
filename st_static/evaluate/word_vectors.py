"""Word vectors in text files, as GloVe and others publish them, and floors made from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from st_static.model.ragged import Ragged, offsets_of
from st_static.model.vectors import sentence_means


@dataclass(frozen=True)
class WordVectors:
    """Words with their vectors; a text's words are its lower-cased tokens between white space.

    Attributes:
        words: Row of each word.
        table: The vectors, [V, D].
    """

    words: Mapping[str, int]
    table: NDArray[np.float32]

    def tokenize(self, texts: Sequence[str]) -> Ragged:
        """Rows of each text's known words, [B rows]."""
        rows = [
            [self.words[word] for word in text.lower().split() if word in self.words]
            for text in texts
        ]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        values = np.fromiter((i for row in rows for i in row), np.int32)
        return Ragged(values, offsets_of(lengths))


def read_word_vectors(file: Path) -> WordVectors:
    """Read a text file of a word and its numbers a line; a first line of two counts is skipped.

    Of a repeated word the first vector is kept.

    Raises:
        ValueError: The file is missing or empty, or a line has another number of values.
    """
    if not file.is_file():
        raise ValueError(f"There is no file {file}. Expected text vectors, a word a line.")
    words: dict[str, int] = {}
    rows: list[NDArray[np.float32]] = []
    with file.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            word, *values = line.rstrip("\n").rstrip(" ").split(" ")
            if number == 1 and len(values) == 1:
                continue  # number of words and dimension
            if rows and len(values) != len(rows[0]):
                # A token may hold spaces, as some of GloVe's do: the numbers are the last ones.
                word = " ".join([word, *values[: -len(rows[0])]])
                values = values[-len(rows[0]) :]
            try:
                vector = np.array(values, dtype=np.float32)
            except ValueError as error:
                raise ValueError(f"{file}, line {number}: expected numbers ({error}).") from error
            if not len(vector) or (rows and len(vector) != len(rows[0])):
                raise ValueError(
                    f"{file}, line {number}: expected {len(rows[0]) if rows else 'some'} numbers "
                    f"after the word, but got {len(vector)}."
                )
            if word not in words:
                words[word] = len(rows)
                rows.append(vector)
    if not rows:
        raise ValueError(f"{file} holds no word vectors.")
    return WordVectors(words, np.stack(rows))


class SmoothInverseFrequency:
    """SIF (Arora et al. 2017): words weighted by a / (a + p(w)), the common direction removed.

    Args:
        vectors: Word vectors.
        counts: How often each word occurs in a corpus.
        texts: A sample of the corpus, from which the common direction is taken.
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
        pooling: How a text's words are pooled.
        relu: Negative values of the pooled vector become 0.
        seed: Seed of the matrix.
    """

    vectors: WordVectors
    dimension: int = 4096
    pooling: Literal["mean", "max"] = "mean"
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
        ids = self.vectors.tokenize(texts)
        if self.pooling == "mean":
            # A mean commutes with the projection.
            pooled = sentence_means(self.vectors.table, ids) @ self.projection
        else:
            pooled = np.zeros((len(texts), self.dimension), dtype=np.float32)
            for row, (start, stop) in enumerate(zip(ids.offsets, ids.offsets[1:], strict=False)):
                if stop > start:
                    words = self.vectors.table[ids.values[start:stop]] @ self.projection
                    pooled[row] = words.max(axis=0)
        return np.maximum(pooled, 0) if self.relu else pooled
