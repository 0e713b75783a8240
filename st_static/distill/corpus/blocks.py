"""Blocks of split sentences: tables in a folder of their own, until shards take their place.

`blocks/block-PART-NUMBER.arrow` holds a block's distinct sentences, and their keys in order.
`blocks/part-PART.json` says that a part of the corpus is read to its end. When all are,
`blocks.json` lists the blocks, and stays: it tells how many shards there are. A folder is never
listed, for a network's file system may show too few of the files that other machines wrote.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from st_static.distill.corpus.parts import Part
from st_static.files import look_again, read_json, read_table, write_json, write_table

_COUNTS = b"counts"


def temporary_folder(folder: Path) -> Path:
    """Where blocks are, in the folder of a corpus's sentences."""
    return folder / "blocks"


def block_path(folder: Path, part: int, number: int) -> Path:
    """The file of a block.

    Args:
        folder: The folder of the sentences.
        part: The part's place in the corpus.
        number: The block's place in the part.
    """
    return temporary_folder(folder) / f"block-{part:05d}-{number:05d}.arrow"


def shard_path(folder: Path, number: int) -> Path:
    """The file of the shard that a block becomes.

    Args:
        folder: The folder of the sentences.
        number: The block's place in the corpus.
    """
    return folder / f"sentences-{number:05d}.arrow"


def write_block(path: Path, table: pa.Table, counts: Mapping[str, int]) -> None:
    """Write a block without the repetitions within it.

    Args:
        path: Where to.
        table: Its sentences, with columns `text` and `key`.
        counts: How many were read and dropped, by reason; the repetitions are added.
    """
    keys, rows = np.unique(table["key"].to_numpy(), return_index=True)
    kept = np.sort(rows)
    counts = {**counts, "repeated": len(table) - len(kept)}
    columns = {
        "text": table["text"].take(pa.array(kept)),
        "sorted_key": keys,
        "row": np.searchsorted(kept, rows).astype(np.uint32),
    }
    metadata = {_COUNTS: json.dumps(counts).encode()}
    write_table(path, pa.table(columns).replace_schema_metadata(metadata))


@dataclass(frozen=True)
class Block:
    """A block as it was written.

    Attributes:
        texts: Its B distinct sentences.
        sorted_keys: Their keys in ascending order, uint64 [B].
        rows: Which sentence each of those keys is of, uint32 [B].
        counts: How many sentences were read and dropped, by reason.
    """

    texts: pa.ChunkedArray
    sorted_keys: NDArray[np.uint64]
    rows: NDArray[np.uint32]
    counts: Counter[str]

    @classmethod
    def read(cls, path: Path) -> Block:
        """Map a block into memory."""
        table = read_table(path)
        # Not `combine_chunks`, which copies: a range reads a small part of every block.
        keys, rows = (table[name].to_numpy() for name in ("sorted_key", "row"))
        return cls(table["text"], keys, rows, Counter(json.loads(table.schema.metadata[_COUNTS])))


def write_part_end(folder: Path, part: Part) -> None:
    """Tell later runs that a part is read to its end, unless it is told."""
    path = _part_end(folder, part.number)
    if not path.exists():
        write_json(path, {"blocks": part.n_blocks, "undecodable": sorted(part.undecodable)})


def has_part(folder: Path, part: Part) -> bool:
    """Whether a part is read to its end, and all its blocks are there."""
    if not _part_end(folder, part.number).exists():
        return False
    n_blocks = read_json(_part_end(folder, part.number))["blocks"]
    return all(block_path(folder, part.number, number).exists() for number in range(n_blocks))


def _part_end(folder: Path, part: int) -> Path:
    return temporary_folder(folder) / f"part-{part:05d}.json"


@dataclass(frozen=True)
class BlockList:
    """All blocks of a corpus.

    Args:
        files: Names of their files, in the order of the corpus.
        n_keys: How many keys they have.
        undecodable: Paths of the corpus's files that are not UTF-8.
    """

    files: list[str]
    n_keys: int
    undecodable: list[str]

    @classmethod
    def read(cls, folder: Path) -> BlockList:
        """What `list_blocks` has written."""
        return cls(**read_json(_list_path(folder)))


def are_listed(folder: Path) -> bool:
    """Whether `list_blocks` has written the list of blocks."""
    return _list_path(folder).exists()


def list_blocks(folder: Path, n_parts: int) -> BlockList:
    """List the blocks, now that all parts are read, and write the list.

    Args:
        folder: The folder of the sentences.
        n_parts: How many parts the corpus has.

    Raises:
        FileNotFoundError: A part's end or a block is not there; names it.
    """
    look_again(temporary_folder(folder))
    files: list[Path] = []
    undecodable: set[str] = set()
    for part in range(n_parts):
        end = read_json(_part_end(folder, part))
        files += [block_path(folder, part, number) for number in range(end["blocks"])]
        undecodable.update(end["undecodable"])
    n_keys = sum(len(read_table(path)) for path in files)
    blocks = BlockList([path.name for path in files], n_keys, sorted(undecodable))
    write_json(_list_path(folder), asdict(blocks))
    return blocks


def _list_path(folder: Path) -> Path:
    return folder / "blocks.json"
