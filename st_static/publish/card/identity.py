"""Whose card lies in a folder of cards, so that it is not overwritten by another model's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from st_static.foreign_files import read_object

# What makes a text; its contents may change from one build to the next. With how it is said.
_CORPUS = {
    "files": "the files",
    "docstrings": "docstrings of",
    "dataset": "the dataset",
    "dataset_config": "its configuration",
}


def identity(record: Mapping[str, Any], hub_id: str | None) -> dict[str, Any]:
    """By what the model of a record is known.

    Raises:
        KeyError: The record does not say what the model is.
    """
    if "ensemble" in record:
        return identity_of_ensemble(record, hub_id)
    if "conversion" in record:
        facts = record["conversion"]
        return {"hub_id": hub_id, "file": facts["file"], "dimension": facts["dimension"]}
    return identity_of_built(record, hub_id)


def identity_of_built(record: Mapping[str, Any], hub_id: str | None) -> dict[str, Any]:
    """By what a model is known: where it is published, else its teacher, text and dimension."""
    recipe = record["recipe"]
    teacher, corpus = recipe["teacher"], recipe["corpus"]
    return {
        "hub_id": hub_id,
        "teacher": [teacher["model"], teacher.get("hub_id") or teacher["model"]],
        **{key: corpus[key] for key in _CORPUS},
        "dimension": recipe["pca"]["n_components"],
    }


def identity_of_ensemble(record: Mapping[str, Any], hub_id: str | None) -> dict[str, Any]:
    """By what an ensemble is known: where it is published, else its form and members."""
    ensemble = record["ensemble"]
    members = [member["name"] for member in ensemble["members"]]
    return {"hub_id": hub_id, "form": ensemble["form"], "members": members}


def check_same_model(cards: Path, name: str, here: Mapping[str, Any]) -> None:
    """Check that a folder of cards holds no other model's card of that name.

    A model that was built again, from newer contents of the same text or with other settings, is
    the same one.

    Raises:
        ValueError: It does, or it cannot be told whose card it is.
    """
    card, facts = cards / f"{name}.md", cards / f"{name}.json"
    if not facts.is_file() and not card.is_file():
        return
    elsewhere = "It would be overwritten: give another folder, --cards OTHER, or move it away."
    try:
        values = read_object(facts, dict)
        there = identity(values, values["hub_id"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{facts} does not say whose card {card} is ({type(error).__name__}). {elsewhere}"
        ) from error
    if there == here or (there["hub_id"] and there["hub_id"] == here["hub_id"]):
        return
    differs = list(_differences(there, here))
    if differs:
        raise ValueError(f"{card} is another model's card: {', '.join(differs)}. {elsewhere}")


def _differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    """In what two identities differ, in words."""
    if there.keys() != here.keys():
        yield f"that of {_kind(there)}, not of {_kind(here)}"
    else:
        is_told = set()
        for key, value in here.items():
            what = "text" if key in _CORPUS else key
            if key == "hub_id" or what in is_told or _is_same(key, there[key], value):
                continue
            is_told.add(what)
            yield f"{what} {_said(what, there)} instead of {_said(what, here)}"
    if there["hub_id"] and here["hub_id"]:
        yield f"{there['hub_id']} instead of {here['hub_id']} on the Hub"


def _kind(identity: Mapping[str, Any]) -> str:
    """What kind of model an identity is of, in words."""
    kinds = {"members": "an ensemble", "file": "text vectors"}
    return next((said for key, said in kinds.items() if key in identity), "a single model")


def _is_same(key: str, there: Any, here: Any) -> bool:
    """Whether values of an identity agree; a teacher's do if its place or its name is the same."""
    if key == "teacher" and there:
        return any(one == other for one, other in zip(there, here, strict=True))
    return bool(there == here)


def _said(what: str, identity: Mapping[str, Any]) -> str:
    """A part of an identity in words."""
    if what == "text":
        parts = [(words, identity[key]) for key, words in _CORPUS.items() if identity[key]]
        return ", ".join(f"from {words} {_listed(value)}" for words, value in parts) or "unknown"
    value = identity[what]
    return str(value[-1]) if what == "teacher" else _listed(value)


def _listed(value: Any) -> str:
    values = value if isinstance(value, list | tuple) else [value]
    return ", ".join(map(str, values))
