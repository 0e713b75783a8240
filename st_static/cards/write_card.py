"""Write a model's card: into the model's folder and, if requested, beside other cards."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

from st_static.cards.card_figures import FIGURE_FILES, draw_all
from st_static.cards.check_card import check_card, official_tasks
from st_static.cards.gather import gather, read_entries
from st_static.cards.plan_card import CardPlan
from st_static.cards.render import render
from st_static.encode.explain import explain
from st_static.examples import examples_for
from st_static.files import LOCK_FILE, PATIENCE, locked_by, output_file, temporary_folder
from st_static.languages import languages_of_record

_FIGURES, _RESULTS = "figures", ".eval_results"
_FIGURE_LINK = re.compile(rf"\]\(({_FIGURES}/[^/)]+/(?:{'|'.join(FIGURE_FILES)}))\)")


def write_card(plan: CardPlan) -> list[Path]:
    """Write a planned card, its figures, and its results into `.eval_results/`; return the files.
    Notes between the card's markers stay; ValueError if a result would overwrite a foreign file, or
    the card is invalid. A folder of all cards gets `NAME.md`, `NAME.json` and the figures."""
    # The facts. Files of results take the place of the last card's, and of no others.
    folder, results = plan.folder, plan.folder.path / _RESULTS
    entries, official = read_entries(plan)
    texts = {results / f"{task}.yaml": text for task, text in official.items()}
    ours = {results / f"{task}.yaml" for task in official_tasks(folder.header)}
    for file, text in texts.items():
        if file not in ours and file.is_file() and file.read_text("utf-8") != text:
            raise ValueError(f"{file} was not written with this card. Move it away.")
    left_behind = ours - set(texts)
    facts = gather(plan, entries)
    with temporary_folder() as temporary:
        if facts.kind == "recipe":
            pair = examples_for(languages_of_record(facts.record)).heat_map
            facts = replace(facts, figures=draw_all(facts, explain(folder.model, *pair), temporary))
        # The text, and its check: nothing is replaced before the card is valid.
        card = render(facts, plan.notes)
        if problems := check_card(card):
            raise ValueError(f"The card of {folder.path} would not be valid: {' '.join(problems)}")
        texts = {**dict.fromkeys(plan.card_files, card), **texts}
        if plan.cards is not None:
            texts[plan.cards / f"{plan.name}.json"] = facts.to_json()
        figures = []
        # Of several processes, the last one's figures and texts are there.
        with locked_by(folder.path / LOCK_FILE, f"the card of {folder.path}", PATIENCE):
            for card_file in plan.card_files:
                # The last card's figures go, also those of a former name; those in notes stay.
                home = card_file.parent
                old = card_file.read_text("utf-8") if card_file.is_file() else ""
                linked, in_notes = (
                    {home / unquote(link) for link in _FIGURE_LINK.findall(text)}
                    for text in (old, plan.notes)
                )
                usual = {home / _FIGURES / plan.name / file for file in FIGURE_FILES}
                for figure in (linked | usual) - in_notes:
                    figure.unlink(missing_ok=True)
                    if figure.parent.is_dir() and not any(figure.parent.iterdir()):
                        figure.parent.rmdir()
                for drawn in facts.figures:
                    figure = home / _FIGURES / plan.name / drawn.file
                    with output_file(figure) as partial:
                        shutil.copyfile(temporary / drawn.file, partial)
                    figures.append(figure)
            for file in left_behind:
                file.unlink(missing_ok=True)
            for file, text in texts.items():
                with output_file(file) as partial:
                    partial.write_text(text, "utf-8")
    return [*texts, *figures]
