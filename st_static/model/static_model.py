"""Reading a static model's repository: its tokenizer, its table, and what happens to the mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

from msgspec import Raw, Struct
from tokenizers import Tokenizer

from st_static.arguments import check_model_name
from st_static.foreign_files import MOST_BYTES, read_as
from st_static.hub import downloading, require_model
from st_static.model.head import Head
from st_static.model.int8_table import Int8Table, Table
from st_static.model.modules import (
    MODULES_FILE,
    TABLE_FILE,
    TOKENIZER_FILE,
    ModelConfig,
    Modules,
    Segment,
    read_config,
    read_modules,
)
from st_static.model.stated_facts import StatedFacts, read_stated_facts
from st_static.model.table_file import read_table
from st_static.model.tokenizer import unknown_id
from st_static.tokens.panics import TellingPanics, named

_FILES = ["*.json", "*.safetensors", "README.md"]
# A tokenizer.json has a few dozen bytes for each token, and less than a megabyte beside them.
_BYTES_OF_A_TOKEN = 1_000


# The shapes of files that are read.
class _Vocabulary(Struct):
    vocab: dict[str, int] | list[Raw]  # ids by token; a Unigram model has them in order
    unk_token: str | None = None
    unk_id: int | None = None
    byte_fallback: bool | None = None


class _TokenizerFile(Struct):
    model: _Vocabulary


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
        prompts: All of the model's prompts by name.
        similarity_fn_name: The measure of similarity, as sentence-transformers calls it.
        state: Gives the licence and languages that are stated of the model, when they are asked
            for.
    """

    tokenizer: Tokenizer
    table: Table
    normalize: bool
    prompt: str = ""
    truncate_dim: int | None = None
    segments: tuple[Segment, ...] = ()
    head: Head | None = None
    name: str = ""
    prompts: Mapping[str, str] = field(default_factory=dict)
    similarity_fn_name: str = "cosine"
    state: Callable[[], StatedFacts] = StatedFacts

    @cached_property
    def _stated(self) -> StatedFacts:
        return self.state()

    @property
    def license(self) -> str | None:
        """The model's licence, if it is stated, see `StatedFacts`."""
        return self._stated.license

    @property
    def languages(self) -> tuple[str, ...]:
        """The tags of the model's languages, see `StatedFacts`."""
        return self._stated.languages

    def __post_init__(self) -> None:
        widths = self.widths
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

    @property
    def widths(self) -> list[int]:
        """Number of dimensions of each segment, [L]; empty where there are none."""
        return [segment.width for segment in self.segments]


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
    modules, tokenizer_file = static_parts(folder, str(model))
    table = _read_table(modules.home, mmap, int8, [segment.width for segment in modules.segments])
    _check_vocabulary(tokenizer_file, len(table))
    tokenizer = named(_read_tokenizer(tokenizer_file), str(model))
    # The ids of added tokens are not always those that the file has for them.
    _check_ids(max(tokenizer.get_added_tokens_decoder(), default=-1), len(table))
    if not (folder / MODULES_FILE).exists():
        _leave_out_unknown(tokenizer, table)
    config = read_config(folder)
    return StaticModel(
        tokenizer,
        table,
        modules.normalize,
        _default_prompt(config),
        _truncate_dim(config, table.shape[-1]),
        modules.segments,
        modules.head,
        folder.resolve().name if Path(model).is_dir() else str(model),
        {name: prompt or "" for name, prompt in (config.prompts or {}).items()},
        config.similarity_fn_name or "cosine",
        partial(read_stated_facts, folder),
    )


def static_parts(folder: Path, name: str) -> tuple[Modules, Path]:
    """The modules of a static model and its tokenizer's file, before anything large is read.

    Args:
        folder: Where it is.
        name: What it is called, for the message.

    Raises:
        ValueError: It is not a static model.
    """
    modules = read_modules(folder)
    tokenizer_file = modules.home / TOKENIZER_FILE
    if not tokenizer_file.exists():
        raise ValueError(f"{name} is no static model: there is no {tokenizer_file}.")
    return modules, tokenizer_file


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


def _read_table(folder: Path, mmap: bool, int8: bool, widths: list[int]) -> Table:
    file = folder / TABLE_FILE
    if not file.exists():
        raise ValueError(
            f"Expected the table in {file}, which is not there. Tables in other formats are not "
            "read: they may run code."
        )
    return read_table(file, mmap, int8, widths)


def _leave_out_unknown(tokenizer: Tokenizer, table: Table) -> None:
    """Make the row of the unknown token zeros, for a model that only Model2Vec loads.

    Model2Vec leaves that token out. sentence-transformers adds its row like any other.
    """
    unknown = unknown_id(tokenizer)
    if unknown is None:
        return
    if isinstance(table, Int8Table):
        table.clear(unknown)
    else:
        table[unknown] = 0


def _check_vocabulary(file: Path, n_rows: int) -> None:
    """Check that every token has a row, and that unknown characters have a token.

    It reads the file itself: to a tokenizer, which makes lists as long as its largest id, a small
    file could cost all memory.

    Raises:
        ValueError: They do not, or it is no tokenizer.
    """
    model = read_as(file, _TokenizerFile, MOST_BYTES + _BYTES_OF_A_TOKEN * n_rows).model
    vocabulary = model.vocab
    if isinstance(vocabulary, dict):
        _check_ids(max(vocabulary.values(), default=-1), n_rows)
        unknown: str | None = model.unk_token
        known = unknown is None or unknown in vocabulary
    else:
        _check_ids(len(vocabulary) - 1, n_rows)
        known, unknown = model.unk_id is not None or bool(model.byte_fallback), "unk_id"
    if not known:
        raise ValueError(
            f"The tokenizer's unknown token {unknown!r} is not among the {len(vocabulary)} "
            f"tokens of its model (the table has {n_rows} rows). Add it to tokenizer.json."
        )


def _check_ids(largest: int, n_rows: int) -> None:
    if largest >= n_rows:
        raise ValueError(
            f"The tokenizer has ids up to {largest}, for {largest + 1} rows, but the table has "
            f"{n_rows} rows. Tokenizer and table are not of the same model."
        )


def _truncate_dim(config: ModelConfig, width: int) -> int | None:
    """How many dimensions are kept; None if all are, as where the config names more."""
    kept = config.truncate_dim
    return kept if kept and kept < width else None


def _default_prompt(config: ModelConfig) -> str:
    name = config.default_prompt_name
    if not name:
        return ""
    prompts = config.prompts or {}
    if name not in prompts:
        raise ValueError(f"The model's default prompt {name!r} is not among its prompts.")
    return prompts[name] or ""
