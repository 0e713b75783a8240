"""Make text vectors from word vectors: by SIF, and by baselines with random weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

from st_static.model.text_vectors import WordVectors
from st_static.model.vectors import has_vector, sentence_means
from st_static.tokens.ragged import Ragged

# Words of a batch, padding included: in 4,096 dimensions, their states fill 64 MB.
_BATCH_WORDS = 4096


class SmoothInverseFrequency:
    """SIF (Arora et al. 2017): words weighted by a / (a + p(w)), the common direction removed.

    At least one count of a word in a corpus is positive. The common direction is that of the
    texts, a sample of the corpus with some of the words.
    """

    def __init__(
        self, vectors: WordVectors, counts: Mapping[str, int], texts: Sequence[str], a: float = 1e-3
    ) -> None:
        self.vectors = vectors
        total = sum(counts.values())
        p = np.array([counts.get(word, 0) / total for word in vectors.words], dtype=np.float32)
        self.table = vectors.table * (a / (a + p))[:, None]
        means = sentence_means(self.table, vectors.tokenize(texts))
        # The first right singular vector, not centred (their algorithm 1).
        self.common = np.linalg.svd(means, full_matrices=False)[2][0]

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode texts [B] into vectors [B, D]."""
        means = sentence_means(self.table, self.vectors.tokenize(texts))
        vectors: NDArray[np.float32] = means - np.outer(means @ self.common, self.common)
        return vectors


class RandomProjection:
    """Bag of random embedding projections (BOREP, Wieting and Kiela 2019): a floor.

    Each word vector, of dimension d, goes through one random matrix, W ~ U[-1/sqrt(d), 1/sqrt(d)],
    into `dimension`s. A text's words are pooled by `mean`, `max` or `sum`, which has the cosines of
    the mean, but longer vectors for longer texts, which a classifier may use. With `relu`, negative
    values of the pooled vector become 0.
    """

    def __init__(
        self,
        vectors: WordVectors,
        dimension: int = 4096,
        pooling: str = "mean",
        relu: bool = False,
        seed: int = 0,
    ) -> None:
        self.vectors, self.dimension, self.pooling, self.relu = vectors, dimension, pooling, relu
        bound = 1 / np.sqrt(vectors.table.shape[1])
        size = (vectors.table.shape[1], dimension)
        matrix = np.random.default_rng(seed).uniform(-bound, bound, size)
        self.projection: NDArray[np.float32] = matrix.astype(np.float32)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode texts [B] into vectors [B, D]; zero for a text without a known word."""
        table = self.vectors.table
        words = _known_words(self.vectors, texts)
        if self.pooling == "max":
            pooled = np.zeros((len(texts), self.dimension), dtype=np.float32)
            for row in np.flatnonzero(words.lengths):
                ids = words.values[words.offsets[row] : words.offsets[row + 1]]
                pooled[row] = (table[ids] @ self.projection).max(axis=0)
        else:
            # A mean commutes with the projection, and so does a sum.
            pooled = sentence_means(table, words) @ self.projection
            if self.pooling == "sum":
                pooled *= words.lengths.astype(np.float32)[:, None]
        return np.maximum(pooled, 0) if self.relu else pooled


@dataclass(frozen=True)
class RandomRecurrentEncoder:
    """The mean or maximum of a random network's states over a text's known words: a floor.

    It is one of those of Wieting and Kiela (2019).
    """

    vectors: WordVectors  # rows of zeros are unknown words, which are left out
    network: nn.RNNBase  # bidirectional, from d to H dimensions in each direction
    pooling: str  # `mean` or `max` of the states of both directions over a text's words

    @property
    def dimension(self) -> int:
        """2 H."""
        return 2 * int(self.network.hidden_size)

    @torch.inference_mode()
    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode texts [B] into vectors [B, 2 H]; zero for a text without a known word."""
        words, is_max = _known_words(self.vectors, texts), self.pooling == "max"
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        # Batches of similar lengths, the longest first; texts without words keep their zeros.
        order = np.argsort(words.lengths, kind="stable")
        order = order[words.lengths[order] > 0]
        while len(order):
            size = max(1, _BATCH_WORDS // int(words.lengths[order[-1]]))
            rows, order = order[-size:], order[:-size]
            batch = words.take(rows)
            known = self.vectors.table[batch.values].astype(np.float32)
            sequences = [torch.from_numpy(text) for text in np.split(known, batch.offsets[1:-1])]
            # Packed, so that the backward pass begins at each text's own last word.
            states = self.network(pack_sequence(sequences, enforce_sorted=False))[0]
            padding = -torch.inf if is_max else 0.0
            padded, lengths = pad_packed_sequence(states, batch_first=True, padding_value=padding)
            pooled = padded.amax(dim=1) if is_max else padded.sum(dim=1) / lengths[:, None]
            vectors[rows] = pooled.numpy()
        return vectors


def _known_words(vectors: WordVectors, texts: Sequence[str]) -> Ragged:
    ids = vectors.tokenize(texts)
    return ids.filter(has_vector(vectors.table)[ids.values])


def random_lstm(d: int, hidden: int = 2048, seed: int = 0) -> nn.LSTM:
    """Make an untrained bidirectional LSTM, from d to H = `hidden` dimensions in each direction.

    As in the paper, weights and biases are U[-1/sqrt(H), 1/sqrt(H)], torch's default.
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
    """Make a bidirectional echo state network: h_t = tanh(W_in x_t + W h_{t-1}), without biases.

    W_in are U[-input_scale, input_scale], a share of about `sparsity` of W is zero, and
    `spectral_radius` is W's largest absolute eigenvalue: below 1, states forget the beginning. The
    defaults are those of the authors' printed command, whose radius of 1 becomes about 0.7 when
    half of the recurrent weights are set to 0 afterwards. They tune ReLU or no activation by task;
    tanh is from Jaeger (2001).
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


NETWORKS: dict[str, Callable[[int], nn.RNNBase]]
NETWORKS = {"random-lstm": random_lstm, "esn": echo_state_network}
