"""An explained similarity as tables of the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from st_static.evaluate.analysis.explain import Explanation

_COLUMN_PADDING = 3  # what rich puts around a column
_CELL = len("+0.123")
_LEFT_OUT = "left out"


def contribution_tables(explanation: Explanation, width: int) -> Iterator[Table]:
    """The shares of word pairs, one row per word of the first text; in parts that fit a width.

    For a model with a head also how much the cosine falls without each word: of the first text in
    the last column, of the second in the last row.
    """
    shares, left_out = explanation.contributions, explanation.left_out
    labels = ["sum", _LEFT_OUT] if left_out else ["sum"]
    first = max(len(label) for label in [*labels, *(word.text for word in explanation.first)])
    at_the_end = sum(max(len(label), _CELL) + _COLUMN_PADDING for label in labels)
    budget = width - first - at_the_end - _COLUMN_PADDING - 1
    for block in _blocks([word.text for word in explanation.second], budget):
        is_last = block.stop == len(explanation.second)
        table = Table("")
        for j in block:
            table.add_column(Text(explanation.second[j].text), justify="right", no_wrap=True)
        for label in labels if is_last else []:
            table.add_column(label, justify="right")
        for i, word in enumerate(explanation.first):
            at_end = [shares[i].sum(), *([left_out[0][i]] if left_out else [])] if is_last else []
            table.add_row(Text(word.text), *_cells([*shares[i, block], *at_end]))
        table.add_section()
        sums = shares[:, block].sum(axis=0)
        table.add_row("sum", *_cells([*sums, *([shares.sum()] if is_last else [])]))
        if left_out:
            table.add_row(_LEFT_OUT, *_cells(left_out[1][block]))
        yield table


def _cells(shares: Iterable[float]) -> list[str]:
    return [_signed(share) for share in shares]


def _signed(share: float) -> str:
    """A share with its sign; what rounds to zero has none."""
    text = f"{share:+.3f}"
    return text if float(text) else text[1:]


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
        table.add_row(Text(one), Text(other), _signed(share))
    rest = ordered[n:]
    if rest:
        table.add_section()
        others = f"{len(rest):,} other pair" + ("s" if len(rest) > 1 else "")
        table.add_row(others, "", _signed(sum(share for _, share in rest)))
    return table


def left_out_table(explanation: Explanation, n: int) -> Table | None:
    """The n words without which the cosine changes most; None of a model without a head.

    A word that comes several times in a text, and each time changes as much, is one row: what it
    changes each time.
    """
    if explanation.left_out is None:
        return None
    sides = zip((explanation.first, explanation.second), explanation.left_out, strict=True)
    falls = {
        (name, word.text, _signed(fall)): abs(fall)
        for name, (words, of_words) in zip(("first", "second"), sides, strict=True)
        for word, fall in zip(words, of_words, strict=True)
    }
    table = Table("text", "word")
    table.add_column(_LEFT_OUT, justify="right")
    for name, word, fall in sorted(falls, key=lambda row: -falls[row])[:n]:
        table.add_row(name, Text(word), fall)
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
