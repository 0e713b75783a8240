"""Shards of sentences, and files that workers write: shared by all corpus stages."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from st_static.distill.engines import Engine, map_shards
from st_static.files import atomic, look_again, read_arrow
from st_static.tokens.ragged import offsets_of

Source = TypeVar("Source")
Result = TypeVar("Result")
Hash = Callable[[NDArray[np.uint64]], NDArray[np.uint64]]

_LARGEST_HASH = 2**64 - 1


class Shard(NamedTuple):
    """One file of sentences, for a worker: columns `text` and `key`."""

    file: Path
    number: int
    first: int  # the number of its first sentence in the whole corpus
    rows: NDArray[np.int64]  # the requested sentences, ascending, counted from its first

    def __str__(self) -> str:
        return str(self.file)

    def read(self) -> pa.Table:
        """Map the shard's sentences into memory."""
        return read_arrow(self.file)


class Shards:
    """All sentences of a corpus, numbered in its order; workers read them."""

    def __init__(self, files: Sequence[Path], engine: Engine) -> None:
        self.files = list(files)
        self.engine = engine
        # The number of each shard's first sentence, [shards + 1].
        self.first = offsets_of(np.array([read_arrow(f).num_rows for f in files], np.int64))
        self.n_sentences = int(self.first[-1])
        self.n_bytes = sum(file.stat().st_size for file in self.files)

    def map(
        self,
        function: Callable[[Shard], Result],
        label: str,
        numbers: NDArray[np.int64] | None = None,
    ) -> list[Result]:
        """Apply a picklable function to all shards, or to those that hold the sentences with the
        ascending `numbers`, as `Shard.rows`; results come in order."""
        wanted = np.empty(0, np.int64) if numbers is None else numbers
        cuts = np.searchsorted(wanted, self.first)
        shards = [
            Shard(file, i, int(self.first[i]), wanted[cuts[i] : cuts[i + 1]] - self.first[i])
            for i, file in enumerate(self.files)
        ]
        if numbers is not None:
            shards = [shard for shard in shards if len(shard.rows)]
        call = functools.partial(_numbered, function=function)
        results = dict(map_shards(call, shards, self.engine, label))
        return [results[shard.number] for shard in shards]

    def read(self, numbers: NDArray[np.int64], label: str) -> pa.Table:
        """Read the sentences with the given numbers, in that order: columns `text` and `key`."""
        order = np.argsort(numbers, kind="stable")
        parts = self.map(_take_rows, label, numbers[order])
        empty = read_arrow(self.files[0]).schema.empty_table()
        return pa.concat_tables([empty, *parts]).take(np.argsort(order, kind="stable"))

    def smallest(
        self, n: int, hash_of: Hash, label: str
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Find the n sentences with the smallest hashes, and all equal to the n-th: hashes,
        ascending, and numbers. `hash_of` is a picklable function of keys [S]."""
        n = min(n, self.n_sentences)
        # Hashes are uniform: fewer than n lie under this bound once in many millions of cases.
        bound = min(_LARGEST_HASH, int((n + 10 * n**0.5 + 10) / max(self.n_sentences, 1) * 2**64))
        while True:
            find = functools.partial(_find_smaller, hash_of=hash_of, bound=bound)
            none = np.empty(0, np.uint64), np.empty(0, np.int64)
            parts = zip(none, *self.map(find, label), strict=True)
            hashes, numbers = (np.concatenate(column) for column in parts)
            if len(hashes) >= n:
                break
            bound = min(_LARGEST_HASH, 2 * bound)
        order = np.lexsort((numbers, hashes))
        hashes, numbers = hashes[order], numbers[order]
        n = int(np.searchsorted(hashes, hashes[n - 1], side="right")) if n else 0
        return hashes[:n], numbers[:n]


def _numbered(shard: Shard, function: Callable[[Shard], Result]) -> tuple[int, Result]:
    return shard.number, function(shard)


def _take_rows(shard: Shard) -> pa.Table:
    return shard.read().take(shard.rows)


def _find_smaller(
    shard: Shard, hash_of: Hash, bound: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Find the hashes of at most `bound` and the numbers of their sentences."""
    hashes = hash_of(shard.read()["key"].to_numpy())
    rows = np.flatnonzero(hashes <= np.uint64(bound))
    return hashes[rows], rows + shard.first


class Task(NamedTuple, Generic[Source]):
    """A file for a worker to write, and the source of its content; errors name the file."""

    source: Source
    file: Path

    def __str__(self) -> str:
        return str(self.file)


def write_missing(
    write: Callable[[Task[Source]], Result],
    tasks: Sequence[Task[Source]],
    engine: Engine,
    label: str,
    sentences: Callable[[Result], int] | None = None,
) -> None:
    """Write files of one folder atomically, except those that an interrupted run has written."""
    missing = [task for task in tasks if not task.file.exists()]
    for _ in map_shards(write, missing, engine, label, sentences=sentences):
        pass
    if missing:
        look_again(missing[0].file.parent)


@contextmanager
def merged_by_range(
    folder: Path,
    name: str,
    sources: Sequence[Source],
    *,
    n_ranges: int,
    split: Callable[[Task[Source]], int],
    merge: Callable[..., None],
    engine: Engine,
) -> Iterator[list[Path]]:
    """Give files by ranges of a key, until the block ends; no process holds the whole. `split`
    writes a shard's file by `write_parts`, with a part for each range, and counts its sentences;
    `merge` writes the range `Task.source` of all `files`, see `read_parts`. After an error, all
    files stay."""
    parts = [Task(s, folder / f"{name}-of-shard-{n:05d}.arrow") for n, s in enumerate(sources)]
    ranges = [Task(n, folder / f"{name}-of-range-{n:05d}.arrow") for n in range(n_ranges)]
    if not all(task.file.exists() for task in ranges):  # they exist if a kill came at the removal
        write_missing(split, parts, engine, name, sentences=int)
        merge = functools.partial(merge, files=[task.file for task in parts])
        write_missing(merge, ranges, engine, f"merged {name}")
    yield [task.file for task in ranges]
    for file in [task.file for task in parts] + [task.file for task in ranges]:
        file.unlink(missing_ok=True)


def write_parts(path: Path, table: pa.Table, bounds: NDArray[np.int64]) -> None:
    """Write a table [n] as an Arrow file, one record batch per part; bounds are [parts + 1]."""
    table = table.combine_chunks()
    empty = pa.RecordBatch.from_pylist([], schema=table.schema)
    with (
        atomic(path) as temporary,
        pa.OSFile(str(temporary), "wb") as file,
        pa.ipc.new_file(file, table.schema) as writer,
    ):
        for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            part = table.slice(start, stop - start).to_batches()
            writer.write_batch(part[0] if part else empty)


def read_parts(paths: Sequence[Path], number: int) -> Iterator[pa.Table]:
    """Read only the part with the given number from each file."""
    for path in paths:
        with pa.OSFile(str(path)) as file:
            yield pa.Table.from_batches([pa.ipc.open_file(file).get_batch(number)])
