"""Encoders of other projects, and baselines with random weights, made from files."""

from __future__ import annotations

import functools
import io
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence, pad_packed_sequence
from tqdm import tqdm

from st_static.arguments import check_file, require
from st_static.dependencies import private_name
from st_static.distill.corpus.word_counts import split_all_words
from st_static.model.text_vectors import WordVectors
from st_static.model.tokenizer import Normalization
from st_static.model.vectors import has_vector, sentence_means
from st_static.tokens.ragged import Ragged, offsets_of

# Words of a batch, padding included: in 4,096 dimensions, their states fill 64 MB.
_BATCH_WORDS = 4096
_MAGIC = 793712314  # of fastText's files
_SENT2VEC = 4  # the header's kind of model; fastText's own are 1 to 3
_HASH_FACTOR = np.uint64(116049371)

_SEED = 0
Architecture = Literal["dbow", "dm", "dm-concat"]
# The best of 1e-5, 1e-4 and 1e-3 on STSBenchmark's validation split; dm-concat has that of dm.
_SAMPLE = {"dbow": 1e-4, "dm": 1e-3, "dm-concat": 1e-3}
_OPTIONS = {"vector_size": 300, "window": 5, "min_count": 5, "negative": 5, "epochs": 20}
_OPTIONS["dbow_words"] = 1  # without word vectors beside those of texts, DBOW is far worse there
# A new text is short, and most of its frequent words are left out of each epoch.
_EPOCHS_OF_NEW_TEXT = 100
_TEXTS_AT_A_TIME = 1000


# -- of word vectors: SIF, and baselines with random weights ---------------------------


class SmoothInverseFrequency:
    """SIF (Arora et al. 2017): words weighted by a / (a + p(w)), at least one count positive,
    without the common direction of the texts, a sample of the corpus."""

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


def fit_lsa(texts: Sequence[str], dimension: int = 300, min_df: int = 5) -> Pipeline:
    """Fit latent semantic analysis: TF-IDF of the words and bigrams that are in `min_df` texts,
    reduced to D = `dimension` by a truncated SVD. A term that a text has n times counts 1 + log n,
    and vectors have length 1 before and after the SVD. All else is scikit-learn's default.
    `transform` encodes texts [B] into vectors [B, D], zero for a text without a known word."""
    tfidf = TfidfVectorizer(ngram_range=(1, 2), min_df=min_df, sublinear_tf=True, dtype=np.float32)
    svd = TruncatedSVD(dimension, random_state=_SEED)
    try:
        require(len(texts) >= dimension, f"there are {len(texts)} texts")
        return make_pipeline(tfidf, svd, Normalizer(copy=False)).fit(texts)
    except ValueError as error:
        raise ValueError(
            f"Expected at least {dimension} texts, and as many words and bigrams that each occur "
            f"in {min_df} of them ({error}). Give more text."
        ) from error


class RandomProjection:
    """Bag of random embedding projections (BOREP, Wieting and Kiela 2019): a floor. Word vectors
    [d] go through one matrix W ~ U[-1/sqrt(d), 1/sqrt(d)]; then `mean`, `max` or `sum`, which has
    the mean's cosines, but longer vectors for longer texts, and with `relu` no negative values."""

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
    """A floor: the mean or maximum of a random network's states (Wieting and Kiela 2019)."""

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
            inputs = self.vectors.table[batch.values].astype(np.float32)
            sequences = [torch.from_numpy(text) for text in np.split(inputs, batch.offsets[1:-1])]
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
    """Make an untrained bidirectional LSTM to H = `hidden` dimensions in each direction; as in the
    paper, weights and biases are U[-1/sqrt(H), 1/sqrt(H)], torch's default."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.LSTM(d, hidden, bidirectional=True)


class LeakyRNN(nn.RNN):
    """A bidirectional layer of leaky integrator units (Jaeger et al. 2007), without biases:
    h_t = (1 - a) h_{t-1} + a tanh(W_in x_t + W h_{t-1}), where a is the leak rate."""

    def __init__(self, d: int, hidden: int, leak_rate: float) -> None:
        require(0 < leak_rate <= 1, f"Expected a leak_rate above 0 and up to 1, got {leak_rate}.")
        super().__init__(d, hidden, bias=False, bidirectional=True)
        self.leak_rate = leak_rate

    def forward(self, words: PackedSequence) -> tuple[PackedSequence, None]:  # type: ignore[override]
        """Compute the states of both directions, [words, 2 H], as torch's own layers do."""
        # How many texts have a first word, a second, …: the longest text comes first.
        sizes = words.batch_sizes.tolist()
        steps = torch.split(words.data, sizes)
        directions = []
        for suffix, way in (("l0", 1), ("l0_reverse", -1)):
            into, recurrent = (getattr(self, f"weight_{of}_{suffix}") for of in ("ih", "hh"))
            # Texts whose last word the way back has not reached keep their zeros.
            h = words.data.new_zeros(sizes[0], self.hidden_size)
            states = []
            for x in steps[::way]:
                before = h[: len(x)]
                new = torch.tanh(x @ into.T + before @ recurrent.T)
                states.append((1 - self.leak_rate) * before + self.leak_rate * new)
                h[: len(x)] = states[-1]
            directions.append(torch.cat(states[::way]))
        return PackedSequence(torch.cat(directions, dim=1), *words[1:]), None


def echo_state_network(
    d: int,
    hidden: int = 2048,
    seed: int = 0,
    input_scale: float = 0.1,
    sparsity: float = 0.5,
    spectral_radius: float = 0.7,
    leak_rate: float = 1.0,
) -> LeakyRNN:
    """Make an untrained `LeakyRNN` to H = `hidden` dimensions, an echo state network.

    W_in are U[-input_scale, input_scale], a share of about `sparsity` of W is zero, and
    `spectral_radius` is W's largest absolute eigenvalue: below 1, states forget the beginning. The
    defaults are those of the authors' printed command, whose radius of 1 becomes about 0.7 when
    half of the recurrent weights are set to 0 afterwards, and whose leak rate is 1. They tune ReLU
    or no activation by task; tanh is from Jaeger (2001).
    """
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        network = LeakyRNN(d, hidden, leak_rate)
        for name, weights in network.named_parameters():
            if name.startswith("weight_ih"):
                weights.uniform_(-input_scale, input_scale)
            else:
                weights.uniform_(-0.5, 0.5).mul_(torch.rand_like(weights) >= sparsity)
                weights.mul_(spectral_radius / torch.linalg.eigvals(weights).abs().max())
    return network


NETWORKS: dict[str, Callable[[int], nn.RNNBase]]
NETWORKS = {"random-lstm": random_lstm, "esn": echo_state_network}
NETWORKS["esn-leaky"] = functools.partial(echo_state_network, leak_rate=0.5)


# -- of gensim: Sent2Vec and Paragraph Vectors -----------------------------------------


@dataclass(frozen=True)
class Sent2Vec:
    """Sent2Vec (Pagliardini et al. 2018): the mean over a text's words and word n-grams."""

    words: WordVectors  # of the table's first V rows
    table: NDArray[np.float32]  # and of the buckets of n-grams, [V + buckets, D]
    n: int  # longest n-gram, in words

    def tokenize(self, texts: Sequence[str]) -> Ragged:
        """Find the rows of each text's known words and, without unknown ones, of their n-grams."""
        words = self.words.tokenize(texts)
        text = words.row_of_value
        n_words = len(self.words.table)
        buckets = np.uint64(max(1, len(self.table) - n_words))
        rows, owners = [words.values.astype(np.int64)], [text]
        hashed = words.values.astype(np.uint64)
        for k in range(1, self.n):
            # The hash of words i … i + k; 64-bit integers wrap around, as in C.
            hashed = hashed[:-1] * _HASH_FACTOR + words.values[k:].astype(np.uint64)
            within = text[k:] == text[: len(text) - min(k, len(text))]
            rows.append(n_words + (hashed[within] % buckets).astype(np.int64))
            owners.append(text[k:][within])
        owner = np.concatenate(owners)
        order = np.argsort(owner, kind="stable")
        lengths = np.bincount(owner, minlength=len(texts))
        return Ragged(np.concatenate(rows)[order].astype(np.int32), offsets_of(lengths))


class _WholeReader(io.BufferedReader):
    """Raises at the end of the file, where gensim would loop forever."""

    def read(self, size: int | None = -1) -> bytes:
        """Read `size` bytes; EOFError if there are fewer."""
        data = super().read(size)
        if size is not None and len(data) < size:
            raise EOFError
        return data


def read_sent2vec(file: Path) -> Sent2Vec:
    """Read a binary model of Sent2Vec, in fastText's format, version 12: a header, the words, and
    one matrix with a row for each word, then one for each bucket that n-grams are hashed into."""
    from gensim import models

    # gensim's public loader drops words with a count of zero, which would shift rows.
    reader = private_name(models, "_fasttext_bin", "gensim 4.4")
    check_file(file, "Expected a binary model of Sent2Vec.")
    with _WholeReader(io.FileIO(file)) as stream:
        try:
            if struct.unpack("<10i", stream.read(10 * 4))[::9] != (_MAGIC, _SENT2VEC):
                raise ValueError(f"{file} is not a binary model of Sent2Vec. Is it glove:FILE?")
            stream.seek(0)
            model = reader.load(stream, full_model=False)
        except (EOFError, AssertionError) as error:
            reason = f"{file} was cut off, or is not a binary model of Sent2Vec."
            raise ValueError(reason) from error
    table: NDArray[np.float32] = model.vectors_ngrams
    words = WordVectors(list(model.raw_vocab), table[: model.nwords])
    return Sent2Vec(words, table, model.word_ngrams)


class ParagraphVectors:
    """Paragraph Vectors (Le and Mikolov 2014), trained by gensim's Doc2Vec, which predicts a
    text's first 10,000 known words: alone (DBOW), or with those around each (DM), of which it takes
    the mean together with the text's vector, or all one after another (`dm-concat`)."""

    def __init__(self, texts: Sequence[str], architecture: Architecture, **options: Any) -> None:
        from gensim.models import doc2vec

        is_dm, is_concat = architecture != "dbow", architecture == "dm-concat"
        self._update = getattr(doc2vec, f"train_document_{architecture.replace('-', '_')}")
        # gensim's buffers: a sum of errors and, for DM, the input.
        self._n_buffers = 2 if is_dm else 1
        words = split_all_words(pa.array(texts, pa.string()), Normalization())
        # Several workers would change the vectors from run to run.
        fixed = {"dm": int(is_dm), "dm_concat": int(is_concat), "sample": _SAMPLE[architecture]}
        fixed |= {"seed": _SEED, "workers": 1}
        self.model = doc2vec.Doc2Vec(**{**_OPTIONS, **fixed, **options})
        epochs = self.model.epochs
        with tqdm(total=(1 + epochs) * len(words), unit="text", disable=None) as progress:
            documents = _Documents(words, doc2vec.TaggedDocument, progress)
            self.model.build_vocab(documents)
            # `dm-concat` has a word of its own for places before and behind a text.
            if len(self.model.wv) == is_concat:
                raise ValueError(
                    f"No word occurs {self.model.min_count} times in the {len(words)} texts. "
                    "Expected more text."
                )
            self.model.train(documents, total_examples=len(words), epochs=epochs)

    @property
    def dimension(self) -> int:
        """D."""
        return int(self.model.vector_size)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode texts [B] into vectors [B, D]; zero without a known word. A text starts from zero
        and draws the same words: gensim's `infer_vector` differs between processes and calls."""
        words = split_all_words(pa.array(texts, pa.string()), Normalization())
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        fixed = {"learn_words": False, "learn_hidden": False}
        rows = {"doctag_vectors": vectors, "doctags_lockf": np.ones(1, dtype=np.float32)}
        for row, text in enumerate(words.to_pylist()):
            self.model.random.seed(_SEED)
            # gensim computes in these buffers, as it frees its own too early.
            buffers = np.zeros((self._n_buffers, self.model.layer1_size), dtype=np.float32)
            # Only the text's own row is trained: the network stays unchanged.
            for rate in np.linspace(self.model.alpha, self.model.min_alpha, _EPOCHS_OF_NEW_TEXT):
                self._update(self.model, text, [row], rate, *buffers, **fixed, **rows)
        return vectors


class _Documents:
    """Training texts that gensim reads several times."""

    def __init__(self, words: pa.ListArray, tagged: type, progress: tqdm[Any]) -> None:
        self._words, self._tagged, self._progress = words, tagged, progress

    def __iter__(self) -> Iterator[Any]:
        for start in range(0, len(self._words), _TEXTS_AT_A_TIME):
            part = self._words.slice(start, _TEXTS_AT_A_TIME).to_pylist()
            for number, words in enumerate(part, start):
                yield self._tagged(words, [number])
            self._progress.update(len(part))
