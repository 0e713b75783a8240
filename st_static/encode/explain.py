"""Explain a similarity by the share of each pair of words in the cosine of two texts.

A text's vector E is the scaled sum of its words' vectors. So the cosine of texts a and b is exactly

    cos(a, b) = sum over words i of a and j of b of  w_i . w_j / (|E(a)| |E(b)|)

For an ensemble, this explains the dot product, the mean of the members' cosines.

A head adds B relu(A x) to the sum x. For one text, relu only decides which hidden units are on.
With M, a diagonal of ones for these and zeros for the others, the text's vector is (I + B M A) x, a
word's (I + B M A) w_i, and the formula above is exact again. But M depends on the text: beside
other words, a word has another vector. So the fall of the cosine without each word is computed,
too.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from st_static.arguments import require
from st_static.model.head import Head
from st_static.model.scripts import has_unspaced
from st_static.model.static_model import StaticModel
from st_static.model.tokenizer import WORD_BEGIN, has_pieces, is_punctuation
from st_static.model.vectors import unit_rows
from st_static.texts.columns import is_broken
from st_static.tokens.panics import TellingPanics


@dataclass(frozen=True)
class Word:
    """A word of a text, as the model sees it."""

    text: str  # as written
    pieces: list[str]  # its tokens; if any has a vector, those without are left out
    ids: list[int]  # the rows that are added for it, [T]
    known: bool  # true if any of them is not zero
    begin: int  # where it begins in the text

    @property
    def became(self) -> str:
        """Its tokens, or why it has no vector; empty for a single token."""
        if not self.known:
            return "no vector" if is_punctuation(self.text) else "unknown: no vector"
        return " ".join(self.pieces) if len(self.ids) > 1 else ""


class Pair(NamedTuple):
    """A word of one text, a word of another, and their share in the cosine of the texts."""

    first: str
    second: str
    share: float


@dataclass(frozen=True)
class Explanation:
    """The cosine of two texts in parts: the words of both, and each pair's share. With a head,
    `left_out` is the fall of the cosine without each word of either text."""

    first: list[Word]
    second: list[Word]
    contributions: NDArray[np.float64]  # [len(first), len(second)]; their sum is the cosine
    left_out: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None

    @property
    def similarity(self) -> float:
        """The cosine of the texts; 0 if one has no known word."""
        return float(self.contributions.sum())

    def of_known_words(self) -> Explanation:
        """Leave out the words without a vector, whose shares are zero."""
        rows = [i for i, word in enumerate(self.first) if word.known]
        columns = [j for j, word in enumerate(self.second) if word.known]
        return Explanation(
            [self.first[i] for i in rows],
            [self.second[j] for j in columns],
            self.contributions[np.ix_(rows, columns)],
            self.left_out and (self.left_out[0][rows], self.left_out[1][columns]),
        )

    def pairs(self) -> list[Pair]:
        """List the pairs of words by their shares, of either sign, the largest first; equal pairs
        are one."""
        shares: dict[tuple[str, str], float] = defaultdict(float)
        pairs = itertools.product(self.first, self.second)
        for (first, second), share in zip(pairs, self.contributions.flat, strict=True):
            shares[first.text, second.text] += float(share)
        ordered = sorted(shares.items(), key=lambda item: -abs(item[1]))
        return [Pair(*words, share) for words, share in ordered]


def explain(model: StaticModel, first: str, second: str) -> Explanation:
    """Split the cosine of two texts into the shares of their word pairs."""
    is_text = not is_broken(first) and not is_broken(second)
    require(is_text, "Expected two texts in UTF-8, but one holds bytes that are none.")
    words = [split_into_words(model, model.prompt + text) for text in (first, second)]
    # The sum of each word's rows, [W, D].
    vectors = [
        np.array([_rows(model, word.ids).sum(axis=0, dtype=np.float64) for word in text]).reshape(
            len(text), model.table.shape[1]
        )
        for text in words
    ]
    first_shares, second_shares = (_shares(of_words, model) for of_words in vectors)
    left_out = _left_out(vectors, model.head, model.truncate_dim) if model.head else None
    return Explanation(words[0], words[1], first_shares @ second_shares.T, left_out)


def split_into_words(model: StaticModel, text: str) -> list[Word]:
    """Split a text into words with their tokens; in scripts without spaces, a piece is a word."""
    tokenizer = model.tokenizer
    with TellingPanics(tokenizer):
        encoding = tokenizer.encode(text, add_special_tokens=False)
    # Behind a head, dimensions that are cut off contribute to the others.
    dimensions = None if model.head else model.truncate_dim
    rows = _rows(model, encoding.ids)[:, :dimensions]
    with_vector = set(np.flatnonzero(rows.any(axis=1)).tolist())
    # A single mark of a word's beginning has no text, and in our models no vector.
    tokens = [
        i for i, token in enumerate(encoding.tokens) if token != WORD_BEGIN or i in with_vector
    ]
    unspaced = has_unspaced(pa.array(encoding.tokens, pa.string())) & has_pieces(tokenizer)
    # A token without a word, from a tokenizer that does not split into words, is one by itself.
    word_of = enumerate(encoding.word_ids)
    keys = [-1 - i if word is None or unspaced[i] else word for i, word in word_of]
    words = []
    for _, group in itertools.groupby(tokens, key=keys.__getitem__):
        members = list(group)
        begin, end = encoding.offsets[members[0]][0], encoding.offsets[members[-1]][1]
        begin = end - len(text[begin:end].lstrip())
        ids = [encoding.ids[i] for i in members]
        counted = [i for i in members if i in with_vector]
        pieces = [encoding.tokens[i] for i in counted or members]
        words.append(Word(text[begin:end].rstrip(), pieces, ids, bool(counted), begin))
    return words


def _rows(model: StaticModel, ids: Sequence[int]) -> NDArray[Any]:
    """Take the rows of tokens, [T, D], without restoring the rest of a table in int8."""
    return model.table.take(np.array(ids, np.intp), 0)


def _shares(vectors: NDArray[np.float64], model: StaticModel) -> NDArray[np.float64]:
    """Scale words' vectors so that their sum is the text's vector, [W, D]."""
    if model.head:
        vectors = model.head(vectors, switched_by=vectors.sum(axis=0))
    segments = model.scaled if model.segments else [(slice(model.truncate_dim), 1.0)]
    shares = np.zeros_like(vectors)
    for dimensions, length in segments:
        norm = np.linalg.norm(vectors[:, dimensions].sum(axis=0))
        if norm:
            shares[:, dimensions] = vectors[:, dimensions] * (length / norm)
    return shares[:, : model.truncate_dim]


def _left_out(
    vectors: Sequence[NDArray[np.float64]], head: Head, truncate_dim: int | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute how much the cosine of two texts falls without each word, for the words of each."""
    texts = []
    for of_words in vectors:
        whole = of_words.sum(axis=0)
        texts.append(unit_rows(head(np.vstack([whole, whole - of_words]))[:, :truncate_dim]))
    first, second = (text.astype(np.float64) for text in texts)
    cosine = first[0] @ second[0]
    return cosine - first[1:] @ second[0], cosine - second[1:] @ first[0]  # those without each word
