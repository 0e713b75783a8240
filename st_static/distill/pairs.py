"""Read a user's pairs of texts, from files of JSON lines."""

from __future__ import annotations

import itertools

import pyarrow as pa

from st_static.distill.config import PairsConfig
from st_static.distill.corpus.documents import find_files
from st_static.distill.stages import check_batch_size
from st_static.texts.text_files import read_objects

PAIR_FILES = "pairs.files", (".jsonl",)
"""The option that names files of pairs, and their formats, for `find_files`."""
COLUMNS = ("anchor", "positive", "negative")
"""The sides of a pair, as sentence-transformers' losses call them."""


def given_pairs(config: PairsConfig, batch_size: int) -> pa.Table | None:
    """Read the pairs in files, at least a batch, as `COLUMNS`; None without files. The sides of a
    pair are different texts that are not empty."""
    if not config.files:
        return None
    files, pairs = find_files(config.patterns, *PAIR_FILES), []
    columns: tuple[str, ...] = ()
    for location, row in itertools.chain.from_iterable(map(read_objects, files)):
        keys = tuple(name for name in COLUMNS if name in row)
        columns = columns or keys
        if keys[:2] != COLUMNS[:2] or keys != columns:
            raise ValueError(
                f"{location}: expected the keys anchor and positive, and negative in each line or "
                f"in none, but the keys are {', '.join(row) or 'none'}. Rename those that hold the "
                "sides of a pair."
            )
        pair: dict[str, str] = {}  # by the text of each side
        for name in columns:
            text = row[name]
            if not isinstance(text, str) or not text.strip():
                raise ValueError(
                    f"{location}: expected a text as {name!r}, but got {repr(text)[:60]}. Fix the "
                    "pair, or leave it out."
                )
            # JSON may spell half of a surrogate pair, which is not text.
            text = text.strip().encode("utf-8", "replace").decode("utf-8")
            if other := pair.get(text):
                raise ValueError(
                    f"{location}: {other!r} and {name!r} are equal ({text[:60]!r}). Leave the pair "
                    "out."
                )
            pair[text] = name
        pairs.append(list(pair))
    if not pairs:
        source = ", ".join(config.patterns)
        raise ValueError(f"There are no pairs in {source}. Expected a pair per line.")
    check_batch_size(batch_size, len(pairs), "pairs")
    sides = [pa.array(side, pa.large_string()) for side in zip(*pairs, strict=True)]
    return pa.table(sides, names=list(COLUMNS[: len(sides)]))
