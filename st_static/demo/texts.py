"""The texts that a demo page shows first: the user's own, or examples in the model's language."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from st_static.examples import NOT_SUITED, SUITED, Limit, examples_for
from st_static.files import read_lines
from st_static.model.static_model import StaticModel
from st_static.tokens.panics import TellingPanics

_MAX_BYTES = 10_000_000
_MAX_TEXTS = 10_000


def read_texts(file: Path) -> list[str]:
    """Read a file of texts, one a line; blank lines are left out.

    Raises:
        ValueError: It is not there, not UTF-8, too large, or holds no text.
    """
    if file.is_file() and file.stat().st_size > _MAX_BYTES:
        raise ValueError(
            f"{file} has {file.stat().st_size:,} bytes, but a demo takes up to {_MAX_BYTES:,}. "
            "Give fewer texts."
        )
    texts = [line for line in read_lines(file) if line.strip()]
    if not texts:
        raise ValueError(f"Expected a text a line in {file}, but it holds none.")
    if len(texts) > _MAX_TEXTS:
        raise ValueError(
            f"{file} has {len(texts):,} texts, but a demo takes up to {_MAX_TEXTS:,}. Give fewer."
        )
    return texts


def shown_first(model: StaticModel, texts: list[str]) -> dict[str, Any]:
    """What the page's tabs begin with.

    Args:
        model: The model; its first language that has examples counts.
        texts: The user's own to search in; without any, the examples.
    """
    examples = examples_for(model.languages)
    first, second = examples.heat_map
    others = [text for limit in examples.limits for text in (limit.first, limit.second)]
    searched = list(dict.fromkeys([*examples.usage, second, *others]))
    return {
        "compare": [first, second],
        "search": {"query": "", "texts": texts} if texts else {"query": first, "texts": searched},
        "word": _known_word(model, examples.usage[0]),
    }


def limits(model: StaticModel) -> dict[str, Any]:
    """What the model is for and what it does not see, in the words of its card, with examples."""
    examples = examples_for(model.languages)
    sentence, *others = examples.usage
    length = Limit(
        "length",
        "high: the first text is a part of the second",
        sentence,
        " ".join([*others, *examples.heat_map, sentence]),
    )
    pairs = [*examples.limits, length]
    return {"suited": SUITED, "unsuited": NOT_SUITED, "pairs": [vars(pair) for pair in pairs]}


def _known_word(model: StaticModel, text: str) -> str:
    """The longest token of a text that has a vector, the last of several; empty if none has."""
    with TellingPanics(model.tokenizer):
        encoding = model.tokenizer.encode(text, add_special_tokens=False)
    rows = np.asarray(model.table)[encoding.ids]
    pairs = zip(rows, encoding.offsets, strict=True)
    known = [text[begin:end].strip() for row, (begin, end) in pairs if row.any()]
    return max(reversed(known), key=len, default="")
