"""Count words and letters of texts, and choose their languages, in any script."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from st_static.languages import UNSPACED_SCRIPTS, is_english, script_of
from st_static.texts import arrow
from st_static.tokens.ragged import offsets_of

_KANA = r"\p{Hiragana}\p{Katakana}\x{30FC}\x{FF70}"
_HAN_AND_KANA = r"\p{Han}" + _KANA
# The characters of the scripts that are written without spaces.
_UNSPACED = {
    **{script: rf"\p{{{script}}}" for script in sorted(UNSPACED_SCRIPTS)},
    **{"Han": _HAN_AND_KANA, "Hiragana": _HAN_AND_KANA},
}
UNSPACED_CHARACTERS = "".join(dict.fromkeys(_UNSPACED.values()))
"""The characters of all of them, for a character class of Arrow's regular expressions."""
UNSPACED_CHARACTER = rf"[{UNSPACED_CHARACTERS}][\pM\x{{FF9E}}\x{{FF9F}}]*"
"""One of them with its marks, including those of half-width kana, for the same."""
# Two characters with the punctuation around them, or any text without spaces.
_WORD = rf"\pP*{UNSPACED_CHARACTER}\pP*(?:{UNSPACED_CHARACTER}\pP*)?|[^ {UNSPACED_CHARACTERS}]+"


def count_words(texts: pa.Array, languages: Sequence[str]) -> NDArray[np.int64]:
    """Count the words of texts [B], whose only white space is single spaces. In languages other
    than English (no tags), two characters of a script without spaces are also a word."""
    words = arrow.numbers(pc.count_substring(texts, " ")).astype(np.int64) + 1
    if not is_english(languages):
        # Only these can hold such a script; ASCII is counted ten times as fast by its spaces.
        others = ~arrow.mask(pc.string_is_ascii(texts))
        words[others] = _count(texts.filter(arrow.of_mask(others)), _WORD)
    return words


def has_unspaced(texts: pa.Array) -> NDArray[np.bool_]:
    """Find texts [B] with a character of a script that is written without spaces."""
    return arrow.mask(pc.match_substring_regex(texts, f"[{UNSPACED_CHARACTERS}]"))


def share_of_letters(texts: pa.Array, languages: Sequence[str]) -> NDArray[np.float64]:
    """Compute the share of letters among each text's characters, [B], from 0 to 1; in languages
    other than English, combining marks, as in Devanagari or Thai, are not counted."""
    lengths = arrow.numbers(pc.utf8_length(texts)).astype(np.int64)
    joined = "".join(texts.to_pylist()).encode("utf-32-le", errors="surrogatepass")
    characters = np.frombuffer(joined, dtype="<u4")
    borders = offsets_of(lengths)
    letters = np.diff(offsets_of(_is_in_category("L")[characters])[borders])
    if not is_english(languages):
        lengths -= np.diff(offsets_of(_is_in_category("M")[characters])[borders])
    shares: NDArray[np.float64] = letters / np.maximum(lengths, 1)
    return shares


@functools.cache
def _is_in_category(category: str) -> NDArray[np.bool_]:
    """Tell for every code point whether it is of a category: a letter, L, or a mark, M."""
    categories = (unicodedata.category(chr(i)) for i in range(0x110000))
    return np.fromiter((name[0] == category for name in categories), np.bool_, 0x110000)


def fit_languages(texts: pa.Array, languages: Sequence[str]) -> list[str]:
    """Choose for each text [B] the first of the languages whose script most words have. Text in Han
    and kana is Japanese if kana are a tenth of it or more; otherwise it is in a language written in
    Han alone, if one is given. Text in another script gets the first language."""
    tags = {script_of(tag): tag for tag in reversed(languages)}
    if len(tags) == 1:
        return [languages[0]] * len(texts)
    words = {}
    for script in tags:
        word = rf"[{_UNSPACED[script]}]{{1,2}}" if script in _UNSPACED else rf"\p{{{script}}}+"
        words[script] = _count(texts, word)
    if tags.keys() >= {"Han", "Hiragana"}:
        has_kana = 10 * _count(texts, rf"[{_KANA}]{{1,2}}") >= words["Han"]
        words["Han"][has_kana] = words["Hiragana"][~has_kana] = 0
    # Ties go to the language that is named first.
    order = sorted(tags, key=lambda script: languages.index(tags[script]))
    best = np.argmax(np.stack([words[script] for script in order]), axis=0)
    return [tags[order[i]] for i in best.tolist()]


def _count(texts: pa.Array, pattern: str) -> NDArray[np.int64]:
    """Count the matches of a pattern in each text, [B]."""
    return arrow.numbers(pc.count_substring_regex(texts, pattern)).astype(np.int64)
