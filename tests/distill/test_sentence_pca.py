"""Sentence-level PCA: by hand, and against an independent singular value decomposition."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from st_static import SentencePCA
from st_static.distill.sentence_pca import resolve_components
from st_static.model.vectors import sentence_means
from st_static.tokens.ragged import Ragged


def correlated(n: int, d: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + rng.normal(size=d)).astype("f4")


def up_to_sign(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """The expected columns, each with the sign of the found one."""
    return expected * np.sign((found * expected).sum(axis=0))


def test_three_words_and_four_sentences_by_hand():
    a, b, c = 0, 1, 2
    table = np.array([[2, 0], [-2, 0], [0, 4]], dtype=np.float32)
    words = np.array([a, b, a, b, c, c, a, b], dtype=np.int32)
    sentences = Ragged(words, np.array([0, 1, 2, 6, 8]))
    means = sentence_means(table, sentences)
    assert means.tolist() == [[2, 0], [-2, 0], [0, 2], [0, 0]]

    # Their mean is (0, 1/2); the covariance is diagonal, 8/3 and 1.
    pca = SentencePCA(n_components=2, n_remove=0).fit(means)
    np.testing.assert_allclose(pca.mean_, [0, 0.5], atol=1e-6)
    np.testing.assert_allclose(pca.explained_variance_, [8 / 3, 1], rtol=1e-6)
    np.testing.assert_allclose(np.abs(pca.components_), [[1, 0], [0, 1]], atol=1e-6)
    found = pca.transform(table) * np.sign(pca.components_.sum(axis=1))
    np.testing.assert_allclose(found, [[2, -0.5], [-2, -0.5], [0, 3.5]], atol=1e-6)
    # Without the first direction only the second coordinate is left.
    second = SentencePCA(n_components=1, n_remove=1).fit(means).transform(table)
    np.testing.assert_allclose(second * np.sign(second[2]), [[-0.5], [-0.5], [3.5]], atol=1e-6)


@pytest.mark.parametrize(("n_components", "n_remove"), [(5, 0), (5, 3), (12, 0), (1, 11), (4, 8)])
def test_transform_equals_a_singular_value_decomposition(n_components, n_remove):
    sentences, table = correlated(200, 12), correlated(30, 12, seed=1)
    mean = sentences.astype(np.float64).mean(axis=0)
    _, values, directions = np.linalg.svd(sentences - mean, full_matrices=False)
    kept = directions[n_remove : n_remove + n_components]
    pca = SentencePCA(n_components, n_remove=n_remove).fit(sentences)
    found, expected = pca.transform(table), (table - mean) @ kept.T
    np.testing.assert_allclose(found, up_to_sign(found, expected), atol=1e-3, rtol=1e-3)
    np.testing.assert_allclose(pca.mean_, mean, atol=1e-5)
    variances = (values**2 / 199)[: n_remove + n_components]
    np.testing.assert_allclose(pca.explained_variance_, variances, rtol=1e-3)
    assert pca.components_.shape == (n_components, 12)
    assert pca.n_remove_ == n_remove


def test_half_precision_sentences_lose_nothing_in_the_sums():
    sentences = (correlated(5000, 4) + 100).astype(np.float16)
    expected = sentences.astype(np.float64).mean(axis=0)
    found = SentencePCA(2, n_remove=0).fit(sentences).mean_
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("n_components", "n_remove", "dimension", "expected"),
    [
        (16, "auto", 99, (0, 16)),  # a hundredth is removed
        (16, "auto", 100, (1, 16)),
        (16, "auto", 768, (7, 16)),
        (None, "auto", 384, (3, 381)),  # None keeps all that remain
        (None, 0, 384, (0, 384)),
    ],
)
def test_auto_removes_a_hundredth(n_components, n_remove, dimension, expected):
    assert resolve_components(n_components, n_remove, dimension) == expected


def test_defaults_are_those_of_the_paper():
    pca = SentencePCA()
    assert (pca.n_components, pca.n_remove) == (256, "auto")
    assert SentencePCA().fit(correlated(500, 300)).components_.shape == (256, 300)
    assert SentencePCA().fit(correlated(500, 300)).n_remove_ == 3


@pytest.mark.parametrize(
    ("n_components", "n_remove"), [(8, 1), (9, 0), (None, 8), (0, 0), (-1, 0), (4, -1), (4, 9)]
)
def test_components_that_do_not_fit_are_refused(n_components, n_remove):
    with pytest.raises(ValueError, match=r"^n_components = .* do not fit vectors of dimension 8: "):
        SentencePCA(n_components, n_remove=n_remove).fit(correlated(50, 8))


def with_value(value: float) -> np.ndarray:
    sentences = correlated(20, 8)
    sentences[3, 1] = value
    return sentences


NOT_FINITE = r"^Expected finite vectors.* NaN or infinite, the first .* row 3\.$"


@pytest.mark.parametrize(
    ("sentences", "says"),
    [
        (correlated(5, 8), r"at least 6 sentences.*got only 5"),
        (with_value(np.nan), NOT_FINITE),
        (with_value(np.inf), NOT_FINITE),
        (np.zeros(8, np.float32), r"vectors \[M, d\]"),
        (np.zeros((4, 4, 4), np.float32), r"vectors \[M, d\]"),
    ],
)
def test_sentences_that_do_not_fit_are_refused(sentences, says):
    with pytest.raises(ValueError, match=says):
        SentencePCA(4, n_remove=2).fit(sentences)


def test_a_saved_transform_loads_with_the_same_numbers(tmp_path):
    table = correlated(10, 8)
    pca = SentencePCA(3, n_remove=2).fit(correlated(50, 8))
    pca.save(tmp_path / "pca.safetensors")
    loaded = SentencePCA.load(tmp_path / "pca.safetensors")
    np.testing.assert_array_equal(loaded.transform(table), pca.transform(table))
    np.testing.assert_array_equal(loaded.explained_variance_, pca.explained_variance_)
    assert (loaded.n_components, loaded.n_remove, loaded.n_remove_) == (3, 2, 2)
    # It can be fitted anew in the same way.
    assert loaded.fit(correlated(50, 8)).components_.tobytes() == pca.components_.tobytes()
    np.testing.assert_allclose(pca.components_ @ pca.components_.T, np.eye(3), atol=1e-5)


def test_is_an_estimator_of_scikit_learn():
    pca = clone(SentencePCA(n_components=2, n_remove=1))
    assert pca.get_params() == {"n_components": 2, "n_remove": 1}
    sentences = np.random.default_rng(0).normal(size=(20, 5))
    expected = SentencePCA(n_components=2, n_remove=1).fit(sentences).transform(sentences)
    np.testing.assert_array_equal(make_pipeline(pca).fit_transform(sentences), expected)
