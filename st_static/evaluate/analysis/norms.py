"""How long word vectors are after each stage (paper §4): a long one weighs more in a mean."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import spearmanr

from st_static.evaluate.figures import OURS, PEERS, new_axes, save_both, write_plainly

_GROUPS = 40


def word_norms(words: Sequence[str], tables: Mapping[str, NDArray[np.floating]]) -> pl.DataFrame:
    """The norm of every word's vector after each stage.

    Args:
        words: The vocabulary, the most frequent word first, [V].
        tables: For each stage, the rows of these words, [V, D] (D may differ).

    Returns:
        Columns `word`, `rank` (1 is the most frequent), and one per stage.
    """
    norms = {stage: np.linalg.norm(t, axis=1).astype(np.float64) for stage, t in tables.items()}
    return pl.DataFrame({"word": words, "rank": np.arange(1, len(words) + 1), **norms})


def norm_changes(norms: pl.DataFrame, stages: Sequence[str]) -> pl.DataFrame:
    """How each word's norm changes from a stage to the next: the ratio of after and before.

    A stage may scale all norms, so each is divided by its stage's mean.

    Args:
        norms: A column for each stage.
        stages: The stages, in order.

    Returns:
        A column for each step, such as `extraction to pca`; null for words whose norm is zero
        before.
    """
    lengths = {stage: norms[stage].to_numpy() for stage in stages}
    return pl.DataFrame(
        {
            f"{before} to {after}": _change(lengths[before], lengths[after])
            for before, after in itertools.pairwise(stages)
        }
    )


def _change(before: NDArray[np.float64], after: NDArray[np.float64]) -> pl.Series:
    """Norms after over norms before, each relative to the mean; null where there was none."""
    present = before > 0
    old, new = before[present], after[present]
    ratio = np.full(len(before), np.nan)
    ratio[present] = (new / new.mean()) / (old / old.mean())
    return pl.Series(ratio, nan_to_null=True)


def extremes(words: pl.DataFrame, column: str, n: int) -> pl.DataFrame:
    """The words with the `n` largest and the `n` smallest values of a column, largest first.

    Of fewer than twice `n` words, half are at each end. Words without a value are left out.

    Returns:
        The column `end` ("largest", "smallest"), then those of `words`.
    """
    ordered = words.drop_nulls(column).sort(column, descending=True, maintain_order=True)
    n = min(n, len(ordered) // 2)
    ends = [("largest", ordered.head(n)), ("smallest", ordered.tail(n))]
    return pl.concat([rows.select(pl.lit(end).alias("end"), pl.all()) for end, rows in ends])


def frequency_correlation(words: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Spearman correlation x 100 of frequency rank and each column; positive: rare words have more.

    Args:
        words: Columns `rank` and those named.
        columns: Norms after stages, or changes of norms.

    Returns:
        Columns `norm`, `words` (how many have a value) and `Spearman with rank x 100`.
    """
    return pl.DataFrame([_correlation(words.drop_nulls(column), column) for column in columns])


def _correlation(words: pl.DataFrame, column: str) -> dict[str, object]:
    value = 100 * float(spearmanr(words["rank"], words[column]).statistic)
    return {"norm": column, "words": len(words), "Spearman with rank x 100": value}


def draw_norms(norms: pl.DataFrame, stem: Path) -> list[Path]:
    """Norm against frequency rank, one line per stage: the median of groups of like rank."""
    figure, axes = new_axes()
    edges = np.unique(np.geomspace(1, len(norms) + 1, _GROUPS).astype(int))
    stages = norms.columns[2:]
    # The last stage is the model.
    colors = [*itertools.islice(itertools.cycle(PEERS), len(stages) - 1), OURS]
    for stage, color in zip(stages, colors, strict=True):
        values = norms[stage].to_numpy()
        relative = values / values[values > 0].mean()
        medians = [np.median(relative[a - 1 : b - 1]) for a, b in itertools.pairwise(edges)]
        axes.plot(edges[:-1], medians, label=stage, color=color)
    axes.set(xscale="log", xlabel="frequency rank of the word", ylabel="norm / mean norm")
    axes.set_ylim(bottom=0)
    write_plainly(axes.xaxis, "{:,.0f}")
    axes.set_title("Length of word vectors after each stage", fontsize=11)
    axes.legend(frameon=False)
    return save_both(figure, stem)
