"""Draw and save figures in a common style, on white: they look the same on dark pages."""

from __future__ import annotations

import contextlib
import logging
import re
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import matplotlib as mpl
import numpy as np
import polars as pl
import textalloc
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patheffects import withStroke
from matplotlib.text import Text
from matplotlib.ticker import LogFormatter
from numpy.typing import NDArray
from rich.cells import cell_len

from st_static.encode.explain import Explanation
from st_static.evaluate.speed import FAST, MODEL2VEC, SENTENCE_TRANSFORMERS, MeasuredSpeed
from st_static.files import check_writable, output_file

logger = logging.getLogger(__name__)

SIZE = (7.0, 3.8)  # inches
OURS, TEACHER = "#1d5fbf", "#d97706"
OTHERS = ("#6b7780", "#4f8a6d", "#a67fb0", "#b9a25c", "#9ec3cf", "#d3a7a0")
# Colours of signed numbers: brown below zero, teal above it, as on the demo page.
LESS, MORE = "#a6611a", "#018571"
_SIGNED = "BrBG"
_METADATA = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}

# Marks of encoders; they are open, so that overlapping ones stay visible.
ENCODER_MARKS = {FAST: "o", SENTENCE_TRANSFORMERS: "^", MODEL2VEC: "x", "st_static": "v"}
_MARK: dict[str, Any] = {"markersize": 7, "markerfacecolor": "none", "markeredgewidth": 1.5}

_TOO_LONG = re.compile("(.{23})..+", re.DOTALL)  # words in a heat map
_EM = 0.09  # width of a letter in inches
_NAME = 34  # the most letters of a model's name
_ANNOTATED = 144  # the most cells of a heat map with numbers

# Fonts for scripts that matplotlib's own font lacks, the preferred first.
_FALLBACK_FONTS = (
    *("Noto Sans CJK JP", "Noto Sans JP", "Source Han Sans", "IPAexGothic", "IPAGothic"),
    *("TakaoGothic", "VL Gothic", "Hiragino Sans", "Yu Gothic", "Meiryo", "MS Gothic"),
    *("Noto Sans SC", "Microsoft YaHei", "SimHei", "PingFang SC", "PingFang HK"),
    *("Noto Sans KR", "Malgun Gothic", "NanumGothic", "AppleGothic", "Apple SD Gothic Neo"),
    *("WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Droid Sans Fallback"),
    *("Noto Sans", "Arial Unicode MS", "Unifont"),
)


def new_axes() -> tuple[Figure, Axes]:
    """Make a figure with axes in the common style."""
    figure, [axes] = new_panels(1)
    return figure, axes


def new_panels(rows: int) -> tuple[Figure, list[Axes]]:
    """Make a figure with several axes in the common style, one below another."""
    figure = Figure(figsize=(SIZE[0], SIZE[1] * rows), layout="constrained")
    panels: list[Axes] = list(figure.subplots(rows, squeeze=False)[:, 0])
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", color="#e5e5e5")
        panel.set_axisbelow(True)
    return figure, panels


def save_both(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as SVG and PNG: `stem` with `.svg` and `.png`."""
    files = [stem.with_name(stem.name + suffix) for suffix in (".svg", ".png")]
    for file in files:
        save(figure, file)
    return files


def check_figure(file: Path) -> None:
    """Check that a figure can be written, in the format of the file's ending."""
    if file.suffix not in _METADATA:
        raise ValueError(
            f"Expected a figure's name to end with {', '.join(_METADATA)}, but got {file.name}."
        )
    if file.is_dir():
        raise ValueError(f"The figure {file} is a folder: name a file in it.")
    check_writable(file.parent, f"The figure {file}")


def save(figure: Figure, file: Path) -> None:
    """Write a figure, in the format of the file's ending."""
    check_figure(file)
    style: dict[str, Any] = {"facecolor": "white", "bbox_inches": "tight", "pad_inches": 0.2}
    # The same figure gives the same bytes.
    style["metadata"] = _METADATA[file.suffix]
    with output_file(file) as partial, mpl.rc_context({"svg.hashsalt": "st_static"}):
        figure.savefig(partial, dpi=150, format=file.suffix[1:], **style)


class _Plain(LogFormatter):
    """Formats numbers without powers of ten, at ticks that have room for them."""

    def __init__(self, pattern: str) -> None:
        super().__init__()
        self._pattern = pattern

    def __call__(self, x: float, pos: int | None = None) -> str:
        return self._pattern.format(x) if super().__call__(x, pos) else ""


def write_plainly(axis: Axis, pattern: str) -> None:
    """Write the numbers of a log axis without powers of ten, by a pattern such as `{:,.0f}`."""
    axis.set_major_formatter(_Plain(pattern))
    axis.set_minor_formatter(_Plain(pattern))
    axis.set_tick_params(which="both", labelsize=7)  # room for 30,000 beside 40,000
    axis.set_tick_params(which="minor", pad=5)  # level with the others, whose ticks are longer


@contextlib.contextmanager
def fonts_for(text: str) -> Iterator[None]:
    """Choose fonts for the text of figures made in the block; warn of characters that none has."""
    with mpl.rc_context({"font.family": _families(text)}):
        if missing := _missing(text):
            logger.warning(
                "No installed font has the characters %s: the figure shows boxes for them. Install "
                "a font that has them, such as Noto Sans CJK (on Debian and Ubuntu: apt-get "
                "install fonts-noto-cjk).",
                " ".join(sorted(missing)[:20]),
            )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")  # logged above, once
            yield


def can_draw(text: str) -> bool:
    """Tell whether the installed fonts have all characters of a text."""
    with mpl.rc_context({"font.family": _families(text)}):
        return not _missing(text)


def _families(text: str) -> list[str]:
    """List the usual font and, for a text that is not ASCII, the installed fallback fonts."""
    usual = list(mpl.rcParams["font.family"])
    if text.isascii():
        return usual
    manager = font_manager.fontManager
    listed = {font.fname for font in manager.ttflist}
    # matplotlib caches its list, which may be older than a font.
    for file in set(font_manager.findSystemFonts()) - listed:
        with contextlib.suppress(OSError, RuntimeError):  # not a font
            manager.addfont(file)
    names = {font.name for font in manager.ttflist}
    return [*usual, *(name for name in _FALLBACK_FONTS if name in names)]


def _missing(text: str) -> set[str]:
    """Find the characters of a text that are in none of matplotlib's current fonts."""
    families = [font_manager.FontProperties(family=[name]) for name in mpl.rcParams["font.family"]]
    fonts = map(font_manager.get_font, map(font_manager.findfont, families))
    covered = set().union(*(font.get_charmap() for font in fonts))
    return {c for c in text if c.isprintable() and ord(c) not in covered}


def draw_signed(
    axes: Axes, values: NDArray[np.floating], digits: int, fontsize: float | None
) -> AxesImage:
    """Draw signed numbers [rows, columns] as coloured cells, and NaN as empty ones; numbers are
    written if there is a font size."""
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    limit = float(np.nanmax(np.abs(values))) or 1.0
    cells = axes.imshow(values, cmap=_SIGNED, vmin=-limit, vmax=limit, aspect="auto")
    if fontsize is None:
        return cells
    for (row, column), value in np.ndenumerate(values):
        if np.isnan(value):
            continue
        text, color = f"{value:+.{digits}f}", "white" if abs(value) > 0.6 * limit else "black"
        if float(text) == 0:
            text, color = "0", "#8a8a8a"
        text = text.replace("-", "\N{MINUS SIGN}")
        axes.text(column, row, text, ha="center", va="center", fontsize=fontsize, color=color)
    return cells


def draw_heat_map(explanation: Explanation, file: Path) -> None:
    """Draw the share of each pair of words in a cosine, without words that have no vector."""
    shown = explanation.of_known_words()
    if not shown.contributions.size:
        raise ValueError("There is nothing to draw: one of the texts has no known word.")
    rows, columns = (
        [_TOO_LONG.sub(r"\1…", word.text) for word in text] for text in (shown.first, shown.second)
    )
    widest_row, widest_column = (max(map(cell_len, words)) for words in (rows, columns))
    size = (
        1.4 + _EM * widest_row + max(0.75 * len(columns), _EM * widest_column),
        1.0 + 0.5 * _EM * widest_column + 0.45 * len(rows),
    )
    with fonts_for("".join(rows + columns)):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots()
        fontsize = 8 if shown.contributions.size <= _ANNOTATED else None
        cells = draw_signed(axes, shown.contributions, digits=2, fontsize=fontsize)
        # A dollar sign in a word does not begin a formula.
        axes.set_yticks(range(len(rows)), rows, parse_math=False)
        axes.set_xticks(range(len(columns)), columns, parse_math=False, rotation=30, ha="right")
        figure.colorbar(cells, label="share in the cosine").outline.set_visible(False)
        axes.set_title(f"{explanation.similarity:.3f} = the sum of all shares", fontsize=11)
        save(figure, file)


def draw_by_task(table: pl.DataFrame, file: Path) -> None:
    """Draw the differences of `scores.compare_by_task`: a row for each task, below the name of its
    type, and a column for each model but the first; a ValueError if there are none."""
    columns = table.columns[3:]
    models, minus = columns[: len(columns) // 2 + 1], columns[len(columns) // 2 + 1 :]
    if not sum(table[column].count() for column in minus):
        raise ValueError(
            "There is nothing to draw: the first model has no task in common with another, on the "
            "same splits."
        )
    names: list[str] = []
    rows: list[tuple[float | None, ...]] = []
    for (kind,), of_kind in table.group_by("type", maintain_order=True):
        names += [str(kind), *of_kind["task"]]
        rows += [(None,) * len(minus), *of_kind[minus].iter_rows()]
    wrap = textwrap.TextWrapper(22, break_long_words=False, break_on_hyphens=False)
    labels = ["\n".join(map(wrap.fill, re.split("(?<=/)", model))) for model in models[1:]]
    widest = max(cell_len(line) for label in labels for line in label.split("\n"))
    size = (
        1.0 + _EM * max(map(cell_len, names)) + len(minus) * max(0.9, _EM * widest),
        1.5 + 0.25 * len(names),
    )
    with fonts_for("".join(models)):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots()
        draw_signed(axes, np.array(rows, dtype=np.float64), digits=1, fontsize=8)
        axes.set_yticks(range(len(names)), names, fontsize=9)
        for label in axes.get_yticklabels():
            label.set_fontweight("bold" if label.get_text() in set(table["type"]) else "normal")
        axes.xaxis.tick_top()
        axes.set_xticks(range(len(minus)), labels, fontsize=8, parse_math=False)
        axes.set_title(f"Main scores x 100 of {models[0]}\nminus those of", fontsize=10)
        save(figure, file)


def draw_quality_and_speed(
    axes: Axes,
    speeds: Sequence[MeasuredSpeed],
    quality: Mapping[str, float],
    labels: Mapping[str, str],
    colors: Mapping[str, str],
) -> None:
    """Draw each model's encoders on a line, told apart by marks; its label is at the fastest."""
    points = []
    for model in dict.fromkeys(entry.model for entry in speeds):
        rows = sorted((e for e in speeds if e.model == model), key=lambda e: -e.speed)
        color, score = colors[model], quality[model]
        axes.plot([e.speed for e in rows], [score] * len(rows), color=color, linewidth=1, alpha=0.5)
        for entry, label in zip(rows, [labels[model]] + [""] * (len(rows) - 1), strict=True):
            axes.plot(entry.speed, score, ENCODER_MARKS[entry.encoder], color=color, **_MARK)
            points.append((entry.speed, score, label, color))
    encoders = {entry.encoder for entry in speeds}
    for encoder, mark in ENCODER_MARKS.items():
        if encoder in encoders:
            axes.plot([], [], mark, color="#444444", label=f"by {encoder}", **_MARK)
    axes.set_xscale("log")
    write_plainly(axes.xaxis, "{:,.0f}")
    axes.margins(x=0.12, y=0.2)
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1))
    label_points(axes, points)


def short_name(name: str) -> str:
    """Keep the end of a long name of a model, such as that of a folder in folders.

    >>> short_name("a/folder/in/many/other/folders/models/ours")
    '…in/many/other/folders/models/ours'
    """
    return name if len(name) <= _NAME else f"…{name[1 - _NAME :]}"


def label_points(axes: Axes, points: Sequence[tuple[float, float, str, str]]) -> list[Text]:
    """Label points (x, y, label, colour) where labels cover least, in otherwise finished axes."""
    figure = cast(Figure, axes.get_figure(root=True))
    figure.draw_without_rendering()  # fixes the position of the axes
    axes.autoscale(False)  # as lines to labels are plotted
    labelled = [point for point in points if point[2]]
    if not labelled:
        return []
    colors = [color for *_, color in labelled]
    lines = [np.array(line.get_xydata()) for line in axes.lines if line.get_linestyle() != "None"]
    lines = [line for line in lines if len(line) > 1]
    halo = withStroke(linewidth=2.5, foreground="white")  # for labels that cross a grid line
    _, _, placed, _ = textalloc.allocate(
        axes,
        [x for x, *_ in labelled],
        [y for _, y, *_ in labelled],
        [text for _, _, text, _ in labelled],
        x_scatter=[x for x, *_ in points],
        y_scatter=[y for _, y, *_ in points],
        x_lines=[line[:, 0] for line in lines],
        y_lines=[line[:, 1] for line in lines],
        margin=0.015,
        textsize=8,
        textcolor=colors,
        linecolor=colors,
        linewidth=0.7,
        avoid_label_lines_overlap=True,
        avoid_crossing_label_lines=True,
        path_effects=[halo],
    )
    labels = cast("list[Text]", placed)
    for label in labels:
        label.set_in_layout(False)
    return labels


def draw_agreement(agreement: pl.DataFrame, stem: Path) -> list[Path]:
    """Draw teacher agreement by sentence length, one bar per range."""
    figure, axes = new_axes()
    draw_ranges(axes, agreement.to_dicts())
    axes.set_title("Teacher agreement by sentence length", fontsize=11)
    return save_both(figure, stem)


def draw_ranges(axes: Axes, agreement: Sequence[dict[str, Any]]) -> str:
    """Draw a bar for each row of `agreement_by_length` that has an agreement; return the alt."""
    ranges = [row for row in agreement if row["tokens"] != "all" and row["agreement"] is not None]
    values = [row["agreement"] for row in ranges]
    bars = axes.bar([row["tokens"] for row in ranges], values, color=OURS)
    axes.bar_label(bars, fmt="%.1f", padding=2)
    axes.margins(y=0.1)  # room for the highest bar's label
    axes.set(xlabel="teacher tokens of the sentence", ylabel="agreement (Spearman x 100)")
    parts = [f"{row['tokens']} tokens {row['agreement']:.1f}" for row in ranges]
    return f"Bars of teacher agreement by sentence length: {', '.join(parts)}."
