"""Figures of the analyses, as SVG and PNG."""

from __future__ import annotations

import itertools
from pathlib import Path

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.figure import Figure

from st_static.model.arguments import as_path, check_type
from st_static.model.ensemble import Tuning

_SIZE = (6.4, 4.0)  # inches
_METADATA = {".svg": {"Date": None}, ".png": {}}
_GROUPS = 40


def draw_norms(norms: pl.DataFrame, stem: Path) -> list[Path]:
    """Norm against frequency rank, a line a stage: the median of groups of like rank."""
    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.subplots()
    edges = np.unique(np.geomspace(1, len(norms) + 1, _GROUPS).astype(int))
    for stage in norms.columns[2:]:
        values = norms[stage].to_numpy()
        relative = values / values[values > 0].mean()
        medians = [np.median(relative[a - 1 : b - 1]) for a, b in itertools.pairwise(edges)]
        axes.plot(edges[:-1], medians, label=stage)
    axes.set(xscale="log", xlabel="frequency rank of the word", ylabel="norm / mean norm")
    axes.legend()
    return _save(figure, stem)


def draw_agreement(agreement: pl.DataFrame, stem: Path) -> list[Path]:
    """Teacher agreement by sentence length, a bar a range."""
    bins = agreement.filter((pl.col("tokens") != "all") & pl.col("agreement").is_not_null())
    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.subplots()
    bars = axes.bar(bins["tokens"].to_list(), bins["agreement"].to_list(), color="tab:blue")
    axes.bar_label(bars, fmt="%.1f")
    axes.set(xlabel="teacher tokens of the sentence", ylabel="teacher agreement (Spearman x 100)")
    return _save(figure, stem)


def draw_tuning(tuning: Tuning, stem: str | Path) -> list[Path]:
    """The score of each trial over each weight but the first, a panel a weight.

    Args:
        tuning: What `Ensemble.tune` returned.
        stem: File to write, without its suffix: an SVG and a PNG are written.

    Raises:
        ValueError: There is one member only.
        TypeError: An argument is of the wrong kind.
    """
    check_type(tuning, Tuning, "what Ensemble.tune returns")
    stem = as_path(stem, "a file to write")
    if len(tuning.ensemble.weights) < 2:
        raise ValueError("There is no curve to draw: an ensemble of one member has no weights.")
    weights = np.array([trial.weights for trial in tuning.trials])
    scores = [trial.score for trial in tuning.trials]
    n_panels = weights.shape[1] - 1
    figure = Figure(figsize=(_SIZE[0], _SIZE[1] * n_panels), layout="constrained")
    panels = figure.subplots(n_panels, squeeze=False)[:, 0]
    for i, axes in enumerate(panels, 1):
        axes.plot(weights[:, i], scores, ".", color="tab:blue", label="tried")
        best = tuning.ensemble.weights[i]
        axes.plot(best, tuning.score, "o", color="tab:orange", label=f"best: {best:.2f}")
        axes.set(xscale="log", xlabel=f"weight of member {i + 1}", ylabel="score")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("{x:.1g}")
        axes.legend()
    return _save(figure, stem)


def _save(figure: Figure, stem: Path) -> list[Path]:
    stem.parent.mkdir(parents=True, exist_ok=True)
    files = [stem.with_name(stem.name + suffix) for suffix in _METADATA]
    # The same figure gives the same bytes.
    with mpl.rc_context({"svg.hashsalt": "st_static"}):
        for file in files:
            figure.savefig(file, dpi=150, metadata=_METADATA[file.suffix])
    return files
