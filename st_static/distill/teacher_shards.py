"""The teacher's work in shards of whole batches: run anywhere, written whole, merged in order.

So the same bytes come of it whichever processes ran which shards, and when.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from st_static.distill.engines import Engine
from st_static.distill.progress import bar
from st_static.distill.word_sums import WordSums, WordVectors
from st_static.files import Arrays, look_again, read_arrays, write_arrays

# Tokens of a shard, padding included: seconds of work, for a kill loses what is under way. Large
# builds have larger ones, in about so many files.
_LEAST_TOKENS = 65_536
_MOST_SHARDS = 1024
_BYTES_AT_A_TIME = 32_000_000  # of sums that one merge holds


class Shard(NamedTuple):
    """Consecutive batches.

    Attributes:
        number: Of the shard, from 0.
        batches: Which texts are in each batch.
        tokens: Tokens of all batches, padding included.
    """

    number: int
    batches: list[slice]
    tokens: int

    @property
    def rows(self) -> slice:
        """Its texts."""
        return slice(self.batches[0].start, self.batches[-1].stop)


def cut_shards(batches: Sequence[slice], tokens: Sequence[int]) -> list[Shard]:
    """Cut batches into shards, the same for the same batches.

    Args:
        batches: The batches.
        tokens: The tokens of each, padding included.
    """
    wanted = max(_LEAST_TOKENS, sum(tokens) // _MOST_SHARDS)
    shards: list[Shard] = []
    first, size = 0, 0
    for number, n in enumerate(tokens, 1):
        size += n
        if size >= wanted or number == len(batches):
            shards.append(Shard(len(shards), list(batches[first:number]), size))
            first, size = number, 0
    return shards


@dataclass(frozen=True)
class ShardFiles:
    """The files of shards in a stage's folder.

    Args:
        folder: The folder.
        name: What their names begin with.
    """

    folder: Path
    name: str

    def of(self, shard: Shard) -> Path:
        """The file of one shard."""
        return self.folder / f"{self.name}-{shard.number:05d}.safetensors"

    def remove(self, shards: Iterable[Shard]) -> None:
        """Remove them; those that are gone already are no error."""
        for shard in shards:
            self.of(shard).unlink(missing_ok=True)


class ShardWork(NamedTuple):
    """Something that the teacher is to do, in shards.

    Attributes:
        encode: Runs the teacher over one shard; picklable.
        shards: All shards.
        files: Where what it gives goes.
        name: What a message calls texts of it, with {} for their numbers.
    """

    encode: Callable[[Shard], Arrays]
    shards: list[Shard]
    files: ShardFiles
    name: str = "texts {} of the selection"

    def results(self) -> Iterator[Arrays]:
        """What it gave for each shard."""
        return (read_arrays(self.files.of(shard)) for shard in self.shards)


@dataclass(frozen=True)
class _Writer:
    """Encodes a shard and writes its file; sent to the processes that do so."""

    work: Sequence[tuple[Callable[[Shard], Arrays], ShardFiles]]

    def __call__(self, item: _Item) -> Shard:
        encode, files = self.work[item.work]
        write_arrays(files.of(item.shard), encode(item.shard))
        return item.shard


class _Item(NamedTuple):
    """A shard of one of several works, and the work's name."""

    work: int
    shard: Shard
    name: str

    def __str__(self) -> str:
        rows = self.shard.rows
        return self.name.format(f"{rows.start:,} to {rows.stop - 1:,}")


def run_shards(works: Sequence[ShardWork], engine: Engine) -> None:
    """Run the teacher over the shards whose files are not there yet.

    Args:
        works: All that is to do; together, for the processes that do it take seconds to start.
        engine: What runs it.
    """
    items = [_Item(i, shard, work.name) for i, work in enumerate(works) for shard in work.shards]
    left = [item for item in items if not works[item.work].files.of(item.shard).exists()]
    if not left:
        return
    n_tokens, n_left = (sum(item.shard.tokens for item in some) for some in (items, left))
    writer = _Writer([(work.encode, work.files) for work in works])
    start, n_texts = time.perf_counter(), 0
    with bar("teacher", n_tokens, "token", initial=n_tokens - n_left) as progress:
        done = engine.map_on_devices(writer, left)
        for n_done, shard in enumerate(done, 1 + len(items) - len(left)):
            n_texts += shard.rows.stop - shard.rows.start
            rate = n_texts / (time.perf_counter() - start)
            progress.set_postfix_str(f"{n_done:,}/{len(items):,} shards, {rate:,.0f} texts/s")
            progress.update(shard.tokens)
    for folder in {work.files.folder for work in works}:
        look_again(folder)


class _Range(NamedTuple):
    """What one merge sums up: the tokens from `low` to `high`, over all files."""

    low: int
    high: int
    dimension: int
    files: list[Path]

    def __str__(self) -> str:
        return f"sums of the tokens {self.low:,} to {self.high - 1:,}"


def merge_sums(files: Sequence[Path], n_tokens: int, dimension: int, engine: Engine) -> WordSums:
    """Add up the word vectors of shards, in the order of the shards.

    Args:
        files: The files of all shards, with the arrays of `WordVectors`, words ascending.
        n_tokens: Token ids of the student, V.
        dimension: The dimension of token vectors, h.
        engine: What merges, a range of words at a time.
    """
    step = max(1, _BYTES_AT_A_TIME // (4 * dimension))
    ranges = [
        _Range(low, min(low + step, n_tokens), dimension, list(files))
        for low in range(0, n_tokens, step)
    ]
    sums = WordSums(n_tokens, dimension)
    for (low, high, _, _), part in engine.map(_merge_range, ranges):
        sums.sums[low:high], sums.counts[low:high] = part.sums, part.counts
    return sums


def _merge_range(words: _Range) -> tuple[_Range, WordSums]:
    part = WordSums(words.high - words.low, words.dimension)
    for file in words.files:
        with safe_open(file, framework="numpy") as arrays:
            word = arrays.get_tensor("word")
            rows = slice(*np.searchsorted(word, [words.low, words.high]).tolist())
            if rows.start == rows.stop:  # safetensors cannot give an empty slice at the end
                continue
            sums, counts = (arrays.get_slice(name)[rows] for name in ("sums", "counts"))
        part.add(WordVectors(word[rows] - words.low, sums, counts))
    return words._replace(files=[]), part


def summed(parts: Iterable[WordVectors], dimension: int) -> WordVectors:
    """Add up the vectors of batches, in their order: the words ascending, each once.

    Args:
        parts: What each batch adds.
        dimension: The dimension of token vectors, h.
    """
    parts = list(parts)
    words: NDArray[np.int64] = np.unique(np.concatenate([part.word for part in parts]))
    sums = WordSums(len(words), dimension)
    for part in parts:
        sums.add(part._replace(word=np.searchsorted(words, part.word)))
    return WordVectors(words, sums.sums, sums.counts)
