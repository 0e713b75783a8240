"""Word vectors in text files, SIF and random projections, against plain computations."""

from dataclasses import replace

import numpy as np
import pytest

from st_static.evaluate.peers.baselines import RandomProjection, SmoothInverseFrequency
from st_static.model.text_vectors import WordVectors, read_word_vectors

ROWS = {"the": [1.0, 0, 0], "cat": [0, 2, 0], "sat": [0, 0, -3], "mat": [1, 1, 1]}
TEXTS = ["The cat sat", "the unseen MAT", "", "nothing known", "cat cat mat"]


@pytest.fixture
def vectors():
    return WordVectors(list(ROWS), np.array(list(ROWS.values())))


def mean(text):
    rows = [ROWS[word] for word in text.lower().split() if word in ROWS]
    return np.mean(rows, axis=0) if rows else np.zeros(3)


def write(path, header=""):
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in ROWS.items()]
    path.write_text(header + "\n".join(lines) + "\n", "utf-8")
    return path


@pytest.mark.parametrize("header", ["", "4 3\n"])
def test_a_text_file_is_read(tmp_path, header):
    vectors = read_word_vectors(write(tmp_path / "vectors.txt", header))
    assert list(vectors.words) == list(ROWS)
    np.testing.assert_array_equal(vectors.table, np.array(list(ROWS.values()), np.float32))


def test_words_with_spaces_and_repeated_words(tmp_path):
    (tmp_path / "v.txt").write_text("a 1 2\n. . . 3 4\na 5 6\n")
    vectors = read_word_vectors(tmp_path / "v.txt")
    assert vectors.words == ["a", ". . ."]
    assert vectors.repeated == [("a", 3)]
    assert vectors.table.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "holds no word vectors"),
        ("a 1 2\nb 3\n", "line 2: expected 2 numbers after the word, but got 1"),
        ("a 1 two\n", "line 1: expected a word and numbers behind it"),
    ],
)
def test_files_that_hold_something_else(tmp_path, text, says):
    (tmp_path / "v.txt").write_text(text)
    with pytest.raises(ValueError, match=says):
        read_word_vectors(tmp_path / "v.txt")


def test_a_missing_file(tmp_path):
    with pytest.raises(ValueError, match="There is no file"):
        read_word_vectors(tmp_path / "v.txt")


def test_sif_is_a_weighted_mean_without_the_common_direction(vectors):
    counts = {"the": 60, "cat": 30, "mat": 10}
    sif = SmoothInverseFrequency(vectors, counts, TEXTS, a=0.01)
    weights = {word: 0.01 / (0.01 + counts.get(word, 0) / 100) for word in ROWS}

    def weighted(text):
        words = [word for word in text.lower().split() if word in ROWS]
        rows = [weights[word] * np.array(ROWS[word]) for word in words]
        return np.mean(rows, axis=0) if rows else np.zeros(3)

    means = np.array([weighted(text) for text in TEXTS])
    values, directions = np.linalg.eigh(means.T @ means)
    common = directions[:, values.argmax()]
    expected = means - np.outer(means @ common, common)
    np.testing.assert_allclose(sif.encode(TEXTS), expected, atol=1e-6)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("pooling", ["mean", "max", "sum"])
def test_random_projections_project_words_and_pool(vectors, pooling, relu):
    borep = RandomProjection(vectors, dimension=50, pooling=pooling, relu=relu)
    W = borep.projection  # noqa: N806
    assert W.shape == (3, 50)
    assert 0.4 < np.abs(W).max() <= 1 / np.sqrt(3)
    for text, found in zip(TEXTS, borep.encode(TEXTS), strict=True):
        words = [np.array(ROWS[word]) @ W for word in text.lower().split() if word in ROWS]
        expected = getattr(np, pooling)(words, axis=0) if words else np.zeros(50)
        np.testing.assert_allclose(found, expected.clip(0) if relu else expected, atol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "max", "sum"])
def test_random_projections_leave_out_words_whose_row_is_zero(vectors, pooling):
    """As that of the unknown word is in tables that have one."""
    table = vectors.table.copy()
    table[2] = 0
    borep = RandomProjection(replace(vectors, table=table), dimension=50, pooling=pooling)
    found = borep.encode(["the cat sat", "sat sat"])
    np.testing.assert_allclose(found, borep.encode(["the cat", ""]), atol=1e-6)
    assert found[0].min() < 0


def test_another_seed_is_another_projection(vectors):
    first, again, other = (RandomProjection(vectors, seed=seed).projection for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_text_is_the_mean_of_its_known_words(vectors):
    from st_static.evaluate.evaluated_model import table_encoder

    means = np.array([mean(text) for text in TEXTS])
    lengths = [[np.hypot.reduce(row) or 1] for row in means]
    encode = table_encoder(vectors.tokenize, vectors.table)
    np.testing.assert_allclose(encode(TEXTS), means / lengths, atol=1e-6)
