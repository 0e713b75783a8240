"""The pairs of texts that a user gives: files of JSON lines, or a dataset of the Hub."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from st_static.distill.config import PairsConfig
from st_static.distill.corpus.documents import find_files, stream_dataset
from st_static.distill.stages import check_batch_size
from st_static.hub import require_dataset
from st_static.progress import bar
from st_static.texts.text_files import read_objects

PAIR_FILES = "pairs.files", (".jsonl",)
"""The option that names files of pairs, and their formats, for `find_files`."""
COLUMNS = ("anchor", "positive", "negative")
"""The sides of a pair, as sentence-transformers' losses call them."""


def given_pairs(config: PairsConfig, batch_size: int) -> pa.Table | None:
    """Read the pairs of files or of a dataset, a batch at least: `COLUMNS`; None without both. The
    sides of a pair are different texts that are not empty."""
    if not (config.files or config.dataset):
        return None
    columns, pairs = config.columns, []
    for place, row in _rows(config):
        if any(name not in row for name in columns):
            raise ValueError(
                f"{place}: expected the keys {', '.join(columns)}, but got the keys "
                f"{', '.join(row)}. Set pairs.columns to those that hold the sides of a pair."
            )
        pair: dict[str, str] = {}  # by the text of each side
        for name in columns:
            text = row[name]
            if not isinstance(text, str) or not text.strip():
                raise ValueError(
                    f"{place}: expected a text as {name!r}, but got {repr(text)[:60]}. Fix the "
                    "pair, or leave it out."
                )
            # JSON may spell half of a surrogate pair, which is not text.
            text = text.strip().encode("utf-8", "replace").decode("utf-8")
            if other := pair.get(text):
                raise ValueError(
                    f"{place}: {other!r} and {name!r} are equal ({text[:60]!r}). Leave the pair "
                    "out."
                )
            pair[text] = name
        pairs.append(list(pair))
    if not pairs:
        source = ", ".join(config.patterns) or config.dataset
        raise ValueError(f"There are no pairs in {source}. Expected a pair per line or row.")
    check_batch_size(batch_size, len(pairs), "pairs")
    sides = [pa.array(side, pa.large_string()) for side in zip(*pairs, strict=True)]
    return pa.table(sides, names=list(COLUMNS[: len(sides)]))


def _rows(config: PairsConfig) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read JSON lines, or stream a dataset: the place of each row, for messages, and the row."""
    for file in find_files(config.patterns, *PAIR_FILES):
        yield from read_objects(file)
    if not config.dataset:
        return
    name = str(config.dataset)
    copy = require_dataset(name, otherwise="give local pairs as pairs.files")
    with bar("reading pairs", None, "pair") as progress:
        for number, row in enumerate(stream_dataset(name, None, None, copy), 1):
            yield f"{name}, row {number}", row
            progress.update()
