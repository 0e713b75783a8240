"""Reduce a word table to the directions in which sentences differ: sentence-level PCA."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.utils.validation import check_is_fitted

from st_static.arguments import as_matrix, check_type
from st_static.distill.config import SentencePCAConfig
from st_static.distill.stages import Figures
from st_static.files import read_arrays, write_arrays
from st_static.model.modules import PCA_FILE
from st_static.model.table import dimensions_of
from st_static.model.vectors import has_vector, sentence_means
from st_static.tokens.ragged import Ragged

_SENTENCES = 100_000  # that the PCA is fitted on at most


class SentencePCA(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # untyped library
    """PCA fitted on sentences and applied to words (paper section 2.2).

    A sentence is represented by the mean of its word vectors. A mean is linear, so the transform
    of a sentence is the mean of its transformed words, and the word table is transformed once:
    W'(w) = P^T (W(w) - mean). The leading components carry what all sentences share, so the paper
    drops k = floor(d / 100) of them (gains: docs/measurements/ablations.md).

    Args:
        n_components: Output dimension D; None keeps all that remain.
        n_remove: Leading components to drop, k; "auto" is floor(d / 100).

    Attributes:
        mean_: Mean of the sentences, [d].
        components_: The kept directions, by falling variance, [D, d].
        explained_variance_: Variance of the sentences along all directions up to the last kept
            one, the dropped ones first, [n_remove + D].
        n_remove_: Directions that were dropped.

    Example:
        >>> X = np.random.default_rng(0).normal(size=(50, 8))
        >>> SentencePCA(n_components=3, n_remove=1).fit(X).transform(X[:2]).shape
        (2, 3)
    """

    mean_: NDArray[np.float32]
    components_: NDArray[np.float32]
    explained_variance_: NDArray[np.float32]
    n_remove_: int

    def __init__(self, n_components: int | None = 256, *, n_remove: int | str = "auto") -> None:
        self.n_components = n_components
        self.n_remove = n_remove

    def fit(self, X: NDArray[np.floating], y: None = None) -> Self:  # noqa: N803
        """Find the directions.

        Args:
            X: Sentence vectors, [M, d].
            y: Not used; here for scikit-learn's convention.

        Raises:
            ValueError: D + n_remove > d, fewer sentences than directions, or values that are not
                finite.
            TypeError: X is not an array of numbers.
        """
        X = as_matrix(X, "sentence vectors [M, d]")  # noqa: N806
        n_remove, n_components = resolve_components(
            self.n_components, self.n_remove, X.shape[1], len(X)
        )
        # The covariance squares what the data spread: in float32 its small eigenvalues, and with
        # them the last components, would be rounding errors.
        exact = np.asarray(X, dtype=np.float64)
        finite = np.isfinite(exact).all(axis=1)
        if not finite.all():
            first = int(finite.argmin())
            raise ValueError(
                f"Expected finite vectors, but some are NaN or infinite, the first in row {first}."
            )
        # Exact and without a seed, unlike the randomised solver that "auto" may take. scikit-learn
        # fixes the signs of the components, which eigenvectors leave open.
        pca = PCA(n_remove + n_components, svd_solver="covariance_eigh").fit(exact)
        self.mean_ = pca.mean_.astype(np.float32)
        self.components_ = pca.components_[n_remove:].astype(np.float32)
        self.explained_variance_ = pca.explained_variance_.astype(np.float32)
        self.n_remove_ = n_remove
        return self

    def transform(self, table: NDArray[np.floating]) -> NDArray[np.float32]:
        """Map word or sentence vectors [V, d] to [V, D].

        Raises:
            NotFittedError: `fit` comes first.
            ValueError: The vectors have another dimension than those it was fitted on.
            TypeError: They are not an array of numbers.
        """
        check_is_fitted(self, "mean_")
        table = as_matrix(table, "vectors [V, d]")
        if table.shape[1] != len(self.mean_):
            raise ValueError(
                f"Expected vectors of {len(self.mean_)} dimensions, as the PCA was fitted on, but "
                f"got {table.shape[1]}."
            )
        # Words are centred by the mean of the sentences, not their own: only so is the mean of
        # transformed words the transformed sentence.
        centred = np.asarray(table, dtype=np.float32) - self.mean_
        return (centred @ self.components_.T).astype(np.float32, copy=False)

    def transform_table(self, table: NDArray[np.floating]) -> NDArray[np.float32]:
        """Map a word table [V, d] to [V, D]; a token without a vector keeps zeros.

        `transform` would give it the image of zeros, as if it were a word.

        Raises:
            NotFittedError, ValueError, TypeError: As `transform`.
        """
        reduced = self.transform(table)
        reduced[~has_vector(table)] = 0
        return reduced

    def save(self, path: Path) -> None:
        """Write the fitted transform as safetensors, so that words can be added later.

        Raises:
            NotFittedError: `fit` comes first.
        """
        check_is_fitted(self, "mean_")
        arrays = {"mean": self.mean_, "components": self.components_}
        write_arrays(path, arrays | {"explained_variance": self.explained_variance_})

    @classmethod
    def load(cls, path: Path) -> SentencePCA:
        """Read a transform that `save` wrote."""
        arrays = read_arrays(path)
        n_remove = len(arrays["explained_variance"]) - len(arrays["components"])
        pca = cls(len(arrays["components"]), n_remove=n_remove)
        pca.mean_, pca.components_ = arrays["mean"], arrays["components"]
        pca.explained_variance_, pca.n_remove_ = arrays["explained_variance"], n_remove
        return pca


def reduce_table(
    folder: Path,
    tables: Sequence[NDArray[np.float32]],
    weights: Sequence[float],
    *,
    continues: NDArray[np.bool_],
    ids: Ragged,
    sentences: NDArray[np.int64],
    config: SentencePCAConfig,
    seed: int,
) -> tuple[NDArray[np.float32], Figures]:
    """Run the stage: fit the PCA on a sample of the given `sentences`; reduce a teacher's table, or
    those of several teachers, by it, [V, D]. Rows that `continues` [V] marks are shortened."""
    rows = sentence_sample(sentences, seed)
    sample = ids.take(rows)
    table, scales = side_by_side(tables, weights, sample)
    pca = SentencePCA(config.n_components)
    pca.fit(sentence_means(table, sample))
    reduced = reduce_words(pca, table, continues, config.continuations)
    # The file maps the teachers' own vectors.
    pca.mean_, pca.components_ = pca.mean_ / scales, pca.components_ * scales
    pca.save(folder / PCA_FILE)
    figures = {"dimension": reduced.shape[1], "removed": pca.n_remove_}
    return reduced, figures | {"sentences": len(rows)}


def reduce_words(
    pca: SentencePCA, table: NDArray[np.float32], continues: NDArray[np.bool_], share: float
) -> NDArray[np.float32]:
    """Map a word table [V, d] to [V, D] by a fitted PCA; rows that `continues` [V] marks keep a
    share of their length."""
    reduced = pca.transform_table(table)
    # The teacher's vector of a piece alone is longer than a word's mean over sentences, and an
    # unknown word has several of them.
    reduced[continues] *= share
    return reduced


def side_by_side(
    tables: Sequence[NDArray[np.float32]], weights: Sequence[float], sentences: Ragged
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Put word tables of several teachers side by side, [V, d1 + d2 + …], each scaled so that its
    sentence means have its weight as their variance. Also return the scales, [d1 + d2 + …].

    For a teacher that does not know a token, the mean of all sentences takes its place. A single
    table stays as it is.
    """
    joined = np.concatenate(tables, axis=1)
    scales = np.ones(joined.shape[1], np.float32)
    if len(tables) > 1:
        is_known = has_vector(joined)
        dimensions = dimensions_of([table.shape[1] for table in tables], joined.shape[1])
        for table, columns, weight in zip(tables, dimensions, weights, strict=True):
            means = sentence_means(table, sentences)
            joined[is_known & ~has_vector(table), columns] = means.mean(axis=0)
            scales[columns] = math.sqrt(weight / means.var(axis=0, dtype=np.float64).sum())
    return joined * scales, scales


def sentence_sample(sentences: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Draw the sentences that a recipe's PCA is fitted on, at most 100,000, ascending."""
    n_sentences = min(_SENTENCES, len(sentences))
    return np.sort(np.random.default_rng(seed).choice(sentences, n_sentences, replace=False))


def resolve_components(
    n_components: int | None, n_remove: int | str, dimension: int, n_sentences: int | None = None
) -> tuple[int, int]:
    """Find how many of d components are dropped, and how many are kept; each needs a sentence."""
    if n_components is not None:
        check_type(n_components, Integral, "a whole number as n_components, or None")
    if n_remove != "auto":
        check_type(n_remove, Integral, 'a whole number as n_remove, or "auto"')
    dropped = dimension // 100 if n_remove == "auto" else int(n_remove)
    n_kept = dimension - dropped if n_components is None else n_components
    if dropped < 0 or n_kept < 1 or dropped + n_kept > dimension:
        raise ValueError(
            f"n_components = {n_kept} after {dropped} leading components, which are dropped, do "
            f"not fit vectors of dimension {dimension}: give 1 to {dimension - max(dropped, 0)}."
        )
    if n_sentences is not None and n_sentences < dropped + n_kept:
        raise ValueError(
            f"The sentence PCA needs at least {dropped + n_kept} sentences, one for each component "
            f"(n_components = {n_kept} after {dropped} that are dropped), but got only "
            f"{n_sentences}. Give more text, or lower n_components."
        )
    return dropped, n_kept
