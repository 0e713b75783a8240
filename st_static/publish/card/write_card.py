"""Writing a model's card: into the model's folder and, if asked for, beside other cards."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from st_static.evaluate.analysis.explain import explain
from st_static.files import atomic
from st_static.model.notes import CARD_FILE, notes_of
from st_static.model.static_model import read_static_model
from st_static.publish.card.ensemble_card import EnsembleFacts, gather_ensemble, render_ensemble
from st_static.publish.card.examples import HEAT_MAP_PAIR
from st_static.publish.card.facts import CardFacts
from st_static.publish.card.figures import FIGURE_FILES, draw_all
from st_static.publish.card.gather import gather
from st_static.publish.card.inputs import CardInputs, plan_card
from st_static.publish.card.render import official_task, render
from st_static.publish.card.results import official_results
from st_static.publish.checks.card import check_card, dataset_names

FIGURES_FOLDER = "figures"
RESULTS_FOLDER = ".eval_results"
_FIGURE_LINK = re.compile(rf"\]\(({FIGURES_FOLDER}/[^/)]+/({'|'.join(FIGURE_FILES)}))\)")


def write_card(folder: Path, inputs: CardInputs, cards: Path | None = None) -> list[Path]:
    """Write a model's card, its figures and its results.

    What a person wrote between the card's markers stays, and so do files that no card came with.

    Args:
        folder: The model: gets `README.md`, `figures/` and `.eval_results/`.
        inputs: What the card is made from.
        cards: Folder of all cards, if there is one: gets the same card as `NAME.md`, its facts as
            `NAME.json` and the figures.

    Returns:
        The files written.

    Raises:
        ValueError: Something the card is made from is missing or of another model, the card that
            is there has no markers or is another model's, a result would overwrite a file that
            came from elsewhere, or the new card would not be valid.
    """
    plan = plan_card(folder, inputs, cards)
    inputs, record, name, places = plan.inputs, plan.record, plan.name, plan.places
    results, left_behind = _results(folder, inputs.results)
    with tempfile.TemporaryDirectory() as temporary:  # nothing is replaced before all is well
        drawn = Path(temporary)
        facts: CardFacts | EnsembleFacts
        if plan.is_ensemble:
            facts = gather_ensemble(folder, record, inputs)
            card, figures = render_ensemble(facts, plan.notes), []
        else:
            facts, card = _built_card(folder, record, inputs, plan.notes, drawn)
            figures = [figure.file for figure in facts.figures]
        problems = check_card(card)
        if problems:
            raise ValueError(f"The card of {folder} would not be valid: {' '.join(problems)}")
        homes = [path.parent / FIGURES_FOLDER / name for path in places]
        for path, home in zip(places, homes, strict=True):
            _replace_figures(path, home, [drawn / file for file in figures])
    texts = {**dict.fromkeys(places, card), **results}
    if cards is not None:
        texts[cards / f"{name}.json"] = facts.to_json()
    for path in left_behind:
        path.unlink(missing_ok=True)
    _write(texts)
    return [*texts, *(home / file for home in homes for file in figures)]


def _built_card(
    folder: Path, record: dict[str, Any], inputs: CardInputs, notes: str, drawn: Path
) -> tuple[CardFacts, str]:
    """Facts and text of the card of a model that was built from a teacher; draws its figures."""
    facts = gather(folder, record, inputs)
    explanation = explain(read_static_model(folder), *HEAT_MAP_PAIR)
    facts = replace(facts, figures=draw_all(facts, explanation, drawn))
    return facts, render(facts, notes)


def _results(folder: Path, results: Iterable[Path]) -> tuple[dict[Path, str], set[Path]]:
    """The files of `.eval_results/` with their texts, and those of the former card that go.

    Raises:
        ValueError: A file of the same name came from elsewhere.
    """
    texts = {
        folder / RESULTS_FOLDER / file: text
        for home in results
        for file, text in official_results(home).items()
    }
    card = folder / CARD_FILE
    named = dataset_names(card.read_text("utf-8")) if card.is_file() else set()
    tasks = {task for name in named if (task := official_task(name))}
    ours = {folder / RESULTS_FOLDER / f"{task}.yaml" for task in tasks}
    for file, text in texts.items():
        if file not in ours and file.is_file() and file.read_text("utf-8") != text:
            raise ValueError(f"{file} was not written with this card. Move it away.")
    return texts, ours - set(texts)


def _write(texts: Mapping[Path, str]) -> None:
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic(path) as partial:
            partial.write_text(text, "utf-8")


def _replace_figures(card: Path, home: Path, figures: list[Path]) -> None:
    """Put a card's figures in place of the former card's, also of those under another name.

    Other files, and those that a person's notes show, stay.
    """
    text = card.read_text("utf-8") if card.is_file() else ""
    notes = notes_of(text) if text else ""
    kept = {card.parent / unquote(link) for link, _ in _FIGURE_LINK.findall(notes)}
    linked = {card.parent / unquote(link) for link, _ in _FIGURE_LINK.findall(text)}
    for figure in (linked | {home / file for file in FIGURE_FILES}) - kept:
        figure.unlink(missing_ok=True)
        if figure.parent.is_dir() and not any(figure.parent.iterdir()):
            figure.parent.rmdir()
    for file in figures:
        home.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, home / file.name)
