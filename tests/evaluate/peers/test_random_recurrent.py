"""Random LSTMs and echo state networks, against their recurrences in numpy, word by word."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from st_static.evaluate.peers import random_recurrent
from st_static.evaluate.peers.random_recurrent import (
    RandomRecurrentEncoder,
    echo_state_network,
    random_lstm,
)
from st_static.tokens.ragged import Ragged, offsets_of

H = 5
# The last word's row is one of zeros, as that of an unknown word is.
WORDS = {"the": 0, "cat": 1, "sat": 2, "mat": 3, "zero": 4}
TABLE = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
TABLE[4] = 0
TEXTS = ["The cat sat", "", "mat", "unseen zero", "the zero cat unseen the mat sat", "sat cat the"]
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
    words = [TABLE[WORDS[word]] for word in text.lower().split() if WORDS.get(word, 4) != 4]
    if not words:
        return np.zeros(2 * H)
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


def tokenize(texts):
    rows = [[WORDS[word] for word in text.lower().split() if word in WORDS] for text in texts]
    values = np.array([*itertools.chain(*rows)], np.int32)
    return Ragged(values, offsets_of(np.array([*map(len, rows)], int)))


def encoder_of(network, pooling):
    return RandomRecurrentEncoder(tokenize, TABLE, network, pooling)


@pytest.mark.parametrize("pooling", ["mean", "max"])
@pytest.mark.parametrize("kind", NETWORKS)
def test_states_follow_the_recurrence_in_both_directions(kind, pooling):
    network = NETWORKS[kind](3, H)
    encoder = encoder_of(network, pooling)
    expected = [by_hand(kind, network, text, pooling) for text in TEXTS]
    assert encoder.dimension == 2 * H
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-6)
    assert np.abs(expected[0]).min() > 0.001
    assert not np.allclose(expected[0], expected[5], atol=1e-3)  # the order of words counts


@settings(deadline=None, max_examples=30)
@given(st.lists(st.lists(st.sampled_from([*WORDS, "unseen"]), max_size=9), max_size=20))
def test_a_text_has_the_same_vector_in_any_batch(texts):
    texts = [" ".join(text) for text in texts]
    encoder = encoder_of(random_lstm(3, H), "max")
    alone = [encoder.encode([text])[0] for text in texts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(random_recurrent, "_BATCH_WORDS", 6)
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
