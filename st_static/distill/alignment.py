"""Find the teacher's tokens of each word, by character positions."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from tokenizers import Tokenizer, normalizers

from st_static.distill.teacher import TokenBatch
from st_static.model.tokenizer import has_pieces
from st_static.tokens.panics import TellingPanics
from st_static.tokens.ragged import Ragged, offsets_of

# Beside marks, what a character is composed with that stands before it: the voicing of half-width
# kana, and vowels and final consonants of Korean syllables.
_COMPOSED = frozenset("ﾞﾟ") | frozenset(map(chr, range(0x1160, 0x1200)))
_MARK = rf"[\p{{M}}{''.join(sorted(_COMPOSED))}]"


class WordSpans(NamedTuple):
    """The words of sentences, with their character positions, [W] each."""

    word: NDArray[np.int64]  # its token id
    sentence: NDArray[np.int64]  # ascending
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


def find_words(tokenizer: Tokenizer, sentences: Sequence[str]) -> WordSpans:
    """Find the tokens in sentences [B] that are whole words, or pieces where these are units."""
    with TellingPanics(tokenizer):
        encodings = tokenizer.encode_batch(list(sentences), add_special_tokens=False)
    ids = np.fromiter(chain.from_iterable(e.ids for e in encodings), np.int64)
    offsets = chain.from_iterable(e.offsets for e in encodings)
    spans = np.fromiter(chain.from_iterable(offsets), np.int64).reshape(-1, 2)
    number_in_sentence = np.fromiter(chain.from_iterable(e.word_ids for e in encodings), np.int64)
    sentence = np.repeat(np.arange(len(encodings)), [len(e) for e in encodings])
    if not isinstance(tokenizer.normalizer, normalizers.BertNormalizer):  # English's drops them
        spans[:, 1] = _ends_behind_marks(sentences, sentence, spans)
    begins = np.diff(number_in_sentence, prepend=-1) != 0
    begins |= np.diff(sentence, prepend=-1) != 0
    whole = begins & np.append(begins[1:], np.True_) | has_pieces(tokenizer)
    return WordSpans(ids[whole], sentence[whole], spans[whole, 0], spans[whole, 1])


def _ends_behind_marks(
    texts: Sequence[str], sentence: NDArray[np.int64], spans: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Extend spans [W, 2] in their sentences [W] over the marks of their last character: where a
    normaliser composes ﾊ and ﾞ, the offsets are those of the first."""

    def is_mark(character: str) -> bool:
        return character in _COMPOSED or unicodedata.category(character).startswith("M")

    ends = spans[:, 1].copy()
    is_marked = pc.match_substring_regex(pa.array(texts, pa.string()), _MARK)
    rows = np.flatnonzero(is_marked.to_numpy(zero_copy_only=False)[sentence])
    for row in rows[spans[rows, 0] < ends[rows]].tolist():
        text = texts[sentence[row]]
        is_last = row + 1 == len(spans) or sentence[row + 1] != sentence[row]
        limit = len(text) if is_last else spans[row + 1, 0]
        while ends[row] < limit and is_mark(text[ends[row]]):
            ends[row] += 1
    return ends


def align(tokens: TokenBatch, words: WordSpans) -> Ragged:
    """Find each word's teacher tokens, as positions in the flattened batch [B * T], [W rows]."""
    n_columns = tokens.input_ids.shape[1]
    # All sentences are laid out on one line of characters, so that two binary searches do the
    # whole batch. The stride is longer than any sentence, so that positions ascend.
    stride = int(max(tokens.ends.max(initial=0), words.ends.max(initial=0))) + 1
    row, column = np.nonzero(tokens.is_text)
    starts = tokens.starts[row, column] + row * stride
    ends = tokens.ends[row, column] + row * stride
    first = np.searchsorted(ends, words.starts + words.sentence * stride, side="right")
    last = np.searchsorted(starts, words.ends + words.sentence * stride, side="left")
    lengths = np.maximum(last - first, 0)
    offsets = offsets_of(lengths)
    index = np.repeat(first - offsets[:-1], lengths) + np.arange(offsets[-1])
    return Ragged((row * n_columns + column)[index].astype(np.int32), offsets)


class WordBags(NamedTuple):
    """A weighted sum of token vectors for each of the U distinct words of a batch."""

    word: NDArray[np.int64]  # token ids, ascending
    counts: NDArray[np.int64]  # of the sentences with each
    tokens: Ragged  # positions in the flattened batch, [U rows]
    weights: NDArray[np.float32]  # of each of these; of a word, those of a sentence add up to 1


def word_bags(spans: Ragged, words: WordSpans) -> WordBags:
    """Weigh the tokens of each occurrence of `words`: mean of a word's pieces, then of its
    occurrences in a sentence. The mean over sentences is its vector (paper section 2.1)."""
    aligned = np.flatnonzero(spans.lengths)
    order = aligned[np.lexsort((aligned, words.sentence[aligned], words.word[aligned]))]
    word, sentence = words.word[order], words.sentence[order]
    begins_pair = (np.diff(word, prepend=-1) != 0) | (np.diff(sentence, prepend=-1) != 0)
    pair_of_position = np.cumsum(begins_pair) - 1
    n_in_pair = np.bincount(pair_of_position)
    occurrences = spans.take(order)
    weights = 1.0 / (occurrences.lengths * n_in_pair[pair_of_position])
    distinct, first = np.unique(word, return_index=True)
    boundaries = np.append(first, len(word))
    return WordBags(
        word=distinct,
        counts=np.bincount(np.searchsorted(distinct, word[begins_pair]), minlength=len(distinct)),
        tokens=Ragged(occurrences.values, occurrences.offsets[boundaries]),
        weights=np.repeat(weights, occurrences.lengths).astype(np.float32),
    )
