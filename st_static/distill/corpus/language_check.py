"""A corpus in another language than the recipe says is found in a sample, and warned of."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from py3langid import classify, rank

from st_static.distill.corpus.shards import Shard, Shards
from st_static.distill.engines import Engine, Processes
from st_static.languages import languages_of, primary_of

logger = logging.getLogger(__name__)

_PLACES = 100
_SENTENCES = 10
_CLEAR_MAJORITY = 2 / 3
# Languages that are hard to tell apart, under one tag and another.
_ALIKE = (
    {"ar", "ary", "arz"},
    {"bs", "hr", "sr"},
    {"fil", "tl"},
    {"id", "ms"},
    {"lzh", "wuu", "yue", "zh"},
    {"nb", "nn", "no"},
)


def warn_of_other_language(
    shards: Sequence[Path], language: str | list[str] | None, engine: Engine | None = None
) -> None:
    """Warn where a clear majority of the text is in one language that the recipe does not name.

    py3langid looks at 100 places of the text, which hashes choose. At each it is given ten
    sentences that follow one another, since one alone is often too short to tell. Where two
    thirds of the places are in one other language, that is a clear majority.

    Args:
        shards: The kept sentences: files with columns `text` and `key`.
        language: The recipe's; None is English. Nothing is told of `multilingual` text, nor
            where a language is named that py3langid does not know.
        engine: What reads the shards; by default this process.
    """
    tags = languages_of(language)
    accepted = _accepted(tags or ["en"])
    if accepted is None or not (texts := _sample(Shards(shards, engine or Processes(1)))):
        return
    found, places = Counter(classify(text)[0] for text in texts).most_common(1)[0]
    # zxx stands for no language at all, such as numbers.
    if found in accepted | {"zxx"} or places < _CLEAR_MAJORITY * len(texts):
        return
    logger.warning(
        "The recipe %s, but %d of %d places in the text look like another language, %s. If that is "
        "right, give the recipe's language: --language %s.",
        f"names the language {' and '.join(tags)}"
        if language
        else "names no language, which stands for English",
        places,
        len(texts),
        found,
        found,
    )


def _accepted(tags: Iterable[str]) -> set[str] | None:
    """What py3langid may say of text in these languages; None if it does not know them all."""
    known = {label for label, _ in rank("")}
    accepted = set[str]()
    for tag in tags:
        language = "en" if tag == "code" else primary_of(tag)
        labels = known & next((group for group in _ALIKE if language in group), {language})
        if not labels:
            return None
        accepted |= labels
    return accepted


def _sample(shards: Shards) -> list[str]:
    """Sentences that follow one another, joined, from the places with the smallest keys."""
    _, numbers = shards.smallest(_PLACES, np.positive, "language")
    numbers = numbers[:_PLACES]
    order = np.argsort(numbers)
    texts = chain.from_iterable(shards.map_rows(_join_runs, numbers[order], "language"))
    in_place = dict(zip(order.tolist(), texts, strict=True))
    return [in_place[place] for place in range(len(numbers))]


def _join_runs(shard: Shard) -> list[str]:
    texts = shard.read()["text"]
    return [" ".join(texts.slice(row, _SENTENCES).to_pylist()) for row in shard.rows.tolist()]
