"""Writing a model's card: into the model's folder, and beside the other cards."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from st_static.model.files import atomic
from st_static.model.notes import notes_of
from st_static.model.static_model import read_static_model
from st_static.publish.card_check import check_card
from st_static.publish.examples import HEAT_MAP_PAIR
from st_static.publish.explain import explain
from st_static.publish.figures import draw_all
from st_static.publish.folder_check import CARD_FILE
from st_static.publish.gather import (
    CardInputs,
    gather,
    official_results,
    own_results,
    read_record,
)
from st_static.publish.render import render

FIGURES_FOLDER = "figures"
RESULTS_FOLDER = ".eval_results"


def write_card(folder: Path, inputs: CardInputs, cards: Path) -> list[Path]:
    """Write a model's card, its figures and its results.

    What a person wrote between the card's markers stays.

    Args:
        folder: The model: gets `README.md`, `figures/` and `.eval_results/`.
        inputs: What the card is made from.
        cards: Folder of all cards: gets the same card as `NAME.md`, its facts as `NAME.json` and
            the figures.

    Returns:
        The files written.

    Raises:
        ValueError: Something the card is made from is missing or of another model, the card that
            is there has no markers, or the new card would not be valid.
    """
    name = folder.resolve().name
    record = read_record(folder)
    inputs = replace(inputs, results=own_results(inputs.results, folder))
    notes = find_notes([folder / CARD_FILE, cards / f"{name}.md"])
    facts = gather(folder, record, inputs)
    explanation = explain(read_static_model(folder), *HEAT_MAP_PAIR)
    homes = [home / FIGURES_FOLDER / name for home in (folder, cards)]
    results = {
        folder / RESULTS_FOLDER / file: text
        for home in inputs.results
        for file, text in official_results(home).items()
    }
    with tempfile.TemporaryDirectory() as temporary:  # nothing is replaced before all is well
        drawn = Path(temporary) / name
        facts = replace(facts, figures=draw_all(facts, explanation, drawn))
        card = render(facts, notes)
        problems = check_card(card)
        if problems:
            raise ValueError(f"The card of {folder} would not be valid: {' '.join(problems)}")
        for home in homes:
            shutil.rmtree(home, ignore_errors=True)  # figures that are drawn no more
            shutil.copytree(drawn, home)
    texts = {
        folder / CARD_FILE: card,
        cards / f"{name}.md": card,
        cards / f"{name}.json": facts.to_json(),
        **results,
    }
    shutil.rmtree(folder / RESULTS_FOLDER, ignore_errors=True)
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic(path) as partial:
            partial.write_text(text, "utf-8")
    return [*texts, *(home / figure["file"] for home in homes for figure in facts.figures)]


def find_notes(cards: list[Path]) -> str:
    """What a person wrote into the cards of a model, of which there may be none yet.

    Raises:
        ValueError: A card has no markers, or two cards say different things.
    """
    found = {path: notes_of(path.read_text("utf-8")) for path in cards if path.is_file()}
    different = {notes for notes in found.values() if notes}
    if len(different) > 1:
        raise ValueError(
            f"The notes in {' and '.join(map(str, found))} differ. Make them equal, or empty one."
        )
    return different.pop() if different else ""
