"""Word vectors in text files, as GloVe and others publish them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import WhitespaceSplit

from st_static.model.static_model import StaticModel
from st_static.tokens.ragged import Ragged, offsets_of

# No word between white space holds a space.
_UNKNOWN = " unknown"


@dataclass(frozen=True)
class WordVectors:
    """Words with their vectors; a text's words are its lower-cased tokens between white space.

    Attributes:
        words: Row of each word.
        table: The vectors, [V, D].
    """

    words: Mapping[str, int]
    table: NDArray[np.float32]

    def tokenize(self, texts: Sequence[str]) -> Ragged:
        """Rows of each text's known words, [B rows]."""
        rows = [
            [self.words[word] for word in text.lower().split() if word in self.words]
            for text in texts
        ]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        values = np.fromiter((i for row in rows for i in row), np.int32)
        return Ragged(values, offsets_of(lengths))

    def as_static_model(self, name: str = "") -> StaticModel:
        """The same with a tokenizer of `tokenizers`; unknown words have a row of zeros."""
        vocabulary = {**self.words, _UNKNOWN: len(self.table)}
        tokenizer = Tokenizer(WordLevel(vocabulary, unk_token=_UNKNOWN))
        tokenizer.normalizer = Lowercase()
        tokenizer.pre_tokenizer = WhitespaceSplit()
        zeros = np.zeros((1, self.table.shape[1]), np.float32)
        table = np.concatenate([self.table, zeros])
        return StaticModel(tokenizer, table, normalize=False, name=name)


def read_word_vectors(file: Path) -> WordVectors:
    """Read a text file of a word and its numbers a line; a first line of two counts is skipped.

    Of a repeated word the first vector is kept.

    Raises:
        ValueError: The file is missing or empty, or a line has another number of values.
    """
    if not file.is_file():
        raise ValueError(f"There is no file {file}. Expected text vectors, a word a line.")
    words: dict[str, int] = {}
    rows: list[NDArray[np.float32]] = []
    with file.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            word, *values = line.rstrip("\n").rstrip(" ").split(" ")
            if number == 1 and len(values) == 1:
                continue  # number of words and dimension
            if rows and len(values) != len(rows[0]):
                # A token may hold spaces, as some of GloVe's do: the numbers are the last ones.
                word = " ".join([word, *values[: -len(rows[0])]])
                values = values[-len(rows[0]) :]
            try:
                vector = np.array(values, dtype=np.float32)
            except ValueError as error:
                raise ValueError(f"{file}, line {number}: expected numbers ({error}).") from error
            if not len(vector) or (rows and len(vector) != len(rows[0])):
                raise ValueError(
                    f"{file}, line {number}: expected {len(rows[0]) if rows else 'some'} numbers "
                    f"after the word, but got {len(vector)}."
                )
            if word not in words:
                words[word] = len(rows)
                rows.append(vector)
    if not rows:
        raise ValueError(f"{file} holds no word vectors.")
    return WordVectors(words, np.stack(rows))
