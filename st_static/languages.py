"""Languages by their BCP 47 tags, such as `ja`, `pt-BR` or `zh-Hant`."""

from __future__ import annotations

import re

from st_static.arguments import require

# A language, perhaps with its script and its region. The Hub has the last two for other text.
_TAG = re.compile("[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?|code|multilingual")
# Written without spaces between words.
_UNSPACED = {"bo", "dz", "ja", "km", "lo", "my", "th", "wuu", "yue", "zh"}


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
            bool(_TAG.fullmatch(tag)),
            "language must be a BCP 47 tag, such as en, ja or zh-Hant, or a list of them, but got "
            f"{tag!r}.",
        )
    require(len(set(tags)) == len(tags), f"language names one twice: {tags}.")


def primary_of(tag: str) -> str:
    """A tag's language alone, without script and region.

    Example:
        >>> primary_of("pt-BR")
        'pt'
    """
    return tag.partition("-")[0]


def has_spaces(tag: str) -> bool:
    """Whether the language is written with spaces between words.

    Example:
        >>> has_spaces("de"), has_spaces("zh-Hant")
        (True, False)
    """
    return primary_of(tag) not in _UNSPACED
