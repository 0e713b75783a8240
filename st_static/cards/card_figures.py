"""Draw the figures of a model card, in the style of `st_static.evaluate.figures`."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from st_static.cards.facts import CardFacts, CardFigure
from st_static.encode.explain import Explanation
from st_static.evaluate import figures

logger = logging.getLogger(__name__)

_LONGEST_MODEL = 30  # characters of a label beside a point
_TEACHER_MARK = " (teacher)"
_DOT = 6.0  # diameter in points
_LANE = 0.08  # height of a model's dot in inches
_FILLED = {"1 of 10 tasks": 0.1, "half of the tasks": 0.5, "all tasks of the type": 1.0}
_SHAPES = "oDsP"  # of dots, for more models than colours


def draw_scores(facts: CardFacts, axes: Axes) -> str:
    """Draw scores by task type, dots filled by the share of tasks in the mean; return the alt."""
    rows, headings = facts.scores["rows"], facts.scores["columns"][2:]
    styles, lanes = _styles(facts), max(3, len(rows) + 1)  # 3 have room for a heading
    figure: Any = axes.figure  # which its type says may be a part of one
    figure.set_figheight(1.2 + _LANE * (lanes * len(headings) + len(rows)))

    def dot(style: dict[str, Any], share: float) -> list[dict[str, Any]]:
        """Make the plot arguments of a dot: a ring, and in it a disk of a share of its area."""
        ring = {"markersize": _DOT, "markerfacecolor": "white", "markeredgewidth": 1.2}
        disk = {"markersize": _DOT * share**0.5, "markeredgewidth": 0}
        return [{**style, **part, "linestyle": "none"} for part in (ring, disk)]

    for group, heading in enumerate(headings):
        if group % 2 == 0:
            axes.axhspan(group * lanes, (group + 1) * lanes, color="#f3f3f3", zorder=0)
        partly = re.search(r"\((\d+)/(\d+)\)$", heading)  # as `STS (3/10)`
        share = int(partly[1]) / int(partly[2]) if partly else 1.0
        for lane, row in enumerate(rows):
            height = (group + 0.5) * lanes + lane - (len(rows) - 1) / 2
            for part in dot(styles[row["model"]], share):
                axes.plot(row[heading], height, **part)
    axes.set_yticks([(group + 0.5) * lanes for group in range(len(headings))], headings)
    axes.set(ylim=(len(headings) * lanes, 0), xlabel="score x 100")
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color="#dddddd")
    # Legends: of the models above the axes, and of the filling of dots below them.
    mark = dict.fromkeys(facts.teacher_ids, _TEACHER_MARK)
    of_models = {f"{model}{mark.get(model, '')}": dot(style, 1) for model, style in styles.items()}
    gray = {"color": "#555555", "marker": "o"}
    of_shares = {name: dot(gray, share) for name, share in _FILLED.items()}
    for dots, location, columns in (
        (of_models, "outside upper center", 2),
        (of_shares, "outside lower center", 3),
    ):
        handles: Any = [tuple(Line2D([], [], **part) for part in parts) for parts in dots.values()]
        figure.legend(handles, dots, loc=location, ncols=columns, frameon=False, fontsize=8)
    parts = [f"{row['model']} {row[headings[-1]]:.1f}" for row in rows]
    return (
        f"Dots of scores by task type for {len(rows)} models, filled by the share of the type's "
        f"tasks that they are over. {headings[-1]}: {', '.join(parts)}."
    )


def draw_speed(facts: CardFacts, axes: Axes) -> str:
    """Draw quality against sentences per second, on a log axis; return the alt text."""
    heading = facts.scores["columns"][-1]
    quality = {row["model"]: row[heading] for row in facts.scores["rows"]}
    speeds = [entry for entry in facts.speed if entry.model in quality]
    # A long name stands without its organisation.
    shorts = {m: m.rpartition("/")[2] if len(m) > _LONGEST_MODEL else m for m in quality}
    labels = {m: s + _TEACHER_MARK * (m in facts.teacher_ids) for m, s in shorts.items()}
    colors = {model: style["color"] for model, style in _styles(facts).items()}
    axes.set(xlabel="sentences per second (log scale)", ylabel=heading)
    figures.draw_quality_and_speed(axes, speeds, quality, labels, colors)
    parts = [f"{e.model} by {e.encoder} {e.speed:,}" for e in speeds]
    return f"{heading} against sentences per second on a log axis: {'; '.join(parts)}."


def draw_variances(facts: CardFacts, axes: Axes) -> str:
    """Draw variance along the sentence PCA's components, dropped ones marked; return the alt."""
    variances = np.array(facts.variances)
    dropped = len(variances) - facts.dimension
    shares = 100 * variances / variances.sum()
    ranks = np.arange(1, len(shares) + 1)
    axes.plot(ranks[dropped:], shares[dropped:], color=figures.OURS, label="kept")
    if dropped:
        axes.scatter(ranks[:dropped], shares[:dropped], color=figures.OTHERS[0], label="dropped")
    axes.set(
        xscale="log", yscale="log", xlabel="component", ylabel="share of the variance shown, %"
    )
    for axis in (axes.xaxis, axes.yaxis):
        figures.write_plainly(axis, "{:g}")
    axes.legend(frameon=False)
    return (
        f"Falling curve of variance over {len(shares)} components of the sentence PCA; the first "
        f"{dropped}, with {shares[:dropped].sum():.1f} % of the variance shown, are dropped."
    )


def draw_distillation(facts: CardFacts, axes: Axes) -> str:
    """Draw teacher agreement over the steps of the distillation; return the alt text."""
    stages = facts.record["stages"]
    stage = stages["distillation"]
    start = stages["pca" if "pca" in stages else "extraction"]["teacher_agreement"]
    best, end = stage["best_step"], stage["teacher_agreement"]
    by_step = dict(sorted({**dict(stage["agreements"]), 0: start, best: end}.items()))
    axes.plot(list(by_step), list(by_step.values()), color=figures.OURS, marker="o", markersize=4)
    for step, value, note, up, side in (
        (0, start, "", -14, "center"),  # below the curve, which rises
        (best, end, " (kept)", 6, "right"),
    ):
        style: dict[str, Any] = {"xytext": (0, up), "textcoords": "offset points", "ha": side}
        axes.annotate(f"{value:.1f}{note}", (step, value), **style)
    axes.set(xlabel="training step", ylabel="agreement (Spearman x 100)")
    axes.set_ylim(min(0, *by_step.values()), 100)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    return (
        f"Curve of teacher agreement from {start:.1f} before the distillation to {end:.1f} at "
        f"step {best:,}, whose table is kept."
    )


# File name, title, function, and whether the facts have its data.
FIGURES: tuple[
    tuple[str, str, Callable[[CardFacts, Axes], str], Callable[[CardFacts], Any]], ...
] = (
    ("scores", "Scores by task type", draw_scores, lambda f: f.scores),
    ("speed", "Quality and speed", draw_speed, lambda f: f.scores and f.speed and f.is_believable),
    (
        "lengths",
        "Teacher agreement by sentence length",
        lambda f, axes: figures.draw_ranges(axes, f.lengths),
        lambda f: f.lengths,
    ),
    ("variance", "Variance of the sentence PCA", draw_variances, lambda f: f.variances),
    (
        "distillation",
        "Teacher agreement during the distillation",
        draw_distillation,
        lambda f: len(f.record["stages"].get("distillation", {}).get("agreements", [])) > 1,
    ),
)
FIGURE_FILES = (*(f"{name}.png" for name, *_ in FIGURES), "words.png")


def draw_all(facts: CardFacts, explanation: Explanation, folder: Path) -> list[CardFigure]:
    """Draw each figure of a card for which there are facts, and the heat map of an explanation."""
    drawn = []
    rows = [row["model"] for row in facts.scores.get("rows", [])]
    with figures.fonts_for("".join([*rows, *(speed.model for speed in facts.speed)])):
        for name, title, draw, has_facts in FIGURES:
            if has_facts(facts):
                figure, axes = figures.new_axes()
                drawn.append(CardFigure(f"{name}.png", title, draw(facts, axes)))
                figures.save(figure, folder / f"{name}.png")
    shown = explanation.of_known_words()
    words = "".join(word.text for word in shown.first + shown.second)
    if shown.contributions.size and figures.can_draw(words):
        figures.draw_heat_map(explanation, folder / "words.png")
        i, j = np.unravel_index(shown.contributions.argmax(), shown.contributions.shape)
        alt = (
            f"Heat map of the shares of {shown.contributions.size} word pairs in a cosine of "
            f"{explanation.similarity:.2f}; the largest, {shown.contributions[i, j]:.2f}, is that "
            f"of {shown.first[i].text} and {shown.second[j].text}."
        )
        drawn.append(CardFigure("words.png", "A similarity, word by word", alt))
    elif shown.contributions.size:  # there would be boxes
        logger.warning(
            "The card has no heat map of words: no installed font has all characters of %s. "
            "Install one, such as Noto Sans CJK (on Debian and Ubuntu: apt-get install "
            "fonts-noto-cjk), and write the card again.",
            words,
        )
    return drawn


def _styles(facts: CardFacts) -> dict[str, dict[str, Any]]:
    """Choose a colour and a shape for each model of the scores, the same in every figure."""
    styles = {
        model: {"color": figures.TEACHER, "marker": marker}
        for model, marker in zip(facts.teacher_ids, itertools.cycle(_SHAPES), strict=False)
    }
    styles[facts.name] = {"color": figures.OURS, "marker": "o"}
    others = itertools.cycle({"color": c, "marker": m} for m in _SHAPES for c in figures.OTHERS)
    return {
        name: styles[name] if name in styles else next(others)
        for name in (row["model"] for row in facts.scores["rows"])
    }
