"""Each word's candidates: a fair sample of the sentences that it stands in.

A sentence is a candidate of a word if its key, a hash, lies under the word's threshold. So each
shard is summarised alone, summaries are merged by concatenation, and the result does not depend on
how the corpus was cut or ordered.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from st_static.distill.corpus.finders import FinderFiles, WordFinder, load_finder
from st_static.distill.corpus.ranges import read_parts, write_missing, write_parts
from st_static.distill.corpus.shards import Shard, Shards
from st_static.distill.engines import Engine
from st_static.files import read_table, write_table
from st_static.model.tokenizer import (
    SPECIAL_TOKENS,
)

# That are merged at a time, at 24 bytes each and about as much again for sorting.
PAIRS_PER_RANGE = 2_000_000
_FOUND = b"found"  # in the metadata of a range's file


class Pairs(NamedTuple):
    """(word, sentence) pairs: the candidates of words, or those that were selected.

    Attributes:
        word: Token id of the word, [P].
        sentence: Number of the sentence in the whole corpus, [P].
        length: The sentence's teacher tokens, [P].
        key: The sentence's key, [P].
    """

    word: NDArray[np.int32]
    sentence: NDArray[np.int64]
    length: NDArray[np.int32]
    key: NDArray[np.uint64]

    def take(self, index: NDArray[np.integer] | NDArray[np.bool_] | slice) -> Pairs:
        """The given pairs, in the given order."""
        word, sentence, length, key = self
        return Pairs(word[index], sentence[index], length[index], key[index])

    def runs(self) -> list[tuple[int, int]]:
        """Where each word's pairs begin and end, if they are sorted by word."""
        changes = np.flatnonzero(np.diff(self.word, prepend=-1, append=-1))
        return list(pairwise(changes.tolist()))

    @staticmethod
    def concatenate(parts: Iterable[Pairs]) -> Pairs:
        """All pairs of the parts."""
        return Pairs(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


@dataclass(frozen=True)
class CandidatePlan:
    """Which sentences are candidates; the same for every shard.

    Attributes:
        thresholds: For each word, the largest key of a candidate, [V].
        held_out_from: Sentences with this key or a larger one are held out.
        min_words: Fewest words, or pieces, of a candidate.
    """

    thresholds: NDArray[np.uint64]
    held_out_from: np.uint64
    min_words: int


def key_thresholds(counts: NDArray[np.int64], max_candidates: int) -> NDArray[np.uint64]:
    """For each word, the largest key of a sentence in the word's fair sample, [V].

    Keys are hashes, so of a word's sentences about `max_candidates` and five standard deviations
    more lie under its threshold: `order_candidates` takes those with the smallest keys. Words
    with fewer take all. The sample of a word that often stands several times in a sentence is
    smaller, since occurrences are what is counted.

    Args:
        counts: Occurrences of each word in the corpus, [V].
        max_candidates: Size of the sample.
    """
    every = np.iinfo(np.uint64).max
    # How many of n keys lie under a share p of all is binomial: its standard deviation is at most
    # sqrt(n p). With five of them on top, about one word in a million gets a sample too small.
    wanted = max_candidates + 5 * np.sqrt(max_candidates)
    # Below 1 even where the count is smaller, so that the conversion below never overflows; float64
    # rounds a threshold by at most 2^-53 of itself, and the same on every machine.
    shares = wanted / np.maximum(counts, wanted + 1)
    return np.where(counts <= wanted, every, (shares * 2.0**64).astype(np.uint64))


def largest_candidates(counts: NDArray[np.int64], max_candidates: int) -> int:
    """Bytes that all summaries together take at most; arguments as `key_thresholds`."""
    pairs = _most_pairs(counts, max_candidates).sum()
    return int(pairs) * sum(np.dtype(t).itemsize for t in (np.int32, np.int64, np.int32, np.uint64))


def _most_pairs(counts: NDArray[np.int64], max_candidates: int) -> NDArray[np.float64]:
    """How many sentences each word has under its threshold at most, [V]."""
    most: NDArray[np.float64] = np.minimum(counts, max_candidates + 10 * np.sqrt(max_candidates))
    return most


def held_out(shards: Shards, n: int) -> tuple[np.uint64, NDArray[np.int64]]:
    """The sentences with the n largest keys, which are held out.

    Returns:
        The key from which on sentences are held out, and their numbers, ascending.

    Raises:
        ValueError: That would leave less than half of the sentences.
    """
    if 2 * n > shards.n_sentences:
        raise ValueError(
            f"selection.held_out = {n} needs a corpus of at least {2 * n} sentences, but it has "
            f"{shards.n_sentences}. Give more text, or hold out fewer."
        )
    # Keys are hashes: the largest are a random sample, the same in whatever order the text comes.
    inverted, numbers = shards.smallest(n, np.invert, "held-out sentences")
    return ~inverted[-1], np.sort(numbers)


def word_ranges(
    counts: NDArray[np.int64], max_candidates: int, max_pairs: int = PAIRS_PER_RANGE
) -> NDArray[np.int64]:
    """Ranges of words that are merged at a time: the first token id of each, and the end of all.

    Args:
        counts: Occurrences of each word in the corpus, [V].
        max_candidates: Size of a word's sample.
        max_pairs: About how many pairs a range has at most.
    """
    last = np.cumsum(_most_pairs(counts, max_candidates))
    starts = np.flatnonzero(np.diff(last // max_pairs, prepend=-1))
    return np.append(starts, len(counts)) + len(SPECIAL_TOKENS)


def find_candidates(
    texts: pa.Array,
    keys: NDArray[np.uint64],
    first_sentence: int,
    finder: WordFinder,
    plan: CandidatePlan,
) -> Pairs:
    """Summarise one shard: its candidate pairs, sorted by word.

    Args:
        texts: The shard's sentences, [S].
        keys: Their keys, [S].
        first_sentence: The number of the first of them in the whole corpus.
        finder: Finds words and counts teacher tokens.
        plan: Which sentences are candidates.
    """
    words, lengths, n_words = finder(texts)
    usable = (n_words >= plan.min_words) & (keys < plan.held_out_from)
    rows = words.row_of_value
    kept = usable[rows] & (keys[rows] <= plan.thresholds[words.values - len(SPECIAL_TOKENS)])
    # One pair for each word of a sentence, however often it stands there: (word, row) as one
    # number, sorted, without repetitions. That is the order by word that merging needs.
    distinct = np.sort(words.values[kept].astype(np.int64) * len(keys) + rows[kept])
    distinct = distinct[np.flatnonzero(np.diff(distinct, prepend=-1))]
    word, rows = np.divmod(distinct, max(len(keys), 1))
    return Pairs(
        word=word.astype(np.int32),
        sentence=rows + first_sentence,
        length=lengths[rows].astype(np.int32),
        key=keys[rows],
    )


def write_candidates(
    shards: Shards,
    folder: Path,
    finder_files: FinderFiles,
    plan: CandidatePlan,
    ranges: NDArray[np.int64],
) -> list[Path]:
    """Summarise every sentence shard.

    Args:
        shards: All sentences.
        folder: Where the summaries go; those that are there are kept.
        finder_files: What finds words.
        plan: Which sentences are candidates.
        ranges: As `word_ranges` gives them.

    Returns:
        A file for each shard, with a part for each range of words: the columns of `Pairs`.
    """
    items = [(s, folder / f"candidates-of-shard-{s.number:05d}.arrow") for s in shards]
    write = functools.partial(
        _write_candidates, finder_files=finder_files, plan=plan, ranges=ranges
    )
    write_missing(write, items, shards.engine, "candidates", int)
    return [file for _, file in items]


def _write_candidates(
    item: tuple[Shard, Path],
    finder_files: FinderFiles,
    plan: CandidatePlan,
    ranges: NDArray[np.int64],
) -> int:
    """Write the candidates of a shard by range of words; count its sentences."""
    shard, file = item
    table = shard.read()
    pairs = find_candidates(
        table["text"].combine_chunks(),
        table["key"].to_numpy(),
        shard.first,
        load_finder(finder_files),
        plan,
    )
    write_parts(file, pa.table(pairs._asdict()), np.searchsorted(pairs.word, ranges))
    return len(table)


def merge_candidates(
    files: Sequence[Path], folder: Path, n_ranges: int, max_candidates: int, engine: Engine
) -> list[Path]:
    """Merge the summaries of all shards, a range of words at a time.

    Args:
        files: Of `write_candidates`.
        folder: Where the merged ones go; those that are there are kept.
        n_ranges: How many ranges there are.
        max_candidates: Size of a word's sample.
        engine: What runs the parts.

    Returns:
        A file for each range, the most frequent words first: see `read_range`.
    """
    names = [f"candidates-of-range-{number:05d}.arrow" for number in range(n_ranges)]
    items = [(number, folder / name) for number, name in enumerate(names)]
    merge = functools.partial(_merge_range, files=files, max_candidates=max_candidates)
    write_missing(merge, items, engine, "merged candidates")
    return [file for _, file in items]


def _merge_range(item: tuple[int, Path], files: Sequence[Path], max_candidates: int) -> None:
    number, file = item
    table = pa.concat_tables(read_parts(files, number))
    pairs = order_candidates(Pairs(*(c.to_numpy() for c in table.columns)), max_candidates)
    # How many there were is one of the stage's figures.
    found = {_FOUND: str(len(table))}
    write_table(file, pa.table(pairs._asdict()).replace_schema_metadata(found))


def read_range(file: Path) -> tuple[Pairs, int]:
    """Map the candidates of a range of words into memory, as `order_candidates` leaves them.

    Returns:
        The candidates, and how many there were before those with the smallest keys were taken.
    """
    table = read_table(file)
    found = int(table.schema.metadata[_FOUND])
    return Pairs(*(c.to_numpy() for c in table.columns)), found


def order_candidates(pairs: Pairs, max_candidates: int) -> Pairs:
    """Each word's candidates with the smallest keys, sorted by word, then length, then key.

    Args:
        pairs: Candidates, in any order.
        max_candidates: How many a word has at most.
    """
    pairs = pairs.take(np.argsort(pairs.word, kind="stable"))
    order = [np.empty(0, np.int64)]
    for start, stop in pairs.runs():
        kept = np.arange(start, stop)
        # The threshold let in a few more; those with the smallest keys are again a fair sample.
        if len(kept) > max_candidates:
            kept = start + np.argpartition(pairs.key[start:stop], max_candidates)[:max_candidates]
        # Equals by key, which no two sentences share, so that the order of the corpus does not
        # decide.
        order.append(kept[np.lexsort((pairs.key[kept], pairs.length[kept]))])
    return pairs.take(np.concatenate(order))
