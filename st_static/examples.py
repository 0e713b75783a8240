"""Example sentences by language: for using a model, and for showing its limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

SUITED = "similarity, search, clustering and classification of sentences and short paragraphs"
"""The uses of static models."""
NOT_SUITED = (
    "long documents, whose mean hides single sentences, or texts whose meaning depends on more "
    "than their words"
)
"""The texts that they are not for."""


@dataclass(frozen=True)
class Limit:
    """Two texts that show a limit, and what a reader would expect of their cosine."""

    limit: str
    should: str
    first: str
    second: str


@dataclass(frozen=True)
class Examples:
    """The sentences of a card."""

    language: str
    foreign: str  # the language that one sentence is translated into
    usage: tuple[str, ...]  # what its program encodes
    heat_map: tuple[str, str]  # the pair whose cosine is drawn word by word
    limits: tuple[Limit, ...]


_SWAPPED = ("word order", "clearly below 1: the roles are swapped")
_OPPOSITE = ("negation", "low: they say the opposite")
_POLITE = ("politeness", "high: plain and polite style, one meaning")
_BY_LANGUAGE = {
    "en": Examples(
        "en",
        "de",
        ("Read rows from a file.", "Parse a CSV file.", "It rains today."),
        ("How do I read rows from a CSV file?", "Parse a table of comma separated values."),
        (
            Limit(*_SWAPPED, "The dog bit the man.", "The man bit the dog."),
            Limit(*_OPPOSITE, "The film is worth seeing.", "The film is not worth seeing."),
        ),
    ),
    "ja": Examples(
        "ja",
        "en",
        ("ファイルから行を読み込む。", "CSVファイルを解析する。", "今日は雨が降っている。"),
        ("週末に友人と京都のお寺を訪れた。", "友達と京都を観光しました。"),
        (
            # A piece may hold a noun and its particle, but not a name and what follows さん.
            Limit(
                *_SWAPPED,
                "田中さんが鈴木さんに電話をかけた。",
                "鈴木さんが田中さんに電話をかけた。",
            ),
            Limit(*_OPPOSITE, "この映画は見る価値がある。", "この映画は見る価値がない。"),
            Limit(*_POLITE, "昨日は図書館で本を読んだ。", "昨日は図書館で本を読みました。"),
        ),
    ),
}
_TRANSLATIONS = {
    "de": "Die Kinder spielen im Garten.",
    "en": "The children are playing in the garden.",
    "es": "Los niños están jugando en el jardín.",
    "fr": "Les enfants jouent dans le jardin.",
    "ja": "子どもたちは庭で遊んでいる。",
    "zh": "孩子们正在花园里玩耍。",
}


def usage_in(languages: Sequence[str]) -> tuple[str, ...]:
    """Choose sentences to encode, in the first of a model's languages that has any."""
    languages = list(languages) or ["en"]
    usages = [_BY_LANGUAGE[code].usage for code in languages if code in _BY_LANGUAGE]
    translations = [(_TRANSLATIONS[code],) for code in languages if code in _TRANSLATIONS]
    return next(iter([*usages, *translations]), ())


def examples_for(languages: Sequence[str]) -> Examples:
    """Choose the examples of the first of the languages that has any, else English ones. The last
    limit is a translation between two of them, or into one that is not known."""
    examples = _BY_LANGUAGE[next((code for code in languages if code in _BY_LANGUAGE), "en")]
    codes = [code for code in languages if code in _TRANSLATIONS][:2]
    what = "translation" if len(codes) == 2 else "other languages"
    source, target = codes if len(codes) == 2 else (examples.language, examples.foreign)
    translated = Limit(what, "high: a translation", _TRANSLATIONS[source], _TRANSLATIONS[target])
    return replace(examples, limits=(*examples.limits, translated))
