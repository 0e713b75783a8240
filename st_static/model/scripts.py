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

_KANA = r"\p{Hiragana}\p{Katakana}\x{30FC}\x{FF70}"
_HAN_AND_KANA = r"\p{Han}" + _KANA
# The characters of the scripts that are written without spaces.
_UNSPACED = {
    **{script: rf"\p{{{script}}}" for script in sorted(UNSPACED_SCRIPTS)},
    **{"Han": _HAN_AND_KANA, "Hiragana": _HAN_AND_KANA},
}
UNSPACED_CHARACTERS = "".join(dict.fromkeys(_UNSPACED.values()))
"""The characters of all of them, for a character class of Arrow's regular expressions."""
# A character with its marks, including those of half-width kana.
_CHARACTER = rf"[{UNSPACED_CHARACTERS}][\pM\x{{FF9E}}\x{{FF9F}}]*"
# Two characters with the punctuation around them, or any text without spaces.
_WORD = rf"\pP*{_CHARACTER}\pP*(?:{_CHARACTER}\pP*)?|[^ {UNSPACED_CHARACTERS}]+"


def count_words(texts: pa.Array, languages: Sequence[str]) -> NDArray[np.int64]:
    """Count the words of texts, in which single spaces are the only white space.

    Spaces separate words. In languages other than English, two characters of a script that is
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
        # Only these can hold such a script; ASCII is counted ten times as fast by its spaces.
        others = ~pc.string_is_ascii(texts).to_numpy(zero_copy_only=False)
        words[others] = _count(texts.filter(pa.array(others)), _WORD)
    return words


def has_unspaced(texts: pa.Array) -> NDArray[np.bool_]:
    """Find texts [B] with a character of a script that is written without spaces.

    Example:
        >>> has_unspaced(pa.array(["行く", "go"])).tolist()
        [True, False]
    """
    found = pc.match_substring_regex(texts, f"[{UNSPACED_CHARACTERS}]")
    return np.asarray(found.to_numpy(zero_copy_only=False))


def share_of_letters(texts: pa.Array, languages: Sequence[str]) -> NDArray[np.float64]:
    """Compute the share of letters among each text's characters.

    In languages other than English, combining marks, such as vowel signs of Devanagari or Thai, are
    not counted as characters.

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
    """Tell for every code point whether it is a letter (Unicode categories L*)."""
    return np.fromiter((chr(i).isalpha() for i in range(0x110000)), np.bool_, 0x110000)


@functools.cache
def _is_mark() -> NDArray[np.bool_]:
    """Tell for every code point whether it is a mark (Unicode categories M*)."""
    categories = (unicodedata.category(chr(i)) for i in range(0x110000))
    return np.fromiter((category[0] == "M" for category in categories), np.bool_, 0x110000)


def _sums(values: NDArray[np.bool_], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the true values in consecutive runs, [B]."""
    totals = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
    ends = np.cumsum(lengths)
    sums: NDArray[np.int64] = totals[ends] - totals[ends - lengths]
    return sums


def fit_languages(texts: pa.Array, languages: Sequence[str]) -> list[str]:
    """Choose for each text the first of the languages whose script most words have.

    Two characters of a script without spaces are a word. Text in Han and kana is Japanese if kana
    are a tenth of it or more; otherwise it is in a language written in Han alone, if one is among
    the languages. Text in another script gets the first language.

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
    # Ties go to the language that is named first.
    order = sorted(tags, key=lambda script: languages.index(tags[script]))
    best = np.argmax(np.stack([words[script] for script in order]), axis=0)
    return [tags[order[place]] for place in best.tolist()]


def _words_of(script: str) -> str:
    """Make a pattern of a word in a script."""
    return rf"[{_UNSPACED[script]}]{{1,2}}" if script in _UNSPACED else rf"\p{{{script}}}+"


def _count(texts: pa.Array, pattern: str) -> NDArray[np.int64]:
    """Count the matches of a pattern in each text, [B]."""
    return _numbers(pc.count_substring_regex(texts, pattern))


def _numbers(values: pa.Array) -> NDArray[np.int64]:
    return np.asarray(values.to_numpy(zero_copy_only=False)).astype(np.int64)
