"""Figures of the analyses, and the style that they share with a card's.

They stand on a white plate of their own, so that they read alike on light and dark pages.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from st_static.arguments import as_path, check_type
from st_static.ensemble.ensemble import Tuning
from st_static.files import atomic

SIZE = (7.0, 3.8)  # inches
OURS, TEACHER = "#1d5fbf", "#d97706"
PEERS = ("#6b7780", "#4f8a6d", "#a67fb0", "#b9a25c", "#9ec3cf", "#d3a7a0")
_METADATA = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
_GROUPS = 40


def new_axes() -> tuple[Figure, Axes]:
    """A figure with axes in the common style."""
    figure, [axes] = _new_panels(1)
    return figure, axes


def _new_panels(rows: int) -> tuple[Figure, list[Axes]]:
    """A figure with several of them, one below another."""
    figure = Figure(figsize=(SIZE[0], SIZE[1] * rows), layout="constrained")
    panels: list[Axes] = list(figure.subplots(rows, squeeze=False)[:, 0])
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", color="#e5e5e5")
        panel.set_axisbelow(True)
    return figure, panels


def legend_above(axes: Axes) -> None:
    """A legend over the axes, where it hides nothing."""
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1))


def draw_norms(norms: pl.DataFrame, stem: Path) -> list[Path]:
    """Norm against frequency rank, one line per stage: the median of groups of like rank."""
    figure, axes = new_axes()
    edges = np.unique(np.geomspace(1, len(norms) + 1, _GROUPS).astype(int))
    stages = norms.columns[2:]
    # The last stage is the model.
    colors = [*itertools.islice(itertools.cycle(PEERS), len(stages) - 1), OURS]
    for stage, color in zip(stages, colors, strict=True):
        values = norms[stage].to_numpy()
        relative = values / values[values > 0].mean()
        medians = [np.median(relative[a - 1 : b - 1]) for a, b in itertools.pairwise(edges)]
        axes.plot(edges[:-1], medians, label=stage, color=color)
    axes.set(xscale="log", xlabel="frequency rank of the word", ylabel="norm / mean norm")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_title("Length of word vectors after each stage", fontsize=11)
    axes.legend(frameon=False)
    return _save_both(figure, stem)


def draw_agreement(agreement: pl.DataFrame, stem: Path) -> list[Path]:
    """Teacher agreement by sentence length, a bar a range."""
    bins = agreement.filter((pl.col("tokens") != "all") & pl.col("agreement").is_not_null())
    figure, axes = new_axes()
    bars = axes.bar(bins["tokens"].to_list(), bins["agreement"].to_list(), color=OURS)
    axes.bar_label(bars, fmt="%.1f", padding=2)
    axes.set(xlabel="teacher tokens of the sentence", ylabel="agreement (Spearman x 100)")
    axes.set_title("Teacher agreement by sentence length", fontsize=11)
    return _save_both(figure, stem)


def draw_tuning(tuning: Tuning, stem: str | Path) -> list[Path]:
    """The score of each trial over each weight but the first, a panel a weight.

    Args:
        tuning: What `Ensemble.tune` returned.
        stem: File to write, without its suffix: an SVG and a PNG are written.

    Raises:
        ValueError: There is one member only.
        TypeError: An argument is of the wrong kind.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from st_static.ensemble.ensemble import Ensemble
        >>> class Letters:
        ...     def encode(self, texts):
        ...         return np.array([[text.count(c) for c in "ab"] for text in texts])
        >>> tuning = Ensemble([Letters(), Letters()]).tune(lambda encoder: 1.0)
        >>> with TemporaryDirectory() as folder:
        ...     [file.name for file in draw_tuning(tuning, f"{folder}/tuning")]
        ['tuning.svg', 'tuning.png']
    """
    check_type(tuning, Tuning, "what Ensemble.tune returns")
    stem = as_path(stem, "a file to write")
    if len(tuning.ensemble.weights) < 2:
        raise ValueError("There is no curve to draw: an ensemble of one member has no weights.")
    weights = np.array([trial.weights for trial in tuning.trials])
    scores = [trial.score for trial in tuning.trials]
    figure, panels = _new_panels(weights.shape[1] - 1)
    for i, axes in enumerate(panels, 1):
        axes.plot(weights[:, i], scores, ".", color=PEERS[0], label="tried")
        best = tuning.ensemble.weights[i]
        axes.plot(best, tuning.score, "o", color=OURS, label=f"best: {best:.2f}")
        axes.set(xscale="log", xlabel=f"weight of member {i + 1}", ylabel="score")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("{x:.1g}")
        axes.legend(frameon=False)
    figure.suptitle("Weights of the ensemble that were tried", fontsize=11)
    return _save_both(figure, stem)


def _save_both(figure: Figure, stem: Path) -> list[Path]:
    files = [stem.with_name(stem.name + suffix) for suffix in (".svg", ".png")]
    for file in files:
        save(figure, file)
    return files


def check_format(file: Path) -> None:
    """Check that a file's ending names a format of figures.

    Raises:
        ValueError: It is none of .png, .svg and .pdf.
    """
    if file.suffix not in _METADATA:
        raise ValueError(
            f"Expected a figure's name to end with {', '.join(_METADATA)}, but got {file.name}."
        )


def save(figure: Figure, file: Path) -> None:
    """Write a figure; the file's ending names the format.

    Raises:
        ValueError: The ending is none of .png, .svg and .pdf.
    """
    check_format(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    # The same figure gives the same bytes.
    with atomic(file) as partial, mpl.rc_context({"svg.hashsalt": "st_static"}):
        figure.savefig(
            partial,
            dpi=150,
            format=file.suffix[1:],
            facecolor="white",
            metadata=_METADATA[file.suffix],
            bbox_inches="tight",
            pad_inches=0.2,
        )
