"""The command `explain`: two texts in, what each pair of words adds to their cosine out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from st_static.commands.options import CommandParser
from st_static.dependencies import needed_by

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from st_static.encode.explain import Explanation

_COLUMN_PADDING = 3  # what rich puts around a column
_CELL = len("+0.123")
_LEFT_OUT = "left out"
_OF_A_HEAD = (
    "This model has a head: the shares add up to the cosine, but hold for these two texts only, "
    "for other words switch other hidden units on.\n"
    "left out: how much the cosine falls when the word is left out of its text; below 0, it rises."
)


def run(arguments: Sequence[str]) -> int:
    """Run `explain`."""
    parser = CommandParser(
        prog="st-static explain",
        description="Show which words make two texts similar: the cosine as a sum over word pairs. "
        "For a model with a head also: how much the cosine falls without each word.",
    )
    add = parser.add_argument
    add("model", help="A folder or Hub id of a static model, or one in this package.")
    add("first", help="A text.")
    add("second", help="Another.")
    add("--figure", type=Path, help="Also draw it: a file .png, .svg or .pdf.")
    top = "List only the N pairs with the largest shares, of either sign, and the others' sum."
    add("--top", type=int, metavar="N", help=top)
    options = parser.read(arguments)
    if options.top is not None and options.top < 1:
        raise ValueError(f"--top is a number of pairs, at least 1, but it is {options.top}.")
    if options.figure:
        with needed_by("The option --figure", "eval"):
            from st_static.evaluate.figures import check_figure, draw_heat_map
        check_figure(options.figure)
    from rich.console import Console

    from st_static.encode.explain import explain
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
        draw_heat_map(explanation, options.figure)
        console.print(f"Figure: {options.figure}")
    return 0


def _print_shares(shown: Explanation, top: int | None, console: Console) -> None:
    """Print the shares of all pairs of words, or of the largest."""
    if not shown.contributions.size:
        console.print("No pair of words has a share: one of the texts has no known word.")
        return
    if top is not None:
        console.print("Largest shares of pairs of words in the cosine:")
        console.print(largest_table(shown, top))
        if shown.left_out:
            console.print(_left_out_table(shown, shown.left_out, top))
    else:
        console.print("Share of each pair of words in the cosine:")
        for table in _all_tables(shown, console.width):
            console.print(table)
    if shown.left_out:
        console.print(_OF_A_HEAD)


def _all_tables(explanation: Explanation, width: int) -> Iterator[Table]:
    """Tabulate the shares, a row for each word of the first text, in parts that fit a width."""
    from rich.table import Table

    shares, left_out = explanation.contributions, explanation.left_out
    first, second = explanation.first, explanation.second
    labels = ["sum", _LEFT_OUT] if left_out else ["sum"]
    widest = max(len(label) for label in [*labels, *(word.text for word in first)])
    at_the_end = sum(max(len(label), _CELL) + _COLUMN_PADDING for label in labels)
    column = max(_CELL, *(len(word.text) for word in second)) + _COLUMN_PADDING
    # As many columns as fit, at least one.
    step = max(1, (width - widest - at_the_end - _COLUMN_PADDING - 1) // column)
    for start in range(0, len(second), step):
        stop = min(start + step, len(second))
        is_last = stop == len(second)
        table = Table("")
        for word in second[start:stop]:
            table.add_column(word.text, justify="right", no_wrap=True)
        for label in labels if is_last else []:
            table.add_column(label, justify="right")
        for i, word in enumerate(first):
            at_end = [shares[i].sum(), *([left_out[0][i]] if left_out else [])] if is_last else []
            table.add_row(word.text, *map(_signed, [*shares[i, start:stop], *at_end]))
        table.add_section()
        sums = [*shares[:, start:stop].sum(axis=0), *([shares.sum()] if is_last else [])]
        table.add_row("sum", *map(_signed, sums))
        if left_out:
            table.add_row(_LEFT_OUT, *map(_signed, left_out[1][start:stop]))
        yield table


def _signed(share: float) -> str:
    """Spell a share with its sign; what rounds to zero has none."""
    text = f"{share:+.3f}"
    return text if float(text) else text[1:]


def largest_table(explanation: Explanation, n: int) -> Table:
    """Tabulate the n pairs of words with the largest absolute shares, and the sum of the others."""
    from rich.table import Table

    ordered = explanation.pairs()
    table = Table("first text", "second text")
    table.add_column("share", justify="right")
    for first, second, share in ordered[:n]:
        table.add_row(first, second, _signed(share))
    if smaller := ordered[n:]:
        table.add_section()
        others = f"{len(smaller):,} other pair" + ("s" if len(smaller) > 1 else "")
        table.add_row(others, "", _signed(sum(pair.share for pair in smaller)))
    return table


def _left_out_table(explanation: Explanation, left_out: Iterable[Iterable[float]], n: int) -> Table:
    """Tabulate the n words without which the cosine changes most; equal rows are one."""
    from rich.table import Table

    falls: dict[tuple[str, str, str], float] = {}
    texts = (("first", explanation.first), ("second", explanation.second))
    for (name, words), of_words in zip(texts, left_out, strict=True):
        for word, fall in zip(words, of_words, strict=True):
            falls[name, word.text, _signed(fall)] = abs(fall)
    table = Table("text", "word")
    table.add_column(_LEFT_OUT, justify="right")
    for name, text, shown in sorted(falls, key=lambda row: -falls[row])[:n]:
        table.add_row(name, text, shown)
    return table
