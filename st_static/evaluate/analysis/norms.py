"""How long word vectors are after each stage (paper §4): a long one weighs more in a mean."""

from __future__ import annotations

import itertools
import lzma
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import spearmanr

from st_static.evaluate.figure_style import OURS, PEERS, new_axes, save_both

_GROUPS = 40


def word_norms(words: Sequence[str], tables: Mapping[str, NDArray[np.floating]]) -> pl.DataFrame:
    """The norm of every word's vector after each stage.

    Args:
        words: The vocabulary, the most frequent word first, [V].
        tables: For each stage, the rows of these words, [V, D] (D may differ).

    Returns:
        Columns `word`, `rank` (1 is the most frequent), and one per stage.
    """
    norms = {stage: np.linalg.norm(table, axis=1) for stage, table in tables.items()}
    return pl.DataFrame({"word": words, "rank": np.arange(1, len(words) + 1), **norms})


def most_changed(norms: pl.DataFrame, before: str, after: str, n: int = 20) -> pl.DataFrame:
    """The words whose norm rises and falls most from one stage to another.

    A stage may scale all norms, so each is divided by its stage's mean.

    Returns:
        Columns `word`, `rank`, `change` (relative norm after over before); the `n` largest, then
        the `n` smallest changes. Words whose norm is zero before are left out.
    """
    present = norms.filter(pl.col(before) > 0)
    relative = (pl.col(after) / pl.col(after).mean()) / (pl.col(before) / pl.col(before).mean())
    changes = present.select("word", "rank", change=relative).sort("change", descending=True)
    return pl.concat([changes.head(n), changes.tail(n)])


def frequency_correlation(norms: pl.DataFrame) -> pl.DataFrame:
    """Spearman correlation x 100 of norm and frequency rank; positive: rare words are long."""
    stages = norms.columns[2:]
    values = [100 * float(spearmanr(norms["rank"], norms[stage]).statistic) for stage in stages]
    return pl.DataFrame({"stage": stages, "Spearman of norm and rank x 100": values})


def read_tags(file: Path) -> dict[str, str]:
    """Each word's most frequent part of speech, from `word/TAG` tokens (Brown format).

    Words are lower-cased. Of a tag only the part before the first `-` or `+` counts: title words
    and contractions are not parts of speech of their own.

    Args:
        file: Text, also .xz.

    Raises:
        ValueError: No token has a tag.
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for token in _tokens(file):
        word, slash, tag = token.rpartition("/")
        if slash and word:
            short = tag.upper().split("-")[0].split("+")[0]
            counts[word.lower()][short or tag] += 1
    if not counts:
        raise ValueError(f"{file} has no tokens of the form word/TAG.")
    return {word: tags.most_common(1)[0][0] for word, tags in counts.items()}


def _tokens(file: Path) -> Iterator[str]:
    opener = lzma.open if file.suffix == ".xz" else open
    with opener(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield from line.split()


def parts_of_speech(
    norms: pl.DataFrame, tags: Mapping[str, str], n: int = 100, among: int = 10_000
) -> pl.DataFrame:
    """Parts of speech of the words with the longest and the shortest vectors.

    Args:
        norms: From `word_norms`.
        tags: Part of speech by word; untagged words are left out.
        n: How many words at each end.
        among: Of so many most frequent words.

    Returns:
        Columns `stage`, `end` ("longest", "shortest"), `tag`, `words`; counts, the largest first.
    """
    known = norms.head(among).filter(pl.col("word").is_in(list(tags)))
    rows = []
    for stage in norms.columns[2:]:
        ordered = known.sort(stage, descending=True)["word"].to_list()
        for end, words in (("longest", ordered[:n]), ("shortest", ordered[-n:])):
            counts = Counter(tags[word] for word in words)
            rows += [
                {"stage": stage, "end": end, "tag": tag, "words": count}
                for tag, count in counts.most_common()
            ]
    return pl.DataFrame(rows)


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
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_title("Length of word vectors after each stage", fontsize=11)
    axes.legend(frameon=False)
    return save_both(figure, stem)
