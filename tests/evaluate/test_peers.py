"""SIF, random projections and random recurrent networks, against plain computations."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from st_static.evaluate import peers
from st_static.evaluate.peers import (
    RandomProjection,
    RandomRecurrentEncoder,
    SmoothInverseFrequency,
    echo_state_network,
    random_lstm,
)
from st_static.model.text_vectors import WordVectors

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
NETWORKS = {"lstm": random_lstm, "esn": echo_state_network}


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


def esn_states(weights, words):
    h, states = np.zeros(H), []
    for x in words:
        h = np.tanh(weights["weight_ih"] @ x + weights["weight_hh"] @ h)
        states.append(h)
    return states


def by_hand(kind, network, text, pooling):
    known = [WORDS.words.index(word) for word in text.lower().split() if word in WORDS.words[:4]]
    if not known:
        return np.zeros(2 * H)
    words = WORDS.table[known]
    run = {"lstm": lstm_states, "esn": esn_states}[kind]
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
    assert np.abs(expected[0]).min() > 0.001
    assert not np.allclose(expected[0], expected[5], atol=1e-3)  # the order of words counts


@settings(deadline=None, max_examples=30)
@given(st.lists(st.lists(st.sampled_from([*WORDS.words, "unseen"]), max_size=9), max_size=20))
def test_a_text_has_the_same_vector_in_any_batch(texts):
    texts = [" ".join(text) for text in texts]
    encoder = encoder_of(random_lstm(3, H), "max")
    alone = [encoder.encode([text])[0] for text in texts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(peers, "_BATCH_WORDS", 6)
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


@pytest.mark.parametrize("kind", NETWORKS)
def test_weights_follow_from_the_seed_and_leave_the_callers_random_numbers_alone(kind):
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    first, again, other = (NETWORKS[kind](3, H, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(first.weight_hh_l0, again.weight_hh_l0)
    assert not torch.equal(first.weight_hh_l0, other.weight_hh_l0)
