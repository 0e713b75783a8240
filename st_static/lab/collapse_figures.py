"""Draw second-order collapse: all pairs by their two distances, and a lost pair as two clouds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.contour import QuadContourSet
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from numpy.typing import NDArray
from rich.cells import chop_cells

from st_static.evaluate import figures
from st_static.lab.collapse import Collapse, Doubles

_SHOWN = 2_000  # pairs of a model, drawn at random, beside the worst ones
_SIDE = 2.7  # inches of a panel
_GRID = 200  # points of the heat map along each side
_ABOVE = "#c9c9c9"  # where the collapse is above 1
_COLORS = (figures.OURS, figures.TEACHER)  # of a pair's two texts
_COLUMNS = 110  # of a text in a title
_WHY = (
    r"Above, the source's distance: grey is a collapse above 1, which it excludes by taking that "
    r"tr($\Sigma$) $\leq$ 2."
    "\n"
    r"Words that share no direction have a short mean, as in most tables: T orthogonal words have "
    r"tr($\Sigma$) = T $-$ 1."
    "\n"
    "Below, the bounded variant: spreads as shares of the mean squared norm of the tokens."
)

_CLOUDS = (
    "Each point is a token, divided by the norm of its text's mean, in the plane of most variance; "
    "+: the means, with one standard deviation."
)


def draw_planes(measured: Sequence[Collapse], stem: Path) -> list[Path]:
    """Draw each model's pairs in the plane of d_mu and d_Sigma over the heat map of the collapse,
    (1 - d_mu) d_Sigma: by the source's distance above, and by the bounded one below."""
    size = (max(2, len(measured)) * _SIDE + 1, 2 * _SIDE + 1.2)
    figure = Figure(figsize=size, layout="constrained")
    rows = figure.subplots(2, len(measured), squeeze=False)
    for collapse, above, below in zip(measured, *rows, strict=True):
        largest = max(1.0, 1.05 * float(collapse.d_sigma.max()))
        _draw_plane(above, collapse, collapse.d_sigma, largest)
        cells = _draw_plane(below, collapse, collapse.bounded_d_sigma, 1.0)
        means = f"mean {collapse.socm.mean():.3f}, bounded {collapse.bounded.mean():.3f}"
        name = figures.short_name(collapse.model)
        above.set_title(f"{name}\n{means}", fontsize=9, parse_math=False)
        below.set_xlabel(r"$d_\mu$")
    rows[0, 0].set_ylabel(r"$d_\Sigma$")
    rows[1, 0].set_ylabel(r"bounded $d_\Sigma$")
    handles = rows[0, 0].get_legend_handles_labels()
    figure.legend(*handles, fontsize=8, frameon=False, loc="outside upper left")
    bar = figure.colorbar(cells, ax=rows, extend="max", aspect=40)
    bar.set_label(r"(1 $-$ $d_\mu$) $d_\Sigma$")
    figure.supxlabel(_WHY, fontsize=8)
    return figures.save_both(figure, stem)


def _draw_plane(axes: Axes, collapse: Collapse, d_sigma: Doubles, largest: float) -> QuadContourSet:
    """Draw pairs drawn at random and the worst ones, over the heat map up to a distance."""
    d_mu, heights = np.meshgrid(np.linspace(0, 1, _GRID), np.linspace(0, largest, _GRID))
    colors = mpl.colormaps["YlOrRd"].with_extremes(over=_ABOVE)
    levels = np.linspace(0, 1, 11)
    cells = axes.contourf(
        d_mu, heights, (1 - d_mu) * heights, levels=levels, cmap=colors, extend="max"
    )
    pairs = np.random.default_rng(0).permutation(len(d_sigma))[:_SHOWN]
    points: dict[str, Any] = {"markersize": 1.5, "markeredgewidth": 0, "rasterized": True}
    axes.plot(collapse.d_mu[pairs], d_sigma[pairs], "o", color="black", alpha=0.35, **points)
    worst, label = collapse.worst(), "the pairs that are lost most, by SOCM"
    axes.plot(
        collapse.d_mu[worst], d_sigma[worst], "o", color=figures.OURS, mfc="none", label=label
    )
    return cells


def draw_clouds(measured: Sequence[Collapse], texts: Sequence[str], stem: Path) -> list[Path]:
    """Draw the pairs of texts that the first and the last model lose most, as both see them."""
    ends = list(dict.fromkeys([0, len(measured) - 1]))
    shown = [measured[i] for i in ends]
    worst = [int(collapse.worst()[0]) for collapse in shown]
    pairs = [(int(c.first[n]), int(c.second[n])) for c, n in zip(shown, worst, strict=True)]
    with figures.fonts_for("".join(texts[i] for pair in pairs for i in pair)):
        figure = Figure(
            figsize=(max(figures.SIZE[0], 4 * len(shown)), 4.6 * len(shown)), layout="constrained"
        )
        parts = np.atleast_1d(cast(Any, figure.subfigures(len(shown), 1)))
        for part, loser, pair in zip(parts, shown, pairs, strict=True):
            panels = part.subplots(1, len(shown), squeeze=False)[0]
            for axes, collapse in zip(panels, shown, strict=True):
                _draw_pair(axes, collapse, pair)
            lines = [f"Lost most by {figures.short_name(loser.model)}:"]
            for name, i in zip(("blue", "orange"), pair, strict=True):
                first, *others = chop_cells(texts[i], _COLUMNS)
                lines.append(f"{name}: {first}{'…' if others else ''}")
            part.suptitle("\n".join(lines), fontsize=8, x=0.02, ha="left", parse_math=False)
        parts[-1].supxlabel(_CLOUDS, fontsize=8)
        return figures.save_both(figure, stem)


def _draw_pair(axes: Axes, collapse: Collapse, pair: tuple[int, int]) -> None:
    """Draw the tokens of two texts, each divided by the norm of their mean, in the plane in which
    they vary most, with means, and with ellipses of one standard deviation."""
    tokens = [np.asarray(collapse.vectors[i], dtype=np.float64) for i in pair]
    tokens = [text / np.linalg.norm(text.mean(axis=0)) for text in tokens]
    everything = np.concatenate(tokens)
    center = everything.mean(axis=0)
    _, values, axes_of = np.linalg.svd(everything - center, full_matrices=False)
    share = 100 * np.square(values[:2]).sum() / np.square(values).sum()
    # The shorter text lies above.
    for text, color in sorted(zip(tokens, _COLORS, strict=True), key=lambda entry: -len(entry[0])):
        points = (text - center) @ axes_of[:2].T
        mean = points.mean(axis=0)
        axes.plot(*points.T, "o", color=color, markersize=4, alpha=0.6)
        axes.plot(*mean, "P", color=color, markersize=10, markeredgecolor="white")
        axes.add_patch(_ellipse(mean, np.cov(points, rowvar=False, bias=True), color))
    number = np.flatnonzero((collapse.first == pair[0]) & (collapse.second == pair[1]))[0]
    axes.set_title(figures.short_name(collapse.model), fontsize=9, parse_math=False)
    label = f"SOCM {collapse.socm[number]:.2f}, bounded {collapse.bounded[number]:.2f}"
    label += rf", $d_\mu$ {collapse.d_mu[number]:.2f}, $d_\Sigma$ {collapse.d_sigma[number]:.2f}"
    axes.set_xlabel(f"{label}\n{share:.0f} % of the variance of the two texts", fontsize=8)
    axes.set_aspect("equal", adjustable="datalim")
    axes.spines[["top", "right"]].set_visible(False)


def _ellipse(center: NDArray[np.floating], covariance: Doubles, color: str) -> Ellipse:
    """Make the ellipse of one standard deviation of a covariance [2, 2]."""
    variances, directions = np.linalg.eigh(covariance)
    width, height = 2 * np.sqrt(np.clip(variances, 0, None))
    angle = float(np.degrees(np.arctan2(directions[1, 0], directions[0, 0])))
    x, y = center.tolist()
    return Ellipse((x, y), width, height, angle=angle, fill=False, edgecolor=color, linewidth=1.5)
