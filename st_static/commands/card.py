"""The command `card`: a model and its results in, its card with figures out."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from st_static.commands.options import CommandParser, hide_bars_of_libraries
from st_static.dependencies import loading, needed_by, require_packages
from st_static.model.model_folder import ModelFolder

if TYPE_CHECKING:
    from st_static.cards.plan_card import CardInputs

PACKAGES = ("mteb", "jinja2", "matplotlib", "language_data")
"""Packages that make a card, beyond the base install."""


@needed_by("This command", "publish")
def run(arguments: Sequence[str]) -> int:
    """Run `card`."""
    parser = CommandParser(
        prog="st-static card",
        description="Write a model's card with its figures: README.md in the model's folder. What "
        "stands between its markers stays.",
    )
    add = parser.add_argument
    add("model", type=Path, help="Folder of the model.")
    add(
        "--results",
        nargs="+",
        type=Path,
        default=[],
        help="Folders of the model's results, results/MODEL/REVISION; only the card of an "
        "ensemble, of converted text vectors, of a model that was trained further, or one with "
        "--own_data, can be written without.",
    )
    add("--peers", nargs="+", type=Path, default=[], help="Folders of other models' results.")
    add(
        "--published",
        nargs="*",
        help="Models whose published scores are shown, too; the teacher's always are. By default "
        "a static model that has scores of the benchmark.",
    )
    add(
        "--benchmark",
        default="",
        help='Whose tasks are compared: by default that of the model\'s language, "MTEB(eng, v1)" '
        'or "JMTEB(v2)", say; for several languages "MTEB(Multilingual, v2)".',
    )
    add(
        "--peer_models",
        nargs="+",
        default=[],
        help="Models whose speed is measured beside this one's and the teacher's, as for evaluate.",
    )
    add(
        "--work_dir",
        type=Path,
        help="The recipe's work_dir, for build times and agreement by sentence length.",
    )
    add(
        "--own_data",
        type=Path,
        help="File results/own_….json of st-static evaluate: its table goes on the card.",
    )
    add("--hub_id", help="Where it will be published: ORG/NAME.")
    add(
        "--cards",
        type=Path,
        help="Folder of all cards, if you keep one: gets a copy, and the facts it was made from.",
    )
    values = vars(parser.read(arguments))
    require_packages(*PACKAGES)
    from st_static.cards.plan_card import CardInputs

    folder, cards = values.pop("model"), values.pop("cards")
    return write(folder, CardInputs(**values), cards)


def write(folder: Path, inputs: CardInputs, cards: Path | None = None) -> int:
    """Write a model's card, also into a folder of all cards; print the files, return the status."""
    hide_bars_of_libraries()
    from st_static.cards.plan_card import plan_card

    # mteb takes seconds to load: not before the arguments are known to be good.
    with loading():
        plan = plan_card(ModelFolder.local(folder), inputs, cards)
        from st_static.evaluate.tasks import benchmark_tasks

        benchmark_tasks(plan.inputs.benchmark)  # before torch is loaded: see there
        from st_static.cards.write_card import write_card

    # It warns of what it does not know of local models, which changes no score.
    logging.getLogger("mteb").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="mteb")
    for file in write_card(plan):
        print(file)
    return 0
