"""An explained similarity as tables of the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from st_static.evaluate.analysis.explain import Explanation

_COLUMN_PADDING = 3  # what rich puts around a column
_CELL = len("+0.123")


def contribution_tables(explanation: Explanation, width: int) -> Iterator[Table]:
    """The shares of word pairs, one row per word of the first text; in parts that fit a width."""
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


def largest_table(explanation: Explanation, n: int) -> Table:
    """The n pairs of words with the largest absolute shares, and what the others add up to.

    A word that comes several times in a text is one row with the sum of its shares.
    """
    shares: dict[tuple[str, str], float] = {}
    for i, first in enumerate(explanation.first):
        for j, second in enumerate(explanation.second):
            pair = first.text, second.text
            shares[pair] = shares.get(pair, 0.0) + float(explanation.contributions[i, j])
    ordered = sorted(shares.items(), key=lambda item: -abs(item[1]))
    table = Table("first text", "second text")
    table.add_column("share", justify="right")
    for (one, other), share in ordered[:n]:
        table.add_row(Text(one), Text(other), f"{share:+.3f}")
    rest = ordered[n:]
    if rest:
        table.add_section()
        others = f"{len(rest):,} other pair" + ("s" if len(rest) > 1 else "")
        table.add_row(others, "", f"{sum(share for _, share in rest):+.3f}")
    return table


def _blocks(words: Sequence[str], budget: int) -> Iterator[range]:
    """Cut columns into runs that are at most `budget` characters wide, at least one in each."""
    ends = np.cumsum([max(len(word), _CELL) + _COLUMN_PADDING for word in words])
    start = 0
    while start < len(words):
        used = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, used + budget, side="right")))
        yield range(start, stop)
        start = stop
