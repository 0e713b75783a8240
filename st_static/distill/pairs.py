"""The pairs of texts that a user gives: files of JSON lines, or a dataset of the Hub."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from st_static.distill.config import PairsConfig, check_batch_size
from st_static.distill.corpus.documents import find_files, stream_dataset
from st_static.hub import require_dataset
from st_static.progress import bar
from st_static.texts.file_rows import line_groups
from st_static.texts.text_files import decompressed, readable, split_name

COLUMNS = ("anchor", "positive", "negative")
"""The sides of a pair, as sentence-transformers' losses call them."""


def given_pairs(config: PairsConfig, batch_size: int) -> pa.Table | None:
    """Read the pairs of files or of a dataset, a batch at least: `COLUMNS`; None without both."""
    if not (config.files or config.dataset):
        return None
    rows = _file_rows(pair_files(config)) if config.patterns else _dataset_rows(config)
    pairs = [_pair(place, row, config.columns) for place, row in rows]
    if not pairs:
        source = ", ".join(config.patterns) or config.dataset
        raise ValueError(f"There are no pairs in {source}. Expected a pair per line or row.")
    check_batch_size(batch_size, len(pairs), "pairs")
    sides = [pa.array(side, pa.large_string()) for side in zip(*pairs, strict=True)]
    return pa.table(sides, names=list(COLUMNS[: len(sides)]))


def pair_files(config: PairsConfig) -> list[Path]:
    """Find the files of pairs, sorted."""
    return find_files(config.patterns, "pairs.files", [".jsonl"])


def _file_rows(files: list[Path]) -> Iterator[tuple[str, Any]]:
    """Read JSON lines: the place of each, for messages, and its value."""
    for file in files:
        with readable(str(file)), file.open("rb") as stream:
            groups = line_groups(decompressed(stream, split_name(file)[1]))
            for number, line in enumerate((line for _, group in groups for line in group), 1):
                if line.isspace():
                    continue
                place = f"{file}, line {number}"
                try:
                    yield place, json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise ValueError(f"{place} is not JSON in UTF-8 ({error}). Fix it.") from error


def _dataset_rows(config: PairsConfig) -> Iterator[tuple[str, Any]]:
    """Stream a dataset's rows, each with its place."""
    name = str(config.dataset)
    copy = require_dataset(name, otherwise="give local pairs as pairs.files")
    with bar("reading pairs", None, "pair") as progress:
        for number, row in enumerate(stream_dataset(name, None, None, copy), 1):
            yield f"{name}, row {number}", row
            progress.update()


def _pair(place: str, row: Any, columns: list[str]) -> list[str]:
    """Take the sides of a pair from a row: different texts that are not empty."""
    if not isinstance(row, dict) or any(name not in row for name in columns):
        found = f"the keys {', '.join(row)}" if isinstance(row, dict) else repr(row)[:60]
        raise ValueError(
            f"{place}: expected the keys {', '.join(columns)}, but got {found}. Set pairs.columns "
            "to those that hold the sides of a pair."
        )
    sides = [row[name] for name in columns]
    for name, side in zip(columns, sides, strict=True):
        if not isinstance(side, str) or not side.strip():
            raise ValueError(
                f"{place}: expected a text as {name!r}, but got {repr(side)[:60]}. Fix the pair, "
                "or leave it out."
            )
    # JSON may spell half of a surrogate pair, which is not text.
    sides = [side.strip().encode("utf-8", "replace").decode("utf-8") for side in sides]
    for (one, side), (other, text) in itertools.combinations(zip(columns, sides, strict=True), 2):
        if side == text:
            raise ValueError(
                f"{place}: {one!r} and {other!r} are equal ({side[:60]!r}). Leave the pair out."
            )
    return sides
