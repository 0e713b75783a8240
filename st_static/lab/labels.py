"""Measure whether lengths and cosines tell the labels of texts, or of pairs of texts, apart."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from st_static.arguments import require
from st_static.evaluate.figures import OTHERS, OURS, TEACHER, fonts_for, new_axes, save_both
from st_static.evaluate.models import EvaluatedModel
from st_static.evaluate.own_data import Columns, vectors_of
from st_static.evaluate.tables import write_table

_PAIRS = 20_000  # of the same label, and of two
_MOST_LABELS = 12  # that are shown, the most frequent ones
_BINS = 40

Groups = dict[str, NDArray[np.floating]]  # numbers by label


def analyse_labels(model: EvaluatedModel, columns: Columns, output: Path) -> list[Path]:
    """Draw the distributions of lengths in words, and of cosines, by label.

    A table with `text` and `label` gives the cosines of 20,000 random pairs of texts with the same
    label, and of as many with two; one with `text1`, `text2` and `label` gives the cosines of its
    pairs by label. The table `labels` has medians and quartiles, and how often a pair of one group
    has a higher cosine than a pair of another (the area under the ROC curve x 100, 50 by chance).
    """
    file = columns.file
    labels = np.array(columns.names("label"))
    counts = Counter(labels.tolist()).most_common(_MOST_LABELS)
    kinds = [label for label, _ in counts]
    require(len(kinds) > 1, f"{file}: all rows have the label {kinds[0]!r}: give two or more.")
    is_paired = "text" not in columns.table.columns
    if is_paired:
        sides = columns.texts("text1", "sentence1"), columns.texts("text2", "sentence2")
        first, second = (vectors_of(model, side) for side in sides)
        cosines: Groups = {kind: (first * second).sum(axis=1)[labels == kind] for kind in kinds}
        n_words = np.array([len(f"{a} {b}".split()) for a, b in zip(*sides, strict=True)])
    else:
        texts = columns.texts("text")
        require(
            counts[0][1] > 1, f"{file}: each label has one text, so no pair has the same label."
        )
        cosines = _cosines_of_labels(vectors_of(model, texts), labels)
        n_words = np.array([len(text.split()) for text in texts])
    lengths: Groups = {kind: n_words[labels == kind].astype(float) for kind in kinds}
    rows = [
        {"of": of, "group": group, "n": len(values), **_quartiles(values)}
        for of, groups in (("words", lengths), ("cosine", cosines))
        for group, values in groups.items()
    ]
    for row in rows:
        row["area"] = _area(cosines, str(row["group"])) if row["of"] == "cosine" else None
    files = write_table(pl.DataFrame(rows), output / "labels")
    with fonts_for("".join([*lengths, *cosines])):
        return files + _draw_lengths(lengths, output) + _draw_cosines(cosines, output)


def _cosines_of_labels(vectors: NDArray[np.float32], labels: NDArray[np.str_]) -> Groups:
    """Draw random pairs of texts, and group their cosines by whether they share a label."""
    rng = np.random.default_rng(0)
    _, numbers, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    order, starts = np.argsort(numbers, kind="stable"), np.cumsum(sizes) - sizes
    n_pairs = sizes * (sizes - 1.0)
    of_pair = rng.choice(len(sizes), _PAIRS, p=n_pairs / n_pairs.sum())
    first = rng.integers(0, sizes[of_pair])
    second = (first + rng.integers(1, sizes[of_pair])) % sizes[of_pair]
    same = order[starts[of_pair] + np.stack([first, second])]
    row = rng.integers(0, len(labels), _PAIRS)  # places in the order, in which labels are blocks
    size = sizes[numbers[order[row]]]
    ends = starts[numbers[order[row]]] + size  # the block of the same label
    other = order[np.stack([row, (ends + rng.integers(0, len(labels) - size)) % len(labels)])]
    pairs = {"same label": same, "two labels": other}
    return {name: (vectors[i] * vectors[j]).sum(axis=1) for name, (i, j) in pairs.items()}


def _quartiles(values: NDArray[np.floating]) -> dict[str, float]:
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75])
    return {"first quartile": float(low), "median": float(median), "third quartile": float(high)}


def _area(groups: Groups, group: str) -> float:
    """Compute how often, x 100, a value of a group is above a value of the others."""
    values = np.concatenate(list(groups.values()))
    is_in = np.concatenate([np.full(len(of), name == group) for name, of in groups.items()])
    return 100 * float(roc_auc_score(is_in, values))


def _title(name: str, values: NDArray[np.floating]) -> str:
    """Name a group in a figure; matplotlib would read formulas, and hide names beginning with _."""
    return "\u200b" + name[:40].replace("$", r"\$") + f" ({len(values):,})"


def _draw_lengths(groups: Groups, output: Path) -> list[Path]:
    """Draw each label's median, quartiles and range of lengths, without outliers."""
    figure, axes = new_axes()
    names = [_title(name, values) for name, values in groups.items()]
    axes.boxplot(
        list(groups.values())[::-1],
        orientation="horizontal",
        tick_labels=names[::-1],
        showfliers=False,
        widths=0.6,
        boxprops={"color": OTHERS[0]},
        medianprops={"color": OURS, "linewidth": 2},
    )
    axes.set_xlabel("words")
    axes.set_xlim(left=0)
    return save_both(figure, output / "lengths_by_label")


def _draw_cosines(groups: Groups, output: Path) -> list[Path]:
    """Draw each group's distribution of cosines, as shares of its pairs."""
    figure, axes = new_axes()
    everything = np.concatenate(list(groups.values()))
    bins = np.linspace(everything.min(), everything.max(), _BINS).tolist()
    colours = (OURS, TEACHER, *OTHERS)
    for i, (name, values) in enumerate(groups.items()):
        axes.hist(
            values,
            bins,
            weights=[100 / len(values)] * len(values),
            histtype="step",
            linewidth=1.6,
            color=colours[i % len(colours)],
            linestyle=("-", "--")[i // len(colours) % 2],
            label=_title(name, values),
        )
    axes.set_xlabel("cosine")
    axes.set_ylabel("% of the pairs")
    axes.legend(frameon=False, fontsize=8)
    return save_both(figure, output / "cosines_by_label")
