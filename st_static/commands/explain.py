"""The command `explain`: two texts in, what each pair of words adds to their cosine out."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from st_static.commands.options import CommandParser
from st_static.dependencies import needed_by
from st_static.hub import require_model

if TYPE_CHECKING:
    from rich.console import Console

    from st_static.evaluate.analysis.explain import Explanation


_OF_A_HEAD = (
    "This model has a head: the shares add up to the cosine, but hold for these two texts only, "
    "for other words switch other hidden units on.\n"
    "left out: how much the cosine falls when the word is left out of its text; below zero, it "
    "rises."
)


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="st-static explain",
        description="Show which words make two texts similar: the cosine as a sum over word pairs. "
        "For a model with a head also: how much the cosine falls without each word.",
    )
    parser.add_argument("model", help="A folder or Hub id of a static model.")
    parser.add_argument("first", help="A text.")
    parser.add_argument("second", help="Another.")
    parser.add_argument("--figure", type=Path, help="Also draw it: a file .png, .svg or .pdf.")
    parser.add_argument(
        "--top",
        type=int,
        metavar="N",
        help="List only the N pairs with the largest shares, of either sign, and the sum of the "
        "others; for long texts.",
    )
    return parser


@needed_by("This command", "publish")
def run(arguments: Sequence[str]) -> int:
    """Run `explain`."""
    options = _parser().read(arguments)
    _check(options)
    # Torch takes seconds to load: not before the arguments are known to be good.
    from rich.console import Console

    from st_static.evaluate.analysis.explain import explain
    from st_static.model.model_folder import read_static_model

    explanation = explain(read_static_model(options.model), options.first, options.second)
    console = Console(highlight=False, markup=False, emoji=False)  # texts as they are
    _print_shares(explanation.of_known_words(), options.top, console)
    console.print(f"cosine: {explanation.similarity:.6f}")
    words = {word.text: word.became for word in explanation.first + explanation.second}
    for text, became in words.items():
        if became:
            console.print(f"{text} → {became}")
    if options.figure:
        from st_static.evaluate.figures import draw_heat_map

        draw_heat_map(explanation, options.figure)
        console.print(f"Figure: {options.figure}")
    return 0


def _check(options: argparse.Namespace) -> None:
    """Check what the options alone tell."""
    if options.top is not None and options.top < 1:
        raise ValueError(f"--top is a number of pairs, at least 1, but it is {options.top}.")
    if options.figure:
        from st_static.evaluate.figures import check_figure

        check_figure(options.figure)
    require_model(options.model)


def _print_shares(shown: Explanation, top: int | None, console: Console) -> None:
    """Print the shares of all pairs of words, or of the largest."""
    from st_static.commands.explain_tables import (
        contribution_tables,
        largest_table,
        left_out_table,
    )

    if not shown.contributions.size:
        console.print("No pair of words has a share: one of the texts has no known word.")
        return
    if top is not None:
        console.print("Largest shares of pairs of words in the cosine:")
        console.print(largest_table(shown, top))
        if of_words := left_out_table(shown, top):
            console.print(of_words)
    else:
        console.print("Share of each pair of words in the cosine:")
        for table in contribution_tables(shown, console.width):
            console.print(table)
    if shown.left_out:
        console.print(_OF_A_HEAD)
