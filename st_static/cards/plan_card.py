"""Check the inputs of a card by the file system alone, before mteb and torch are loaded."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from st_static.arguments import require
from st_static.evaluate.models import require_named, revision_of
from st_static.evaluate.tasks import LOCAL_REVISION, OTHER_DOCUMENTS, USUAL_PEERS, benchmark_of
from st_static.files import check_writable
from st_static.foreign_files import read_object
from st_static.hub import check_repo_id
from st_static.languages import languages_of_record
from st_static.model.card_file import NOTES_START, read_notes
from st_static.model.model_folder import ModelFolder
from st_static.model.modules import CARD_FILE
from st_static.model.records import teachers_of

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
    """The inputs of a card beside the model."""

    results: Sequence[Path]  # folders of the model's, `results/<org__name>/<revision>`
    peers: Sequence[Path] = ()  # those of other models and the teacher; the model's are left out
    published: Sequence[str] | None = ()  # models whose published scores are compared; or the usual
    benchmark: str = ""  # to compare on; empty for that of the model's languages
    work_dir: Path | None = None  # with the stages, for build times and agreement by length
    peer_models: Sequence[str] = ()  # models whose speed is measured, as for `evaluate`
    hub_id: str | None = None  # where the model will be published
    own_data: Path | None = None  # what `evaluate` wrote of data of the author's


@dataclass(frozen=True)
class CardPlan:
    """The checked plan of a card; its results are those of this very model."""

    folder: ModelFolder
    inputs: CardInputs
    record: dict[str, Any]
    name: str
    cards: Path | None  # the folder of all cards, if one is kept
    card_files: list[Path]  # in the model's folder and in that of all cards
    notes: str  # those that a person wrote
    own_data: dict[str, Any]  # what `evaluate` wrote of data of the author's; empty without


def plan_card(folder: ModelFolder, inputs: CardInputs, cards: Path | None) -> CardPlan:
    """Check a card's inputs before the work; also a ValueError if another card would be lost."""
    for home in [folder.path, *([cards] if cards else [])]:
        check_writable(home, f"The card in {home}")
    for results in [*inputs.results, *inputs.peers]:
        if not results.is_dir():
            raise ValueError(f"There is no folder {results}. Expected results/MODEL/REVISION.")
    for peer in inputs.peer_models:
        require_named(peer)
    if inputs.hub_id is not None:
        check_repo_id(inputs.hub_id)
    own_data = {} if inputs.own_data is None else _read_own_data(inputs.own_data, folder)
    if inputs.work_dir is not None and not inputs.work_dir.is_dir():
        raise ValueError(f"There is no folder {inputs.work_dir}. Expected the recipe's work_dir.")
    record = folder.whole_record()
    name = (inputs.hub_id or str(folder.path.resolve())).rpartition("/")[2]
    if cards is not None:
        check_same_model(cards, name, record, inputs.hub_id)
    is_recipe = "recipe" in record
    for option, value in (("work_dir", inputs.work_dir), ("peer_models", inputs.peer_models)):
        require(
            is_recipe or not value,
            f"The card of {folder.path} has neither speeds nor build times, which only cards of "
            f"models that were built from text have. Leave --{option} out.",
        )
    if inputs.results or (is_recipe and not inputs.own_data):
        inputs = replace(inputs, results=_own_results(inputs.results, folder.path))
    benchmark = inputs.benchmark or benchmark_of(languages_of_record(record))
    usual = USUAL_PEERS.get(benchmark, ())
    published = usual if inputs.published is None else inputs.published
    inputs = replace(inputs, benchmark=benchmark, published=published)
    card_files = [folder.path / CARD_FILE, *([cards / f"{name}.md"] if cards else [])]
    different = set(map(read_notes, card_files)) - {""}
    if len(different) > 1:
        files = " and ".join(map(str, card_files))
        raise ValueError(f"The notes in {files} differ. Make them equal, or empty one.")
    if folder.card and NOTES_START not in folder.card:
        logger.warning("%s, which sentence-transformers wrote, is replaced.", card_files[0])
    return CardPlan(
        folder=folder,
        inputs=inputs,
        record=record,
        name=name,
        cards=cards,
        card_files=card_files,
        notes="".join(different),
        own_data=own_data,
    )


def _read_own_data(file: Path, folder: ModelFolder) -> dict[str, Any]:
    """Read what `evaluate` wrote of the author's data, this very model among others."""
    facts = read_object(file, dict)
    if {"table", "about", "differences", "revisions"} - set(facts):
        raise ValueError(f"{file}: expected what st-static evaluate wrote, results/own_….json.")
    if revision_of(str(folder.path)) not in facts["revisions"]:
        raise ValueError(
            f"{file} is of other models than {folder.path}. Run st-static evaluate again, with it."
        )
    return facts


def check_same_model(cards: Path, name: str, record: Mapping[str, Any], hub_id: str | None) -> None:
    """Check that a folder's card of that name is not another model's. A model built again from
    newer text or with other settings is the same, as is one with the same id on the Hub."""
    card, facts = cards / f"{name}.md", cards / f"{name}.json"
    if not facts.is_file() and not card.is_file():
        return
    elsewhere = "It would be overwritten: give another folder, --cards OTHER, or move it away."
    try:
        values = read_object(facts, dict)
        old, hub_id_there = _identity(values["record"]), values["hub_id"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{facts} does not say whose card {card} is ({type(error).__name__}). {elsewhere}"
        ) from error
    if hub_id_there and hub_id_there == hub_id:
        return
    new = _identity(record)
    # The teacher may have been put on the Hub in the meantime.
    keys = [key for key in new | old if not set(new.get(key, ())) & set(old.get(key, ()))]
    if "kind" in keys:
        differs = [f"that of {old['kind'][0]}, not of {new['kind'][0]}"]
    else:
        differs = [f"{key} {old[key][-1]} instead of {new[key][-1]}" for key in keys]
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
    if "fine_tuning" in record:
        base = record["fine_tuning"].get("base") or "unknown"
        return {"kind": ["a fine-tuned model"], "base model": [base]}
    recipe = record["recipe"]
    teachers, corpus = teachers_of(recipe), recipe["corpus"]
    sources = [
        f"from {said} {', '.join(map(str, value if isinstance(value, list) else [value]))}"
        for key, said in _SOURCES.items()
        if (value := corpus[key])
    ]
    is_for_queries = (recipe.get("distillation") or {}).get("target") == "vectors"
    size = "the teacher's" if is_for_queries else str(recipe["pca"]["n_components"])
    return {
        "kind": ["a single model"],
        "teacher": [
            ", ".join(teacher["model"] for teacher in teachers),
            ", ".join(teacher.get("hub_id") or teacher["model"] for teacher in teachers),
        ],
        "text": [", ".join(sources) or "unknown"],
        "dimension": [size],
    }


def _own_results(folders: Sequence[Path], model: Path) -> list[Path]:
    """Choose the folders of results that were measured on this very model, at least one."""
    if not folders:
        raise ValueError("Expected folders of results: run st-static evaluate and give --results.")
    revision = revision_of(str(model))
    names = (revision, f"{revision}-{LOCAL_REVISION}")  # on the Hub's datasets, or local copies
    matching = [folder for folder in folders if folder.resolve().name in names]
    for folder in folders:
        below = [path for kind in ("*", "*/*") for path in folder.glob(kind) if path.is_dir()]
        if inside := sorted(path for path in below if path.resolve().name in names):
            raise ValueError(
                f"The results of {model} lie deeper in {folder}. Expected results/MODEL/REVISION: "
                f"give --results {shlex.join(map(str, inside))}."
            )
    others = ", ".join(str(folder) for folder in folders if folder not in matching)
    on_others = f"{revision}{OTHER_DOCUMENTS}"
    if not matching and any(folder.resolve().name.startswith(on_others) for folder in folders):
        raise ValueError(
            f"{others} are scores of {model} with documents that another model encoded, so not of "
            "this model alone. A card takes such scores of queries of your own: st-static evaluate "
            "--queries … --documents_by …, then --own_data."
        )
    if not matching:
        raise ValueError(
            f"{others} are results of another model: expected the revision {revision}, which is "
            f"that of {model}. Run st-static evaluate again."
        )
    if others:
        logger.warning("Left out, for they are results of another model or build: %s", others)
    return matching
