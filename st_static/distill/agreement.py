"""The teacher's cosines: the target of distillation, and the agreement of a student with them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from st_static.arguments import as_matrix, check_texts
from st_static.distill.stages import JoinedVectors, TeacherVectors
from st_static.encode.encoder import Encoder, check_encoder
from st_static.model.head import Head
from st_static.model.table import dimensions_of
from st_static.model.vectors import sentence_means, unit_rows
from st_static.tokens.ragged import Ragged

_NEIGHBOURS = 10
# Between teachers whose unrelated sentences have cosines near 0 (all-MiniLM-L6-v2: 0.08) and those
# whose have cosines near 1 (multilingual-e5-small: 0.82).
_HIGH_COSINE = 0.3
_ROWS_AT_A_TIME = 65_536


@dataclass(frozen=True)
class Target:
    """Makes the vectors whose cosines the student learns: the teacher's, less a mean [d], if any.
    Contrastive training at a low temperature leaves some teachers with cosines of 0.7 to 1 for any
    two sentences, whose softmax is nearly flat. Without their mean, cosines spread again."""

    mean: NDArray[np.float32] | None = None

    @classmethod
    def fit(
        cls,
        vectors: NDArray[np.floating],
        rows: NDArray[np.int64],
        center: bool | Literal["auto"] = "auto",
    ) -> Target:
        """Take the mean of the given rows of a teacher's sentence vectors [S, d]; `auto` only where
        the mean cosine of two sentences is above 0.3."""
        if center is False:
            return cls()
        mean = mean_direction(vectors, rows)
        # The mean cosine of all pairs is the squared length of the mean of unit vectors.
        high = float(mean @ mean) > _HIGH_COSINE
        return cls(mean if center is True or high else None)

    @property
    def is_centered(self) -> bool:
        """True if a mean is subtracted."""
        return self.mean is not None

    def __call__(self, vectors: NDArray[np.floating]) -> NDArray[np.float32]:
        """Make the target of teacher vectors, [n, d] -> [n, d]."""
        if self.mean is None:
            return np.asarray(vectors, dtype=np.float32)
        return unit_rows(vectors) - self.mean


@dataclass(frozen=True)
class JointTarget:
    """Makes vectors whose cosines are the weighted mean of several teachers' targets' cosines."""

    parts: Sequence[Target]
    widths: Sequence[int]  # dimensions of each teacher
    weights: Sequence[float]  # 1 together

    @property
    def is_centered(self) -> bool:
        """True if a mean is subtracted from the vectors of some teacher."""
        return any(part.is_centered for part in self.parts)

    def __call__(self, vectors: NDArray[np.floating]) -> NDArray[np.float32]:
        """Make the target of `JoinedVectors`, [n, d1 + d2 + …] -> the same shape, of length 1."""
        dimensions = dimensions_of(self.widths, vectors.shape[1])
        parts = zip(self.parts, dimensions, self.weights, strict=True)
        units = [w**0.5 * unit_rows(part(vectors[:, columns])) for part, columns, w in parts]
        return np.concatenate(units, axis=1)


def fit_target(
    vectors: TeacherVectors,
    rows: NDArray[np.int64],
    center: bool | Literal["auto"] = "auto",
) -> Target | JointTarget:
    """Fit the target of one teacher's sentence vectors [S, d], or of several teachers'."""
    if not isinstance(vectors, JoinedVectors):
        return Target.fit(vectors, rows, center)
    parts = [Target.fit(part, rows, center) for part in vectors.parts]
    return JointTarget(parts, [part.shape[1] for part in vectors.parts], vectors.weights)


def mean_direction(vectors: NDArray[np.floating], rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Compute the mean [d] of the given vectors, each scaled to length 1."""
    total = np.zeros(vectors.shape[1], dtype=np.float64)
    for start in range(0, len(rows), _ROWS_AT_A_TIME):
        part = unit_rows(vectors[rows[start : start + _ROWS_AT_A_TIME]])
        total += part.sum(axis=0, dtype=np.float64)
    return (total / max(len(rows), 1)).astype(np.float32)


def held_out_pairs(teacher: NDArray[np.floating], seed: int = 0) -> NDArray[np.int64]:
    """Pair each of H sentences with its 10 nearest, and 10 random ones: [20 * H, 2]."""
    unit = unit_rows(teacher)
    n, k, near = len(unit), min(_NEIGHBOURS, len(unit) - 1), []
    for rows in np.array_split(np.arange(n), 1 + n // 1024):
        scores = unit[rows] @ unit.T
        scores[np.arange(len(rows)), rows] = -np.inf
        near.append(np.argpartition(-scores, k - 1, axis=1)[:, :k])
    first = np.repeat(np.arange(n), k)
    rng = np.random.default_rng(seed)
    other = (first + rng.integers(1, n, len(first))) % n
    return np.stack([np.tile(first, 2), np.append(np.concatenate(near), other)], axis=1)


def teacher_agreement(student: NDArray[np.floating], teacher: NDArray[np.floating]) -> float:
    """Compute Spearman's correlation x 100 of the student's and the teacher's cosines."""
    return _agreement(held_out_pairs(teacher), student, teacher)


def _agreement(
    pairs: NDArray[np.int64], student: NDArray[np.floating], teacher: NDArray[np.floating]
) -> float:
    i, j = pairs.T
    scores = [(u[i] * u[j]).sum(axis=1) for u in (unit_rows(student), unit_rows(teacher))]
    return 100 * float(spearmanr(*scores).statistic)


class TableAgreement:
    """Teacher agreement of word tables, by the ids [H rows] and vectors [H, d] of sentences."""

    def __init__(self, ids: Ragged, teacher: NDArray[np.floating]) -> None:
        self._ids, self._teacher = ids, teacher
        self._pairs = held_out_pairs(teacher)  # which take longer than the rest

    def __call__(self, table: NDArray[np.floating], head: Head | None = None) -> float:
        """Measure a table, a row per token [V, D], with the head behind the mean if it has one."""
        means = sentence_means(table, self._ids)
        return _agreement(self._pairs, head(means) if head else means, self._teacher)


@dataclass(frozen=True)
class TeacherAgreement:
    """Teacher agreement of any encoder, for `Ensemble.tune`.

    Attributes:
        texts: Held-out sentences, [H]; repetitions count once.
        vectors: The teacher's vectors of them, [H, d].

    Example:
        >>> class Lengths:
        ...     def encode(self, texts):
        ...         return np.array([[1, len(text)] for text in texts])
        >>> texts = ["a", "bb", "cccc"]
        >>> objective = TeacherAgreement(texts, Lengths().encode(texts))
        >>> round(objective(Lengths()))  # an encoder agrees with itself
        100
    """

    texts: list[str]
    vectors: NDArray[np.floating]

    def __post_init__(self) -> None:
        check_texts(self.texts)
        vectors = as_matrix(self.vectors, "the teacher's vectors [H, d]")
        object.__setattr__(self, "vectors", vectors)
        distinct = len(set(self.texts))
        if len(self.texts) != len(self.vectors) or distinct < 3:
            raise ValueError(
                "Expected at least three different texts, with a vector each, but got "
                f"{len(self.texts)} texts ({distinct} different) and {len(self.vectors)} vectors."
            )
        if not np.isfinite(self.vectors).all():
            raise ValueError("Expected finite vectors of the teacher, but some are not.")

    def __call__(self, encoder: Encoder) -> float:
        """Compute Spearman's correlation x 100 of the encoder's and the teacher's cosines."""
        check_encoder(encoder, "the encoder")
        student = np.asarray(encoder.encode(self.texts))
        return _agreement(self._pairs, student, self.vectors)

    @functools.cached_property
    def _pairs(self) -> NDArray[np.int64]:
        # A text is not paired with its own copy, on whose cosine all encoders agree.
        first = {text: row for row, text in reversed(list(enumerate(self.texts)))}
        rows = np.array(sorted(first.values()))
        return rows[held_out_pairs(self.vectors[rows])]


def cosine_agreement(one: Encoder, other: Encoder, first: list[str], second: list[str]) -> float:
    """Compute Pearson's correlation of two encoders' cosines of text pairs.

    Args:
        one: An encoder, such as an ensemble.
        other: Another one, such as the fused ensemble.
        first: The first text of each pair, [P].
        second: The second, [P].

    Raises:
        ValueError: There are fewer than two pairs, or not as many second texts as first ones.

    Example:
        >>> class Lengths:
        ...     def encode(self, texts):
        ...         return np.array([[1, len(text)] for text in texts])
        >>> round(cosine_agreement(Lengths(), Lengths(), ["a", "bb"], ["ccc", "dd"]), 4)
        1.0
    """
    for encoder, name in ((one, "the first"), (other, "the second")):
        check_encoder(encoder, name)
    check_texts(first)
    check_texts(second)
    if len(first) != len(second) or len(first) < 2:
        raise ValueError(
            f"Expected two pairs or more, but got {len(first)} and {len(second)} texts."
        )
    cosines = [
        (unit_rows(np.asarray(m.encode(first))) * unit_rows(np.asarray(m.encode(second)))).sum(1)
        for m in (one, other)
    ]
    return float(np.corrcoef(*cosines)[0, 1])
