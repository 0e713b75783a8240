"""Figures of a model card, in the style of `st_static.evaluate.figures`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from st_static.evaluate.figures import OURS as _OURS
from st_static.evaluate.figures import PEERS as _PEERS
from st_static.evaluate.figures import TEACHER as _TEACHER
from st_static.evaluate.figures import legend_above as _legend_above
from st_static.evaluate.figures import new_axes as _axes
from st_static.evaluate.figures import save
from st_static.publish.explain import Explanation
from st_static.publish.facts import CardFacts

_MARKERS = ("o", "^", "s", "D")  # of one model's encoders
_ANNOTATED = 144  # cells of a heat map that still have room for their numbers
_SMALL = 0.005  # shares that would read 0.00


def draw_heat_map(explanation: Explanation, file: Path) -> None:
    """Each pair of words' share in the cosine of two texts; words without a vector are left out.

    Raises:
        ValueError: A text has no known word, or the file's ending is no format.
    """
    shown = explanation.of_known_words()
    if not shown.contributions.size:
        raise ValueError("There is nothing to draw: one of the texts has no known word.")
    rows, columns = shown.contributions.shape
    figure = Figure(figsize=(2.2 + 0.75 * columns, 1.4 + 0.45 * rows), layout="constrained")
    axes = figure.subplots()
    limit = float(np.abs(shown.contributions).max()) or 1.0
    image = axes.imshow(shown.contributions, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    # A dollar sign in a word begins no formula.
    plain = {"parse_math": False}
    words = [[word.text for word in text] for text in (shown.first, shown.second)]
    axes.set_yticks(range(rows), words[0], **plain)
    axes.set_xticks(range(columns), words[1], rotation=30, ha="right", **plain)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    if shown.contributions.size <= _ANNOTATED:
        for (i, j), share in np.ndenumerate(shown.contributions):
            if abs(share) < _SMALL:
                continue
            color = "white" if abs(share) > 0.6 * limit else "black"
            axes.text(j, i, f"{share:+.2f}", ha="center", va="center", color=color, fontsize=8)
    figure.colorbar(image, label="share in the cosine").outline.set_visible(False)
    axes.set_title(f"{explanation.similarity:.3f} = the sum of all shares", fontsize=11)
    save(figure, file)


def draw_scores(facts: CardFacts, file: Path) -> str:
    """Scores by task type, a group of bars a type; returns the alt text."""
    rows, columns = facts.scores["rows"], facts.scores["columns"][2:]
    colors = _colors(facts)
    figure, axes = _axes()
    width = 0.8 / len(rows)
    for number, row in enumerate(rows):
        places = np.arange(len(columns)) + (number - (len(rows) - 1) / 2) * width
        heights = [row[column] for column in columns]
        axes.bar(places, heights, width * 0.92, color=colors[row["model"]], label=row["model"])
    # A heading without its count of tasks, which the table beside the figure gives.
    axes.set_xticks(range(len(columns)), [column.partition(" (")[0] for column in columns])
    axes.set(ylabel="score x 100")
    axes.tick_params(axis="x", length=0)
    _legend_above(axes)
    save(figure, file)
    parts = [f"{row['model']} {row[columns[-1]]:.1f}" for row in rows]
    return f"Bars of scores by task type for {len(rows)} models. {columns[-1]}: {', '.join(parts)}."


def draw_speed(facts: CardFacts, file: Path) -> str:
    """Quality against sentences a second, on a log axis; returns the alt text."""
    heading = facts.scores["columns"][-1]
    quality = {row["model"]: row[heading] for row in facts.scores["rows"]}
    colors = _colors(facts)
    figure, axes = _axes()
    points = [entry for entry in facts.speed if entry["model"] in quality]
    for entry, marker in zip(points, itertools.cycle(_MARKERS), strict=False):
        model, ours = entry["model"], entry["model"] == facts.name
        axes.plot(
            entry["speed"],
            quality[model],
            marker if ours else "o",
            markersize=8,
            color=colors[model],
            label=f"{model}, {entry['encoder']}" if ours else model,
        )
    axes.set(xscale="log", xlabel="sentences a second", ylabel=heading)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.margins(x=0.1, y=0.15)
    _legend_above(axes)
    save(figure, file)
    said = [f"{e['model']} by {e['encoder']} {e['speed']:,}" for e in points]
    return f"{heading} against sentences a second on a log axis: {'; '.join(said)}."


def draw_lengths(facts: CardFacts, file: Path) -> str:
    """Teacher agreement by sentence length; returns the alt text."""
    bins = [b for b in facts.lengths if b["tokens"] != "all" and b["agreement"] is not None]
    figure, axes = _axes()
    bars = axes.bar([b["tokens"] for b in bins], [b["agreement"] for b in bins], color=_OURS)
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
    figure, axes = _axes()
    places = np.arange(1, len(shares) + 1)
    axes.plot(places[dropped:], shares[dropped:], color=_OURS, label="kept")
    if dropped:
        axes.scatter(
            places[:dropped], shares[:dropped], color=_TEACHER, marker="x", label="dropped"
        )
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
    figure, axes = _axes()
    axes.plot(steps, losses, color=_OURS, marker="o", markersize=4)
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
        lambda facts: facts.stages.get("distillation", {}).get("losses"),
    ),
)


def draw_all(facts: CardFacts, explanation: Explanation, folder: Path) -> list[dict[str, str]]:
    """Draw every figure of a card for which there are facts.

    Args:
        facts: The facts.
        explanation: What the heat map shows.
        folder: Where to.

    Returns:
        An entry of `file`, `title` and `alt` for each.
    """
    figures = []
    for name, title, draw, has_facts in FIGURES:
        if has_facts(facts):
            file = folder / f"{name}.png"
            figures.append({"file": file.name, "title": title, "alt": draw(facts, file)})
    if explanation.of_known_words().contributions.size:
        file = folder / "words.png"
        draw_heat_map(explanation, file)
        figures.append(
            {"file": file.name, "title": "A similarity, word by word", "alt": _words(explanation)}
        )
    return figures


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
    colors = dict(zip(peers, itertools.cycle(_PEERS), strict=False))
    return {facts.name: _OURS, str(facts.teacher_id): _TEACHER, **colors}
