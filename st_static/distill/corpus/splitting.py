"""Split paragraphs into sentences, by the rules of their language.

BlingFire splits English, but not before a small letter. sentencex splits lower-cased English, has
rules for some forty other languages, and splits at the marks of all scripts (`。`, `؟`, `।`, …).
"""

from __future__ import annotations

import logging
import re
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from ctypes import create_string_buffer, string_at
from itertools import chain, groupby

import numpy as np
import pyarrow as pa
import sentencex
from blingfire import blingfire
from numpy.typing import NDArray
from py3langid import classify, rank

from st_static.distill.corpus.shards import Shard, Shards
from st_static.languages import has_spaces, is_english, languages_of, primary_of
from st_static.model.scripts import fit_languages

logger = logging.getLogger(__name__)

# Languages for which sentencex has rules, or uses those of a related language.
_WITH_RULES = (
    "ab am an ar av ay ba bg bm bn ca ce co cs cv da de el en es fi fr gl gn gu hi ht hy it ja kk "
    "kl kn kv lb li ln mg ml mr my nl oc os pa pl pt qu rm ru sa sg sk ta te tt ty uk wa wo"
)
# Ends that it misses in scripts without spaces: at marks of Khmer and Tibetan; at spaces between
# clauses of Thai and Lao, but not at those around ๆ and ໆ, which repeat a word; and after a
# full-width mark before a number.
_MORE_ENDS = re.compile(
    r"(?<=[។៕།༎]) ?(?![\s។៕།༎]|$)|(?<=[\u0e00-\u0eff])(?<![ๆໆ]) (?![ๆໆ])(?=[\u0e00-\u0eff])"
    r"|(?<=[。｡\uff01\uff1f])(?=\d)"
)
# The time of sentencex is quadratic in the length of the text.
_WINDOW = 1_000
# The language of a corpus is checked at this many places, by this many sentences at each, as one
# alone is often too short.
_PLACES, _SENTENCES = 100, 10
_CLEAR_MAJORITY = 2 / 3
# Groups of languages that are hard to tell apart.
_ALIKE = (
    {"ar", "ary", "arz"},
    {"bs", "hr", "sr"},
    {"fil", "tl"},
    {"id", "ms"},
    {"lzh", "wuu", "yue", "zh"},
    {"nb", "nn", "no"},
)
# English has a capital every 20 to 100 letters; lower-cased text may still have a few.
_LETTERS_PER_CAPITAL = 500
# A text of this many letters without a capital is lower-cased, even if others have capitals.
_LETTERS_OF_A_TEXT = 200


def warn_without_rules(languages: Sequence[str]) -> None:
    """Warn of languages without rules, which are split by those for English."""
    ruled = {*_WITH_RULES.split(), "code", "multilingual"}
    if unknown := [tag for tag in languages if primary_of(tag) not in ruled and has_spaces(tag)]:
        logger.warning(
            "There are no rules for splitting %s into sentences, so that those for English are "
            "used: an abbreviation may end a sentence too early.",
            " and ".join(unknown),
        )


def are_lower_cased(texts: Sequence[str]) -> NDArray[np.bool_]:
    """Find the English texts that are lower-cased, [B]: all, if together they have hardly any
    capitals; otherwise the longer ones without any."""
    capitals, small = (
        np.array([_count(letters, text) for text in texts], np.int64)
        for letters in (string.ascii_uppercase, string.ascii_lowercase)
    )
    if small.any() and capitals.sum() * _LETTERS_PER_CAPITAL <= small.sum():
        return np.ones(len(texts), np.bool_)
    return (capitals * _LETTERS_PER_CAPITAL <= small) & (small >= _LETTERS_OF_A_TEXT)


def _count(letters: str, text: str) -> int:
    encoded = text.encode("utf-8", "replace")
    return len(encoded) - len(encoded.translate(None, letters.encode()))


def split_paragraphs(
    paragraphs: Sequence[str], languages: Sequence[str], lower_cased: Sequence[bool] | None = None
) -> list[str]:
    """Split paragraphs, whose white space is single spaces inside, into sentences, each by the
    rules of the language that fits its script: `fit_languages`. Without any, they are English."""
    if is_english(languages):
        tags = ["en"] * len(paragraphs)
    else:
        tags = fit_languages(pa.array(paragraphs, pa.large_string()), languages)
    lower_cased = lower_cased or [False] * len(paragraphs)
    runs = groupby(zip(tags, lower_cased, paragraphs, strict=True), key=lambda row: row[:2])
    return [
        sentence
        for (tag, is_lower_cased), run in runs
        for sentence in _split_one_language([text for *_, text in run], tag, is_lower_cased)
    ]


def _split_one_language(paragraphs: list[str], tag: str, is_lower_cased: bool) -> list[str]:
    if is_english(tag) and not is_lower_cased:
        return list(filter(None, _split_english(paragraphs)))  # a zero-width space gives ""
    language = "en" if is_english(tag) else primary_of(tag)
    parts = (_segment(text, language) for text in paragraphs)
    sentences = chain.from_iterable(map(_at_spaces, parts) if language == "en" else parts)
    if not has_spaces(tag):
        sentences = chain.from_iterable(map(_MORE_ENDS.split, sentences))
    return [stripped for text in sentences if (stripped := text.strip())]


def _at_spaces(sentences: Iterator[str]) -> Iterator[str]:
    """Join sentences that no space divides, such as parts of an address."""
    joined = ""
    for sentence in sentences:
        joined += sentence
        if sentence.endswith(" "):
            yield joined
            joined = ""
    yield joined


def _segment(paragraph: str, language: str) -> Iterator[str]:
    """Split a paragraph with sentencex, a window at a time; its last sentence may continue."""
    size = _WINDOW
    while len(paragraph) > size:
        *whole, _ = sentencex.segment(language, paragraph[:size])
        yield from whole
        paragraph = paragraph[sum(map(len, whole)) :]
        size = _WINDOW if whole else 2 * size
    yield from sentencex.segment(language, paragraph)


def _split_english(paragraphs: Sequence[str]) -> list[str]:
    """Split paragraphs as `blingfire.text_to_sentences`, twice as fast by using one buffer."""
    encoded = [paragraph.encode() for paragraph in paragraphs]
    size = 2 * max(map(len, encoded), default=0) + 1
    buffer = create_string_buffer(size)
    parts = []
    for paragraph in encoded:
        written = blingfire.TextToSentences(paragraph, len(paragraph), buffer, size)
        # The count includes a closing zero byte; -1 means that the text could not be split.
        parts.append(string_at(buffer, written - 1) if 0 < written <= size else paragraph)
    return b"\n".join(parts).decode().split("\n") if parts else []


def warn_of_other_language(corpus: Shards, language: str | list[str] | None) -> None:
    """Warn if a clear majority of the text is in one language that the recipe does not name."""
    tags = languages_of(language)
    all_labels = {label for label, _ in rank("")}
    accepted = {"zxx"}  # no language, such as numbers
    for tag in tags or ["en"]:
        name = "en" if tag == "code" else primary_of(tag)
        labels = all_labels & next((group for group in _ALIKE if name in group), {name})
        if not labels:
            return
        accepted |= labels
    _, numbers = corpus.smallest(_PLACES, np.positive, "language")
    numbers = np.sort(numbers[:_PLACES])
    texts = list(chain.from_iterable(corpus.map(_join_runs, "language", numbers)))
    if not texts:
        return
    label, n_places = Counter(classify(text)[0] for text in texts).most_common(1)[0]
    if label in accepted or n_places < _CLEAR_MAJORITY * len(texts):
        return
    named = f"names the language {' and '.join(tags)}"
    logger.warning(
        "The recipe %s, but %d of %d places in the text look like another language, %s. If that is "
        "right, give the recipe's language: --language %s.",
        named if language else "names no language, which stands for English",
        *(n_places, len(texts), label, label),
    )


def _join_runs(shard: Shard) -> list[str]:
    texts = shard.read()["text"]
    return [" ".join(texts.slice(row, _SENTENCES).to_pylist()) for row in shard.rows.tolist()]
