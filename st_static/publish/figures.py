"""Figures of a model card.

They stand on a white plate of their own, so that they read alike on light and dark pages.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from st_static.model.files import atomic
from st_static.publish.explain import Explanation

_STYLE = {
    "figure.facecolor": "white",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid.axis": "y",
    "grid.color": "#e5e5e5",
    "axes.axisbelow": True,
    "svg.hashsalt": "st_static",  # the same figure gives the same bytes
}
_METADATA = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
_ANNOTATED = 144  # cells of a heat map that still have room for their numbers


def draw_heat_map(explanation: Explanation, file: Path) -> None:
    """Each pair of words' share in the cosine of two texts; words without a vector are left out.

    Raises:
        ValueError: A text has no known word, or the file's ending is no format.
    """
    shown = explanation.of_known_words()
    if not shown.contributions.size:
        raise ValueError("There is nothing to draw: one of the texts has no known word.")
    rows, columns = shown.contributions.shape
    figure = Figure(figsize=(2.2 + 0.75 * columns, 1.4 + 0.45 * rows), layout="constrained")
    axes = figure.subplots()
    limit = float(np.abs(shown.contributions).max()) or 1.0
    image = axes.imshow(shown.contributions, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    # A dollar sign in a word begins no formula.
    plain = {"parse_math": False}
    words = [[word.text for word in text] for text in (shown.first, shown.second)]
    axes.set_yticks(range(rows), words[0], **plain)
    axes.set_xticks(range(columns), words[1], rotation=30, ha="right", **plain)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    if shown.contributions.size <= _ANNOTATED:
        for (i, j), share in np.ndenumerate(shown.contributions):
            color = "white" if abs(share) > 0.6 * limit else "black"
            axes.text(j, i, f"{share:+.2f}", ha="center", va="center", color=color, fontsize=8)
    figure.colorbar(image, label="share in the cosine").outline.set_visible(False)
    axes.set_title(f"{explanation.similarity:.3f} = the sum of all shares", fontsize=11)
    save(figure, file)


def save(figure: Figure, file: Path) -> None:
    """Write a figure; the file's ending names the format.

    Raises:
        ValueError: The ending is none of .png, .svg and .pdf.
    """
    if file.suffix not in _METADATA:
        raise ValueError(
            f"Expected a figure's name to end with {', '.join(_METADATA)}, but got {file.name}."
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic(file) as partial, mpl.rc_context(_STYLE):
        figure.savefig(
            partial,
            dpi=150,
            format=file.suffix[1:],
            facecolor="white",
            metadata=_METADATA[file.suffix],
            bbox_inches="tight",
            pad_inches=0.2,
        )
