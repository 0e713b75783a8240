"""Parts of speech of the words whose vectors are long or short, or grow or shrink (paper §4)."""

from __future__ import annotations

import lzma
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from st_static.evaluate.analysis.norms import extremes, norm_changes
from st_static.evaluate.figures import LESS, MORE, new_panels, save_both

_WORDS_AT_AN_END = 100
_MOST_FREQUENT = 10_000
_TAGS_IN_FIGURE = 12
_STYLES = {"grow most": (MORE, -0.2), "shrink most": (LESS, 0.2)}


class TaggedNorms(NamedTuple):
    """Words of a tagged text with the norms of their vectors.

    Attributes:
        words: Columns `word`, `tag`, `rank` (in the tagged text), and those below.
        stages: Columns of the norm after each stage.
        steps: Columns of the change of the norm from a stage to the next, see `norm_changes`.
    """

    words: pl.DataFrame
    stages: list[str]
    steps: list[str]


def read_tagged(file: Path) -> pl.DataFrame:
    """Words with their part of speech, from `word/TAG` tokens (Brown format).

    Words are lower-cased; tokens without a letter or digit are no words. Of a tag only the part
    before the first `-` or `+` counts: title words and contractions are not parts of speech of
    their own.

    Args:
        file: Text, also .xz.

    Returns:
        Columns `word`, `tag` (the word's most frequent one) and `rank`, the most frequent first.

    Raises:
        ValueError: No word has a tag, or the file is not text in UTF-8.
    """
    counts = _count_tags(_tokens(file))
    if not counts:
        raise ValueError(f"{file} has no tokens of the form word/TAG.")
    words = sorted(counts, key=lambda word: (-counts[word].total(), word))
    tags = [counts[word].most_common(1)[0][0] for word in words]
    return pl.DataFrame({"word": words, "tag": tags, "rank": np.arange(1, len(words) + 1)})


def _count_tags(tokens: Iterator[str]) -> dict[str, Counter[str]]:
    """How often each word has each of its tags."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for token in tokens:
        word, _, tag = token.rpartition("/")
        if any(letter.isalnum() for letter in word):
            counts[word.lower()][_short(tag.upper())] += 1
    return counts


def _short(tag: str) -> str:
    """A tag without what is joined to it; `--` and the like stay as they are."""
    return tag.split("-")[0].split("+")[0] or tag


def _tokens(file: Path) -> Iterator[str]:
    opener = lzma.open if file.suffix == ".xz" else open
    try:
        with opener(file, "rt", encoding="utf-8") as lines:
            yield from (token for line in lines for token in line.split())
    except (UnicodeDecodeError, lzma.LZMAError) as error:
        raise ValueError(f"Expected {file} to be word/TAG tokens in UTF-8, but: {error}") from error


def tagged_norms(
    norms: pl.DataFrame, tagged: pl.DataFrame, among: int = _MOST_FREQUENT
) -> TaggedNorms:
    """Join the most frequent words of a tagged text with the norms of their vectors.

    Args:
        norms: From `word_norms`.
        tagged: From `read_tagged`.
        among: So many most frequent words of the text; those without a vector are left out.

    Raises:
        ValueError: Fewer than two of these words have a vector.
    """
    stages = norms.columns[2:]
    words = tagged.head(among).join(
        norms.drop("rank"), on="word", how="inner", maintain_order="left"
    )
    if len(words) < 2:
        raise ValueError(
            f"Of the {min(among, len(tagged))} most frequent words of the tagged text, only "
            f"{len(words)} are in the model's vocabulary. Give a text in the model's language."
        )
    changes = norm_changes(words, stages)
    return TaggedNorms(words.hstack(changes), stages, changes.columns)


def extreme_words(norms: TaggedNorms, n: int = _WORDS_AT_AN_END) -> pl.DataFrame:
    """The words with the longest and shortest vectors, and those that grow and shrink most.

    Args:
        norms: From `tagged_norms`.
        n: How many words at each end.

    Returns:
        Columns `norm` (a stage or a step), `end`, `word`, `tag`, `rank` and `value`.
    """
    return pl.concat(_ends(norms.words, column, n) for column in [*norms.stages, *norms.steps])


def _ends(words: pl.DataFrame, column: str, n: int) -> pl.DataFrame:
    """The words at both ends of one column."""
    name = pl.lit(column).alias("norm")
    ends = extremes(words, column, n)
    return ends.select(name, "end", "word", "tag", "rank", value=column)


def parts_of_speech(extreme: pl.DataFrame, words: pl.DataFrame) -> pl.DataFrame:
    """How many of the words at each end have a part of speech.

    Args:
        extreme: From `extreme_words`.
        words: All words with their `tag`, from which the others were taken.

    Returns:
        Columns `norm`, `end`, `tag`, `words`, the largest first; and `expected`, how many there
        would be of so many words drawn from all.
    """
    shares = words.group_by("tag").agg(share=pl.len() / len(words))
    groups = extreme.group_by("norm", "end", maintain_order=True)
    return pl.concat(_count(group, shares) for _, group in groups)


def _count(end: pl.DataFrame, shares: pl.DataFrame) -> pl.DataFrame:
    """The parts of speech of the words at one end."""
    counts = end.group_by("norm", "end", "tag", maintain_order=True).agg(words=pl.len())
    ordered = counts.sort("words", descending=True, maintain_order=True)
    joined = ordered.join(shares, on="tag", maintain_order="left")
    return joined.select(pl.exclude("share"), expected=pl.col("share") * len(end))


def draw_parts_of_speech(counts: pl.DataFrame, steps: Sequence[str], stem: Path) -> list[Path]:
    """Words that grow and shrink most from a stage to the next, by part of speech.

    Args:
        counts: From `parts_of_speech`.
        steps: The steps, a panel each.
        stem: Where to.
    """
    figure, panels = new_panels(len(steps))
    for axes, step in zip(panels, steps, strict=True):
        _draw_step(axes, counts.filter(norm=step))
        axes.set_title(f"Words whose vectors grow and shrink most: {step}", fontsize=11)
    panels[0].legend(frameon=False)
    return save_both(figure, stem)


def _draw_step(axes: Axes, counts: pl.DataFrame) -> None:
    """Bars of both ends, for the parts of speech that are most frequent there."""
    shown = _most_frequent_tags(counts)
    _draw_end(axes, counts.filter(end="largest"), shown, "grow most")
    _draw_end(axes, counts.filter(end="smallest"), shown, "shrink most")
    expected = dict(counts.select("tag", "expected").iter_rows())
    heights = [expected[tag] for tag in shown]
    axes.plot(range(len(shown)), heights, "k_", markersize=22, label="expected by chance")
    axes.set_xticks(range(len(shown)), shown)
    axes.set(ylabel="words")
    axes.tick_params(axis="x", length=0)


def _most_frequent_tags(counts: pl.DataFrame) -> list[str]:
    totals = counts.group_by("tag", maintain_order=True).agg(pl.col("words").sum())
    ordered = totals.sort("words", descending=True, maintain_order=True)
    return ordered["tag"].to_list()[:_TAGS_IN_FIGURE]


def _draw_end(axes: Axes, counts: pl.DataFrame, shown: Sequence[str], label: str) -> None:
    """Bars of one end, on the side of their places that is its own."""
    color, shift = _STYLES[label]
    words = dict(counts.select("tag", "words").iter_rows())
    heights = [words.get(tag, 0) for tag in shown]
    axes.bar(np.arange(len(shown)) + shift, heights, 0.38, color=color, label=label)
