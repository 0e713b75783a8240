"""Token ids of Unigram tokenizers: each distinct part of a word is split into pieces once.

Where no spaces are written, a word is a whole sentence, which seldom repeats: so words are cut
further. Besides word borders, one more cut is exact, as Unigram takes the pieces with the largest
sum of scores: between two characters over whose border no piece of the vocabulary lies. Both must
be pieces, as unknown characters in a row make one token. What comes after such a cut is inside of a
word, and gets no mark of a beginning.

If sums of scores were rounded, what stands before a part of a word could decide how that is split:
`a aa` and `aa a` have the same sum, or differ in its last bit. So the scores must be multiples of
a power of two that is large enough for all sums to be exact, as float32 ones of SentencePiece are,
and multiples of 1/4096, which JSON also keeps.

Normalisation must do on both sides of a cut what it does in the whole text. A character that may
combine with the one before it, or that is not known to be harmless, is opaque: texts are not cut
next to it, nor next to the character before it, and words that hold one not inside.
"""

from __future__ import annotations

import functools
import math
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer, normalizers

from st_static.texts import arrow
from st_static.tokens.boundaries import Part, flat
from st_static.tokens.panics import encode_batch
from st_static.tokens.ragged import Ragged, concatenate, interleave, offsets_of, ragged_of
from st_static.tokens.unigram_viterbi import PENALTY, UnigramViterbi

# With fewer parts the library is as fast, and with longer ones its model is: the search takes a
# step for each character of the longest part.
_FEWEST = 64
_LONGEST = 40
# To cut fewer bytes takes longer than the tokenizer itself.
_FEW_BYTES = 4_000
# Kinds of characters, by what the tokenizer makes of them alone.
_UNSEEN, _OPAQUE, _SPACE, _PUNCTUATION, _UNKNOWN, _PIECE = range(6)
# Later ones are rare ideographs, and nothing else that is common in text.
_N_CHARACTERS = 0x20000
_NORMALIZERS = {"Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Nmt"}
# The normaliser that SentencePiece's models have before Metaspace.
_JOIN_SPACES = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
# Drops control characters, and makes spaces of white space.
_CLEAN = {
    "type": "BertNormalizer",
    "clean_text": True,
    "handle_chinese_chars": False,
    "strip_accents": False,
    "lowercase": False,
}
# The steps that may stand before Metaspace: none, the first, or both.
_SPLITS = [{"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "Isolated"}]
# Sums that are exact for shorter texts only are of no use.
_FEWEST_CHARACTERS = 1_000_000
# Slots for each string: one that shares the slot of another counts as held by a piece.
_SLOTS, _FEWEST_BITS = 32, 16
_FACTORS = 0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35
# A letter that nothing is normalised to: it stands beside others to see what is split off.
_LETTER = "\U0010fffd"


def unigram_tokenizer(tokenizer: Tokenizer, description: Part) -> UnigramTokenizer | None:
    """Make a faster equal of a tokenizer; None if no cut inside words is surely exact."""
    model = description["model"]
    if (
        model["type"] != "Unigram"
        or model["byte_fallback"]
        or any(token["normalized"] for token in description["added_tokens"])
        or not _splits_at_words(description)
        or not _acts_on_characters(description)
        or exact_characters([score for _, score in model["vocab"]]) < _FEWEST_CHARACTERS
    ):
        return None
    return UnigramTokenizer(tokenizer, description)


def exact_characters(scores: list[float]) -> int:
    """Count the characters whose scores add up without rounding, in any order."""
    if not scores or not all(map(math.isfinite, scores)):
        return 0
    finest = max(score.as_integer_ratio()[1] for score in scores)
    return int(2**53 / finest / (max(map(abs, scores)) + PENALTY))


def _splits_at_words(description: Part) -> bool:
    """Check that `UnigramTokenizer` finds the words of the pre-tokenizer."""
    parts = flat(description["pre_tokenizer"], "pretokenizers")
    if not parts or parts[-1]["type"] != "Metaspace" or not parts[-1].get("split", True):
        return False
    before = parts[:-1]
    is_first = parts[-1].get("prepend_scheme", "always") == "first"
    return not before or (before in (_SPLITS[:1], _SPLITS) and not is_first)


def _acts_on_characters(description: Part) -> bool:
    """Check that each normaliser acts on characters, and on the combining marks after them."""
    drops_spaces = len(flat(description["pre_tokenizer"], "pretokenizers")) > 1
    return all(
        part["type"] in _NORMALIZERS or part == (_CLEAN if drops_spaces else _JOIN_SPACES)
        for part in flat(description["normalizer"], "normalizers")
    )


class UnigramTokenizer:
    """Encodes texts as one tokenizer does; it may be used by several threads at a time."""

    def __init__(self, tokenizer: Tokenizer, description: Part) -> None:
        model = description["model"]
        pieces = [piece for piece, _ in model["vocab"]]
        self._tokenizer, self._normalizers = tokenizer, list(_steps_of(tokenizer.normalizer))
        self._added = [token["content"] for token in description["added_tokens"]]
        self._viterbi = UnigramViterbi(model["vocab"], model["unk_id"])
        # Texts of more bytes than this must not be cut here.
        self._longest = exact_characters([score for _, score in model["vocab"]])
        parts = flat(description["pre_tokenizer"], "pretokenizers")
        self._drops_spaces, self._mark = len(parts) > 1, parts[-1]["replacement"]
        self._marks_words = self._drops_spaces and parts[-1].get("prepend_scheme") == "always"
        self.splits_punctuation = len(parts) > 2  # a punctuation character is a word
        # Two tokens that are spelled as the unknown one would become one, too.
        unknown = "" if model["unk_id"] is None else pieces[model["unk_id"]]
        self._single_pieces = {piece for piece in pieces if len(piece) == 1} - set(unknown[-1:])
        self._kinds = np.zeros(_N_CHARACTERS + 1, np.uint8)
        self._kinds[_N_CHARACTERS] = _OPAQUE
        # What each becomes: 0 where that is not surely one character inside of a word.
        self._points = np.zeros(_N_CHARACTERS + 1, np.uint32)
        self._hashes = np.zeros((3, _N_CHARACTERS + 1), np.uint32)  # see `_NgramTable`
        self._ngrams = _NgramTable(pieces, self._mark)

    def encode(self, texts: pa.Array) -> Ragged:
        """Encode texts [B] of any size as ids [B rows]."""
        texts = texts.cast(pa.large_string())
        if texts.nbytes > self._longest or texts.nbytes < _FEW_BYTES:
            return encode_batch(self._tokenizer, texts.to_pylist())
        has_added = arrow.contain_any(texts, self._added)
        if not has_added.any():
            return self._encode_cut(texts)
        without = self._encode_cut(texts.filter(arrow.of_mask(~has_added)))
        whole = texts.filter(arrow.of_mask(has_added)).to_pylist()
        return interleave(has_added, [without, encode_batch(self._tokenizer, whole)])

    def _encode_cut(self, texts: pa.Array) -> Ragged:
        """Encode texts without added tokens."""
        parts, inside, offsets = self.cut(texts)
        words = parts.filter(arrow.of_mask(~inside)).dictionary_encode()
        insides = parts.filter(arrow.of_mask(inside)).dictionary_encode()
        n_words = len(words.dictionary)
        indices = np.empty(len(parts), np.int64)
        indices[~inside] = arrow.numbers(words.indices)
        indices[inside] = arrow.numbers(insides.indices) + np.int64(n_words)
        distinct = pa.concat_arrays([words.dictionary, insides.dictionary])
        ids = self._encode_parts(distinct, np.arange(len(distinct)) >= n_words).take(indices)
        return Ragged(ids.values, ids.offsets[offsets])

    def _encode_parts(self, parts: pa.Array, inside: NDArray[np.bool_]) -> Ragged:
        """Encode distinct parts [P], which begin words or are inside them."""
        offsets, data = arrow.bytes_of_strings(parts)
        lengths = np.diff(offsets_of(arrow.begin_characters(data))[offsets])
        characters = np.minimum(arrow.code_points(data), _N_CHARACTERS)
        points, is_word = self._points[characters], self._kinds[characters] == _PUNCTUATION
        # The parts that are left to the library.
        odd = (points == 0) | (is_word & (np.repeat(lengths, lengths) > 1))
        left = np.logical_or.reduceat(odd, offsets_of(lengths)[:-1]) | (lengths >= _LONGEST)
        if not self._marks_words:
            left |= ~inside
        if len(left) - np.count_nonzero(left) < _FEWEST:
            left[:] = True
        rows = np.flatnonzero(~left)
        points, lengths, marked = points[np.repeat(~left, lengths)], lengths[rows], ~inside[rows]
        points = np.insert(points, offsets_of(lengths)[:-1][marked], ord(self._mark))
        ids, unsure = self._viterbi.encode(points, lengths + marked)
        left[rows[unsure]] = True
        if not left.any():
            return ids
        words = parts.filter(arrow.of_mask(left & ~inside)).to_pylist()
        insides = parts.filter(arrow.of_mask(left & inside)).to_pylist()
        groups = [encode_batch(self._tokenizer, words), self._encode_inside(insides)]
        return interleave(left, [ids.take(np.flatnonzero(~unsure)), concatenate(groups)])

    def _encode_inside(self, parts: list[str]) -> Ragged:
        """Encode parts [n] that begin and end inside a word."""
        text = " ".join(parts)
        if self._tokenizer.normalizer is not None:
            text = self._tokenizer.normalizer.normalize_str(text)
        words = text.split(" ") if parts else []
        model = self._tokenizer.model
        return ragged_of([[token.id for token in model.tokenize(word)] for word in words])

    def cut(self, texts: pa.Array) -> tuple[pa.Array, NDArray[np.bool_], NDArray[np.int64]]:
        """Cut large_string texts [B] into parts [P], without white space that gives no token.
        Also return which begin inside a word, [P], and where each text's parts begin, [B + 1]."""
        offsets, data = arrow.bytes_of_strings(texts)
        positions = np.flatnonzero(arrow.begin_characters(data))
        characters = np.minimum(arrow.code_points(data), _N_CHARACTERS)
        kinds = np.take(self._kinds, characters)
        if not kinds.all():
            self._learn(np.unique(characters[kinds == _UNSEEN]).tolist())
            kinds = np.take(self._kinds, characters)
        kinds[:-1][kinds[1:] == _OPAQUE] = _OPAQUE
        opaque = kinds == _OPAQUE
        # The characters at which a word begins for sure.
        border = kinds == _SPACE
        if self._drops_spaces:
            border |= kinds == _PUNCTUATION
            begins = border[1:] | border[:-1]
        else:  # the first of several spaces, as they may become one
            begins = border[1:] & ~border[:-1]
        is_start = np.zeros(len(kinds), np.bool_)
        is_start[1:] = begins & ~opaque[1:] & ~opaque[:-1]
        is_start[np.searchsorted(positions, offsets[:-1][np.diff(offsets) > 0])] = True
        # Those at which a piece begins for sure, but no word.
        spanned = self._ngrams.over_borders([np.take(table, characters) for table in self._hashes])
        is_piece = kinds == _PIECE
        is_inside = np.zeros(len(kinds), np.bool_)
        is_inside[1:] = is_piece[1:] & is_piece[:-1] & ~spanned & ~is_start[1:]
        if opaque.any():  # where a word ends is not known around it
            starts = np.flatnonzero(is_start)
            lengths = np.diff(starts, append=len(kinds))
            is_inside &= ~np.repeat(np.logical_or.reduceat(opaque, starts), lengths)
        cuts = np.flatnonzero(is_start | is_inside)
        begins = positions[cuts]
        parts = arrow.strings_of_bytes(np.append(begins, len(data)), data)
        inside = is_inside[cuts]
        if self._drops_spaces:
            keep = (kinds[cuts] != _SPACE) | (np.diff(cuts, append=len(characters)) > 1)
            parts, inside, begins = parts.filter(arrow.of_mask(keep)), inside[keep], begins[keep]
        return parts, inside, np.searchsorted(begins, offsets)

    def _learn(self, characters: list[int]) -> None:
        """Find the kinds of characters, and the hashes of their normalised forms."""
        normalized = {character: self._normalized(chr(character)) for character in characters}
        visible = [character for character in characters if normalized[character]]
        self._hashes[:, visible] = self._ngrams.hashes([normalized[c] for c in visible])
        split = self._split_framed(normalized.values())
        for (character, text), words in zip(normalized.items(), split, strict=True):
            kind = self._kind_of(text, words)
            if kind in (_PUNCTUATION, _UNKNOWN, _PIECE) and len(text) == 1:
                self._points[character] = ord(text)
            self._kinds[character] = kind  # last, for other threads go by it

    def _normalized(self, text: str) -> str:
        """Normalise a character; empty if normalisation may act across characters."""
        for normalizer in self._normalizers:
            if not text or not _never_combines(text[0]):
                return ""
            text = normalizer.normalize_str(text)
        # The last one, too, may make a mark of a letter, as of the half-width ﾞ, and join it.
        joins = bool(text and self._normalizers) and not _never_combines(text[0])
        return "" if joins else text

    def _split_framed(self, texts: Iterable[str]) -> Iterator[list[str]]:
        """Split each text with a letter before and after it by the pre-tokenizer."""
        framed = " ".join(f"{_LETTER}{text}{_LETTER}" for text in texts)
        words: list[str] = []
        for word, _ in self._tokenizer.pre_tokenizer.pre_tokenize_str(framed):
            words.append(word.removeprefix(self._mark))
            if "".join(words).count(_LETTER) == 2:
                yield words
                words = []

    def _kind_of(self, text: str, words: list[str]) -> int:
        """Classify a character by its normalised text and the words into which that is split."""
        if not text or self._mark in text:
            return _OPAQUE
        if len(words) == 1:
            return _PIECE if text in self._single_pieces else _UNKNOWN
        if words == [_LETTER, _LETTER]:
            return _SPACE
        return _PUNCTUATION if words == [_LETTER, *text, _LETTER] else _OPAQUE


def _steps_of(normalizer: normalizers.Normalizer | None) -> Iterator[normalizers.Normalizer]:
    """List the steps of a normaliser."""
    if isinstance(normalizer, normalizers.Sequence):
        for i in range(len(normalizer)):
            yield from _steps_of(normalizer[i])
    elif normalizer is not None:
        yield normalizer


def _never_combines(character: str) -> bool:
    """Check that a character never combines with the one before it, nor changes places with it."""
    category = unicodedata.category(character)
    return category[0] != "M" and category != "Cn" and character not in _composing_characters()


@functools.cache
def _composing_characters() -> frozenset[str]:
    """List the characters that compose with the one before them."""
    jamo = map(chr, range(0x1160, 0x1200))
    compositions = map(unicodedata.decomposition, map(chr, range(_N_CHARACTERS)))
    pairs = (c.split() for c in compositions if c and not c.startswith("<"))
    return frozenset([*jamo, *(chr(int(pair[1], 16)) for pair in pairs if len(pair) == 2)])


class _NgramTable:
    """The pairs and triples of characters in pieces, by hashes, so with false positives. A piece
    over a border is its two characters, or holds them and one more; the mark before a word is not
    in the text, so the two characters after it count as a piece."""

    def __init__(self, pieces: list[str], mark: str) -> None:
        pairs = {piece for piece in pieces if len(piece) == 2}
        pairs |= {piece[1:3] for piece in pieces if len(piece) > 2 and piece[0] == mark}
        triples = {piece[i : i + 3] for piece in pieces for i in range(len(piece) - 2)}
        self._bits = max(_FEWEST_BITS, (_SLOTS * max(len(pairs), len(triples))).bit_length())
        self._pairs, self._triples = (self._table_of(strings) for strings in (pairs, triples))

    def hashes(self, texts: list[str]) -> NDArray[np.uint64]:
        """Hash normalised characters [n] for the first, second and third position, [3, n]."""
        first, last = (
            np.fromiter((ord(text[end]) for text in texts), np.uint64, len(texts))
            for end in (0, -1)
        )
        return np.stack(list(map(self._hash, (last, first, first), _FACTORS)))

    def over_borders(self, hashes: list[NDArray[np.uint32]]) -> NDArray[np.bool_]:
        """Find the borders [N - 1] that a piece may span, by the three hashes of characters [N]."""
        first, second, third = hashes
        pairs = first[:-1] ^ second[1:]
        spanned: NDArray[np.bool_] = np.take(self._pairs, pairs)
        triples = np.take(self._triples, pairs[:-1] ^ third[2:])
        spanned[:-1] |= triples
        spanned[1:] |= triples
        return spanned

    def _table_of(self, strings: set[str]) -> NDArray[np.bool_]:
        """Make a table with the slots of strings of two or three characters."""
        table = np.zeros(1 << self._bits, np.bool_)
        if strings:
            points = np.frombuffer("".join(strings).encode("utf-32-le"), np.uint32)
            columns = points.astype(np.uint64).reshape(len(strings), -1).T
            hashes = map(self._hash, columns, _FACTORS)
            table[functools.reduce(np.bitwise_xor, hashes)] = True
        return table

    def _hash(self, points: NDArray[np.uint64] | np.uint64, factor: int) -> Any:
        """Hash code points to numbers of `bits` bits."""
        low = points * np.uint64(factor) & np.uint64(0xFFFFFFFF)
        return low >> np.uint64(32 - self._bits)
