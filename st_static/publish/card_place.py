"""Whose card lies in a folder of cards, so that it is not overwritten by another model's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# What makes a text; its contents may change from one build to the next.
_CORPUS = ("files", "docstrings", "dataset", "dataset_config")


def identity_of_built(record: Mapping[str, Any], hub_id: str | None) -> dict[str, Any]:
    """By what a model is known: where it is published, else its teacher, text and dimension."""
    recipe = record["recipe"]
    teacher, corpus = recipe["teacher"], recipe["corpus"]
    return {
        "hub_id": hub_id,
        "teacher": [teacher["model"], teacher["hub_id"] or teacher["model"]],
        **{key: corpus[key] for key in _CORPUS},
        "dimension": recipe["pca"]["n_components"],
    }


def identity_of_ensemble(record: Mapping[str, Any], hub_id: str | None) -> dict[str, Any]:
    """By what an ensemble is known: where it is published, else its form and members."""
    ensemble = record["ensemble"]
    members = [member["name"] for member in ensemble["members"]]
    return {"hub_id": hub_id, "form": ensemble["form"], "members": members}


def check_same_model(cards: Path, name: str, identity: Mapping[str, Any]) -> None:
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
        values = json.loads(facts.read_text("utf-8"))
        identify = identity_of_ensemble if "ensemble" in values else identity_of_built
        there = identify(values, values["hub_id"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{facts} does not say whose card {card} is ({type(error).__name__}). {elsewhere}"
        ) from error
    if there == identity or (there["hub_id"] and there["hub_id"] == identity["hub_id"]):
        return
    differs = [
        f"{key} {_said(key, there.get(key))} instead of {_said(key, value)}"
        for key, value in identity.items()
        if key != "hub_id" and not _is_same(key, there.get(key), value)
    ]
    if there["hub_id"] and identity["hub_id"]:
        differs.append(f"{there['hub_id']} instead of {identity['hub_id']} on the Hub")
    if differs:
        raise ValueError(f"{card} is another model's card: {', '.join(differs)}. {elsewhere}")


def _is_same(key: str, there: Any, here: Any) -> bool:
    """Whether values of an identity agree; a teacher's do if its place or its name is the same."""
    if key == "teacher" and there:
        return any(one == other for one, other in zip(there, here, strict=True))
    return bool(there == here)


def _said(key: str, value: Any) -> str:
    return str(value[-1]) if key == "teacher" and value else repr(value)
