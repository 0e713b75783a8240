"""Words, letters and languages of texts, in any script."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from st_static.languages import UNSPACED_SCRIPTS, is_english, script_of

_KANA = r"\p{Hiragana}\p{Katakana}\x{30FC}\x{FF70}"
_HAN_AND_KANA = r"\p{Han}" + _KANA
# The scripts that are written without spaces, and in which languages they stand for.
_UNSPACED = {
    **{script: rf"\p{{{script}}}" for script in sorted(UNSPACED_SCRIPTS)},
    **{"Han": _HAN_AND_KANA, "Hiragana": _HAN_AND_KANA},
}
UNSPACED_CHARACTERS = "".join(dict.fromkeys(_UNSPACED.values()))
"""The characters of all of them, for a class of a regular expression of Arrow's."""
# A character with its marks, those of half-width kana among them.
_CHARACTER = rf"[{UNSPACED_CHARACTERS}][\pM\x{{FF9E}}\x{{FF9F}}]*"
# Two characters with the punctuation about them, or else whatever has no space in it.
_WORD = rf"\pP*{_CHARACTER}\pP*(?:{_CHARACTER}\pP*)?|[^ {UNSPACED_CHARACTERS}]+"


def count_words(texts: pa.Array, languages: Sequence[str]) -> NDArray[np.int64]:
    """Count the words of texts, in which single spaces are the only white space.

    Words stand between spaces. In languages other than English, two characters of a script that is
    written without spaces (Han, kana, Thai, Lao, Khmer, Myanmar, Tibetan) are a word, too.

    Args:
        texts: The texts, [B].
        languages: Tags of the text's languages; without any, it is English.

    Returns:
        Each text's words, [B].

    Example:
        >>> count_words(pa.array(["Pythonで書く。", "two words"]), ["ja"]).tolist()
        [3, 2]
    """
    words = _numbers(pc.count_substring(texts, " ")) + 1
    if not is_english(languages):
        # Only these can hold such a script; ASCII is counted ten times as fast.
        others = ~pc.string_is_ascii(texts).to_numpy(zero_copy_only=False)
        words[others] = _count(texts.filter(pa.array(others)), _WORD)
    return words


def has_unspaced(texts: pa.Array) -> NDArray[np.bool_]:
    """Whether texts [B] hold a character of a script that is written without spaces.

    Example:
        >>> has_unspaced(pa.array(["行く", "go"])).tolist()
        [True, False]
    """
    found = pc.match_substring_regex(texts, f"[{UNSPACED_CHARACTERS}]")
    return np.asarray(found.to_numpy(zero_copy_only=False))


def share_of_letters(texts: pa.Array, languages: Sequence[str]) -> NDArray[np.float64]:
    """The share of letters among each text's characters.

    In languages other than English, a combining mark, such as a vowel sign of Devanagari or Thai,
    belongs to the character before it, so that it is not counted.

    Args:
        texts: The texts, [B].
        languages: Tags of the text's languages; without any, it is English.

    Returns:
        Shares from 0 to 1, [B].
    """
    lengths = _numbers(pc.utf8_length(texts))
    joined = "".join(texts.to_pylist()).encode("utf-32-le", errors="surrogatepass")
    characters = np.frombuffer(joined, dtype="<u4")
    letters = _sums(_is_letter()[characters], lengths)
    if not is_english(languages):
        lengths = lengths - _sums(_is_mark()[characters], lengths)
    shares: NDArray[np.float64] = letters / np.maximum(lengths, 1)
    return shares


@functools.cache
def _is_letter() -> NDArray[np.bool_]:
    """For every code point, whether it is a letter (Unicode categories L*)."""
    return np.fromiter((chr(i).isalpha() for i in range(0x110000)), np.bool_, 0x110000)


@functools.cache
def _is_mark() -> NDArray[np.bool_]:
    """For every code point, whether it is a mark (Unicode categories M*)."""
    categories = (unicodedata.category(chr(i)) for i in range(0x110000))
    return np.fromiter((category[0] == "M" for category in categories), np.bool_, 0x110000)


def _sums(values: NDArray[np.bool_], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many values are true in each of the runs that follow one another, [B]."""
    totals = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
    ends = np.cumsum(lengths)
    sums: NDArray[np.int64] = totals[ends] - totals[ends - lengths]
    return sums


def fit_languages(texts: pa.Array, languages: Sequence[str]) -> list[str]:
    """For each text, the first of the languages that is written in the script of most words.

    Two characters of a script without spaces are a word. Text in Han and kana is Japanese where
    kana are a tenth of it or more; with less, it is in a language written in Han alone, if one is
    among the languages. Text in the script of none of them is taken for the first.

    Args:
        texts: The texts, [B].
        languages: The tags to choose from.

    Returns:
        A tag for each text, [B].

    Example:
        >>> fit_languages(pa.array(["行く", "去吧", "Go!", "Иди!"]), ["en", "ja", "zh"])
        ['ja', 'zh', 'en', 'en']
    """
    tags = {script_of(tag): tag for tag in reversed(languages)}
    if len(tags) == 1:
        return [languages[0]] * len(texts)
    words = {script: _count(texts, _words_of(script)) for script in tags}
    if tags.keys() >= {"Han", "Hiragana"}:
        has_kana = 10 * _count(texts, rf"[{_KANA}]{{1,2}}") >= words["Han"]
        words["Han"][has_kana] = words["Hiragana"][~has_kana] = 0
    # The first of equals is the first that is named.
    order = sorted(tags, key=lambda script: languages.index(tags[script]))
    best = np.argmax(np.stack([words[script] for script in order]), axis=0)
    return [tags[order[place]] for place in best.tolist()]


def _words_of(script: str) -> str:
    """A pattern of a word in a script."""
    return rf"[{_UNSPACED[script]}]{{1,2}}" if script in _UNSPACED else rf"\p{{{script}}}+"


def _count(texts: pa.Array, pattern: str) -> NDArray[np.int64]:
    """How often a pattern occurs in each text, [B]."""
    return _numbers(pc.count_substring_regex(texts, pattern))


def _numbers(values: pa.Array) -> NDArray[np.int64]:
    return np.asarray(values.to_numpy(zero_copy_only=False)).astype(np.int64)
