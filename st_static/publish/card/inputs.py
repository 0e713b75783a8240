"""What a card is made from, checked by the file system alone: before mteb and torch are loaded."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from st_static.evaluate.models import revision_of
from st_static.evaluate.tasks import LOCAL_REVISION
from st_static.hub import check_repo_id
from st_static.languages import languages_of_record
from st_static.model.notes import CARD_FILE, read_notes
from st_static.model.record import read_record
from st_static.publish.card.benchmarks import benchmark_of, usual_peers
from st_static.publish.card.identity import check_same_model, identity

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CardInputs:
    """What a card is made from, beside the model.

    Attributes:
        results: Folders of the model's results, `results/<org__name>/<revision>`.
        peers: Folders of other models' results; the teacher's are known by its name. The model's
            own are left out.
        published: Models whose published scores stand beside them; null for the usual ones.
        benchmark: Its tasks are compared; empty for the benchmark of the model's languages.
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
    """Which card is to be written where; all of it has been checked.

    Attributes:
        inputs: What it is made from; results are those of this very model.
        record: Of the model's build.
        name: The model's name.
        places: Files of the card: in the model's folder and, if asked for, among other cards.
        notes: What a person wrote into them.
    """

    inputs: CardInputs
    record: dict[str, Any]
    name: str
    places: list[Path]
    notes: str

    @property
    def has_recipe(self) -> bool:
        """Whether a recipe built the model: else it is an ensemble, or made of text vectors."""
        return "recipe" in self.record


def plan_card(folder: Path, inputs: CardInputs, cards: Path | None) -> CardPlan:
    """Check what can be known before the work; for the arguments see `write_card`.

    Raises:
        ValueError: Something is missing or of another model, or another card would be lost.
    """
    if inputs.hub_id is not None:
        check_repo_id(inputs.hub_id)
    if inputs.work_dir is not None and not inputs.work_dir.is_dir():
        raise ValueError(
            f"There is no folder {inputs.work_dir}. Expected the work_dir of the model's recipe."
        )
    record, name = read_record(folder), name_of(folder, inputs.hub_id)
    places = [folder / CARD_FILE]
    if cards is not None:
        check_same_model(cards, name, identity(record, inputs.hub_id))
        places.append(cards / f"{name}.md")
    if inputs.results or "recipe" in record:
        inputs = replace(inputs, results=own_results(inputs.results, folder))
    return CardPlan(_compared(inputs, record), record, name, places, find_notes(places))


def _compared(inputs: CardInputs, record: dict[str, Any]) -> CardInputs:
    """Name the benchmark and the published models that were left to the model's languages."""
    benchmark = inputs.benchmark or benchmark_of(languages_of_record(record))
    peers = usual_peers(benchmark) if inputs.published is None else inputs.published
    return replace(inputs, benchmark=benchmark, published=peers)


def name_of(folder: Path, hub_id: str | None) -> str:
    """A model's name: that under which it will be published, else its folder's."""
    return hub_id.rpartition("/")[2] if hub_id else folder.resolve().name


def own_results(folders: Sequence[Path], model: Path) -> list[Path]:
    """Those folders of results that were measured on the very model; the others are left out.

    Raises:
        ValueError: There are no folders, one is not there, or all are of other models or builds.
    """
    if not folders:
        raise ValueError("Expected folders of results: run st-static evaluate and give --results.")
    expected = revision_of(str(model))
    own = []
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"There is no folder {folder}. Expected results/MODEL/REVISION.")
        if inside := [f for f in _folders_in(folder) if _is_of_revision(f, expected)]:
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


def _folders_in(folder: Path) -> list[Path]:
    """The folders one and two levels deeper."""
    return sorted(f for kind in ("*", "*/*") for f in folder.glob(kind) if f.is_dir())


def _is_of_revision(folder: Path, revision: str) -> bool:
    """Whether a folder has results of a revision, on the Hub's datasets or on local copies."""
    name = folder.resolve().name
    if not name.startswith(revision):
        return False
    return name in (revision, f"{revision}-{LOCAL_REVISION}")


def find_notes(cards: list[Path]) -> str:
    """What a person wrote into the cards of a model, of which there may be none yet.

    Raises:
        ValueError: A card has no markers, or two cards say different things.
    """
    found = {path: read_notes(path) for path in cards if path.exists()}
    different = {notes for notes in found.values() if notes}
    if len(different) > 1:
        raise ValueError(
            f"The notes in {' and '.join(map(str, found))} differ. Make them equal, or empty one."
        )
    return different.pop() if different else ""
