"""Measure alignment and uniformity of vectors on the sphere (Wang and Isola 2020).

Alignment is the mean |x - y|^2 of paraphrases, and uniformity the log of the mean of
exp(-2 |x - y|^2) over all pairs of different texts. Smaller is better, and an encoder that draws
all vectors together gains in one what it loses in the other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from st_static.arguments import require
from st_static.evaluate import figures
from st_static.evaluate.built_model import BuiltModel
from st_static.evaluate.models import EvaluatedModel
from st_static.evaluate.own_data import vectors_of
from st_static.model.vectors import unit_rows
from st_static.texts.text_files import read_lines

_MOST_TEXTS = 2_000  # of uniformity: two million pairs
# Marks and colours in the figure; checkpoints first, so that they lie below.
_MARKS = {
    "checkpoint": (".", figures.OURS),
    "stage": ("o", figures.OURS),
    "teacher": ("s", figures.TEACHER),
    "peer": ("D", figures.OTHERS[0]),
}


class Sphere:
    """Pairs of paraphrases, on which encoders are measured one after the other."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self.first, self.second = (list(side) for side in zip(*pairs, strict=True))
        # A text may begin several pairs, and a random pair must not be the same text twice.
        distinct = np.unique(self.first, return_index=True)[1]
        self._distinct = np.random.default_rng(0).permutation(distinct)[:_MOST_TEXTS]

    @classmethod
    def read(cls, file: Path) -> Sphere:
        """Read two texts per line, separated by a tab; at least two of the first ones differ."""
        pairs = []
        for number, line in enumerate(read_lines(file), 1):
            if not line:
                continue
            first, tab, second = line.partition("\t")
            are_two = bool(tab and first.strip() and second.strip())
            require(are_two, f"{file}, line {number}: expected two texts with a tab between them.")
            pairs.append((first, second))
        differ = len({first for first, _ in pairs}) > 1
        require(differ, f"{file}: expected two different texts at the beginnings of its lines.")
        return cls(pairs)

    def measure(self, encode: Callable[[list[str]], NDArray[np.floating]]) -> dict[str, float]:
        """Measure an encoder of texts, B -> [B, D]."""
        x, y = (unit_rows(encode(side)) for side in (self.first, self.second))
        distances = pdist(x[self._distinct], "sqeuclidean")
        return {
            "alignment": float(np.square(x - y).sum(axis=1).mean()),
            "uniformity": float(np.log(np.mean(np.exp(-2 * distances)))),
        }


def measure_all(
    model: BuiltModel, others: Mapping[str, Mapping[str, EvaluatedModel]], sphere: Sphere
) -> pl.DataFrame:
    """Measure a model after each stage, and at its kept checkpoints, in the order of training; then
    other models, given by kind and name."""
    rows = [
        {"model": student.name, "kind": student.kind, **sphere.measure(student.encode)}
        for student in model.students()
    ]
    for kind, of_kind in others.items():
        for name, other in of_kind.items():
            encode = functools.partial(vectors_of, other)
            rows.append({"model": name, "kind": kind, **sphere.measure(encode)})
    return pl.DataFrame(rows)


def draw_sphere(measured: pl.DataFrame, stem: Path) -> list[Path]:
    """Draw the path of a build, of `measure_all`, and other models beside it; below, the training
    alone, from the stage before its first checkpoint."""
    path = measured.filter(pl.col("kind").is_in(["stage", "checkpoint"]))
    steps = (path["kind"] == "checkpoint").arg_true()
    figure, panels = figures.new_panels(1 if steps.is_empty() else 2)
    _draw_points(panels[0], measured)
    panels[0].set_title("Alignment and uniformity", fontsize=11, pad=22)
    style = {"frameon": False, "fontsize": 8, "ncols": 4}
    panels[0].legend(loc="lower center", bbox_to_anchor=(0.5, 1), **style)
    if not steps.is_empty():
        _draw_points(panels[1], path[max(0, steps[0] - 1) :], label_step=path["model"][steps[0]])
        panels[1].set_title("The training", fontsize=11)
    return figures.save_both(figure, stem)


def _draw_points(axes: Axes, measured: pl.DataFrame, label_step: str = "") -> None:
    """Draw models, joined in the order of a build; of the checkpoints, label one."""
    names = ("uniformity", "alignment")
    path = measured.filter(pl.col("kind").is_in(["stage", "checkpoint"]))
    axes.plot(*(path[name] for name in names), color=figures.OURS, linewidth=1, alpha=0.5)
    points = []
    for kind, (mark, color) in _MARKS.items():
        part = measured.filter(kind=kind)
        if len(part):
            label = f"{kind}s" if len(part) > 1 else kind
            # Open, so that overlapping ones stay visible.
            axes.plot(*(part[name] for name in names), mark, color=color, mfc="none", label=label)
        for row in part.to_dicts():
            has_label = kind != "checkpoint" or row["model"] == label_step
            label = figures.short_name(row["model"]) if has_label else ""
            points.append((row["uniformity"], row["alignment"], label, color))
    axes.set(xlabel="uniformity (smaller: random texts lie further apart)")
    axes.set(ylabel="alignment (smaller: paraphrases lie closer)")
    axes.margins(0.15)
    figures.label_points(axes, points)
