"""Peers of gensim: Sent2Vec's files, and Paragraph Vectors of new texts, computed by hand."""

import json
import os
import struct
import subprocess
import sys

import numpy as np
import pytest

from st_static.evaluate.models import load_model
from st_static.lab.baselines import ParagraphVectors, read_sent2vec
from st_static.model.vectors import unit_rows

pytest.importorskip("gensim", reason="gensim 4.4 does not compile for Python 3.14")

WORDS = ["<PLACEHOLDER>", "the", "cat", "sat", "mat"]
BUCKETS = 7
SENTENCES = ["The cat sat", "cat", "", "the unseen mat", "unseen", "mat cat sat the cat"]


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


def mean_of(text, rows, n):
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
    expected = unit_rows(np.array([mean_of(text, rows, n) for text in SENTENCES]))
    np.testing.assert_allclose(model.encode(SENTENCES), expected, atol=1e-6)
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


TOPICS = {
    "sea": ["ship", "sails", "captain", "storm", "harbour", "anchor", "sailor", "deck", "tide"],
    "kitchen": ["soup", "onion", "oven", "butter", "flour", "salt", "pepper", "dough", "sugar"],
}
NEW = ["The captain's ship, at anchor!", "Salt and pepper for the soup", "sailor storm tide deck"]
EPOCHS_OF_NEW_TEXT = 100


def texts_of(topic, n, seed):
    rng = np.random.default_rng(seed)
    return [f"The {' '.join(rng.choice(TOPICS[topic], 8))}." for _ in range(n)]


TEXTS = texts_of("sea", 60, 0) + texts_of("kitchen", 60, 1)
SMALL = {"vector_size": 12, "sample": 1e-2, "epochs": 10}


@pytest.fixture(scope="module", params=["dbow", "dm", "dm-concat"])
def trained(request):
    return request.param, ParagraphVectors(TEXTS, request.param, **SMALL)


class Lcg:
    """word2vec's random numbers of 48 bits, begun with two of numpy's."""

    def __init__(self, begin):
        high, low = begin.randint(0, 2**24), begin.randint(0, 2**24)
        self.state = 2**24 * high + low

    def draw(self):
        drawn = self.state >> 16
        self.state = (self.state * 25214903917 + 11) % 2**48
        return drawn


def sigmoid(x):
    """gensim's: a table of 1,000 values from -6 to 6, in which it takes 83 for one unit of x."""
    return 1 / (1 + np.exp(6 - 0.012 * int((x + 6) * 83)))


def negative_sampling(model, vector, target, numbers, rate):
    """The step that moves an input vector towards a word and away from words drawn at random."""
    step = np.zeros_like(vector)
    for k in range(model.negative + 1):
        word, label = target, 1.0
        if k:
            word = int(np.searchsorted(model.cum_table, numbers.draw() % int(model.cum_table[-1])))
            if word == target:
                continue
            label = 0.0
        output = model.syn1neg[word].astype(np.float64)
        if abs(vector @ output) < 6:  # beyond its table, gensim leaves a word as it is
            step += rate * (label - sigmoid(vector @ output)) * output
    return step


def by_hand(model, architecture, words):
    begin = np.random.RandomState(0)
    vector = np.zeros(model.vector_size)
    ids = [model.wv.key_to_index[word] for word in words if word in model.wv]
    often = model.wv.expandos["sample_int"]
    for rate in np.linspace(0.025, 0.0001, EPOCHS_OF_NEW_TEXT):
        numbers = Lcg(begin)
        kept = [word for word in ids if often[word] >= numbers.draw()]
        shrunk = begin.randint(0, model.window, len(kept)) if architecture == "dm" else []
        for i, target in enumerate(kept):
            if architecture == "dbow":
                vector = vector + negative_sampling(model, vector, target, numbers, rate)
                continue
            if architecture == "dm-concat":
                # All of the window, with a word of its own where the text has none.
                places = [*range(i - model.window, i), *range(i + 1, i + model.window + 1)]
                none = model.wv.key_to_index["\0"]
                around = [kept[k] if 0 <= k < len(kept) else none for k in places]
                given = np.concatenate([vector, *model.wv.vectors[around]])
                step = negative_sampling(model, given, target, numbers, rate)
                vector = vector + step[: len(vector)]
                continue
            reach = model.window - shrunk[i]
            around = kept[max(0, i - reach) : i] + kept[i + 1 : i + 1 + reach]
            mean = (model.wv.vectors[around].sum(axis=0) + vector) / (1 + len(around))
            vector = vector + negative_sampling(model, mean, target, numbers, rate)
    return vector


def test_a_new_text_is_trained_with_the_network_as_it_is(trained):
    architecture, vectors = trained
    before = vectors.model.syn1neg.copy()
    words = [
        ["the", "captain", "'", "s", "ship", ",", "at", "anchor", "!"],
        ["salt", "and", "pepper", "for", "the", "soup"],
        ["sailor", "storm", "tide", "deck"],
    ]
    expected = np.array([by_hand(vectors.model, architecture, text) for text in words])
    found = vectors.encode(NEW)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.linalg.norm(expected, axis=1).min() > 0.05
    np.testing.assert_array_equal(vectors.model.syn1neg, before)


def test_a_text_has_the_same_vector_in_any_batch_and_order(trained):
    _, vectors = trained
    together = vectors.encode([*NEW, "", "unseen words"])
    np.testing.assert_array_equal(together[:3], vectors.encode(NEW[::-1])[::-1])
    np.testing.assert_array_equal(together[3:], np.zeros((2, 12)))


SCRIPT = """
import json, sys
import numpy as np
from st_static.lab.baselines import ParagraphVectors
texts, new, options = json.load(sys.stdin)
np.save(sys.argv[1], ParagraphVectors(texts, "dbow", **options).encode(new))
"""


def test_another_process_with_other_hashes_finds_the_same(tmp_path):
    subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "vectors.npy")],
        input=json.dumps([TEXTS, NEW, SMALL]),
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "4242"},
        check=True,
        timeout=120,
    )
    found = np.load(tmp_path / "vectors.npy")
    np.testing.assert_array_equal(found, ParagraphVectors(TEXTS, "dbow", **SMALL).encode(NEW))


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("doc2vec", ["dbow"]),
        ("doc2vec-dm", ["dm"]),
        ("doc2vec-dm-concat", ["dm-concat"]),
        ("doc2vec-dm-dbow", ["dm", "dbow"]),
    ],
)
def test_by_name_it_is_trained_on_the_lines_of_a_file(tmp_path, kind, parts):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n", "utf-8")
    model = load_model(f"{kind}:{tmp_path / 'texts.txt'}")
    alone = [ParagraphVectors(TEXTS, part).encode(NEW) for part in parts]
    np.testing.assert_array_equal(model.encode(NEW), np.concatenate(alone, axis=1))
    assert model.name == f"local/texts.txt-doc2vec-{'+'.join(parts)}"
    assert model.dimension == 300 * len(parts)


@pytest.mark.parametrize("kind", ["doc2vec", "doc2vec-dm-concat"])
def test_text_that_cannot_be_trained_on(tmp_path, kind):
    with pytest.raises(ValueError, match=r"none\.txt cannot be read \(No such file"):
        load_model(f"{kind}:{tmp_path / 'none.txt'}")
    (tmp_path / "latin.txt").write_bytes("Über\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"latin\.txt, line 1: expected text in UTF-8"):
        load_model(f"{kind}:{tmp_path / 'latin.txt'}")
    (tmp_path / "few.txt").write_text("few words\n")
    with pytest.raises(ValueError, match="No word occurs 5 times in the 1 texts"):
        load_model(f"{kind}:{tmp_path / 'few.txt'}")
