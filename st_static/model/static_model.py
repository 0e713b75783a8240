"""Reading a static model's repository: its tokenizer, its table, and what happens to the mean."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from st_static.arguments import check_model_name
from st_static.files import read_json
from st_static.hub_access import downloading, require_model
from st_static.model.head import Head
from st_static.model.int8_table import Table
from st_static.model.modules import CONFIG_FILE, TABLE_FILE, TOKENIZER_FILE, Segment, read_modules
from st_static.model.stated_facts import stated_languages, stated_license
from st_static.model.table_file import read_table
from st_static.tokens.panics import TellingPanics, named

_FILES = ["*.json", "*.safetensors", "README.md"]


@dataclass(frozen=True)
class StaticModel:
    """What a static model's repository holds.

    Attributes:
        tokenizer: Without padding, as sentence-transformers uses it.
        table: One row per token id, [V, D], as stored, or rounded to int8.
        normalize: Whether vectors are scaled to length 1.
        prompt: What is put before each text.
        truncate_dim: How many of the first dimensions are kept, after normalising; None is all.
        segments: Of a fused ensemble, how its dimensions are scaled instead of as a whole.
        head: What comes between the mean and its last scaling, if anything does.
        name: Folder or Hub id.
        license: As the model's card names it, or else the record of its build; if either does.
        prompts: All of the model's prompts by name.
        similarity_fn_name: The measure of similarity, as sentence-transformers calls it.
        languages: Their tags, see `stated_languages`.
    """

    tokenizer: Tokenizer
    table: Table
    normalize: bool
    prompt: str = ""
    truncate_dim: int | None = None
    segments: tuple[Segment, ...] = ()
    head: Head | None = None
    name: str = ""
    license: str | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    similarity_fn_name: str = "cosine"
    languages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        widths = [segment.width for segment in self.segments]
        if widths and (min(widths) < 1 or sum(widths) != self.table.shape[1]):
            raise ValueError(
                f"Expected segments of {self.table.shape[1]} dimensions together, those of the "
                f"table, but their widths are {widths}."
            )
        for segment in self.segments:
            if not (math.isfinite(segment.weight) and segment.weight > 0):
                raise ValueError(f"Expected positive weights, but got {segment.weight}.")
        if self.head and (widths or self.head.dimension != self.table.shape[1]):
            raise ValueError(
                f"Expected a head of {self.table.shape[1]} dimensions, those of the table, and no "
                f"segments, but the head has {self.head.dimension}, and there are {len(widths)} "
                "segments."
            )


def read_static_model(
    model: str | Path,
    revision: str | None = None,
    token: str | bool | None = None,
    cache_folder: str | Path | None = None,
    mmap: bool = False,
    int8: bool = False,
) -> StaticModel:
    """Read a static model of sentence-transformers or Model2Vec.

    Args:
        model: A folder, or an id on the Hub.
        revision: Branch, tag or commit on the Hub.
        token: The Hub's token; by default the one that was logged in with.
        cache_folder: Where downloads are kept; by default the Hub's cache.
        mmap: Whether the table is mapped into memory, see `read_table`.
        int8: Whether the table is rounded to int8 as it is read, see `Int8Table`.

    Raises:
        ValueError: It is not a static model, its parts do not fit, or it cannot be mapped.
        TypeError: It is neither a str nor a path.
    """
    check_model_name(model)
    folder = Path(model)
    if not folder.is_dir():
        folder = _download(str(model), revision, token, cache_folder)
    modules = read_modules(folder)
    tokenizer_file = modules.home / TOKENIZER_FILE
    if not tokenizer_file.is_file():
        raise ValueError(f"{model} is no static model: there is no {tokenizer_file}.")
    tokenizer = named(_read_tokenizer(tokenizer_file), str(model))
    table = _read_table(modules.home, mmap, int8)
    check_fit(tokenizer, table)
    file = folder / CONFIG_FILE
    config = read_json(file) if file.is_file() else {}
    return StaticModel(
        tokenizer,
        table,
        modules.normalize,
        _default_prompt(config),
        _truncate_dim(config, table.shape[-1]),
        modules.segments,
        modules.head,
        folder.resolve().name if Path(model).is_dir() else str(model),
        stated_license(folder),
        {name: prompt or "" for name, prompt in (config.get("prompts") or {}).items()},
        config.get("similarity_fn_name") or "cosine",
        tuple(stated_languages(folder)),
    )


def _download(
    model: str, revision: str | None, token: str | bool | None, cache: str | Path | None
) -> Path:
    from huggingface_hub import snapshot_download

    copy = require_model(model, revision, token, cache)
    with downloading("model", model, revision):
        folder = snapshot_download(
            model,
            revision=revision,
            token=token,
            cache_dir=cache,
            allow_patterns=_FILES,
            local_files_only=copy is not None,
        )
    return Path(folder)


def _read_tokenizer(file: Path) -> Tokenizer:
    try:
        with TellingPanics(str(file)):
            tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # what tokenizers raises
        raise ValueError(f"{file} is no tokenizer: {error}.") from error
    tokenizer.no_padding()
    truncation = tokenizer.truncation
    if truncation and 0 < truncation["max_length"] <= truncation["stride"]:
        raise ValueError(
            f"{file}: truncation.stride ({truncation['stride']}) must be less than "
            f"truncation.max_length ({truncation['max_length']})."
        )
    return tokenizer


def _read_table(folder: Path, mmap: bool, int8: bool) -> Table:
    file = folder / TABLE_FILE
    if not file.is_file():
        raise ValueError(
            f"Expected the table in {file}, which is not there. Tables in other formats are not "
            "read: they may run code."
        )
    return read_table(file, mmap, int8)


def check_fit(tokenizer: Tokenizer, table: Table) -> None:
    """Check that every token has a row, and that unknown characters have a token.

    Raises:
        ValueError: They do not.
    """
    description = json.loads(tokenizer.to_str())  # a third of the memory of tokenizer.get_vocab()
    model = description["model"]
    needed = 1 + max(_token_ids(description), default=-1)
    if needed > len(table):
        raise ValueError(
            f"The tokenizer has ids up to {needed - 1}, for {needed} rows, but the table has "
            f"{len(table)} rows. Tokenizer and table are not of the same model."
        )
    if model["type"] == "Unigram":
        known = model.get("unk_id") is not None or model.get("byte_fallback", False)
        unknown = "unk_id"
    else:
        unknown = model.get("unk_token")
        known = unknown is None or unknown in model["vocab"]
    if not known:
        raise ValueError(
            f"The tokenizer's unknown token {unknown!r} is not among the {len(model['vocab'])} "
            f"tokens of its model (the table has {len(table)} rows). Add it to tokenizer.json."
        )


def _token_ids(description: dict[str, Any]) -> Iterator[int]:
    """The ids of a tokenizer's tokens, from the content of its tokenizer.json."""
    vocabulary = description["model"]["vocab"]
    yield from vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
    yield from (token["id"] for token in description["added_tokens"])


def _truncate_dim(config: dict[str, Any], width: int) -> int | None:
    """How many dimensions are kept; None if all are, as where the config names more."""
    kept: int | None = config.get("truncate_dim")
    return kept if kept and kept < width else None


def _default_prompt(config: dict[str, Any]) -> str:
    name = config.get("default_prompt_name")
    if not name:
        return ""
    if name not in config.get("prompts", {}):
        raise ValueError(f"The model's default prompt {name!r} is not among its prompts.")
    return str(config["prompts"][name])
