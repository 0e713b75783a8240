"""What a model's folder states of it: its licence and its languages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from st_static.files import read_json
from st_static.languages import languages_of_record
from st_static.model.modules import RECORD_FILE
from st_static.model.notes import CARD_FILE

FILES = (RECORD_FILE, CARD_FILE)
"""The files that state it."""

_HEADER = re.compile(r"\s*---[ \t]*\n(.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)
_LANGUAGE = re.compile("([a-z]{2,3}|code|multilingual)([-_].*)?")


def stated_license(folder: Path) -> str | None:
    """The licence in the model card's header, or else the one that its record has."""
    stated = _header_of_card(folder).get("license")
    if not isinstance(stated, str) or stated == "unknown":
        of_build = (_record(folder, "recipe").get("export") or {}).get("license")
        stated = of_build or _record(folder, "conversion").get("license")
    return stated if isinstance(stated, str) else None


def stated_languages(folder: Path) -> list[str]:
    """The languages that a model is for, without script and region; none where nothing says them.

    The model's record says them, or else the card's header.
    """
    recorded = {part: _record(folder, part) for part in ("recipe", "ensemble", "conversion")}
    return languages_of_record(recorded) or _languages_of_card(folder)


def has_recipe(folder: Path) -> bool:
    """Whether a record says from what recipe a model was built."""
    return bool(_record(folder, "recipe"))


def _languages_of_card(folder: Path) -> list[str]:
    stated = _header_of_card(folder).get("language")
    stated = stated if isinstance(stated, list) else [stated]
    # To YAML the tag of Norwegian is a truth value.
    tags = ["no" if tag is False else str(tag).lower() for tag in stated]
    found = [match[1] for tag in tags if (match := _LANGUAGE.fullmatch(tag))]
    return list(dict.fromkeys(found))


def _record(folder: Path, part: str) -> dict[str, Any]:
    """A part of the record of a model's build; empty where there is none."""
    try:
        record = read_json(folder / RECORD_FILE)
    except (OSError, ValueError):
        return {}
    found = record.get(part) if isinstance(record, dict) else None
    return found if isinstance(found, dict) else {}


def _header_of_card(folder: Path) -> dict[str, Any]:
    """The YAML of a model's card; empty where there is no card that can be read."""
    card = folder / CARD_FILE
    if not card.is_file():
        return {}
    # As huggingface_hub's metadata_load, whose import takes longer than to read a model.
    try:
        found = _HEADER.match(card.read_text("utf-8-sig"))
        header = yaml.safe_load(found[1]) if found else {}
    except (ValueError, yaml.YAMLError):  # of bytes that are no text, too
        return {}
    return header if isinstance(header, dict) else {}
