"""Repetitions go by merging the keys of all blocks, a range of keys at a time.

So no process holds all keys, and the first of equal sentences stays, in the order of the corpus.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from st_static.distill.corpus.blocks import Block, BlockList, shard_path, temporary_folder
from st_static.distill.engines import Engine, map_shards
from st_static.files import read_json, read_table, write_json, write_table

SCHEMA = pa.schema([("text", pa.string()), ("key", pa.uint64())])
KEYS_PER_RANGE = 2**24  # merging them takes about 0.7 GB of memory

_N_KEYS = 2**64  # that there can be


class _KeyRange(NamedTuple):
    """One of equal ranges of all keys."""

    number: int
    n_ranges: int

    def __str__(self) -> str:
        return f"range {self.number + 1:,} of {self.n_ranges:,} of the sentences' keys"


class _NumberedBlock(NamedTuple):
    """A block's file, and its place in the corpus."""

    number: int
    file: Path

    def __str__(self) -> str:
        return str(self.file)


def write_distinct(folder: Path, blocks: BlockList, engine: Engine) -> None:
    """Write each block as a shard without what an earlier block has, too; the blocks go.

    Args:
        folder: Where shards go, `sentences-00000.arrow` and so on; ranges and shards that an
            interrupted run left there are kept.
        blocks: All blocks.
        engine: What runs the parts.
    """
    numbers = range(len(blocks.files))
    missing = [number for number in numbers if not shard_path(folder, number).exists()]
    if not missing:
        return
    n_ranges = max(1, -(-blocks.n_keys // KEYS_PER_RANGE))
    ranges = [
        _KeyRange(n, n_ranges) for n in range(n_ranges) if not _range_path(folder, n).exists()
    ]
    merge = functools.partial(_write_repeated, folder=folder, blocks=blocks)
    for _ in map_shards(merge, ranges, engine, "repetitions", len(ranges), int):
        pass
    write = functools.partial(_write_shard, folder=folder, n_ranges=n_ranges)
    items = [_NumberedBlock(n, temporary_folder(folder) / blocks.files[n]) for n in missing]
    for _ in map_shards(write, items, engine, "distinct sentences", len(items), int):
        pass


def _range_path(folder: Path, number: int) -> Path:
    return temporary_folder(folder) / f"repeated-{number:05d}.arrow"


def _write_repeated(key_range: _KeyRange, folder: Path, blocks: BlockList) -> int:
    """Write the rows of each block that are repetitions in one range of keys; count the keys."""
    number, n_ranges = key_range
    if _range_path(folder, number).exists():
        return 0  # by a worker that died before it could tell
    first, last = number * _N_KEYS // n_ranges, (number + 1) * _N_KEYS // n_ranges - 1
    read = functools.partial(_in_range, first=np.uint64(first), last=np.uint64(last))
    keys, rows = zip(*(read(temporary_folder(folder) / name) for name in blocks.files), strict=True)
    repeated = are_repeated(np.concatenate(keys))
    ends = np.cumsum([0, *map(len, keys)])
    n_before = np.concatenate([[0], np.cumsum(repeated)])
    lists = pa.ListArray.from_arrays(
        pa.array(n_before[ends], pa.int32()), pa.array(np.concatenate(rows)[repeated])
    )
    write_table(_range_path(folder, number), pa.table({"rows": lists}))
    return len(repeated)


def _in_range(
    path: Path, first: np.uint64, last: np.uint64
) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """The keys of a block from `first` to `last`, and their rows, both [K]."""
    block = Block.read(path)
    start = np.searchsorted(block.sorted_keys, first)
    end = np.searchsorted(block.sorted_keys, last, side="right")
    # Copies, so that the file is not mapped any longer.
    return block.sorted_keys[start:end].copy(), block.rows[start:end].copy()


def are_repeated(keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which keys are there at an earlier place, too.

    Args:
        keys: Keys [K].

    Returns:
        Booleans [K].
    """
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    repeated = np.zeros(len(keys), np.bool_)
    repeated[order[1:]] = ordered[1:] == ordered[:-1]
    return repeated


def _write_shard(item: _NumberedBlock, folder: Path, n_ranges: int) -> int:
    """Write a block without repetitions as a shard, and remove it; count what is kept."""
    number, block = item
    shard = shard_path(folder, number)
    if not shard.exists():
        ranges = [_range_path(folder, n) for n in range(n_ranges)]
        try:
            _write_without(block, shard, ranges, number)
        except FileNotFoundError:  # a worker that was thought to be dead has done it meanwhile
            if not shard.exists():
                raise
    block.unlink(missing_ok=True)
    kept: int = read_json(shard.with_suffix(".json"))["kept"]
    return kept


def _write_without(block: Path, shard: Path, ranges: Sequence[Path], number: int) -> None:
    """Write a block as a shard; its counts go before it, so that what is there has them."""
    whole = Block.read(block)
    keys = np.empty_like(whole.sorted_keys)
    keys[whole.rows] = whole.sorted_keys
    new = np.ones(len(keys), np.bool_)
    for path in ranges:
        new[read_table(path)["rows"][number].values.to_numpy()] = False
    table = pa.table([whole.texts.filter(pa.array(new)), pa.array(keys[new])], schema=SCHEMA)
    counts = whole.counts
    counts.update(repeated=len(new) - len(table), kept=len(table))
    counts.update(characters=pc.sum(pc.utf8_length(table["text"])).as_py() or 0)
    write_json(shard.with_suffix(".json"), counts)
    write_table(shard, table)
