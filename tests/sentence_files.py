"""Sentence shards, as the first stage leaves them."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from st_static.distill.corpus.sentences import SCHEMA, sentence_key
from st_static.files import write_table


def write_shards(folder: Path, shards: Sequence[Sequence[str]]) -> list[Path]:
    """Write a file of each shard's sentences."""
    files = [folder / f"sentences-{number:05d}.arrow" for number in range(len(shards))]
    for file, texts in zip(files, shards, strict=True):
        keys = pa.array(map(sentence_key, texts), pa.uint64())
        write_table(file, pa.table([pa.array(texts, pa.string()), keys], schema=SCHEMA))
    return files
