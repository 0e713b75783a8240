"""Figures of a model card, in the style of `st_static.evaluate.figure_style`."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.patheffects import withStroke

from st_static.evaluate.analysis.explain import Explanation
from st_static.evaluate.analysis.heat_map import draw_heat_map
from st_static.evaluate.figure_style import OURS, PEERS, TEACHER, legend_above, new_axes, save
from st_static.evaluate.fonts import can_draw, fonts_for
from st_static.evaluate.point_labels import Point, label_points
from st_static.evaluate.speed import MeasuredSpeed
from st_static.publish.card.facts import CardFacts, CardFigure

logger = logging.getLogger(__name__)

_LONGEST_MODEL = 30  # of a label beside a point
_TEACHER_MARK = " (teacher)"
# Of encoders, in turn; open ones, so that those at nearly the same place are all seen.
_MARKERS = "ox^sv<>p"
_MARKER_STYLE: dict[str, Any] = {
    "markersize": 7,
    "markerfacecolor": "none",
    "markeredgewidth": 1.5,
    "linestyle": "none",
}


def draw_scores(facts: CardFacts, file: Path) -> str:
    """Scores by task type, one group of bars per type; returns the alt text."""
    rows, columns = facts.scores["rows"], facts.scores["columns"][2:]
    colors = _colors(facts)
    figure, axes = new_axes()
    width = 0.8 / len(rows)
    for number, row in enumerate(rows):
        places = np.arange(len(columns)) + (number - (len(rows) - 1) / 2) * width
        heights = [row[column] for column in columns]
        label = row["model"] + (_TEACHER_MARK if row["model"] == facts.teacher_id else "")
        axes.bar(places, heights, width * 0.92, color=colors[row["model"]], label=label)
    # The count of tasks, without which a mean over few looks like one over all, below its heading.
    axes.set_xticks(range(len(columns)), [column.replace(" (", "\n(") for column in columns])
    axes.set(ylabel="score x 100")
    axes.tick_params(axis="x", length=0)
    legend_above(axes)
    save(figure, file)
    parts = [f"{row['model']} {row[columns[-1]]:.1f}" for row in rows]
    return f"Bars of scores by task type for {len(rows)} models. {columns[-1]}: {', '.join(parts)}."


def draw_speed(facts: CardFacts, file: Path) -> str:
    """Quality against sentences per second, on a log axis; returns the alt text.

    A colour and a label say the model, a marker the encoder: points of one model that are near each
    other have no room for labels of their own.
    """
    heading = facts.scores["columns"][-1]
    quality = {row["model"]: row[heading] for row in facts.scores["rows"]}
    figure, axes = new_axes()
    speeds = [entry for entry in facts.speed if entry.model in quality]
    encoders = dict.fromkeys(entry.encoder for entry in speeds)
    markers = dict(zip(encoders, itertools.cycle(_MARKERS), strict=False))
    points = _points(speeds, quality, facts)
    for entry, point in zip(speeds, points, strict=True):
        marker = markers[entry.encoder]
        axes.plot(point.x, point.y, marker=marker, color=point.color, **_MARKER_STYLE)
    for encoder, marker in markers.items():
        axes.plot([], [], marker=marker, color="#444444", label=encoder, **_MARKER_STYLE)
    axes.set(xscale="log", xlabel="sentences per second", ylabel=heading)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.margins(x=0.2, y=0.3)
    legend_above(axes)
    halo = withStroke(linewidth=2.5, foreground="white")  # where a label crosses a grid line
    label_points(axes, points, fontsize=8, path_effects=[halo])
    save(figure, file)
    said = [f"{e.model} by {e.encoder} {e.speed:,}" for e in speeds]
    return f"{heading} against sentences per second on a log axis: {'; '.join(said)}."


def _points(
    speeds: Sequence[MeasuredSpeed], quality: dict[str, float], facts: CardFacts
) -> list[Point]:
    """The points of the speeds; the first one of each model has a label."""
    colors, labelled, points = _colors(facts), set(), []
    for entry in speeds:
        label = "" if entry.model in labelled else _model_label(entry.model, facts)
        points.append(Point(entry.speed, quality[entry.model], label, colors[entry.model]))
        labelled.add(entry.model)
    return points


def _model_label(model: str, facts: CardFacts) -> str:
    """What is written beside a model's first point."""
    short = model.rpartition("/")[2] if len(model) > _LONGEST_MODEL else model
    return short + _TEACHER_MARK if model == facts.teacher_id else short


def draw_lengths(facts: CardFacts, file: Path) -> str:
    """Teacher agreement by sentence length; returns the alt text."""
    bins = [b for b in facts.lengths if b["tokens"] != "all" and b["agreement"] is not None]
    figure, axes = new_axes()
    bars = axes.bar([b["tokens"] for b in bins], [b["agreement"] for b in bins], color=OURS)
    axes.bar_label(bars, fmt="%.1f", padding=2)
    axes.set(xlabel="teacher tokens of the sentence", ylabel="agreement (Spearman x 100)")
    save(figure, file)
    parts = [f"{b['tokens']} tokens {b['agreement']:.1f}" for b in bins]
    return f"Bars of teacher agreement by sentence length: {', '.join(parts)}."


def draw_variances(facts: CardFacts, file: Path) -> str:
    """Variance along the sentence PCA's components, the dropped ones marked; returns the alt."""
    variances = np.array(facts.variances)
    dropped = len(variances) - facts.dimension
    shares = 100 * variances / variances.sum()
    figure, axes = new_axes()
    places = np.arange(1, len(shares) + 1)
    axes.plot(places[dropped:], shares[dropped:], color=OURS, label="kept")
    if dropped:
        axes.scatter(places[:dropped], shares[:dropped], color=TEACHER, marker="x", label="dropped")
    axes.set(
        xscale="log", yscale="log", xlabel="component", ylabel="share of the variance shown, %"
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    axes.legend(frameon=False)
    save(figure, file)
    return (
        f"Falling curve of variance over {len(shares)} components of the sentence PCA; the first "
        f"{dropped}, with {shares[:dropped].sum():.1f} % of the variance shown, are dropped."
    )


def draw_losses(facts: CardFacts, file: Path) -> str:
    """The held-out loss of the distillation by step; returns the alt text."""
    steps, losses = zip(*facts.stages["distillation"]["losses"], strict=True)
    figure, axes = new_axes()
    axes.plot(steps, losses, color=OURS, marker="o", markersize=4)
    axes.set(xlabel="training step", ylabel="held-out loss")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    save(figure, file)
    return (
        f"Curve of the held-out loss from {losses[0]:.3f} at step {steps[0]:,} to "
        f"{losses[-1]:.3f} at step {steps[-1]:,}."
    )


# Name of the file, title, function, and whether the facts have what it draws.
FIGURES: tuple[
    tuple[str, str, Callable[[CardFacts, Path], str], Callable[[CardFacts], Any]], ...
] = (
    ("scores", "Scores by task type", draw_scores, lambda facts: facts.scores["rows"]),
    ("speed", "Quality and speed", draw_speed, lambda facts: facts.speed),
    ("lengths", "Teacher agreement by sentence length", draw_lengths, lambda facts: facts.lengths),
    ("variance", "Variance of the sentence PCA", draw_variances, lambda facts: facts.variances),
    (
        "distillation",
        "Distillation",
        draw_losses,
        # One point is no curve.
        lambda facts: len(facts.stages.get("distillation", {}).get("losses", [])) > 1,
    ),
)


FIGURE_FILES = (*(f"{name}.png" for name, *_ in FIGURES), "words.png")


def draw_all(facts: CardFacts, explanation: Explanation, folder: Path) -> list[CardFigure]:
    """Draw every figure of a card for which there are facts.

    Args:
        facts: The facts.
        explanation: What the heat map shows.
        folder: Where to.

    Returns:
        The figures that were drawn.
    """
    figures = []
    rows = [row["model"] for row in facts.scores["rows"]]
    names = "".join([*rows, *(speed.model for speed in facts.speed)])
    with fonts_for(names):
        for name, title, draw, has_facts in FIGURES:
            if has_facts(facts):
                file = folder / f"{name}.png"
                figures.append(CardFigure(file.name, title, draw(facts, file)))
    if _can_be_shown(explanation.of_known_words()):
        file = folder / "words.png"
        draw_heat_map(explanation, file)
        figures.append(CardFigure(file.name, "A similarity, word by word", _words(explanation)))
    return figures


def _can_be_shown(explanation: Explanation) -> bool:
    """Whether both texts have words, and fonts for them; a card is better without boxes."""
    if not explanation.contributions.size:
        return False
    words = "".join(word.text for word in explanation.first + explanation.second)
    if not can_draw(words):
        logger.warning(
            "The card has no heat map of words: no installed font has all characters of %s. "
            "Install one, such as Noto Sans CJK (on Debian and Ubuntu: apt-get install "
            "fonts-noto-cjk), and write the card again.",
            words,
        )
        return False
    return True


def _words(explanation: Explanation) -> str:
    shown = explanation.of_known_words()
    i, j = np.unravel_index(shown.contributions.argmax(), shown.contributions.shape)
    return (
        f"Heat map of the shares of {shown.contributions.size} word pairs in a cosine of "
        f"{explanation.similarity:.2f}; the largest, {shown.contributions[i, j]:.2f}, is that of "
        f"{shown.first[i].text} and {shown.second[j].text}."
    )


def _colors(facts: CardFacts) -> dict[str, str]:
    """A colour for each model of the scores, the same in every figure."""
    models = [row["model"] for row in facts.scores["rows"]]
    peers = [model for model in models if model not in (facts.name, facts.teacher_id)]
    colors = dict(zip(peers, itertools.cycle(PEERS), strict=False))
    return {facts.name: OURS, str(facts.teacher_id): TEACHER, **colors}
