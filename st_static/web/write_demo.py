"""Write a demo page: the same page for every model, with the model's files beside it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import numpy as np

from st_static.arguments import as_path
from st_static.examples import NOT_SUITED, SUITED, Limit, examples_for
from st_static.files import write_json
from st_static.model.model_folder import ModelFolder
from st_static.model.modules import write_weights
from st_static.model.replacement import check_output_folder, replacing
from st_static.model.scripts import UNSPACED_CHARACTERS
from st_static.model.static_model import StaticModel, check_int8
from st_static.model.table import Int8Table
from st_static.model.tokenizer import has_pieces
from st_static.texts.text_files import read_lines
from st_static.tokens.boundaries import flat
from st_static.tokens.panics import TellingPanics
from st_static.web.javascript_tokenizer import check_javascript_tokenizer, javascript_description
from st_static.yaml_text import dump_yaml

FACTS_FILE = "model/model.json"
_TOKENIZER_FILE = "model/tokenizer.json"
_TABLE_FILE = "model/table.safetensors"
_CARD_FILE = "README.md"
_PAGE = resources.files("st_static.web") / "page"
# Ours are marked, as TensorFlow.js and others write files of this name, too.
_WRITTEN_BY = {"written_by": "st_static demo"}
_MAX_BYTES = 10_000_000
_MAX_TEXTS = 10_000


def check_demo_output(folder: Path) -> None:
    """Check that a demo may be written into a folder: new, empty, or a demo of st_static."""

    def is_ours(file: Path) -> bool:
        return file.is_file() and is_facts(file.read_bytes())

    check_output_folder(folder, FACTS_FILE, "a demo of st_static", is_ours)


def write_demo(
    model: str | Path | ModelFolder,
    output: str | Path,
    texts: Sequence[str] = (),
    hub_id: str | None = None,
) -> list[Path]:
    """Write a page, a static Space of the Hub, on which a model runs in the browser. An existing
    demo is replaced; other files in its folder stay. `texts` are those of its search; `hub_id` is
    needed only if `model` is a folder. Returns the files, as paths in the folder. A ValueError if
    the model cannot run in a browser, or the folder holds something else."""
    output = as_path(output, "a folder to write")
    check_demo_output(output)
    folder = model if isinstance(model, ModelFolder) else ModelFolder.of(model)
    hub_id = hub_id or folder.hub_id
    static_model = replace(folder.model, name=hub_id or folder.name)
    check_javascript_tokenizer(static_model.tokenizer)
    if (measure := static_model.similarity_fn_name) not in ("cosine", "dot"):
        raise ValueError(f"The model compares by {measure}, but a demo shows cosine and dot only.")
    instead = "A demo holds the table in int8 only, so there can be none of this model."
    check_int8(static_model, instead)
    with resources.as_file(_PAGE) as page:
        files = sorted(path for path in page.rglob("*") if path.is_file())
        names = [path.relative_to(page).as_posix() for path in files]
        names += [FACTS_FILE, _TOKENIZER_FILE, _TABLE_FILE, _CARD_FILE]
        with replacing(output, lambda _, name: name in names) as partial:
            shutil.copytree(page, partial, dirs_exist_ok=True)
            _write_model(partial, static_model, list(texts))
            (partial / _CARD_FILE).write_text(_card(static_model, hub_id), "utf-8")
    return [Path(name) for name in names]


def _write_model(folder: Path, model: StaticModel, texts: list[str]) -> None:
    """Write a model for the page: its tokenizer, its table in 8 bits with the head, its facts."""
    (folder / FACTS_FILE).parent.mkdir()
    description = javascript_description(model.tokenizer)
    (folder / _TOKENIZER_FILE).write_text(json.dumps(description, ensure_ascii=False), "utf-8")
    quantized = Int8Table.of(np.asarray(model.table), model.widths)
    weights: dict[str, Any] = {"rows": quantized.rows, "scales": quantized.scales}
    if model.head:
        layers = {"head_first": model.head.first, "head_second": model.head.second}
        weights |= {name: np.ascontiguousarray(w, np.float32) for name, w in layers.items()}
    write_weights(folder / _TABLE_FILE, weights)
    loaded = (_TOKENIZER_FILE, _TABLE_FILE)
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
        **_shown(model, texts),
    }
    write_json(folder / FACTS_FILE, facts)


def _shown(model: StaticModel, texts: list[str]) -> dict[str, Any]:
    """Choose texts to search in, by default examples, and list the limits as the card does."""
    examples = examples_for(model.languages)
    sentence, *others = examples.usage
    first, second = examples.heat_map
    of_limits = [text for limit in examples.limits for text in (limit.first, limit.second)]
    searched = list(dict.fromkeys([*examples.usage, second, *of_limits]))
    longer = " ".join([*others, first, second, sentence])
    length = Limit("length", "high: the first text is a part of the second", sentence, longer)
    pairs = [vars(limit) for limit in (*examples.limits, length)]
    search = {"query": "", "texts": texts} if texts else {"query": first, "texts": searched}
    word = _known_word(model, sentence)
    return {
        "examples": {"compare": [first, second], "search": search, "word": word},
        "limits": {"suited": SUITED, "unsuited": NOT_SUITED, "pairs": pairs},
    }


def _known_word(model: StaticModel, text: str) -> str:
    """Find the longest token of a text with a vector, the last of several; empty if none has."""
    with TellingPanics(model.tokenizer):
        encoding = model.tokenizer.encode(text, add_special_tokens=False)
    rows = np.asarray(model.table)[encoding.ids]
    pairs = zip(rows, encoding.offsets, strict=True)
    words = [text[begin:end].strip() for row, (begin, end) in pairs if row.any()]
    return max(reversed(words), key=len, default="")


def _settings(model: StaticModel, description: dict[str, Any]) -> dict[str, Any]:
    """Say how the page processes texts, words and sums of rows."""
    parts = flat(description["pre_tokenizer"], "pretokenizers")
    marks = {"Metaspace": "▁", "ByteLevel": "Ġ"}
    # The class of characters, spelled for JavaScript.
    scripts = re.sub(r"\\p\{(\w+)\}", r"\\p{Script=\1}", UNSPACED_CHARACTERS)
    unspaced = f"[{scripts.replace(chr(92) + 'x', chr(92) + 'u')}]"
    return {
        "prompt": model.prompt,
        "scaled": [
            {"width": dimensions.stop - dimensions.start, "length": length}
            for dimensions, length in model.scaled
        ],
        # It may be more than the model's dimensions: then all are kept.
        "truncate_dim": model.truncate_dim,
        "similarity": model.similarity_fn_name,
        "continuation": description["model"].get("continuing_subword_prefix"),
        "word_begin": next((marks[part["type"]] for part in parts if part["type"] in marks), None),
        "unspaced": unspaced if has_pieces(model.tokenizer) else None,
    }


def _card(model: StaticModel, hub_id: str | None) -> str:
    """Make the README.md that describes the page to the Hub."""
    name = model.name.rpartition("/")[2]
    header: dict[str, Any] = {"title": f"{name} demo", "sdk": "static", "app_file": "index.html"}
    header |= {"license": model.license} if model.license else {}
    header |= {"models": [hub_id]} if hub_id else {}
    # A name in Markdown, in one line.
    escaped = re.sub(r"([\\`*_\[\]<>&#!|~])", r"\\\1", " ".join(name.split()))
    about = f"[{hub_id}](https://huggingface.co/{hub_id})" if hub_id else escaped
    return (
        f"---\n{dump_yaml(header)}---\n\n"
        f"The static sentence encoder {about} runs on this page, in the browser: compare two "
        "texts, search in texts of your own, look for the nearest words, and see where the model "
        f"goes wrong. Written by `st-static demo`, st_static {metadata.version('st-static')}.\n"
    )


def read_texts(file: Path) -> list[str]:
    """Read a file of texts, one per line; blank lines are left out."""
    if file.is_file() and file.stat().st_size > _MAX_BYTES:
        raise ValueError(
            f"{file} has {file.stat().st_size:,} bytes, but a demo takes up to {_MAX_BYTES:,}. "
            "Give fewer texts."
        )
    texts = [line for line in read_lines(file) if line.strip()]
    if not texts:
        raise ValueError(f"Expected one text per line in {file}, but it holds none.")
    if len(texts) > _MAX_TEXTS:
        raise ValueError(
            f"{file} has {len(texts):,} texts, but a demo takes up to {_MAX_TEXTS:,}. Give fewer."
        )
    return texts


def is_facts(content: bytes) -> bool:
    """Tell whether this is the content of a `FACTS_FILE` that `write_demo` wrote."""
    try:
        facts = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(facts, dict) and facts.items() >= _WRITTEN_BY.items()
