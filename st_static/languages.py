"""Languages by their BCP 47 tags, such as `ja`, `pt-BR` or `zh-Hant`."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from st_static.arguments import require

# A language, optionally with script and region.
_TAG = re.compile("[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?")
# The Hub's tags for text that is in no single natural language.
_NO_LANGUAGES = {"code", "multilingual"}
# Unicode's names of scripts by their ISO 15924 codes.
_SCRIPTS = {
    **{"Arab": "Arabic", "Armn": "Armenian", "Beng": "Bengali", "Cyrl": "Cyrillic"},
    **{"Deva": "Devanagari", "Ethi": "Ethiopic", "Geor": "Georgian", "Grek": "Greek"},
    **{"Gujr": "Gujarati", "Guru": "Gurmukhi", "Hans": "Han", "Hant": "Han", "Hebr": "Hebrew"},
    **{"Jpan": "Hiragana", "Khmr": "Khmer", "Knda": "Kannada", "Kore": "Hangul", "Laoo": "Lao"},
    **{"Mlym": "Malayalam", "Mymr": "Myanmar", "Orya": "Oriya", "Sinh": "Sinhala"},
    **{"Taml": "Tamil", "Telu": "Telugu", "Thaa": "Thaana", "Thai": "Thai", "Tibt": "Tibetan"},
}
UNSPACED_SCRIPTS = {"Han", "Hiragana", "Khmer", "Lao", "Myanmar", "Thai", "Tibetan"}
"""Scripts that are written without spaces between words."""


def languages_of(language: str | Sequence[str] | None) -> list[str]:
    """List the tags of a recipe's `language`; none if it is missing."""
    return [language] if isinstance(language, str) else list(language or [])


def check_language(language: str | list[str] | None, option: str = "language") -> None:
    """Check the tags of languages, which an option gives."""
    tags = languages_of(language)
    for tag in tags:
        from langcodes import tag_is_valid  # not in the base install

        require(
            tag in _NO_LANGUAGES or (bool(_TAG.fullmatch(tag)) and tag_is_valid(tag)),
            f"{option} must be a BCP 47 tag, such as en, ja or zh-Hant, or a list of them, but got "
            f"{tag!r}, which is none.",
        )
    require(len(set(tags)) == len(tags), f"{option} names one twice: {tags}.")


def primary_of(tag: str) -> str:
    """Cut a tag down to its language, without script and region: `pt-BR` to `pt`."""
    return tag.partition("-")[0]


def recorded_languages(recipe: Mapping[str, Any]) -> list[str]:
    """List the languages of a recipe in a model's record, without script and region."""
    return list(dict.fromkeys(map(primary_of, languages_of(recipe.get("language")))))


def languages_of_record(record: Mapping[str, Any]) -> list[str]:
    """List the languages in a record; an ensemble has its members', if all of them have any.

    >>> members = [{"languages": ["ja"]}, {"languages": ["en", "ja"]}]
    >>> languages_of_record({"ensemble": {"members": members}})
    ['ja', 'en']
    >>> languages_of_record({"ensemble": {"members": [*members, {}]}})
    []
    """
    recipe, ensemble, conversion, training = (
        record.get(part) or {} for part in ("recipe", "ensemble", "conversion", "fine_tuning")
    )
    lists = [member.get("languages") or [] for member in ensemble.get("members") or []]
    of_members = list(dict.fromkeys(chain.from_iterable(lists))) if all(lists) else []
    of_conversion = list(conversion.get("languages") or [])
    return recorded_languages(recipe or training) or of_members or of_conversion


def has_spaces(tag: str) -> bool:
    """Tell whether a language is written with spaces between words."""
    return script_of(tag) not in UNSPACED_SCRIPTS


def are_several(languages: Sequence[str]) -> bool:
    """Tell whether tags name several languages; variants of one do not count, nor does code."""
    primary = {primary_of(tag) for tag in languages} - {"code"}
    return len(primary) > 1 or "multilingual" in primary


def has_dotless_i(languages: Iterable[str]) -> bool:
    """Tell whether I is lower-cased to ı, and İ to i, in all languages, as in Turkish and Azeri."""
    primary = {primary_of(tag) for tag in languages} - {"code"}
    return bool(primary) and primary <= {"az", "crh", "gag", "tr"}


def are_in_pieces(languages: Sequence[str]) -> bool:
    """Tell whether text in languages is split into learnt pieces, not at the spaces between words:
    where a language has no spaces, and for several languages."""
    return are_several(languages) or not all(map(has_spaces, languages))


def is_english(language: str | Sequence[str] | None) -> bool:
    """Tell whether a recipe's `language` names no language but English; None is English."""
    return {primary_of(tag) for tag in languages_of(language)} <= {"en", "code"}


@functools.cache
def script_of(tag: str) -> str:
    """Find Unicode's name of the script that a tag names, or of its language's usual script;
    Japanese gets Hiragana, and scripts that are not in the list count as Latin."""
    from langcodes import Language  # not in the base install

    likely = None if tag in _NO_LANGUAGES else Language.get(tag).maximize().script
    return _SCRIPTS.get(likely or "", "Latin")
