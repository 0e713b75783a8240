"""Labels beside the points of a figure, placed where they cover nothing."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.path import Path
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox

_DISTANCES = (7, 14, 22, 32, 44, 58, 74)  # of a label from its point, in points
_DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
_LINE_FROM = 14  # from this distance on, a line leads to the point
_POINT = 6  # how much room a point takes, in pixels to each side


Place = tuple[int, tuple[int, int]]


class Point(NamedTuple):
    """A point of a figure.

    Attributes:
        x: Where it is, in data.
        y: Likewise.
        label: What is written beside it; empty for a point that only is in the way of labels.
        color: Of the label.
    """

    x: float
    y: float
    label: str
    color: str


class _Scene(NamedTuple):
    """Where labels may be, and what is there already: points, labels, and lines of both."""

    renderer: Any
    inside: Bbox
    taken: list[Bbox]
    lines: list[Path]


def label_points(axes: Axes, points: Sequence[Point], **text: Any) -> list[Annotation]:
    """Write each point's label where it covers no point, line or other label, if there is room.

    Args:
        axes: Where points and lines are drawn already, with limits that stay.
        points: The points.
        **text: How the labels are written, as of `Axes.annotate`.
    """
    figure = axes.get_figure(root=True)
    if figure is None:
        raise ValueError("Expected axes of a figure, but they have none.")
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw_without_rendering()  # now the axes are where they will be
    centers = [axes.transData.transform((point.x, point.y)) for point in points]
    taken = [Bbox.from_extents(*(c - _POINT), *(c + _POINT)) for c in centers]
    drawn = [np.array(ln.get_xydata()) for ln in axes.lines if ln.get_linestyle() != "None"]
    lines = [Path(axes.transData.transform(places)) for places in drawn if len(places) > 1]
    scene = _Scene(renderer, axes.get_window_extent(renderer), taken, lines)
    labels = []
    for point, center in zip(points, centers, strict=True):
        if not point.label:
            continue
        label = _new_label(axes, point, text)
        place = _best_place(label, center, scene)
        _put(label, place)
        scene.taken.append(text_box(label, renderer))
        scene.lines.extend(_line(center, place, figure.dpi))
        labels.append(label)
    return labels


def _new_label(axes: Axes, point: Point, text: dict[str, Any]) -> Annotation:
    """A label with a line to its point; where it belongs is found later."""
    label = axes.annotate(
        point.label,
        (point.x, point.y),
        xytext=(0, 0),
        textcoords="offset points",
        color=point.color,
        arrowprops={"arrowstyle": "-", "color": point.color, "linewidth": 0.7, "shrinkB": 4},
        **text,
    )
    label.set_in_layout(False)
    return label


def _best_place(label: Annotation, center: Any, scene: _Scene) -> Place:
    """The place that covers least, and of several the nearest."""
    places = itertools.product(_DISTANCES, _DIRECTIONS)
    return min((_cost(label, place, center, scene), place) for place in places)[1]


def _cost(
    label: Annotation, place: Place, center: Any, scene: _Scene
) -> tuple[float, int, int, int]:
    """What a place covers, in square pixels, and what its line crosses; then its distance."""
    _put(label, place)
    box = text_box(label, scene.renderer)
    within = Bbox.intersection(box, scene.inside)
    outside = _area(box) - (_area(within) if within else 0)
    covered = sum(_area(part) for b in scene.taken if (part := Bbox.intersection(box, b)))
    crossed = sum(line.intersects_bbox(box) for line in scene.lines)
    # A label's own line begins at its own point, which is no crossing.
    others = [b for b in scene.taken if not b.contains(*center)]
    for line in _line(center, place, scene.renderer.dpi):
        crossed += sum(line.intersects_bbox(b) for b in others)
    return round(outside + covered, 3), crossed, place[0], _DIRECTIONS.index(place[1])


def _put(label: Annotation, place: Place) -> None:
    """Put a label at a distance and in a direction from its point."""
    distance, (right, up) = place
    label.set_position((right * distance, up * distance))
    label.set(
        horizontalalignment={1: "left", 0: "center", -1: "right"}[right],
        verticalalignment={1: "bottom", 0: "center", -1: "top"}[up],
    )
    if label.arrow_patch is not None:
        label.arrow_patch.set_visible(distance >= _LINE_FROM)


def _line(center: Any, place: Place, dpi: float) -> list[Path]:
    """The line that leads from a label to its point, in pixels, where there is one."""
    distance, direction = place
    if distance < _LINE_FROM:
        return []
    return [Path([center, center + np.array(direction) * distance * dpi / 72])]


def _area(box: Bbox) -> float:
    return float(box.width * box.height)


def text_box(label: Annotation, renderer: Any) -> Bbox:
    """Where a label's text is, in pixels, without the line to its point."""
    label.update_positions(renderer)
    return Text.get_window_extent(label, renderer)
