"""The figure of quality against speed: a model's colour, an encoder's mark, of cards and README."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from st_static.evaluate.figure_style import legend_above, write_plainly
from st_static.evaluate.point_labels import Point, label_points
from st_static.evaluate.speed import FAST, MODEL2VEC, SENTENCE_TRANSFORMERS, MeasuredSpeed

# Open ones, so that those at nearly the same place are all seen.
ENCODER_MARKS = {
    FAST: "o",
    SENTENCE_TRANSFORMERS: "^",
    MODEL2VEC: "x",
    "st_static": "v",
}
_STYLE: dict[str, Any] = {"markersize": 7, "markerfacecolor": "none", "markeredgewidth": 1.5}


def draw_quality_and_speed(
    axes: Axes,
    speeds: Sequence[MeasuredSpeed],
    quality: Mapping[str, float],
    labels: Mapping[str, str],
    colors: Mapping[str, str],
) -> None:
    """Draw each model's encoders on a line, with the model's name at the fastest.

    Points of one model that are near each other have no room for labels of their own: a mark says
    which encoder it is.

    Args:
        axes: Where to.
        speeds: Of models by encoders; the marks of others than `ENCODER_MARKS` are not known.
        quality: Each model's score.
        labels: What is written beside each model's fastest point.
        colors: Each model's colour.
    """
    points = []
    for model in dict.fromkeys(entry.model for entry in speeds):
        own = sorted((e for e in speeds if e.model == model), key=lambda e: -e.speed)
        color, score = colors[model], quality[model]
        axes.plot([e.speed for e in own], [score] * len(own), color=color, linewidth=1, alpha=0.5)
        for entry, label in zip(own, [labels[model]] + [""] * (len(own) - 1), strict=True):
            mark = ENCODER_MARKS[entry.encoder]
            axes.plot(entry.speed, score, mark, color=color, **_STYLE)
            points.append(Point(entry.speed, score, label, color))
    encoders = {entry.encoder for entry in speeds}
    for encoder, mark in ENCODER_MARKS.items():
        if encoder in encoders:
            axes.plot([], [], mark, color="#444444", label=f"by {encoder}", **_STYLE)
    axes.set_xscale("log")
    write_plainly(axes.xaxis, "{:,.0f}")
    axes.margins(x=0.12, y=0.2)
    legend_above(axes)
    halo = withStroke(linewidth=2.5, foreground="white")  # where a label crosses a grid line
    label_points(axes, points, fontsize=8, path_effects=[halo])
