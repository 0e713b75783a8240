"""Write a model's card: into the model's folder and, if requested, beside other cards."""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

from st_static.cards.card_figures import FIGURE_FILES, draw_all
from st_static.cards.check_card import check_card, dataset_names
from st_static.cards.gather import gather, read_entries
from st_static.cards.plan_card import CardPlan
from st_static.cards.render import official_task, render
from st_static.encode.explain import explain
from st_static.examples import examples_for
from st_static.files import LOCK_FILE, PATIENCE, locked_by, output_file, temporary_folder
from st_static.languages import languages_of_record
from st_static.model.card_file import read_card, read_notes

FIGURES_FOLDER = "figures"
RESULTS_FOLDER = ".eval_results"
_FIGURE_LINK = re.compile(rf"\]\(({FIGURES_FOLDER}/[^/)]+/({'|'.join(FIGURE_FILES)}))\)")


def write_card(plan: CardPlan) -> list[Path]:
    """Write a planned card, its figures, and its results into `.eval_results/`; return the files.
    Notes between the card's markers stay; ValueError if a result would overwrite a foreign file, or
    the card is invalid. A folder of all cards gets `NAME.md`, `NAME.json` and the figures."""
    folder = plan.folder
    place = folder.path / RESULTS_FOLDER
    results, official = read_entries(plan)
    texts = {place / f"{task}.yaml": text for task, text in official.items()}
    tasks = {task for name in dataset_names(folder.header) if (task := official_task(name))}
    ours = {place / f"{task}.yaml" for task in tasks}
    for file, text in texts.items():
        if file not in ours and file.is_file() and file.read_text("utf-8") != text:
            raise ValueError(f"{file} was not written with this card. Move it away.")
    left_behind = ours - set(texts)
    facts = gather(plan, results)
    with temporary_folder() as temporary:  # nothing is replaced before the card is valid
        if facts.kind == "recipe":
            pair = examples_for(languages_of_record(facts.record)).heat_map
            facts = replace(facts, figures=draw_all(facts, explain(folder.model, *pair), temporary))
        card = render(facts, plan.notes)
        if problems := check_card(card):
            raise ValueError(f"The card of {folder.path} would not be valid: {' '.join(problems)}")
        texts = {**dict.fromkeys(plan.places, card), **texts}
        if plan.cards is not None:
            texts[plan.cards / f"{plan.name}.json"] = facts.to_json()
        drawn = [temporary / figure.file for figure in facts.figures]
        # Of several processes, the last one's figures and texts are there.
        with locked_by(place.parent / LOCK_FILE, f"the card of {folder.path}", PATIENCE):
            replaced = [_replace_figures(path, plan.name, drawn) for path in plan.places]
            for path in left_behind:
                path.unlink(missing_ok=True)
            for path, text in texts.items():
                with output_file(path) as partial:
                    partial.write_text(text, "utf-8")
    return [*texts, *itertools.chain.from_iterable(replaced)]


def _replace_figures(card: Path, name: str, figures: Sequence[Path]) -> list[Path]:
    """Replace the old card's figures by new ones in `figures/NAME/`; those in notes stay."""
    home = card.parent / FIGURES_FOLDER / name
    text = read_card(card) if card.is_file() else ""
    kept = {card.parent / unquote(link) for link, _ in _FIGURE_LINK.findall(read_notes(card))}
    linked = {card.parent / unquote(link) for link, _ in _FIGURE_LINK.findall(text)}
    for figure in (linked | {home / file for file in FIGURE_FILES}) - kept:
        figure.unlink(missing_ok=True)
        if figure.parent.is_dir() and not any(figure.parent.iterdir()):
            figure.parent.rmdir()
    for file in figures:
        with output_file(home / file.name) as partial:
            shutil.copyfile(file, partial)
    return [home / file.name for file in figures]
