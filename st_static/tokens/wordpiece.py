"""WordPiece tokenizers run by the library nanotoken: the tokenizer's own ids, many times as fast.

nanotoken is young, so it is trusted by proof: some hundreds of odd strings and a sample of the
vocabulary go first through both. Where one differs, the tokenizer itself is used.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from itertools import cycle, islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, models

from st_static.tokens.panics import encode_batch
from st_static.tokens.ragged import Ragged

if TYPE_CHECKING:
    from nanotoken import WordPieceTokenizer

logger = logging.getLogger(__name__)

# Each thread remembers this many strings between spaces and this many words, in at most 20 MB.
# More is no faster on running text, whose frequent strings are few.
_CACHE_ENTRIES = 2**17
# How many tokens of the vocabulary are tried, in texts of this many; and how many added ones.
_TRIED_TOKENS, _TOKENS_IN_A_TEXT, _TRIED_ADDED = 1_500, 25, 50
# Characters at which tokenizers differ: each is tried alone, inside a word, and between words.
_ODD_CHARACTERS = (
    "\0\x01\t\n\x0b\x0c\r\x1c\x7f\x85\xa0\xad"  # control characters and spaces
    "\u1680\u2003\u200b\u200d\u200e\u2028\u2029\u202f\u2060\u3000\ufe0f\ufeff\ufffd"
    "'\u2019`\xb4$+<=>^|~¡§«·€№™"  # punctuation and symbols, of which BERT splits off some
    "éÉßẞıİſŉǆǅΣσςΐΆйЁ\u0301\u0308\u0345\u20dd\u3099"  # letters with cases and marks
    "ﬁﬃ２Ａｱﾞ㍿①½²ªⅣ"  # forms of compatibility
    "가각\u1100\u1161かがガ々〆ーあ東龍\uf900\u3007"  # Korean, Japanese and Chinese
    "\U00020000\U0002f800\U0001f600\U0001f3fd\U0001f1ef\U00010400\U0001d400\U000e0041\U0010ffff"
    "אבָגܐเก็เำणि์ক্ষ؟،ـلا١"  # scripts with marks that combine, or read from right to left
)
_ODD_TEXTS = (
    "",
    " ",
    "  two  spaces  ",
    "I'm can't DON'T o'clock U.S. 3.14 1,000 e-mail snake_case a/b",
    "Straße ﬁn ΌΣΟΣ ὈΔΥΣΣΕΎΣ İstanbul Dzięki naïve Ǆ",
    "e\u0301e\u0301\u0323 a\u0315\u0300\u05ae\u0062 q\u0307\u0323",
    "mixed東京words와한국어and日本語",
    "[UNK] [PAD] [CLS] [SEP] [MASK] [unk] ##s ##",
    "https://example.com/a?b=c&d=%20#e someone@example.com",
    "👩‍👩‍👧 🇯🇵 👍🏽 ☎️ 1️⃣",
    "x" * 99,
    "x" * 100,
    "x" * 101,
    "é" * 101,
    "word " * 40,
    "東" * 120,
)


class NativeWordPiece:
    """nanotoken's tokenizer, for several threads at a time; `native_wordpiece` makes it. After a
    fork beside other threads, which may have held its locks, the child loads it anew. Texts that
    are not valid Unicode are a UnicodeEncodeError."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._backend: WordPieceTokenizer | None = None
        self._load()
        _natives.add(self)

    def _load(self) -> WordPieceTokenizer:
        import nanotoken

        if self._backend is None:
            self._backend = nanotoken.WordPieceTokenizer.from_json(self._tokenizer.to_str())
        return self._backend

    def encode(self, text: str) -> NDArray[np.uint32]:
        """Encode a text as ids [T]."""
        ids: NDArray[np.uint32] = (self._backend or self._load()).encode(text, False)
        return ids

    def encode_many(self, texts: list[str]) -> Ragged:
        """Encode texts as ids [B rows]."""
        # nanotoken's own threads would not survive a fork, and their number cannot be set.
        ids, offsets = self._load().encode_batch(texts, add_special_tokens=False, parallel=False)
        return Ragged(ids.view(np.int32), offsets)


_natives: weakref.WeakSet[NativeWordPiece] = weakref.WeakSet()
_left_behind: list[WordPieceTokenizer | None] = []
_forks_beside_threads = False


def _before_fork() -> None:
    global _forks_beside_threads
    _forks_beside_threads = threading.active_count() > 1


def _after_fork() -> None:
    if _forks_beside_threads:
        for native in list(_natives):
            _left_behind.append(native._backend)  # to free it could wait for a lock, too
            native._backend = None


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)


def native_wordpiece(tokenizer: Tokenizer) -> NativeWordPiece | None:
    """Load a tokenizer into nanotoken, and prove that ids are the same; None if that cannot be."""
    if not isinstance(tokenizer.model, models.WordPiece):
        return None
    try:
        import nanotoken  # which takes time to load, and is not there on all platforms
    except ImportError:
        return None
    try:
        native = NativeWordPiece(tokenizer)
    except nanotoken.UnsupportedTokenizerError:
        return None
    if "NANOTOKEN_CACHE_ENTRIES" not in os.environ:
        nanotoken.set_cache_entries(_CACHE_ENTRIES)
    if different := _first_difference(tokenizer, native):
        logger.warning(
            "nanotoken gives other ids than the tokenizer for %r, so the tokenizer itself is used, "
            "which is slower.",
            different,
        )
        return None
    return native


def _first_difference(tokenizer: Tokenizer, native: NativeWordPiece) -> str | None:
    """Find the first test text for which ids differ."""
    texts = [*_ODD_TEXTS, *(f"{c} a{c}b {c}a {c}{c}" for c in _ODD_CHARACTERS)]
    size = tokenizer.get_vocab_size(with_added_tokens=False)
    sample = map(tokenizer.id_to_token, range(0, size, max(1, size // _TRIED_TOKENS)))
    tokens = [token for token in sample if token is not None]
    parts = [tokens[i : i + _TOKENS_IN_A_TEXT] for i in range(0, len(tokens), _TOKENS_IN_A_TEXT)]
    texts += [join.join(part) for join, part in zip(cycle([" ", ""]), parts, strict=False)]
    for token in islice(tokenizer.get_added_tokens_decoder().values(), _TRIED_ADDED):
        texts += [token.content, f"a {token.content} b", f"a{token.content}b"]
    expected, ids = encode_batch(tokenizer, texts), native.encode_many(texts)
    for i, text in enumerate(texts):
        if not np.array_equal(expected.rows(i, i + 1).values, ids.rows(i, i + 1).values):
            return text
    return None
