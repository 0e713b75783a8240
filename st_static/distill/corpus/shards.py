"""Shards of sentences, and files that workers write: shared by all corpus stages.

Workers read the shards and return only the requested sentences. Files that they write for a shard
have a part for each range of the merge key, such as words: a range is read from all files and
merged alone, so that no process holds the whole.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from st_static.distill.engines import Engine, map_shards
from st_static.files import atomic, look_again, read_table
from st_static.tokens.ragged import offsets_of

Source = TypeVar("Source")
Result = TypeVar("Result")
Hash = Callable[[NDArray[np.uint64]], NDArray[np.uint64]]

_LARGEST_HASH = 2**64 - 1


class Shard(NamedTuple):
    """One file of sentences, for a worker.

    Attributes:
        file: Columns `text` and `key`.
        number: Its place among the shards.
        first: The number of its first sentence in the whole corpus.
        rows: The requested sentences, ascending, counted from its first.
    """

    file: Path
    number: int
    first: int
    rows: NDArray[np.int64]

    def __str__(self) -> str:
        return str(self.file)

    def read(self) -> pa.Table:
        """Map its sentences into memory."""
        return read_table(self.file)


class Shards:
    """All sentences of a corpus, numbered in its order.

    Args:
        files: The sentence shards, in the order of the corpus.
        engine: What runs the workers.
    """

    def __init__(self, files: Sequence[Path], engine: Engine) -> None:
        self.files = list(files)
        self.engine = engine
        # The number of each shard's first sentence, [shards + 1].
        self.first = offsets_of(np.array([read_table(f).num_rows for f in files], np.int64))

    @property
    def n_sentences(self) -> int:
        """Number of sentences."""
        return int(self.first[-1])

    def map(
        self,
        function: Callable[[Shard], Result],
        label: str,
        numbers: NDArray[np.int64] | None = None,
    ) -> list[Result]:
        """Apply a picklable function to shards.

        Args:
            function: Finds the requested sentences in `Shard.rows`.
            label: The label of the progress bar.
            numbers: Sentences, ascending: shards without any are left out. None is all shards,
                without rows.

        Returns:
            The results in the order of the shards.
        """
        wanted = np.empty(0, np.int64) if numbers is None else numbers
        cuts = np.searchsorted(wanted, self.first)
        shards = [
            Shard(file, i, int(self.first[i]), wanted[cuts[i] : cuts[i + 1]] - self.first[i])
            for i, file in enumerate(self.files)
        ]
        if numbers is not None:
            shards = [shard for shard in shards if len(shard.rows)]
        call = functools.partial(_numbered, function=function)
        found = dict(map_shards(call, shards, self.engine, label, len(shards)))
        return [found[shard.number] for shard in shards]

    def read(self, numbers: NDArray[np.int64], label: str) -> pa.Table:
        """Read the sentences with the given numbers, in that order: columns `text` and `key`."""
        order = np.argsort(numbers, kind="stable")
        parts = self.map(_take_rows, label, numbers[order])
        empty = read_table(self.files[0]).schema.empty_table()
        return pa.concat_tables([empty, *parts]).take(np.argsort(order, kind="stable"))

    def smallest(
        self, n: int, hash_of: Hash, label: str, without: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Find the sentences with the smallest hashes.

        Args:
            n: How many, at least 1. If several have the n-th smallest hash, all are found.
            hash_of: A picklable function of keys, [S].
            label: The label of the progress bar.
            without: Numbers of sentences to leave out.

        Returns:
            Their hashes, ascending, and their numbers.
        """
        n_left = self.n_sentences - (0 if without is None else len(without))
        n = min(n, n_left)
        # Hashes are uniform: fewer than n lie under this bound once in many millions of cases.
        bound = min(_LARGEST_HASH, int((n + 10 * n**0.5 + 10) / max(n_left, 1) * 2**64))
        while True:
            find = functools.partial(_find_smaller, hash_of=hash_of, bound=bound)
            none = np.empty(0, np.uint64), np.empty(0, np.int64)
            parts = zip(none, *self.map(find, label), strict=True)
            hashes, numbers = (np.concatenate(column) for column in parts)
            if without is not None:
                left = ~np.isin(numbers, without)
                hashes, numbers = hashes[left], numbers[left]
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
    """A file for a worker to write; errors name it.

    Attributes:
        source: The source of its content.
        file: Its path.
    """

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
    """Write files of one folder, except those that an interrupted run has written.

    Args:
        write: A picklable function that writes one atomically.
        tasks: The files.
        engine: What runs it.
        label: The label of the progress bar.
        sentences: As for `map_shards`.
    """
    missing = [task for task in tasks if not task.file.exists()]
    for _ in map_shards(write, missing, engine, label, len(missing), sentences):
        pass
    if missing:
        look_again(missing[0].file.parent)


def write_parts(path: Path, table: pa.Table, bounds: NDArray[np.int64]) -> None:
    """Write a table atomically, as an Arrow IPC file with a record batch for each part.

    Args:
        path: The file.
        table: Its rows, one part after the other, [n].
        bounds: The begin of each part and the end of the last, [parts + 1].
    """
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
