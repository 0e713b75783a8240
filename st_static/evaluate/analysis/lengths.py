"""Measure teacher agreement by sentence length: where a bag of words stops being enough."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from numpy.typing import NDArray

from st_static.distill.agreement import Target, teacher_agreement
from st_static.evaluate.analysis.built_model import BuiltModel
from st_static.evaluate.figures import OURS, new_axes, save_both

# Ranges of a sentence's teacher tokens, without special ones.
BINS = ((1, 5), (6, 10), (11, 20), (21, 40), (41, None))
_FEWEST = 10


def held_out_agreement(model: BuiltModel) -> pl.DataFrame:
    """Measure teacher agreement on held-out sentences, by their length."""
    work = model.work
    rows = np.flatnonzero(work.is_held_out)
    student = model.text_vectors(model.tokenize(work.selected.texts.take(rows)))
    teacher = Target.fit(work.sentence_vectors, work.for_words)(work.sentence_vectors[rows])
    return agreement_by_length(student, teacher, work.selected.lengths[rows])


def agreement_by_length(
    student: NDArray[np.floating], teacher: NDArray[np.floating], lengths: NDArray[np.integer]
) -> pl.DataFrame:
    """Measure teacher agreement of vectors [H, D] and [H, d] within each range of lengths [H].

    Returns:
        Columns `tokens`, `sentences`, `agreement` (Spearman x 100; null for fewer than 10
        sentences); the last row is all lengths together.
    """
    rows: list[dict[str, object]] = []
    for low, high in (*BINS, (0, None)):
        inside = (lengths >= low) & (lengths <= (np.inf if high is None else high))
        label = "all" if low == 0 else f"{low}+" if high is None else f"{low}-{high}"
        enough = inside.sum() >= _FEWEST
        value = teacher_agreement(student[inside], teacher[inside]) if enough else None
        rows.append({"tokens": label, "sentences": int(inside.sum()), "agreement": value})
    return pl.DataFrame(rows)


def draw_agreement(agreement: pl.DataFrame, stem: Path) -> list[Path]:
    """Draw teacher agreement by sentence length, one bar per range."""
    figure, axes = new_axes()
    draw_ranges(axes, agreement.to_dicts())
    axes.set_title("Teacher agreement by sentence length", fontsize=11)
    return save_both(figure, stem)


def draw_ranges(axes: Axes, agreement: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Draw a bar for each row of `agreement_by_length` that has an agreement; return these rows."""
    ranges = [row for row in agreement if row["tokens"] != "all" and row["agreement"] is not None]
    values = [row["agreement"] for row in ranges]
    bars = axes.bar([row["tokens"] for row in ranges], values, color=OURS)
    axes.bar_label(bars, fmt="%.1f", padding=2)
    axes.margins(y=0.1)  # room for the highest bar's label
    axes.set(xlabel="teacher tokens of the sentence", ylabel="agreement (Spearman x 100)")
    return ranges
