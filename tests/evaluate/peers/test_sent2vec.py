"""Sent2Vec's binary files, written here field by field, and its vectors, added up word by word."""

import struct

import numpy as np
import pytest

from st_static.evaluate.load_model import load_model
from st_static.evaluate.peers.sent2vec import read_sent2vec
from st_static.model.vectors import unit_rows

pytest.importorskip("gensim", reason="gensim 4.4 does not compile for Python 3.14")

WORDS = ["<PLACEHOLDER>", "the", "cat", "sat", "mat"]
BUCKETS = 7
TEXTS = ["The cat sat", "cat", "", "the unseen mat", "unseen", "mat cat sat the cat"]


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).normal(size=(len(WORDS) + BUCKETS, 3)).astype(np.float32)


def write(path, rows, n=2, kind=4):
    """A file as Sent2Vec's C++ code writes it."""
    header = [rows.shape[1], 5, 5, 1, 10, n, 2, kind, BUCKETS, 0, 0, 100]
    counts = [0, 50, 20, 10, 5]
    with path.open("wb") as file:
        file.write(struct.pack("<2i", 793712314, 12))
        file.write(struct.pack("<12id", *header, 1e-4))
        file.write(struct.pack("<3iqq", len(WORDS), len(WORDS), 0, sum(counts), -1))
        for word, count in zip(WORDS, counts, strict=True):
            file.write(word.encode() + b"\0" + struct.pack("<qb", count, 0))
        for matrix in (rows, np.zeros((len(WORDS), 3), np.float32)):
            file.write(struct.pack("<?2q", False, *matrix.shape) + matrix.tobytes())
    return path


def by_hand(text, rows, n):
    words = [WORDS.index(word) for word in text.lower().split() if word in WORDS]
    used = list(words)
    for i in range(len(words)):
        value = words[i]
        for j in range(i + 1, min(i + n, len(words))):
            value = (value * 116049371 + words[j]) % 2**64
            used.append(len(WORDS) + value % BUCKETS)
    return rows[used].mean(axis=0) if used else np.zeros(3)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_vectors_are_means_over_words_and_hashed_n_grams(tmp_path, rows, n):
    model = load_model(f"sent2vec:{write(tmp_path / 'model.bin', rows, n)}")
    expected = unit_rows(np.array([by_hand(text, rows, n) for text in TEXTS]))
    np.testing.assert_allclose(model.encode(TEXTS), expected, atol=1e-6)
    np.testing.assert_allclose(model.encode([""]), [[0, 0, 0]])
    np.testing.assert_array_equal(model.encode(["(The cat, sat.)"]), model.encode(["the cat sat"]))
    assert (model.name, model.dimension) == ("local/model.bin", 3)


def test_files_that_are_no_model_of_sent2vec(tmp_path, rows):
    with pytest.raises(ValueError, match="There is no file"):
        read_sent2vec(tmp_path / "none.bin")
    (tmp_path / "text.bin").write_text("the 1 2 3\n")
    with pytest.raises(ValueError, match="or is not a binary model of Sent2Vec"):
        read_sent2vec(tmp_path / "text.bin")
    with pytest.raises(ValueError, match="is not a binary model of Sent2Vec"):
        read_sent2vec(write(tmp_path / "fasttext.bin", rows, kind=2))


@pytest.mark.parametrize("kept", [12, 70, 117, 120, 230])
def test_a_file_that_was_cut_off(tmp_path, rows, kept):
    whole = write(tmp_path / "model.bin", rows).read_bytes()
    (tmp_path / "cut.bin").write_bytes(whole[:kept])
    with pytest.raises(ValueError, match="was cut off"):
        read_sent2vec(tmp_path / "cut.bin")
