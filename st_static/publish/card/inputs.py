"""Check the inputs of a card by the file system alone, before mteb and torch are loaded."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from st_static.evaluate.models import revision_of
from st_static.evaluate.tasks import LOCAL_REVISION
from st_static.foreign_files import read_object
from st_static.hub import check_repo_id
from st_static.languages import languages_of_record
from st_static.model.card_file import read_notes
from st_static.model.model_folder import ModelFolder
from st_static.model.modules import CARD_FILE
from st_static.publish.card.benchmarks import benchmark_of, usual_peers

logger = logging.getLogger(__name__)

# The sources of a text, whose contents may change between builds, with their wording.
_SOURCES = {
    "files": "the files",
    "docstrings": "docstrings of",
    "dataset": "the dataset",
    "dataset_config": "its configuration",
}


@dataclass(frozen=True)
class CardInputs:
    """The inputs of a card beside the model.

    Attributes:
        results: Folders of the model's results, `results/<org__name>/<revision>`.
        peers: Folders of other models' results, including the teacher's. The model's own are left
            out.
        published: Models whose published scores are compared; null for the usual ones.
        benchmark: The benchmark to compare on; empty for that of the model's languages.
        work_dir: The recipe's stages, for build times and agreement by sentence length.
        peer_models: Models whose speed is measured beside this one's, as for `evaluate`.
        hub_id: Where the model will be published.
    """

    results: Sequence[Path]
    peers: Sequence[Path] = ()
    published: Sequence[str] | None = ()
    benchmark: str = ""
    work_dir: Path | None = None
    peer_models: Sequence[str] = ()
    hub_id: str | None = None


@dataclass(frozen=True)
class CardPlan:
    """The checked plan of a card.

    Attributes:
        inputs: Its inputs; results are those of this very model.
        record: The record of the model's build.
        name: The model's name.
        places: Files of the card: in the model's folder and, if requested, among other cards.
        notes: The notes that a person wrote into them.
    """

    inputs: CardInputs
    record: dict[str, Any]
    name: str
    places: list[Path]
    notes: str


def plan_card(folder: Path, inputs: CardInputs, cards: Path | None) -> CardPlan:
    """Check the inputs of a card before the work; for the arguments see `write_card`.

    Raises:
        ValueError: Something is missing or of another model, or another card would be lost.
    """
    if inputs.hub_id is not None:
        check_repo_id(inputs.hub_id)
    if inputs.work_dir is not None and not inputs.work_dir.is_dir():
        raise ValueError(
            f"There is no folder {inputs.work_dir}. Expected the work_dir of the model's recipe."
        )
    record, name = ModelFolder(folder).whole_record(), name_of(folder, inputs.hub_id)
    places = [folder / CARD_FILE]
    if cards is not None:
        check_same_model(cards, name, record, inputs.hub_id)
        places.append(cards / f"{name}.md")
    if inputs.results or "recipe" in record:
        inputs = replace(inputs, results=own_results(inputs.results, folder))
    benchmark = inputs.benchmark or benchmark_of(languages_of_record(record))
    peers = usual_peers(benchmark) if inputs.published is None else inputs.published
    inputs = replace(inputs, benchmark=benchmark, published=peers)
    notes = {path: read_notes(path) for path in places if path.exists()}
    different = {text for text in notes.values() if text}
    if len(different) > 1:
        raise ValueError(
            f"The notes in {' and '.join(map(str, notes))} differ. Make them equal, or empty one."
        )
    return CardPlan(inputs, record, name, places, "".join(different))


def check_same_model(cards: Path, name: str, record: Mapping[str, Any], hub_id: str | None) -> None:
    """Check that a folder of cards holds no other model's card of that name.

    A model that was built again, from newer contents of the same text or with other settings, is
    the same one, and so is one with the same id on the Hub.

    Args:
        cards: The folder.
        name: The model's name.
        record: How it was made.
        hub_id: Where it will be published, if that is known.

    Raises:
        ValueError: It does, or the card's model is unknown.
    """
    card, facts = cards / f"{name}.md", cards / f"{name}.json"
    if not facts.is_file() and not card.is_file():
        return
    elsewhere = "It would be overwritten: give another folder, --cards OTHER, or move it away."
    try:
        values = read_object(facts, dict)
        there, hub_id_there = _identity(values["record"]), values["hub_id"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{facts} does not say whose card {card} is ({type(error).__name__}). {elsewhere}"
        ) from error
    if hub_id_there and hub_id_there == hub_id:
        return
    here = _identity(record)
    # The teacher may have been put on the Hub in the meantime.
    keys = [key for key in here | there if not set(here.get(key, ())) & set(there.get(key, ()))]
    if "kind" in keys:
        differs = [f"that of {there['kind'][0]}, not of {here['kind'][0]}"]
    else:
        differs = [f"{key} {there[key][-1]} instead of {here[key][-1]}" for key in keys]
    if hub_id_there and hub_id:
        differs.append(f"{hub_id_there} instead of {hub_id} on the Hub")
    if differs:
        raise ValueError(f"{card} is another model's card: {', '.join(differs)}. {elsewhere}")


def _identity(record: Mapping[str, Any]) -> dict[str, list[str]]:
    """List a model's identifying properties, each with its names: one in common is enough."""
    if "ensemble" in record:
        made = record["ensemble"]
        members = ", ".join(member["name"] for member in made["members"])
        return {"kind": ["an ensemble"], "form": [made["form"]], "members": [members]}
    if "conversion" in record:
        made = record["conversion"]
        dimension = [str(made["dimension"])]
        return {"kind": ["text vectors"], "file": [made["file"]], "dimension": dimension}
    recipe = record["recipe"]
    teacher, corpus = recipe["teacher"], recipe["corpus"]
    sources = [
        f"from {said} {', '.join(map(str, value if isinstance(value, list) else [value]))}"
        for key, said in _SOURCES.items()
        if (value := corpus[key])
    ]
    return {
        "kind": ["a single model"],
        "teacher": [teacher["model"], teacher.get("hub_id") or teacher["model"]],
        "text": [", ".join(sources) or "unknown"],
        "dimension": [str(recipe["pca"]["n_components"])],
    }


def name_of(folder: Path, hub_id: str | None) -> str:
    """Return a model's name: that in its Hub id, else its folder's."""
    return hub_id.rpartition("/")[2] if hub_id else folder.resolve().name


def own_results(folders: Sequence[Path], model: Path) -> list[Path]:
    """Choose the folders of results that were measured on this very model.

    Raises:
        ValueError: There are no folders, one is missing, or all are of other models or builds.
    """
    if not folders:
        raise ValueError("Expected folders of results: run st-static evaluate and give --results.")
    expected = revision_of(str(model))
    own = []
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"There is no folder {folder}. Expected results/MODEL/REVISION.")
        if inside := sorted(
            f
            for kind in ("*", "*/*")
            for f in folder.glob(kind)
            if f.is_dir() and _is_of_revision(f, expected)
        ):
            raise ValueError(
                f"The results of {model} lie deeper in {folder}. Expected results/MODEL/REVISION: "
                f"give --results {shlex.join(map(str, inside))}."
            )
        if _is_of_revision(folder, expected):
            own.append(folder)
    others = ", ".join(str(folder) for folder in folders if folder not in own)
    if not own:
        raise ValueError(
            f"{others} are results of another model: expected the revision {expected}, which is "
            f"that of {model}. Run st-static evaluate again."
        )
    if others:
        logger.warning("Left out, for they are results of another model or build: %s", others)
    return own


def _is_of_revision(folder: Path, revision: str) -> bool:
    """Tell whether a folder has results of a revision, on the Hub's datasets or local copies."""
    return folder.resolve().name in (revision, f"{revision}-{LOCAL_REVISION}")
