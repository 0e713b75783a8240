"""Checking that a card is that of the model beside it: its links, names, licences and numbers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from st_static.card.facts import teacher_of
from st_static.card.render import SLOW_MARK, TERMS_IN_NOTES, marked
from st_static.foreign_files import read_object
from st_static.languages import languages_of_record
from st_static.model.modules import RECORD_FILE
from st_static.model.notes import CARD_FILE, notes_of, read_card
from st_static.model.onnx_files import FILE_OF_DTYPE
from st_static.model.record import StatedRecord
from st_static.publish.checks.card_format import card_yaml, model_name
from st_static.publish.checks.fingerprint import fingerprint
from st_static.publish.checks.record import check_conversion, check_recipe
from st_static.publish.checks.weights import table_dimension

# A link to a file of the repository, and what an example in the card loads.
_LINK = re.compile(r"(?![\w+.-]+:|[#/])[^\s#]+")
_LOADED = re.compile(r"""SentenceTransformer\(\s*["']([^"']+)["']""")
_DTYPE = re.compile(r"""dtype: ["'](\w+)["']""")
_DIMENSION = re.compile(r"\b(\d+)[- ]dimension")  # in a card that was written by hand


_AGAIN = "Write it again: st-static card."


def check_card_of_model(folder: Path, names: Collection[str], repo_id: str | None) -> Iterator[str]:
    """What a card and a record leave open, forbid, or state that is not so of their model.

    Args:
        folder: The model.
        names: The files in it, with slashes.
        repo_id: Where it will be published, if that is known.
    """
    try:
        card = read_card(folder / CARD_FILE)
    except (OSError, ValueError):
        card = ""  # which is said elsewhere
    if card:
        yield from _check_references(card, names)
        yield from _check_name(card, repo_id)
        yield from _check_age(card, folder)
        yield from _check_terms(card)
    yield from _check_record(folder, card)


def _check_references(card: str, names: Collection[str]) -> Iterator[str]:
    """What the card names that is not there, and figures that it does not name."""
    links = map(_LINK.match, _calls(card, "]("))
    linked = {unquote(link[0]) for link in links if link}
    for link in sorted(linked - set(names)):
        yield f"{CARD_FILE} links to {link}, which is not there. {_AGAIN}"
    loads = "".join(_calls(card, "AutoModel.from_pretrained("))
    for dtype in sorted(set(_DTYPE.findall(loads)) & FILE_OF_DTYPE.keys()):
        if (file := FILE_OF_DTYPE[dtype]) not in names:
            yield f"{CARD_FILE} says to load {dtype}, but there is no {file}. {_AGAIN}"
    for name in sorted(names):
        if name.startswith("figures/") and name not in linked and name not in card:
            yield f"{name} is not in {CARD_FILE}. Remove it, or write the card again."


def _calls(card: str, beginning: str) -> list[str]:
    """What stands between each beginning and the bracket that closes it, in one pass."""
    parts = [part.partition(")") for part in card.split(beginning)[1:]]
    return [inside for inside, closing, _ in parts if closing]


def _check_name(card: str, repo_id: str | None) -> Iterator[str]:
    """Whether the card calls the model as it will be called on the Hub."""
    if repo_id is None:
        return
    change = f"Change it: st-static card … --hub_id {repo_id}, or by hand."
    loaded, name = _LOADED.findall(card), model_name(card)
    if loaded and repo_id not in loaded:
        yield f"{CARD_FILE} says to load {loaded[0]}, which is not {repo_id}. {change}"
    if name and name != repo_id.rpartition("/")[2]:
        yield (
            f"{CARD_FILE} names the model {name} in its model-index, which is not {repo_id}. "
            f"{change}"
        )


def _check_age(card: str, folder: Path) -> Iterator[str]:
    """Whether the card was written for this build; of one written by hand, its dimension."""
    written_for, dimension = marked(card), table_dimension(folder)
    if dimension is None:  # which is said elsewhere; to hash what is there may take long
        return
    if written_for is not None and written_for != fingerprint(folder):
        yield (
            f"{CARD_FILE} was written for another build: weights, tokenizer or {RECORD_FILE} have "
            f"changed since. {_AGAIN}"
        )
    named = set(_DIMENSION.findall(card))
    if written_for is None and named and str(dimension) not in named:
        yield (
            f"{CARD_FILE} speaks of {' and '.join(sorted(named))} dimensions, but the model has "
            f"{dimension}."
        )


def _check_terms(card: str) -> Iterator[str]:
    """Speeds that are not to be believed, and a licence whose terms are not said."""
    if SLOW_MARK in card:
        yield (
            f"{CARD_FILE} has speeds that were measured while the machine was too busy: "
            "FastEncoder came out slower than encoders that do more. Measure again on an "
            "idle machine: st-static card."
        )
    if card_yaml(card).get("license_name") == TERMS_IN_NOTES and not notes_of(card):
        yield (
            f"{CARD_FILE} has the license other, but does not say what it allows. Write its terms "
            "between the card's two markers."
        )


def _check_record(folder: Path, card: str) -> Iterator[str]:
    """What the record leaves open, or forbids, about the text and the teacher."""
    try:
        record = read_object(folder / RECORD_FILE, StatedRecord)
        problems, stated = _said_by(record)
    except ValueError as error:
        yield str(error)
        return
    except (OSError, KeyError):
        return  # of an ensemble, or an older one
    yield from (f"{RECORD_FILE}: {problem}" for problem in problems)
    source = "the recipe" if "recipe" in record else RECORD_FILE
    yield from _contradictions(card, stated, source)


def _said_by(record: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """What a record leaves open, and the language, license and base_model that it states."""
    if "conversion" in record:
        facts = record["conversion"]
        problems, license_id = check_conversion(facts), facts["license"]
    else:
        recipe = record["recipe"]
        problems, license_id = check_recipe(recipe), recipe.get("export", {}).get("license")
    languages = languages_of_record(record)
    return problems, {
        "language": languages,
        "license": license_id,
        "base_model": teacher_of(record),
    }


def _contradictions(card: str, stated: dict[str, Any], source: str) -> list[str]:
    """What the card's YAML says otherwise than the record, also where it was changed by hand."""
    said = card_yaml(card)
    again = "build again" if source == "the recipe" else "convert again"
    return [
        f"{CARD_FILE} says {key}: {', '.join(_as_list(said[key]))}, but {source} "
        f"{', '.join(values)}. Write it again: st-static card; or {again} with other values."
        for key, values in ((key, _as_list(value)) for key, value in stated.items())
        if values and said.get(key) and sorted(_as_list(said[key])) != sorted(values)
    ]


def _as_list(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [] if value is None else [value]
    return [str(value) for value in values]
