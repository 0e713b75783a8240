"""Recurrent networks with random weights over word vectors (Wieting and Kiela 2019): floors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

from st_static.model.vectors import has_vector
from st_static.tokens.ragged import Ragged

# A batch's states fill 64 MB: so many words, padding included, of 4,096 dimensions.
_BATCH_WORDS = 4096


@dataclass(frozen=True)
class RandomRecurrentEncoder:
    """A text's vector is the mean or the maximum of a network's states over its known words.

    Args:
        tokenize: Texts [B] to rows of the table, [B rows].
        table: Word vectors, [V, d]; a row of zeros is that of an unknown word, which is left out.
        network: A bidirectional network from d to H dimensions in each direction.
        pooling: How the states of both directions are pooled over a text's words.
    """

    tokenize: Callable[[Sequence[str]], Ragged]
    table: NDArray[np.float32]
    network: nn.RNNBase
    pooling: Literal["mean", "max"]

    @property
    def dimension(self) -> int:
        """2 H."""
        return 2 * int(self.network.hidden_size)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Texts [B] to vectors [B, 2 H]; zero for a text without a known word."""
        ids = self.tokenize(texts)
        words = ids.filter(has_vector(self.table)[ids.values])
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for rows in _batches(words.lengths):
            vectors[rows] = self._encode_batch(words.take(rows))
        return vectors

    @torch.inference_mode()
    def _encode_batch(self, words: Ragged) -> NDArray[np.float32]:
        """Rows of texts with at least one word [B rows] to vectors [B, 2 H]."""
        vectors = self.table[words.values].astype(np.float32)
        sequences = [torch.from_numpy(text) for text in np.split(vectors, words.offsets[1:-1])]
        # Packed, so that the way back begins at each text's own last word.
        states = self.network(pack_sequence(sequences, enforce_sorted=False))[0]
        padding = -torch.inf if self.pooling == "max" else 0.0
        padded, lengths = pad_packed_sequence(states, batch_first=True, padding_value=padding)
        if self.pooling == "max":
            pooled = padded.amax(dim=1)
        else:
            pooled = padded.sum(dim=1) / lengths[:, None]
        array: NDArray[np.float32] = pooled.numpy()
        return array


def _batches(lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Texts with words in batches of similar length, the longest first."""
    order = np.argsort(lengths, kind="stable")
    order = order[lengths[order] > 0]
    while len(order):
        size = max(1, _BATCH_WORDS // int(lengths[order[-1]]))
        yield order[-size:]
        order = order[:-size]


def random_lstm(d: int, hidden: int = 2048, seed: int = 0) -> nn.LSTM:
    """A bidirectional LSTM as it is before training.

    As in the paper, weights and biases are U[-1/sqrt(H), 1/sqrt(H)], which is what torch does.

    Args:
        d: Dimension of the word vectors.
        hidden: H, that of the states of each direction.
        seed: Seed of the weights.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.LSTM(d, hidden, bidirectional=True)


def echo_state_network(
    d: int,
    hidden: int = 2048,
    seed: int = 0,
    input_scale: float = 0.1,
    sparsity: float = 0.5,
    spectral_radius: float = 0.7,
) -> nn.RNN:
    """A bidirectional echo state network: h_t = tanh(W_in x_t + W h_{t-1}), without biases.

    The defaults are those of the command that the paper's authors print, whose radius of 1 becomes
    about 0.7 when half of the recurrent weights are set to 0 after it. They tune ReLU or no
    activation by task; tanh is that of Jaeger (2001).

    Args:
        d: Dimension of the word vectors.
        hidden: H, that of the states of each direction.
        seed: Seed of the weights.
        input_scale: Input weights W_in are U[-input_scale, input_scale].
        sparsity: Expected share of zeros among the recurrent weights W.
        spectral_radius: Largest absolute eigenvalue of W; below 1, states forget the beginning.
    """
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        network = nn.RNN(d, hidden, bias=False, bidirectional=True)
        for name, weights in network.named_parameters():
            if name.startswith("weight_ih"):
                weights.uniform_(-input_scale, input_scale)
            else:
                weights.uniform_(-0.5, 0.5).mul_(torch.rand_like(weights) >= sparsity)
                weights.mul_(spectral_radius / torch.linalg.eigvals(weights).abs().max())
    return network


NETWORKS: dict[str, Callable[[int], nn.RNNBase]] = {
    "random-lstm": random_lstm,
    "esn": echo_state_network,
}
"""Each kind of network by its name."""
