"""Paragraph Vectors (Le and Mikolov 2014), trained on given text by gensim's Doc2Vec."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tqdm import tqdm

from st_static.distill.corpus.word_counts import split_all_words
from st_static.evaluate.peers.packages import package_of_peer
from st_static.model.tokenizer import Normalization

Architecture = Literal["dbow", "dm"]

_SEED = 0
# The best of 1e-5, 1e-4 and 1e-3 on STSBenchmark's validation split.
_SAMPLE: dict[Architecture, float] = {"dbow": 1e-4, "dm": 1e-3}
# Without word vectors trained beside those of texts, DBOW is far worse there.
_OPTIONS = {
    "vector_size": 300,
    "window": 5,
    "min_count": 5,
    "negative": 5,
    "epochs": 20,
    "dbow_words": 1,
}
# A new text is short, and most of its frequent words are left out of each epoch.
_EPOCHS_OF_NEW_TEXT = 100
_TEXTS_AT_A_TIME = 1000


class ParagraphVectors:
    """Vectors that predict a text's words: alone (DBOW), or with the words around each (DM).

    Words are lower-cased and split at white space and punctuation. Of a text, gensim reads the
    first 10,000 known words.

    Args:
        texts: The texts to train on.
        architecture: DBOW, with word vectors trained beside it, or DM with the mean of its inputs.
        options: Options of gensim's Doc2Vec other than the defaults here.

    Raises:
        ValueError: gensim is not installed, or no word occurs often enough.
    """

    def __init__(self, texts: Sequence[str], architecture: Architecture, **options: Any) -> None:
        with package_of_peer("doc2vec", "gensim"):
            from gensim.models import doc2vec
        self._update = (
            doc2vec.train_document_dbow if architecture == "dbow" else doc2vec.train_document_dm
        )
        words = split_all_words(pa.array(texts, pa.string()), Normalization())
        # What gensim computes in: a sum of errors; of DM, also the mean of the inputs.
        self._n_buffers = 1 if architecture == "dbow" else 2
        # Several workers would change the vectors from run to run.
        self.model = doc2vec.Doc2Vec(
            dm=int(architecture == "dm"),
            seed=_SEED,
            workers=1,
            **{**_OPTIONS, "sample": _SAMPLE[architecture], **options},
        )
        epochs = self.model.epochs
        with tqdm(total=(1 + epochs) * len(words), unit="text", disable=None) as progress:
            documents = _Documents(words, doc2vec.TaggedDocument, progress)
            self.model.build_vocab(documents)
            if not len(self.model.wv):
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
        """Texts [B] to vectors [B, D]; zero for a text without a known word.

        gensim's `infer_vector` begins at random numbers that differ from one Python process to the
        next, and in each call. Here a text begins at zero and always draws the same words.
        """
        words = split_all_words(pa.array(texts, pa.string()), Normalization())
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(words.to_pylist()):
            self._infer(text, row, vectors)
        return vectors

    def _infer(self, words: list[str], row: int, vectors: NDArray[np.float32]) -> None:
        """Train one row of the vectors [B, D] on a text's words; the network stays as it is."""
        self.model.random.seed(_SEED)
        # gensim computes in these; what it makes itself, it frees too early.
        buffers = [np.zeros(self.dimension, dtype=np.float32) for _ in range(self._n_buffers)]
        lock = np.ones(1, dtype=np.float32)
        for rate in np.linspace(self.model.alpha, self.model.min_alpha, _EPOCHS_OF_NEW_TEXT):
            self._update(
                self.model,
                words,
                [row],
                rate,
                *buffers,
                learn_words=False,
                learn_hidden=False,
                doctag_vectors=vectors,
                doctags_lockf=lock,
            )


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
