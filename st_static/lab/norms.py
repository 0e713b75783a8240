"""Measure norms of word vectors, their weights in a mean (paper §4), also by part of speech."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import spearmanr

from st_static.evaluate import figures
from st_static.evaluate.tables import write_table
from st_static.lab.tagged_text import (
    CLASSES,
    class_of,
    simple_tag,
    split_tagged,
)
from st_static.texts.text_files import read_lines

_GROUPS = 40  # points of a curve
_CHANGED = 20  # words at each end, without parts of speech
_TAGGED = 100  # words at each end, with parts of speech
_MOST_FREQUENT = 10_000  # words of a tagged text
_TAGS_IN_FIGURE = 12
# The paper's counts among the hundred words at each end of a step's ratios, and its correlations
# of norm and frequency, x -100: with the rank by frequency, as ours are.
_COUNTS_OF_PAPER = {
    ("extraction to pca", "largest"): {"nouns": 71, "proper nouns": 19, "verbs": 5},
    ("extraction to pca", "smallest"): {
        **{"verbs": 23, "prepositions": 19, "personal pronouns": 8, "be": 7}
    },
    ("pca to distillation", "largest"): {"verbs": 25, "nouns": 24, "adjectives": 18},
    ("pca to distillation", "smallest"): {"adverbs": 16, "personal pronouns": 14, "nouns": 13},
}
_CORRELATIONS_OF_PAPER = {"extraction": 34.0, "pca": 36.0, "distillation": 37.0}
_ENDS = (
    ("largest", "grow most", figures.MORE, -0.2),
    ("smallest", "shrink most", figures.LESS, 0.2),
)


def word_norms(words: Sequence[str], tables: Mapping[str, NDArray[np.floating]]) -> pl.DataFrame:
    """Compute the norm of each word's vector, the most frequent first, a column for each stage."""
    norms = {stage: np.linalg.norm(t, axis=1).astype(np.float64) for stage, t in tables.items()}
    return pl.DataFrame({"word": words, "rank": np.arange(1, len(words) + 1), **norms})


def write_norms(norms: pl.DataFrame, output: Path) -> list[Path]:
    """Write norms after each stage, by frequency, and the words that change most."""
    stages = norms.columns[2:]
    files = [
        *write_table(norms, output / "norms"),
        *write_table(frequency_correlation(norms, stages), output / "norms_and_frequency"),
        *_draw_norms(norms, stages, output / "norms"),
    ]
    changes = norm_changes(norms, stages)
    for step in changes.columns:
        words = norms.select("word", "rank", change=changes[step])
        stem = output / f"norms_{step.replace(' ', '_')}"
        files += write_table(extremes(words, "change", _CHANGED), stem)
    return files


def norm_changes(norms: pl.DataFrame, stages: Sequence[str]) -> pl.DataFrame:
    """Compute the ratio of each word's norm after a step, such as `extraction to pca`, to that
    before, each divided by its stage's mean over words with a norm before; null if it was zero."""
    changes = {}
    for before, after in itertools.pairwise(stages):
        old, new = norms[before].to_numpy(), norms[after].to_numpy()
        valid = old > 0
        ratio = np.full(len(old), np.nan)
        ratio[valid] = (new[valid] / new[valid].mean()) / (old[valid] / old[valid].mean())
        changes[f"{before} to {after}"] = pl.Series(ratio, nan_to_null=True)
    return pl.DataFrame(changes)


def extremes(words: pl.DataFrame, column: str, n: int) -> pl.DataFrame:
    """Find the `n` words, or half of all, at each `end` of a column's values, largest first."""
    ordered = words.drop_nulls(column).sort(column, descending=True, maintain_order=True)
    n = min(n, len(ordered) // 2)
    ends = [("largest", ordered.head(n)), ("smallest", ordered.tail(n))]
    return pl.concat([rows.select(pl.lit(end).alias("end"), pl.all()) for end, rows in ends])


def frequency_correlation(words: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Correlate rank and each column, by Spearman x 100; positive: rare words have more."""
    rows = []
    for column in columns:
        present = words.drop_nulls(column)
        value = 100 * float(spearmanr(present["rank"], present[column]).statistic)
        rows.append({"norm": column, "words": len(present), "Spearman with rank x 100": value})
    return pl.DataFrame(rows)


def _draw_norms(norms: pl.DataFrame, stages: Sequence[str], stem: Path) -> list[Path]:
    """Draw norm against frequency rank, one line per stage: medians of groups of similar rank."""
    figure, axes = figures.new_axes()
    edges = np.unique(np.geomspace(1, len(norms) + 1, _GROUPS).astype(int))
    # The last stage is the model.
    colors = [*itertools.islice(itertools.cycle(figures.OTHERS), len(stages) - 1), figures.OURS]
    for stage, color in zip(stages, colors, strict=True):
        values = norms[stage].to_numpy()
        relative = values / values[values > 0].mean()
        medians = [np.median(relative[a - 1 : b - 1]) for a, b in itertools.pairwise(edges)]
        axes.plot(edges[:-1], medians, label=stage, color=color)
    axes.set(xscale="log", xlabel="frequency rank of the word", ylabel="norm / mean norm")
    axes.set_ylim(bottom=0)
    figures.write_plainly(axes.xaxis, "{:,.0f}")
    axes.set_title("Length of word vectors after each stage", fontsize=11)
    axes.legend(frameon=False)
    return figures.save_both(figure, stem)


def read_tagged(file: Path) -> pl.DataFrame:
    """Read lower-cased words with their most frequent simple `tag` and its `class`, the most
    frequent first, from `word/TAG` tokens (Brown format) with a letter or digit."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for word, tag in itertools.chain.from_iterable(map(split_tagged, read_lines(file))):
        if any(letter.isalnum() for letter in word):
            counts[word.lower()][simple_tag(tag)] += 1
    if not counts:
        raise ValueError(f"{file} has no tokens of the form word/TAG.")
    words = sorted(counts, key=lambda word: (-counts[word].total(), word))
    tags = [counts[word].most_common(1)[0][0] for word in words]
    classes, ranks = list(map(class_of, tags)), np.arange(1, len(words) + 1)
    return pl.DataFrame({"word": words, "tag": tags, "class": classes, "rank": ranks})


def tagged_norms(
    norms: pl.DataFrame, tagged: pl.DataFrame, among: int = _MOST_FREQUENT
) -> tuple[pl.DataFrame, list[str]]:
    """Join a tagged text's most frequent words with norms and `norm_changes`; name the changes."""
    words = tagged.head(among).join(norms.drop("rank"), on="word", maintain_order="left")
    if len(words) < 2:
        raise ValueError(
            f"Of the {min(among, len(tagged))} most frequent words of the tagged text, only "
            f"{len(words)} are in the model's vocabulary. Give a text in the model's language."
        )
    changes = norm_changes(words, norms.columns[2:])
    return words.hstack(changes), changes.columns


def write_parts_of_speech(words: pl.DataFrame, steps: Sequence[str], output: Path) -> list[Path]:
    """Write norms of a tagged text's words, from `tagged_norms`, and the tags at both ends."""
    columns = words.columns[4:]
    extreme = pl.concat(
        extremes(words, column, _TAGGED).select(
            pl.lit(column).alias("norm"), "end", "word", "tag", "class", "rank", value=column
        )
        for column in columns
    )
    counts = parts_of_speech(extreme, words)
    of_paper = pl.Series(map(_CORRELATIONS_OF_PAPER.get, columns), dtype=pl.Float64)
    correlations = frequency_correlation(words, columns).with_columns(paper=of_paper)
    classes = classes_at_ends(extreme, words, steps)
    return [
        *write_table(words, output / "tagged_norms"),
        *write_table(correlations, output / "tagged_norms_and_frequency"),
        *write_table(extreme, output / "tagged_extremes"),
        *write_table(counts, output / "parts_of_speech"),
        *write_table(classes, output / "word_classes"),
        *_draw_parts_of_speech(counts, steps, output / "parts_of_speech"),
    ]


def parts_of_speech(extreme: pl.DataFrame, words: pl.DataFrame) -> pl.DataFrame:
    """Count words at each end by part of speech; `expected` is that of a random draw of as many."""
    shares = words.group_by("tag").agg(share=pl.len() / len(words))
    counts = extreme.group_by("norm", "end", "tag", maintain_order=True).agg(words=pl.len())
    size = pl.col("words").sum().over("norm", "end")
    joined = counts.join(shares, on="tag", maintain_order="left")
    rows = joined.select("norm", "end", "tag", "words", expected=pl.col("share") * size)
    group = pl.struct("norm", "end").rle_id()
    return rows.sort(group, "words", descending=[False, True], maintain_order=True)


def classes_at_ends(
    extreme: pl.DataFrame, words: pl.DataFrame, steps: Sequence[str]
) -> pl.DataFrame:
    """Count words at each end of each step's ratios by the paper's classes, beside the counts
    expected by chance and those in the paper."""
    rows: list[dict[str, object]] = []
    for step, end in itertools.product(steps, ("largest", "smallest")):
        drawn = extreme.filter(norm=step, end=end)["class"]
        named = _COUNTS_OF_PAPER.get((step, end), {})
        for name in CLASSES:
            expected = len(drawn) * float((words["class"] == name).mean())  # type: ignore[arg-type]
            counted = {"words": int((drawn == name).sum()), "expected": expected}
            rows.append(
                {"ratio": step, "end": end, "class": name, **counted, "paper": named.get(name)}
            )
    return pl.DataFrame(rows, schema_overrides={"paper": pl.Int64})


def _draw_parts_of_speech(counts: pl.DataFrame, steps: Sequence[str], stem: Path) -> list[Path]:
    """Draw the words that grow and shrink most between stages, by their most frequent tags."""
    figure, panels = figures.new_panels(len(steps))
    for axes, step in zip(panels, steps, strict=True):
        of_step = counts.filter(norm=step)
        totals = of_step.group_by("tag", maintain_order=True).agg(pl.col("words").sum())
        ordered = totals.sort("words", descending=True, maintain_order=True)
        shown = ordered["tag"].to_list()[:_TAGS_IN_FIGURE]
        positions = np.arange(len(shown))
        for end, label, color, shift in _ENDS:
            words = dict(of_step.filter(end=end).select("tag", "words").iter_rows())
            heights = [words.get(tag, 0) for tag in shown]
            axes.bar(positions + shift, heights, 0.38, color=color, label=label)
        expected = dict(of_step.select("tag", "expected").iter_rows())
        heights = [expected[tag] for tag in shown]
        axes.plot(positions, heights, "k_", markersize=22, label="expected by chance")
        axes.set_xticks(positions, shown)
        axes.set(ylabel="words")
        axes.tick_params(axis="x", length=0)
        axes.set_title(f"Words whose vectors grow and shrink most: {step}", fontsize=11)
    panels[0].legend(frameon=False)
    return figures.save_both(figure, stem)
