"""The model's files on a demo page: tokenizer, table in 8 bits, and initial content."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from st_static.encode.scaling import Scaling
from st_static.examples import NOT_SUITED, SUITED, Limit, examples_for
from st_static.files import read_lines, write_json
from st_static.model.int8_table import quantize_rows
from st_static.model.javascript_tokenizer import check_javascript_tokenizer, javascript_description
from st_static.model.modules import write_weights
from st_static.model.scripts import UNSPACED_CHARACTERS
from st_static.model.static_model import StaticModel, check_int8
from st_static.model.tokenizer import has_pieces
from st_static.tokens.boundaries import flat
from st_static.tokens.panics import TellingPanics

FOLDER = "model"
FACTS_FILE = f"{FOLDER}/model.json"
TOKENIZER_FILE = f"{FOLDER}/tokenizer.json"
TABLE_FILE = f"{FOLDER}/table.safetensors"
MODEL_FILES = (FACTS_FILE, TOKENIZER_FILE, TABLE_FILE)
# Ours are marked, as TensorFlow.js and others write files of this name, too.
_WRITTEN_BY = {"written_by": "st_static demo"}
_SIMILARITIES = ("cosine", "dot")
_MAX_BYTES = 10_000_000
_MAX_TEXTS = 10_000


def check_model(model: StaticModel) -> None:
    """Check that a model can run on the page.

    Raises:
        ValueError: Its tokenizer does not run in JavaScript, it compares vectors by another
            measure, or its table turns vectors too far in int8.
    """
    check_javascript_tokenizer(model.tokenizer)
    if model.similarity_fn_name not in _SIMILARITIES:
        raise ValueError(
            f"The model compares vectors by {model.similarity_fn_name}, but a demo can show "
            f"{' and '.join(_SIMILARITIES)} only."
        )
    check_int8(model, "A demo holds the table in int8 only, so there can be none of this model.")


def write_model_files(folder: Path, model: StaticModel, texts: list[str]) -> None:
    """Write a model for the page.

    Args:
        folder: The page's; must hold the folder of the model's files.
        model: A model that passed `check_model`.
        texts: The user's own to search in.
    """
    description = javascript_description(model.tokenizer)
    (folder / TOKENIZER_FILE).write_text(json.dumps(description, ensure_ascii=False), "utf-8")
    write_weights(folder / TABLE_FILE, _weights(model))
    loaded = (TOKENIZER_FILE, TABLE_FILE)
    settings = _settings(model, description)
    facts = {
        **_WRITTEN_BY,
        "name": model.name.rpartition("/")[2],
        "license": model.license,
        "languages": list(model.languages),
        "tokens": len(model.table),
        "dimension": settings["truncate_dim"] or model.table.shape[1],
        "bytes": {file: (folder / file).stat().st_size for file in loaded},
        "settings": settings,
        "examples": _shown_first(model, texts),
        "limits": _limits(model),
    }
    write_json(folder / FACTS_FILE, facts)


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


def _shown_first(model: StaticModel, texts: list[str]) -> dict[str, Any]:
    """Choose the initial content of the page's tabs; without texts to search in, the examples."""
    examples = examples_for(model.languages)
    first, second = examples.heat_map
    others = [text for limit in examples.limits for text in (limit.first, limit.second)]
    searched = list(dict.fromkeys([*examples.usage, second, *others]))
    return {
        "compare": [first, second],
        "search": {"query": "", "texts": texts} if texts else {"query": first, "texts": searched},
        "word": _known_word(model, examples.usage[0]),
    }


def _limits(model: StaticModel) -> dict[str, Any]:
    """Describe the model's uses and limits, in the words of its card, with examples."""
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
    """Find the longest token of a text with a vector, the last of several; empty if none has."""
    with TellingPanics(model.tokenizer):
        encoding = model.tokenizer.encode(text, add_special_tokens=False)
    rows = np.asarray(model.table)[encoding.ids]
    pairs = zip(rows, encoding.offsets, strict=True)
    known = [text[begin:end].strip() for row, (begin, end) in pairs if row.any()]
    return max(reversed(known), key=len, default="")


def is_facts(content: bytes) -> bool:
    """Tell whether this is the content of a `FACTS_FILE` that `write_model_files` wrote."""
    try:
        facts = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(facts, dict) and facts.items() >= _WRITTEN_BY.items()


def _weights(model: StaticModel) -> dict[str, NDArray[Any]]:
    """Quantise the table to 8 bits; keep a head as it is."""
    quantized = quantize_rows(np.asarray(model.table), model.widths)
    weights: dict[str, NDArray[Any]] = {"rows": quantized.rows, "scales": quantized.scales}
    if model.head:
        layers = {"head_first": model.head.first, "head_second": model.head.second}
        weights |= {name: np.ascontiguousarray(w, np.float32) for name, w in layers.items()}
    return weights


def _settings(model: StaticModel, description: dict[str, Any]) -> dict[str, Any]:
    """Say how the page processes texts, words and sums of rows."""
    parts = flat(description["pre_tokenizer"], "pretokenizers")
    marks = {"Metaspace": "▁", "ByteLevel": "Ġ"}
    return {
        "prompt": model.prompt,
        "scaled": [
            {"width": dimensions.stop - dimensions.start, "length": length}
            for dimensions, length in Scaling(model).segments
        ],
        # It may be more than the model's dimensions: then all are kept.
        "truncate_dim": model.truncate_dim,
        "similarity": model.similarity_fn_name,
        "continuation": description["model"].get("continuing_subword_prefix"),
        "word_begin": next((marks[part["type"]] for part in parts if part["type"] in marks), None),
        "unspaced": _for_javascript(UNSPACED_CHARACTERS) if has_pieces(model.tokenizer) else None,
    }


def _for_javascript(characters: str) -> str:
    """Spell a class of characters for JavaScript.

    Example:
        >>> _for_javascript(r"\\p{Thai}\\x{30FC}")
        '[\\\\p{Script=Thai}\\\\u{30FC}]'
    """
    scripts = re.sub(r"\\p\{(\w+)\}", r"\\p{Script=\1}", characters)
    return f"[{scripts.replace(chr(92) + 'x', chr(92) + 'u')}]"
