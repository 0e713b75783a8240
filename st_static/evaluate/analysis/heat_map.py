"""The figure of an explanation: the share of each pair of words as a coloured cell."""

from __future__ import annotations

import itertools
import unicodedata
from pathlib import Path

from matplotlib.figure import Figure

from st_static.evaluate.analysis.explain import Explanation
from st_static.evaluate.figure_style import draw_signed, save
from st_static.evaluate.fonts import fonts_for

_LONGEST = 24  # letters of a word
_EM = 0.09  # inches that a letter takes
_ANNOTATED = 144  # cells of a heat map that still have room for their numbers


def draw_heat_map(explanation: Explanation, file: Path) -> None:
    """Each pair of words' share in the cosine of two texts; words without a vector are left out.

    Raises:
        ValueError: A text has no known word, or the file's ending is not a format of figures.
    """
    shown = explanation.of_known_words()
    if not shown.contributions.size:
        raise ValueError("There is nothing to draw: one of the texts has no known word.")
    words = [[shortened(word.text) for word in text] for text in (shown.first, shown.second)]
    with fonts_for("".join(itertools.chain(*words))):
        _draw_shares(shown, words, explanation.similarity, file)


def _draw_shares(shown: Explanation, words: list[list[str]], similarity: float, file: Path) -> None:
    rows, columns = shown.contributions.shape
    widest = [max(map(_width, of_text)) for of_text in words]
    size = (
        1.4 + _EM * widest[0] + max(0.75 * columns, _EM * widest[1]),
        1.0 + 0.5 * _EM * widest[1] + 0.45 * rows,
    )
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    fontsize = 8 if shown.contributions.size <= _ANNOTATED else None
    cells = draw_signed(axes, shown.contributions, digits=2, fontsize=fontsize)
    # A dollar sign in a word begins no formula.
    plain = {"parse_math": False}
    axes.set_yticks(range(rows), words[0], **plain)
    axes.set_xticks(range(columns), words[1], rotation=30, ha="right", **plain)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    figure.colorbar(cells, label="share in the cosine").outline.set_visible(False)
    axes.set_title(f"{similarity:.3f} = the sum of all shares", fontsize=11)
    save(figure, file)


def shortened(word: str) -> str:
    """A word as a figure has room for it."""
    return word if len(word) <= _LONGEST else word[: _LONGEST - 1] + "…"


def _width(text: str) -> int:
    """The room that a text takes, in columns; characters of East Asian scripts take two."""
    return sum(1 + (unicodedata.east_asian_width(character) in "WF") for character in text)
