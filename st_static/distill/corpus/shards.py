"""The sentences of a corpus by their numbers: workers read the shards, and send what was asked."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from st_static.distill.engines import Engine, map_shards
from st_static.files import read_table
from st_static.tokens.ragged import offsets_of

Result = TypeVar("Result")
Hash = Callable[[NDArray[np.uint64]], NDArray[np.uint64]]

_LARGEST = 2**64 - 1
_NONE = np.empty(0, np.int64)


class Shard(NamedTuple):
    """One file of sentences, for a worker.

    Attributes:
        file: Columns `text` and `key`.
        number: Its place among the shards.
        first: The number of its first sentence in the whole corpus.
        rows: Some of its sentences, counted from its first, ascending; what they are for, the
            worker's function says.
    """

    file: Path
    number: int
    first: int
    rows: NDArray[np.int64]

    def __str__(self) -> str:
        return str(self.file)

    def read(self) -> pa.Table:
        """Its sentences."""
        return read_table(self.file)


class _Smallest(NamedTuple):
    """Sentences of one shard that have small hashes.

    Attributes:
        hashes: The hashes, [n].
        numbers: The sentences' numbers in the whole corpus, [n].
        n_sentences: How many sentences the shard has.
    """

    hashes: NDArray[np.uint64]
    numbers: NDArray[np.int64]
    n_sentences: int


class Shards:
    """All sentences of a corpus.

    Args:
        files: The sentence shards, in the order of the corpus.
        engine: What runs the workers.
    """

    def __init__(self, files: Sequence[Path], engine: Engine) -> None:
        self.files = list(files)
        self.engine = engine
        # Where each shard's sentences begin, [shards + 1].
        self.first = offsets_of(np.array([read_table(f).num_rows for f in files], np.int64))

    @property
    def n_sentences(self) -> int:
        """How many sentences there are."""
        return int(self.first[-1])

    def __iter__(self) -> Iterator[Shard]:
        """The shards, without rows."""
        return iter(self._with_rows(_NONE))

    def map(self, function: Callable[[Shard], Result], label: str) -> Iterator[Result]:
        """Apply a picklable function to all shards; the results come in any order."""
        items = list(self)
        return map_shards(function, items, self.engine, label, len(items))

    def map_rows(
        self, function: Callable[[Shard], Result], numbers: NDArray[np.int64], label: str
    ) -> list[Result]:
        """Apply a picklable function to the shards of some sentences.

        Args:
            function: It finds the sentences in `Shard.rows`.
            numbers: Theirs, ascending.
            label: What the progress bar says.

        Returns:
            The results in the order of the shards.
        """
        items = [shard for shard in self._with_rows(numbers) if len(shard.rows)]
        call = functools.partial(_numbered, function=function)
        found = dict(map_shards(call, items, self.engine, label, len(items)))
        return [found[shard.number] for shard in items]

    def read(self, numbers: NDArray[np.int64], label: str) -> pa.Table:
        """The sentences with the given numbers, in that order: columns `text` and `key`."""
        order = np.argsort(numbers, kind="stable")
        parts = self.map_rows(_take_rows, numbers[order], label)
        empty = next(iter(self)).read().schema.empty_table()
        return pa.concat_tables([empty, *parts]).take(np.argsort(order, kind="stable"))

    def smallest(
        self, n: int, hash_of: Hash, label: str, without: NDArray[np.int64] = _NONE
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """The sentences with the smallest hashes.

        Args:
            n: How many, at least 1. If several have the n-th smallest hash, there are more.
            hash_of: A picklable function of keys, [S].
            label: What the progress bar says.
            without: Numbers of sentences that are left out, ascending.

        Returns:
            Their hashes, ascending, and their numbers.
        """
        n_left = self.n_sentences - len(without)
        n = min(n, n_left)
        # Hashes are evenly spread: so many lie under this bound, but in one case of many millions.
        bound = min(_LARGEST, int((n + 10 * n**0.5 + 10) / max(n_left, 1) * 2**64))
        while True:
            find = functools.partial(_find_smallest, hash_of=hash_of, bound=bound)
            shards = self._with_rows(without)
            found = map_shards(
                find, shards, self.engine, label, len(shards), lambda part: part.n_sentences
            )
            parts = list(found)
            hashes = np.concatenate([np.empty(0, np.uint64), *(part.hashes for part in parts)])
            numbers = np.concatenate([_NONE, *(part.numbers for part in parts)])
            if len(hashes) >= n:
                break
            bound = min(_LARGEST, 2 * bound)
        order = np.lexsort((numbers, hashes))
        hashes, numbers = hashes[order], numbers[order]
        n = int(np.searchsorted(hashes, hashes[n - 1], side="right")) if n else 0
        return hashes[:n], numbers[:n]

    def _with_rows(self, numbers: NDArray[np.int64]) -> list[Shard]:
        """The shards, each with those of ascending numbers that it holds."""
        cuts = np.searchsorted(numbers, self.first)
        return [
            Shard(file, i, int(self.first[i]), numbers[cuts[i] : cuts[i + 1]] - self.first[i])
            for i, file in enumerate(self.files)
        ]


def _numbered(shard: Shard, function: Callable[[Shard], Result]) -> tuple[int, Result]:
    return shard.number, function(shard)


def _find_smallest(shard: Shard, hash_of: Hash, bound: int) -> _Smallest:
    """The sentences with hashes of at most `bound`, without those in `rows`."""
    hashes = hash_of(shard.read()["key"].to_numpy())
    found = hashes <= np.uint64(bound)
    found[shard.rows] = False
    rows = np.flatnonzero(found)
    return _Smallest(hashes[rows], rows + shard.first, len(hashes))


def _take_rows(shard: Shard) -> pa.Table:
    return shard.read().take(shard.rows)
