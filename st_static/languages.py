"""Languages by their BCP 47 tags, such as `ja`, `pt-BR` or `zh-Hant`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from st_static.arguments import require

# A language, perhaps with its script and its region.
_TAG = re.compile("[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?")
# What the Hub has for other text.
_NO_LANGUAGES = {"code", "multilingual"}
# Written without spaces between words.
_UNSPACED = {"bo", "dz", "ja", "km", "lo", "my", "th", "wuu", "yue", "zh"}
# Unicode's names of the scripts that a tag may name, and of those that are not Latin.
_SCRIPTS_OF_TAGS = {
    **{"Arab": "Arabic", "Cyrl": "Cyrillic", "Deva": "Devanagari", "Latn": "Latin"},
    **{"Hans": "Han", "Hant": "Han"},
}
_LANGUAGES_OF_SCRIPTS = {
    "Arabic": "ar ary arz ckb fa ps sd ug ur",
    "Armenian": "hy",
    "Bengali": "as bn",
    "Cyrillic": "ab av ba be bg ce cv kk ky mk mn os ru sr tg tt uk",
    "Devanagari": "bho gom hi mai mr ne sa",
    "Ethiopic": "am ti",
    "Georgian": "ka",
    "Greek": "el grc",
    "Gujarati": "gu",
    "Gurmukhi": "pa",
    "Han": "lzh wuu yue zh",
    "Hangul": "ko",
    "Hebrew": "he yi",
    "Hiragana": "ja",
    "Kannada": "kn",
    "Khmer": "km",
    "Lao": "lo",
    "Malayalam": "ml",
    "Myanmar": "my",
    "Oriya": "or",
    "Sinhala": "si",
    "Tamil": "ta",
    "Telugu": "te",
    "Thai": "th",
    "Tibetan": "bo dz",
}
_SCRIPTS = {
    language: script
    for script, languages in _LANGUAGES_OF_SCRIPTS.items()
    for language in languages.split()
}


def languages_of(language: str | list[str] | None) -> list[str]:
    """The tags of a recipe's `language`; none where it does not say.

    Example:
        >>> languages_of("ja"), languages_of(None)
        (['ja'], [])
    """
    return [language] if isinstance(language, str) else list(language or [])


def check_language(language: str | list[str] | None) -> None:
    """Check the tags of a recipe's `language`.

    Raises:
        ValueError: One is no tag, or one is given twice.
    """
    tags = languages_of(language)
    for tag in tags:
        require(
            _is_tag(tag),
            "language must be a BCP 47 tag, such as en, ja or zh-Hant, or a list of them, but got "
            f"{tag!r}, which is none.",
        )
    require(len(set(tags)) == len(tags), f"language names one twice: {tags}.")


def _is_tag(tag: str) -> bool:
    from langcodes import tag_is_valid  # which the base install has not

    return tag in _NO_LANGUAGES or (bool(_TAG.fullmatch(tag)) and tag_is_valid(tag))


def primary_of(tag: str) -> str:
    """A tag's language alone, without script and region.

    Example:
        >>> primary_of("pt-BR")
        'pt'
    """
    return tag.partition("-")[0]


def recorded_languages(recipe: Mapping[str, Any]) -> list[str]:
    """The languages of a recipe as a model's record has it; none where it does not say them.

    They are without script and region, as the Hub wants them.
    """
    language = recipe.get("language") or recipe["corpus"].get("language")  # of older models
    return list(dict.fromkeys(map(primary_of, languages_of(language))))


def has_spaces(tag: str) -> bool:
    """Whether the language is written with spaces between words.

    Example:
        >>> has_spaces("de"), has_spaces("zh-Hant")
        (True, False)
    """
    return primary_of(tag) not in _UNSPACED


def are_several(languages: Sequence[str]) -> bool:
    """Whether text is in more than one language; variants of one are not, nor is source code.

    Example:
        >>> are_several(["en", "ja"]), are_several(["pt-BR", "pt-PT"]), are_several(["en", "code"])
        (True, False, False)
    """
    primary = {primary_of(tag) for tag in languages} - {"code"}
    return len(primary) > 1 or "multilingual" in primary


def is_english(language: str | Sequence[str] | None) -> bool:
    """Whether text of a recipe's `language` is treated as English: where nothing else is named.

    Example:
        >>> is_english(None), is_english("en-GB"), is_english(["en", "ja"])
        (True, True, False)
    """
    tags = [language] if isinstance(language, str) else language or []
    return {primary_of(tag) for tag in tags} <= {"en", "code"}


def script_of(tag: str) -> str:
    """Unicode's name of the script of a language; of Japanese, which has three, Hiragana.

    Example:
        >>> script_of("sr"), script_of("sr-Latn"), script_of("fi"), script_of("zh-TW")
        ('Cyrillic', 'Latin', 'Latin', 'Han')
    """
    named = _SCRIPTS_OF_TAGS.get(tag.partition("-")[2][:4])
    return named or _SCRIPTS.get(primary_of(tag), "Latin")
