"""SIF, TF-IDF, random projections and random recurrent networks, against plain computations."""

import functools
import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from st_static.lab import baselines
from st_static.lab.baselines import (
    RandomProjection,
    RandomRecurrentEncoder,
    SmoothInverseFrequency,
    echo_state_network,
    fit_lsa,
    random_lstm,
)
from st_static.model.text_vectors import WordVectors
from st_static.model.vectors import unit_rows

ROWS = {"the": [1.0, 0, 0], "cat": [0, 2, 0], "sat": [0, 0, -3], "mat": [1, 1, 1]}
TEXTS = ["The cat sat", "the unseen MAT", "", "nothing known", "cat cat mat"]


@pytest.fixture
def vectors():
    return WordVectors(list(ROWS), np.array(list(ROWS.values())))


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


LINES = ["The cat sat on a mat, the cat", "On the MAT a dog sat", "the dog, the cat", "A rare word"]
LINES += ["the cat sat", "dog on mat", "a cat on the dog", "mat mat mat"]


def terms_of(text):
    """Words of two characters or more, and pairs of neighbours, as scikit-learn has them."""
    words = re.findall(r"\b\w\w+\b", text.lower())
    return Counter([*words, *map(" ".join, pairwise(words))])


def tf_idf(texts, terms):
    """Formula (1 + log n) (1 + log((1 + N) / (1 + df))), in rows of length 1."""
    df = np.array([sum(term in terms_of(line) for line in LINES) for term in terms])
    counts = np.array([[terms_of(text)[term] for term in terms] for text in texts], dtype=float)
    tf = np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0)
    return unit_rows(tf * (1 + np.log((1 + len(LINES)) / (1 + df))))


def test_lsa_is_tf_idf_on_its_largest_singular_vectors():
    terms = sorted(set().union(*map(terms_of, LINES)))
    terms = [term for term in terms if sum(term in terms_of(line) for line in LINES) >= 2]
    assert {"cat sat", "the dog"} < set(terms)
    axes = np.linalg.svd(tf_idf(LINES, terms), full_matrices=False)[2][:4]  # not centred
    new = ["The cat! A dog, the cat.", "unseen", "", "dog on mat"]
    expected = unit_rows(tf_idf(new, terms) @ axes.T)
    found = fit_lsa(LINES, dimension=4, min_df=2).transform(new)
    assert found.dtype == np.float32
    # Axes may point either way.
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-5)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-5)
    np.testing.assert_array_equal(found[1:3], np.zeros((2, 4)))
    np.testing.assert_array_equal(fit_lsa(LINES, 4, 2).transform(new), found)


@pytest.mark.parametrize(
    ("texts", "why"), [(["a few words"] * 9, "n_features"), (["two words"], "1 texts")]
)
def test_texts_that_are_too_few_for_lsa(texts, why):
    with pytest.raises(ValueError, match=f"Expected at least 4 texts, and .* in 1 of.*{why}"):
        fit_lsa(texts, dimension=4, min_df=1)


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


H = 5
# The last word's row is one of zeros, as that of an unknown word is.
WORDS = WordVectors(["the", "cat", "sat", "mat", "zero"], np.zeros((5, 3), np.float32))
WORDS.table[:4] = np.random.default_rng(0).normal(size=(4, 3))
SENTENCES = [
    *("The cat sat", "", "mat", "unseen zero", "the zero cat unseen the mat sat"),
    "sat cat the",
]
LEAK_RATE = 0.3
NETWORKS = {"lstm": random_lstm, "esn": echo_state_network}
NETWORKS["leaky"] = functools.partial(echo_state_network, leak_rate=LEAK_RATE)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm_states(weights, words):
    """Hochreiter and Schmidhuber's cell with a forget gate; torch has the gates as i, f, g, o."""
    h, c, states = np.zeros(H), np.zeros(H), []
    for x in words:
        gates = weights["weight_ih"] @ x + weights["bias_ih"]
        gates = gates + weights["weight_hh"] @ h + weights["bias_hh"]
        i, f, g, o = gates.reshape(4, H)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    return states


def esn_states(weights, words, leak_rate=1):
    h, states = np.zeros(H), []
    for x in words:
        new = np.tanh(weights["weight_ih"] @ x + weights["weight_hh"] @ h)
        h = (1 - leak_rate) * h + leak_rate * new
        states.append(h)
    return states


def leaky_states(weights, words):
    return esn_states(weights, words, LEAK_RATE)


def by_hand(kind, network, text, pooling):
    known = [WORDS.words.index(word) for word in text.lower().split() if word in WORDS.words[:4]]
    if not known:
        return np.zeros(2 * H)
    words = WORDS.table[known]
    run = {"lstm": lstm_states, "esn": esn_states, "leaky": leaky_states}[kind]
    directions = {"l0": words, "l0_reverse": words[::-1]}
    sides = []
    for suffix, order in directions.items():
        weights = {
            name.removesuffix(f"_{suffix}"): value.detach().numpy().astype(np.float64)
            for name, value in network.named_parameters()
            if name.endswith(f"_{suffix}")
        }
        sides.append(run(weights, order))
    states = np.concatenate(sides, axis=1)
    # Pooled, the order in which the way back comes does not matter.
    return getattr(np, pooling)(states, axis=0)


def encoder_of(network, pooling):
    return RandomRecurrentEncoder(WORDS, network, pooling)


@pytest.mark.parametrize("pooling", ["mean", "max"])
@pytest.mark.parametrize("kind", NETWORKS)
def test_states_follow_the_recurrence_in_both_directions(kind, pooling):
    network = NETWORKS[kind](3, H)
    encoder = encoder_of(network, pooling)
    expected = [by_hand(kind, network, text, pooling) for text in SENTENCES]
    assert encoder.dimension == 2 * H
    np.testing.assert_allclose(encoder.encode(SENTENCES), expected, atol=1e-6)
    assert np.abs(expected[0]).min() > 0.0005
    assert not np.allclose(expected[0], expected[5], atol=1e-3)  # the order of words counts


@settings(deadline=None, max_examples=30)
@given(st.lists(st.lists(st.sampled_from([*WORDS.words, "unseen"]), max_size=9), max_size=20))
def test_a_text_has_the_same_vector_in_any_batch(texts):
    texts = [" ".join(text) for text in texts]
    encoder = encoder_of(random_lstm(3, H), "max")
    alone = [encoder.encode([text])[0] for text in texts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(baselines, "_BATCH_WORDS", 6)
        together = encoder.encode(texts)
    assert together.shape == (len(texts), 2 * H)
    np.testing.assert_allclose(together, np.reshape(alone, (-1, 2 * H)), atol=1e-6)


def test_lstm_weights_are_uniform_within_the_inverse_root_of_the_states_size():
    for weights in random_lstm(20, 64).parameters():
        values = np.abs(weights.detach().numpy())
        assert 0.97 / 8 < values.max() <= 1 / 8
        assert values.mean() == pytest.approx(1 / 16, rel=0.15)


def test_recurrent_weights_of_an_echo_state_network_are_sparse_with_a_given_radius():
    network = echo_state_network(20, 64, input_scale=0.2, sparsity=0.75, spectral_radius=0.9)
    assert len(list(network.parameters())) == 4  # no biases
    for suffix in ("l0", "l0_reverse"):
        recurrent = getattr(network, f"weight_hh_{suffix}").detach().numpy()
        assert np.abs(np.linalg.eigvals(recurrent)).max() == pytest.approx(0.9, abs=1e-4)
        assert (recurrent == 0).mean() == pytest.approx(0.75, abs=0.03)
        into = np.abs(getattr(network, f"weight_ih_{suffix}").detach().numpy())
        assert 0.19 < into.max() <= 0.2
    assert not torch.equal(network.weight_hh_l0, network.weight_hh_l0_reverse)


@pytest.mark.parametrize("leak_rate", [0, -0.5, 1.5, float("nan")])
def test_a_leak_rate_is_above_zero_and_up_to_one(leak_rate):
    with pytest.raises(ValueError, match=f"leak_rate above 0 and up to 1, got {leak_rate}"):
        echo_state_network(3, H, leak_rate=leak_rate)


@pytest.mark.parametrize("kind", NETWORKS)
def test_weights_follow_from_the_seed_and_leave_the_callers_random_numbers_alone(kind):
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    first, again, other = (NETWORKS[kind](3, H, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(first.weight_hh_l0, again.weight_hh_l0)
    assert not torch.equal(first.weight_hh_l0, other.weight_hh_l0)
