"""The style of all figures, and how they are saved.

They stand on a white plate of their own, so that they read alike on light and dark pages.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import LogFormatter
from numpy.typing import NDArray

from st_static.files import check_folder, output_file

SIZE = (7.0, 3.8)  # inches
OURS, TEACHER = "#1d5fbf", "#d97706"
PEERS = ("#6b7780", "#4f8a6d", "#a67fb0", "#b9a25c", "#9ec3cf", "#d3a7a0")
# Of numbers with a sign: brown below zero, teal above it, as on the demo page.
LESS, MORE = "#a6611a", "#018571"
_SIGNED = "BrBG"
_MINUS = "\N{MINUS SIGN}"
_METADATA = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}


def new_axes() -> tuple[Figure, Axes]:
    """A figure with axes in the common style."""
    figure, [axes] = new_panels(1)
    return figure, axes


def new_panels(rows: int) -> tuple[Figure, list[Axes]]:
    """A figure with several of them, one below another."""
    figure = Figure(figsize=(SIZE[0], SIZE[1] * rows), layout="constrained")
    panels: list[Axes] = list(figure.subplots(rows, squeeze=False)[:, 0])
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", color="#e5e5e5")
        panel.set_axisbelow(True)
    return figure, panels


class _Plain(LogFormatter):
    """Numbers without powers of ten, at those ticks where there is room for them."""

    def __init__(self, pattern: str) -> None:
        super().__init__()
        self._pattern = pattern

    def __call__(self, x: float, pos: int | None = None) -> str:
        return self._pattern.format(x) if super().__call__(x, pos) else ""


def write_plainly(axis: Axis, pattern: str) -> None:
    """Write the numbers of a log axis without powers of ten, by a pattern such as `{:,.0f}`."""
    axis.set_major_formatter(_Plain(pattern))
    axis.set_minor_formatter(_Plain(pattern))
    axis.set_tick_params(which="minor", pad=5)  # level with the others, whose ticks are longer


def legend_above(axes: Axes) -> None:
    """A legend over the axes, where it hides nothing."""
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1))


def draw_signed(
    axes: Axes, values: NDArray[np.floating], digits: int, fontsize: float | None
) -> AxesImage:
    """Draw numbers with a sign as coloured cells.

    Args:
        axes: Where to.
        values: The numbers, [rows, columns].
        digits: So many digits behind the point are written; what rounds to zero has no sign.
        fontsize: Of the numbers in the cells; None leaves them out.

    Returns:
        The cells, for a colour bar.
    """
    axes.grid(visible=False)
    limit = float(np.abs(values).max()) or 1.0
    cells = axes.imshow(values, cmap=_SIGNED, vmin=-limit, vmax=limit, aspect="auto")
    if fontsize is None:
        return cells
    for (row, column), value in np.ndenumerate(values):
        text, color = f"{value:+.{digits}f}", "white" if abs(value) > 0.6 * limit else "black"
        if float(text) == 0:
            text, color = "0", "#8a8a8a"
        text = text.replace("-", _MINUS)
        axes.text(column, row, text, ha="center", va="center", fontsize=fontsize, color=color)
    return cells


def save_both(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as SVG and PNG: `stem` with `.svg` and `.png`."""
    files = [stem.with_name(stem.name + suffix) for suffix in (".svg", ".png")]
    for file in files:
        save(figure, file)
    return files


def check_figure(file: Path) -> None:
    """Check that a figure can be written, in the format that the file's ending names.

    Raises:
        ValueError: The ending is none of .png, .svg and .pdf, or the place cannot be written to.
    """
    if file.suffix not in _METADATA:
        raise ValueError(
            f"Expected a figure's name to end with {', '.join(_METADATA)}, but got {file.name}."
        )
    if file.is_dir():
        raise ValueError(f"The figure {file} is a folder: name a file in it.")
    check_folder(file.parent, f"The figure {file}")


def save(figure: Figure, file: Path) -> None:
    """Write a figure; the file's ending names the format.

    Raises:
        ValueError: As `check_figure`.
    """
    check_figure(file)
    # The same figure gives the same bytes.
    with output_file(file) as partial, mpl.rc_context({"svg.hashsalt": "st_static"}):
        figure.savefig(
            partial,
            dpi=150,
            format=file.suffix[1:],
            facecolor="white",
            metadata=_METADATA[file.suffix],
            bbox_inches="tight",
            pad_inches=0.2,
        )
