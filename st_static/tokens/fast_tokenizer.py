"""Text to token ids, equal to the tokenizer's own, by the fastest of three ways.

WordPiece tokenizers, as of BERT and our words, run in nanotoken (`wordpiece`); Unigram tokenizers,
as of SentencePiece and our pieces, in numpy (`unigram`); all others as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, models

from st_static.threads import forks_wait, made_once
from st_static.tokens.boundaries import AFTER_PUNCTUATION, Boundaries, boundaries_of
from st_static.tokens.foreign import without_sampling
from st_static.tokens.panics import TellingPanics, encode_batch
from st_static.tokens.ragged import Ragged, concatenate
from st_static.tokens.wordpiece import NativeWordPiece, native_wordpiece

# Loaded where they are used: they need pyarrow, which single texts do not.
if TYPE_CHECKING:
    import pyarrow as pa

    from st_static.tokens.unigram import UnigramTokenizer

Ids = Sequence[int] | NDArray[np.uint32]

# Tokenize at most this many bytes, or Python strings, per call: ids take less memory than what
# leads to them, and Ctrl-C is heard in between.
_BYTES_AT_A_TIME = 8_000_000
_STRINGS_AT_A_TIME = 10_000
# Longer texts are cut into pieces of about this many bytes.
_PIECE_BYTES = 1_000_000
# The tokenizer takes about as long for this many characters on two cores as nanotoken takes to load
# with 60,000 words: 0.2 s.
_CHARACTERS_WITHOUT_NATIVE = 400_000


class FastTokenizer:
    """Token ids of many texts at once, equal to the tokenizer's own, without special tokens.

    Several threads may use it at a time. The tokenizer has no padding, and must not be changed
    later; its dropout and other sampling are switched off. `max_tokens` is the length to which it
    truncates texts, if it does.

    >>> from st_static.model.tokenizer import build_tokenizer
    >>> encode = FastTokenizer(build_tokenizer(["a", "b"]))
    >>> encode(["A b", "b"]).values.tolist()
    [2, 3, 3]
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = without_sampling(tokenizer)
        truncation = tokenizer.truncation
        self.max_tokens: int | None = truncation["max_length"] if truncation else None
        self._truncates_right = not truncation or truncation["direction"] == "right"
        self._characters_left = _CHARACTERS_WITHOUT_NATIVE

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.tokenizer,)

    @made_once
    def _untruncated(self) -> Tokenizer:
        """The tokenizer without truncation on the right: a copy if it has any."""
        if self.max_tokens is None or not self._truncates_right:
            return self.tokenizer
        tokenizer = Tokenizer.from_str(self.tokenizer.to_str())
        tokenizer.no_truncation()
        return tokenizer

    @made_once
    def _description(self) -> dict[str, Any]:
        """The parsed tokenizer.json."""
        description: dict[str, Any] = json.loads(self._untruncated.to_str())
        return description

    @made_once
    def _native(self) -> NativeWordPiece | None:
        return native_wordpiece(self._untruncated) if self._truncates_right else None

    @made_once
    def _unigram(self) -> UnigramTokenizer | None:
        from st_static.tokens.unigram import unigram_tokenizer

        if not self._truncates_right:
            return None
        return unigram_tokenizer(self._untruncated, self._description)

    @made_once
    def _boundaries(self) -> Boundaries:
        if self.max_tokens is not None:  # which counts for whole texts
            return Boundaries(None)
        boundaries = boundaries_of(self._description)
        if boundaries.border and self._unigram is not None and self._unigram.splits_punctuation:
            added = self._description["added_tokens"]
            return Boundaries(AFTER_PUNCTUATION, tuple(token["content"] for token in added))
        return boundaries

    def __call__(self, texts: Sequence[str] | pa.Array) -> Ragged:
        """Encode texts [B], in Arrow without nulls, as ids [B rows]; errors name the position."""
        try:
            ids = self._encode_any(texts)
        except (AttributeError, TypeError, UnicodeEncodeError):
            with forks_wait:
                from st_static.texts.columns import text_column

            text_column(texts)  # names the text and its fault
            raise
        return ids if self.max_tokens is None else ids.first(self.max_tokens)

    def _encode_any(self, texts: Sequence[str] | pa.Array) -> Ragged:
        """Encode texts [B], without truncation on the right."""
        untyped: Any = texts
        is_array = hasattr(texts, "buffers")  # of pyarrow, which need not be loaded
        if not is_array and isinstance(self._untruncated.model, models.WordPiece):
            strings = list(texts)
            if not all(issubclass(kind, str) for kind in set(map(type, strings))):
                # Bytes, say, which nanotoken takes as well.
                raise TypeError("Expected texts of type str.")
            if native := self._native_for(strings):
                starts = range(0, len(strings), _STRINGS_AT_A_TIME) or [0]
                parts = (strings[start : start + _STRINGS_AT_A_TIME] for start in starts)
                return concatenate([native.encode_many(part) for part in parts])
            if sum(map(len, strings)) <= _BYTES_AT_A_TIME:
                return encode_batch(self._untruncated, strings)
        with forks_wait:
            from st_static.texts import arrow

        array = untyped if is_array else arrow.strings(texts)
        if array.nbytes <= _BYTES_AT_A_TIME:
            return self._encode(array)
        array = array.cast(arrow.LARGE_STRING)
        ids = concatenate(list(self.in_parts(array)))
        offsets, _ = arrow.bytes_of_strings(array)
        first_piece = np.arange(len(offsets)) + np.searchsorted(self._cut_positions(array), offsets)
        return Ragged(ids.values, ids.offsets[first_piece])

    def _native_for(self, texts: Sequence[str]) -> NativeWordPiece | None:
        """Return nanotoken if it supports the tokenizer, and is loaded or worth loading."""
        if "_native" not in self.__dict__:
            self._characters_left -= sum(map(len, texts))
            if self._characters_left >= 0:
                return None
        return self._native

    def prepare(self) -> None:
        """Load what encodes many texts, which else the first call with many texts does."""
        if self._native is None:
            _ = self._unigram

    def ids_of(self, text: str) -> Ids:
        """Encode one text as ids [T], without loading what only pays for many."""
        if self.max_tokens is None:
            native = self._native if "_native" in self.__dict__ else self._native_for((text,))
            if native is not None:
                return native.encode(text)
        if not text.isascii():
            text.encode()  # of half a surrogate pair the tokenizer says that it is no str
        with TellingPanics(self.tokenizer):
            ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def in_parts(self, texts: pa.Array) -> Iterator[Ragged]:
        """Encode large_string texts [B], some at a time, and long ones piece by piece, [P rows]."""
        with forks_wait:
            from st_static.texts import arrow

        offsets, data = arrow.bytes_of_strings(texts)
        bounds = np.sort(np.concatenate([offsets, self._cut_positions(texts)]))
        pieces = arrow.strings_of_bytes(bounds, data)
        start = 0
        while start < len(pieces):
            # Take at least one piece.
            stop = np.searchsorted(bounds, bounds[start] + _BYTES_AT_A_TIME, side="right") - 1
            stop = max(start + 1, int(stop))
            yield self._encode(pieces.slice(start, stop - start))
            start = stop

    def _cut_positions(self, texts: pa.Array) -> NDArray[np.int64]:
        """Find the positions at which long texts are cut, in the bytes of all texts [B]."""
        with forks_wait:
            from st_static.texts import arrow

        border = self._boundaries.border
        offsets, data = arrow.bytes_of_strings(texts)
        is_long = np.diff(offsets) > _PIECE_BYTES
        if border is None or not is_long.any():
            return np.empty(0, np.int64)
        cuts: list[int] = []
        for i in np.flatnonzero(is_long & ~arrow.contain_any(texts, self._boundaries.kept_whole)):
            position, end = int(offsets[i]) + _PIECE_BYTES, int(offsets[i + 1])
            while match := border.search(data.data, position, end):
                cuts.append(match.start())
                position = cuts[-1] + _PIECE_BYTES
        return np.array(cuts, np.int64)

    def _encode(self, texts: pa.Array) -> Ragged:
        """Encode texts [B] at once."""
        if self._native is not None:
            return self._native.encode_many(texts.to_pylist())
        if self._unigram is not None:
            return self._unigram.encode(texts)
        return encode_batch(self._untruncated, texts.to_pylist())
