"""What a model's folder states of it: its licence and its languages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from st_static.foreign_files import read_as
from st_static.languages import languages_of_record
from st_static.model.modules import RECORD_FILE
from st_static.model.notes import CARD_FILE
from st_static.model.record import StatedRecord

FILES = (RECORD_FILE, CARD_FILE)
"""The files that state it."""

_LANGUAGE = re.compile("([a-z]{2,3}|code|multilingual)([-_].*)?")


class StatedFacts(NamedTuple):
    """What a model's folder states of it.

    Attributes:
        license: As the model's card names it, or else the record of its build; if either does.
        languages: Their tags, without script and region; none where nothing says them.
        has_recipe: Whether a record says from what recipe the model was built.
    """

    license: str | None = None
    languages: tuple[str, ...] = ()
    has_recipe: bool = False


def read_stated_facts(folder: Path) -> StatedFacts:
    """Read what a model's record and its card state; what cannot be read states nothing."""
    from st_static.model.card_header import stated_in_header  # with yaml, which no text needs

    header = stated_in_header(folder / CARD_FILE)
    try:
        record: dict[str, Any] = {**read_as(folder / RECORD_FILE, StatedRecord)}
    except (OSError, ValueError):
        record = {}
    recipe, conversion = record.get("recipe"), record.get("conversion") or {}
    license_id = header.get("license")
    if not isinstance(license_id, str) or license_id == "unknown":
        of_build = ((recipe or {}).get("export") or {}).get("license")
        license_id = of_build or conversion.get("license")
    languages = languages_of_record(record) or _languages_of_card(header)
    return StatedFacts(license_id, tuple(languages), recipe is not None)


def _languages_of_card(header: dict[str, Any]) -> list[str]:
    stated = header.get("language")
    stated = stated if isinstance(stated, list) else [stated]
    # To YAML the tag of Norwegian is a truth value.
    tags = ["no" if tag is False else str(tag).lower() for tag in stated]
    found = [match[1] for tag in tags if (match := _LANGUAGE.fullmatch(tag))]
    return list(dict.fromkeys(found))
