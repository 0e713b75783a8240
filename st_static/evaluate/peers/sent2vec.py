"""Sent2Vec (Pagliardini et al. 2018): a text is the mean of its words' and word n-grams' vectors.

Its binary files have fastText's format, version 12: a header, the words, and one matrix with a row
for each word and, after them, a row for each bucket that n-grams of words are hashed into.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from st_static.dependencies import private_name
from st_static.evaluate.peers.packages import package_of_peer
from st_static.model.text_vectors import WordVectors
from st_static.tokens.ragged import Ragged, offsets_of

_MAGIC = 793712314  # of fastText's files
_SENT2VEC = 4  # the header's kind of model; fastText's own are 1 to 3
_HASH_FACTOR = np.uint64(116049371)


@dataclass(frozen=True)
class Sent2Vec:
    """Vectors of words and of buckets of word n-grams.

    Attributes:
        words: The words, with the whole table's first V rows.
        table: Vectors of the words and of the buckets, [V + buckets, D].
        n: Longest n-gram, in words.
    """

    words: WordVectors
    table: NDArray[np.float32]
    n: int

    def tokenize(self, texts: Sequence[str]) -> Ragged:
        """Rows of each text's known words and of their n-grams, [B rows].

        Words are found as `st_static.model.word_tokenizer` says; what is unknown is left out
        before n-grams are formed.
        """
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
    """Raises at the end of the file, where gensim would read on for ever."""

    def read(self, size: int | None = -1) -> bytes:
        """Read `size` bytes; EOFError if there are not so many."""
        data = super().read(size)
        if size is not None and len(data) < size:
            raise EOFError
        return data


def read_sent2vec(file: Path) -> Sent2Vec:
    """Read a binary model of Sent2Vec.

    Raises:
        ValueError: The file is missing or no model of Sent2Vec, or gensim is not installed.
    """
    with package_of_peer("sent2vec", "gensim"):
        from gensim import models
    # gensim's public loader drops words that it counts zero times, which would shift rows.
    reader = private_name(models, "_fasttext_bin", "gensim 4.4")
    if not file.is_file():
        raise ValueError(f"There is no file {file}. Expected a binary model of Sent2Vec.")
    with _WholeReader(io.FileIO(file)) as stream:
        try:
            if struct.unpack("<10i", stream.read(10 * 4))[::9] != (_MAGIC, _SENT2VEC):
                raise ValueError(
                    f"{file} is not a binary model of Sent2Vec. For text vectors: glove:FILE."
                )
            stream.seek(0)
            model = reader.load(stream, full_model=False)
        except (EOFError, AssertionError) as error:
            raise ValueError(
                f"{file} was cut off, or is not a binary model of Sent2Vec."
            ) from error
    table: NDArray[np.float32] = model.vectors_ngrams
    return Sent2Vec(
        WordVectors(list(model.raw_vocab), table[: model.nwords]), table, model.word_ngrams
    )
