"""The commands `explain` and `card`: arguments in, what the user reads out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from jsonargparse import ArgumentParser
from rich.console import Console
from rich.table import Table
from rich.text import Text

from st_static.model.static_model import read_static_model
from st_static.publish.explain import Explanation, explain

_COLUMN_PADDING = 3  # what rich puts around a column
_CELL = len("+0.123")


def run_explain(arguments: Sequence[str]) -> int:
    """Run `explain`."""
    parser = ArgumentParser(
        prog="st-static explain",
        description="Show which words make two texts similar: the cosine as a sum over word pairs.",
        allow_abbrev=False,
    )
    parser.add_argument("model", help="A folder or Hub id of a static model.")
    parser.add_argument("first", help="A text.")
    parser.add_argument("second", help="Another.")
    parser.add_argument(
        "--figure", type=Path | None, help="Also draw it: a file .png, .svg or .pdf."
    )
    options = parser.parse_args(list(arguments))
    explanation = explain(read_static_model(options.model), options.first, options.second)
    console = Console(highlight=False, markup=False)
    console.print("Share of each pair of words in the cosine:")
    for table in contribution_tables(explanation.of_known_words(), console.width):
        console.print(table)
    console.print(f"cosine: {explanation.similarity:.6f}")
    words = {word.text: word.became for word in explanation.first + explanation.second}
    for text, became in words.items():
        if became:
            console.print(f"{text} → {became}")
    if options.figure:
        from st_static.publish.figures import draw_heat_map

        draw_heat_map(explanation, options.figure)
        console.print(f"Figure: {options.figure}")
    return 0


def contribution_tables(explanation: Explanation, width: int) -> Iterator[Table]:
    """The shares of word pairs, a row a word of the first text; in parts that fit a width."""
    shares = explanation.contributions
    first = max([len(word.text) for word in explanation.first] or [0])
    budget = width - first - _CELL - 2 * _COLUMN_PADDING - 1
    for block in _blocks([word.text for word in explanation.second], budget):
        table = Table("")
        for j in block:
            table.add_column(Text(explanation.second[j].text), justify="right", no_wrap=True)
        is_last = block.stop == len(explanation.second)
        if is_last:
            table.add_column("sum", justify="right")
        for word, row in zip(explanation.first, shares, strict=True):
            cells = [*row[block.start : block.stop], *[row.sum()] * is_last]
            table.add_row(Text(word.text), *(f"{cell:+.3f}" for cell in cells))
        table.add_section()
        sums: list[float] = [*shares[:, block.start : block.stop].sum(axis=0)]
        sums += [shares.sum()] * is_last
        table.add_row("sum", *(f"{cell:+.3f}" for cell in sums))
        yield table


def _blocks(words: Sequence[str], budget: int) -> Iterator[range]:
    """Cut columns into runs that are at most `budget` characters wide, at least one in each."""
    ends = np.cumsum([max(len(word), _CELL) + _COLUMN_PADDING for word in words])
    start = 0
    while start < len(words):
        used = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, used + budget, side="right")))
        yield range(start, stop)
        start = stop
