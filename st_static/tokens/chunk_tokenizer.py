"""Text to token ids through a memory of chunks.

Tokenisation is most of a static model's running time, and natural text repeats its chunks (the
strings between spaces, or of Unigram tokenizers shorter ones). So each distinct chunk goes through
the tokenizer once, and its ids are copied to every place where it stands. This is exact where the
tokenizer never looks across the cuts (see `boundaries` and `unigram_cuts`); other tokenizers are
run on the whole text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from tokenizers import Tokenizer

from st_static.tokens import arrow
from st_static.tokens.borders import AFTER_PUNCTUATION, AT_BERTS_BORDERS, border, overlong_words
from st_static.tokens.boundaries import chunking_of
from st_static.tokens.chunks import Spans, cut_texts
from st_static.tokens.columns import text_column
from st_static.tokens.memo import EncodeChunks, Memo
from st_static.tokens.panics import TellingPanics
from st_static.tokens.ragged import Ragged, concatenate, interleave, offsets_of
from st_static.tokens.tokenizer import split_plain_words
from st_static.tokens.unigram_parts import UnigramParts, unigram_parts

# Fewer spend more on each call of the tokenizer, more on its long strings.
_CHUNKS_IN_A_TEXT = 50
# To cut fewer bytes inside of words takes longer than the tokenizer itself.
_FEW_BYTES = 4_000
# What plain chunks are made of.
_PRINTABLE = "^[!-~]+$"
# Each is looked for in every new chunk.
_MAX_ADDED = 16
# Of so many bytes of texts the ids are found at a time: chunks take many times their bytes.
_BYTES_AT_A_TIME = 8_000_000
# Longer texts are cut into pieces of about so many bytes.
_PIECE_BYTES = 1_000_000
Encode = Callable[[pa.Array], Ragged]


class ChunkTokenizer:
    """Token ids of many texts at once, equal to the tokenizer's own, without special tokens.

    It may be used by several threads at a time.

    Args:
        tokenizer: Any `tokenizers.Tokenizer`, without padding. It is not to be changed later.
        max_chunks: The memory is emptied when it holds more than this many chunks. By default
            200,000, and 1,000,000 where words are cut, too, whose parts are many.
        max_bytes: The same, for the bytes of chunks and their ids.

    Example:
        >>> from st_static.tokens.tokenizer import build_tokenizer
        >>> encode = ChunkTokenizer(build_tokenizer(["a", "b"]))
        >>> encode(["A b", "b"]).values.tolist()
        [2, 3, 3]
    """

    def __init__(
        self, tokenizer: Tokenizer, max_chunks: int | None = None, max_bytes: int = 50_000_000
    ) -> None:
        self.tokenizer = tokenizer
        self.max_bytes = max_bytes
        description = json.loads(tokenizer.to_str())
        self.chunking = chunking_of(description)
        truncation = description["truncation"]
        self._max_tokens: int | None = truncation and truncation["max_length"]
        self._whole_chunks = tokenizer
        if self._max_tokens is not None:  # of texts, not of the chunks put together into one
            self._whole_chunks = Tokenizer.from_str(tokenizer.to_str())
            self._whole_chunks.no_truncation()
            description = json.loads(self._whole_chunks.to_str())  # scores may have changed a bit
        self._unigram = unigram_parts(self._whole_chunks, description)
        self.max_chunks = max_chunks or (200_000 if self._unigram is None else 1_000_000)
        self._lowercase = _lowercase_of_bert(description)
        self._added = [token["content"] for token in description["added_tokens"]]
        bert = self._lowercase is not None
        self._border = border(self.chunking)
        chinese = bert and description["normalizer"]["handle_chinese_chars"]
        self._border_without_added = AT_BERTS_BORDERS if chinese else self._border
        if self._unigram is not None and self._unigram.cuts.splits_punctuation:
            self._border_without_added = AFTER_PUNCTUATION
        self._overlong = overlong_words(description["model"]) if bert else None
        self._memo = Memo(self.max_chunks, max_bytes, _known_words(description))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.tokenizer, self.max_chunks, self.max_bytes)

    def __call__(self, texts: Sequence[str] | pa.Array) -> Ragged:
        """Encode texts.

        Args:
            texts: A list of str, or an Arrow string array without nulls, [B].

        Returns:
            Token ids, [B rows].
        """
        array = texts if isinstance(texts, pa.Array) else _as_array(texts)
        if array.nbytes > _BYTES_AT_A_TIME:
            return self._encode_many(array.cast(pa.large_string()))
        return self._encode(array)

    def in_parts(self, texts: pa.Array) -> Iterator[Ragged]:
        """Token ids of large_string texts [B], some at a time, and of long texts piece by piece.

        Yields:
            Token ids of texts and pieces, [P rows].
        """
        bounds = np.sort(np.concatenate([arrow.bytes_of_strings(texts)[0], self._cuts(texts)]))
        for part in self._parts(bounds, arrow.bytes_of_strings(texts)[1]):
            yield self._encode(part)

    def _encode_many(self, texts: pa.Array) -> Ragged:
        """Encode texts of many bytes."""
        ids = concatenate(list(self.in_parts(texts)))
        offsets, _ = arrow.bytes_of_strings(texts)
        first_piece = np.arange(len(offsets)) + np.searchsorted(self._cuts(texts), offsets)
        return Ragged(ids.values, ids.offsets[first_piece])

    def _cuts(self, texts: pa.Array) -> NDArray[np.int64]:
        """Where long ones of texts [B] are cut, counted in the bytes of all of them."""
        offsets, data = arrow.bytes_of_strings(texts)
        is_long = np.diff(offsets) > _PIECE_BYTES
        if self.chunking.cut is None or self._max_tokens is not None:
            is_long[:] = False
        is_long &= ~_contain_any(texts, self.chunking.kept_whole)
        has_added = _contain_any(texts, self._added)
        cuts: list[int] = []
        for i in np.flatnonzero(is_long):
            border = self._border if has_added[i] else self._border_without_added
            place, end = int(offsets[i]) + _PIECE_BYTES, int(offsets[i + 1])
            while found := border.search(data.data, place, end):
                cuts.append(found.start())
                place = cuts[-1] + _PIECE_BYTES
        return np.array(cuts, np.int64)

    def _parts(self, bounds: NDArray[np.int64], data: NDArray[np.uint8]) -> Iterator[pa.Array]:
        """The pieces between bounds [P + 1], as many at a time as have few bytes, at least one."""
        pieces = arrow.strings_of_bytes(bounds, data)
        start = 0
        while start < len(pieces):
            stop = np.searchsorted(bounds, bounds[start] + _BYTES_AT_A_TIME, side="right") - 1
            stop = max(start + 1, int(stop))
            part = pieces.slice(start, stop - start)
            if self._overlong and bounds[stop] - bounds[start] > _BYTES_AT_A_TIME:
                # What was too long a word before is one still.
                text = data[bounds[start] : bounds[stop]].data
                shortened = self._overlong.sub(lambda match: bytes(match[1]), text)
                length = np.array([0, len(shortened)], np.int64)
                part = arrow.strings_of_bytes(length, np.frombuffer(shortened, np.uint8))
            yield part
            start = stop

    def _encode(self, array: pa.Array) -> Ragged:
        parts = self._unigram
        if parts is None or array.nbytes > parts.cuts.longest:
            return self._encode_at_spaces(array)
        if array.nbytes < _FEW_BYTES:
            return self._encode_whole(array)
        return _in_two_ways(
            array,
            _contain_any(array, self._added),
            lambda texts: self._encode_parts(texts, parts),
            self._encode_at_spaces,
        )

    def _encode_parts(self, texts: pa.Array, parts: UnigramParts) -> Ragged:
        """Encode texts that are cut inside of words, too."""
        chunks, offsets = parts.cuts.cut(texts.cast(pa.large_string()))
        return self._encode_cut(
            chunks, offsets, lambda new: parts.encode(new, self._encode_in_groups)
        )

    def _encode_at_spaces(self, array: pa.Array) -> Ragged:
        cut = self.chunking.cut
        if cut is None:
            return self._encode_whole(array)
        return _in_two_ways(
            array,
            self._kept_whole(array),
            lambda texts: self._encode_cut(*cut_texts(texts, cut), self._encode_new),
            self._encode_whole,
        )

    def _encode_cut(
        self, chunks: Spans, offsets: NDArray[np.int64], encode: EncodeChunks
    ) -> Ragged:
        if self._unigram is not None and chunks.inside is None:
            chunks = Spans(*chunks[:3], np.zeros(len(chunks.starts), np.bool_))
        rows, ids = self._memo.look_up(chunks, encode)
        taken = ids.take(rows)
        of_texts = Ragged(taken.values, taken.offsets[offsets])
        return of_texts if self._max_tokens is None else of_texts.first(self._max_tokens)

    def _encode_whole(self, texts: pa.Array) -> Ragged:
        strings = texts.to_pylist()
        with TellingPanics(self.tokenizer):
            encodings = self.tokenizer.encode_batch_fast(strings, add_special_tokens=False)
        return _rows(encoding.ids for encoding in encodings)

    def _kept_whole(self, texts: pa.Array) -> NDArray[np.bool_]:
        """Which texts must not be cut, [B]."""
        whole = np.zeros(len(texts), dtype=np.bool_)
        if self.chunking.ascii_only:
            whole |= ~arrow.mask(pc.string_is_ascii(texts))
        return whole | _contain_any(texts, self.chunking.kept_whole)

    def _encode_new(self, chunks: list[str]) -> Ragged:
        """Encode chunks, those of plain words through their words."""
        if self._unigram is not None:  # each after "0"
            return self._encode_in_groups([chunk[1:] for chunk in chunks])
        if self._lowercase is None:
            return self._encode_in_groups(chunks)
        array = arrow.strings(chunks)
        plain = arrow.mask(pc.match_substring_regex(array, _PRINTABLE))
        plain = plain & ~_contain_any(array, self._added)
        words = split_plain_words(array.filter(arrow.of_mask(plain)), self._lowercase)
        rows, ids = self._memo.look_up(Spans.of(words.flatten()), self._encode_in_groups)
        of_words = ids.take(rows)
        bounds = offsets_of(arrow.numbers(pc.list_value_length(words)))
        of_plain = Ragged(of_words.values, of_words.offsets[bounds])
        others = [chunks[i] for i in np.flatnonzero(~plain)]
        return interleave(plain, [self._encode_in_groups(others), of_plain])

    def _encode_in_groups(self, chunks: list[str]) -> Ragged:
        """Encode chunks, many in one text: a call of the tokenizer costs more than a chunk."""
        if not self.chunking.joinable:
            with TellingPanics(self.tokenizer):
                encodings = self._whole_chunks.encode_batch_fast(chunks, add_special_tokens=False)
            return _rows(encoding.ids for encoding in encodings)
        firsts = range(0, len(chunks), _CHUNKS_IN_A_TEXT)
        texts = [" ".join(chunks[i : i + _CHUNKS_IN_A_TEXT]) for i in firsts]
        with TellingPanics(self.tokenizer):
            encodings = self._whole_chunks.encode_batch(texts, add_special_tokens=False)
        # All texts on one line, a space after each: a token belongs to the chunk that it starts in.
        begins = offsets_of(np.fromiter(map(len, chunks), np.int64, len(chunks)) + 1)
        starts = [
            np.array(encoding.offsets, np.int64).reshape(-1, 2)[:, 0] + begin
            for begin, encoding in zip(begins[firsts], encodings, strict=True)
        ]
        chunk_of_token = np.searchsorted(begins, np.concatenate([[], *starts]), side="right") - 1
        ids = np.fromiter(chain.from_iterable(e.ids for e in encodings), np.int32)
        return Ragged(ids, offsets_of(np.bincount(chunk_of_token, minlength=len(chunks))))


def _in_two_ways(
    texts: pa.Array,
    second: NDArray[np.bool_],
    encode_first: Encode,
    encode_second: Encode,
) -> Ragged:
    """Encode texts [B], those that `second` [B] names in the second way."""
    if not second.any():
        return encode_first(texts)
    if second.all():
        return encode_second(texts)
    rows = [
        encode_first(texts.filter(arrow.of_mask(~second))),
        encode_second(texts.filter(arrow.of_mask(second))),
    ]
    return interleave(second, rows)


def _as_array(texts: Sequence[str]) -> pa.Array:
    """A large_string array of texts [B]; what is no text is named."""
    try:
        return arrow.strings(texts)
    except (AttributeError, UnicodeEncodeError):
        text_column(texts)  # says what is wrong with which
        raise


def _rows(rows: Iterable[list[int]]) -> Ragged:
    rows = list(rows)
    offsets = offsets_of(np.fromiter(map(len, rows), np.int64, len(rows)))
    return Ragged(np.fromiter(chain.from_iterable(rows), np.int32), offsets)


def _contain_any(texts: pa.Array, strings: Sequence[str]) -> NDArray[np.bool_]:
    """Which texts contain one of the strings, [B]."""
    mask = np.zeros(len(texts), dtype=np.bool_)
    for string in strings:
        mask |= arrow.mask(pc.match_substring(texts, string))
    return mask


def _lowercase_of_bert(description: dict[str, Any]) -> bool | None:
    """Whether a tokenizer lower-cases, if plain ASCII is split by `split_plain_words`."""
    normalizer, pre_tokenizer = description["normalizer"], description["pre_tokenizer"]
    added = description["added_tokens"]
    if (
        not normalizer
        or normalizer["type"] != "BertNormalizer"
        or not pre_tokenizer
        or pre_tokenizer["type"] != "BertPreTokenizer"
        or len(added) > _MAX_ADDED
        # Lower-casing may make these, and the tokenizer looks for the others before it.
        or any(token["normalized"] or token["content"].isalnum() for token in added)
    ):
        return None
    return bool(normalizer["lowercase"])


def _known_words(description: dict[str, Any]) -> dict[str, int]:
    """Words that are surely one token: those of a word-level or WordPiece vocabulary."""
    lowercase, model = _lowercase_of_bert(description), description["model"]
    if lowercase is None or model["type"] not in ("WordPiece", "WordLevel"):
        return {}
    longest = model.get("max_input_chars_per_word", math.inf)
    return {
        word: index
        for word, index in model["vocab"].items()
        if word.isascii()
        and word.isalnum()
        and len(word) <= longest
        and not (lowercase and word != word.lower())
    }
