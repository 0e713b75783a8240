"""Each word's candidates: a fair sample of the sentences that it stands in.

A sentence is a candidate of a word if its key, a hash, lies under the word's threshold. So each
shard is summarised alone, summaries are merged by concatenation, and the result does not depend on
how the corpus was cut or ordered.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from tokenizers import Tokenizer

from st_static.distill.engines import Engine, map_shards
from st_static.files import read_table, write_table
from st_static.tokens.chunk_tokenizer import ChunkTokenizer
from st_static.tokens.chunks import split_chunks
from st_static.tokens.ragged import Ragged, offsets_of
from st_static.tokens.tokenizer import (
    ENGLISH,
    SPECIAL_TOKENS,
    Normalization,
    has_pieces,
    split_all_words,
)

# Chunks that a worker remembers: about 60 MB. joblib replaces workers that grow by 300 MB.
_MEMO_CHUNKS = 400_000


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

    @staticmethod
    def concatenate(parts: Iterable[Pairs]) -> Pairs:
        """All pairs of the parts."""
        return Pairs(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


class Found(NamedTuple):
    """What a finder tells of sentences [B].

    Attributes:
        words: The ids of each sentence's vocabulary words, repetitions included, [B rows].
        teacher_tokens: Each sentence's teacher tokens, [B].
        n_words: Its words: those between spaces, or its pieces, [B].
    """

    words: Ragged
    teacher_tokens: NDArray[np.int64]
    n_words: NDArray[np.int64]


class FinderFiles(NamedTuple):
    """What a finder is loaded from.

    Attributes:
        words: The vocabulary.
        student: The student's tokenizer.
        teacher: The teacher's tokenizer.
    """

    words: Path
    student: Path
    teacher: Path


@functools.lru_cache(maxsize=1)
def load_finder(files: FinderFiles) -> WordFinder | PieceFinder:
    """Load a finder, once in a process, so that its memo outlives a shard."""
    student, teacher = (Tokenizer.from_file(str(file)) for file in files[1:])
    if has_pieces(student):
        return PieceFinder(student, teacher)
    words = read_table(files.words)["text"].combine_chunks()
    return WordFinder(words, teacher, Normalization.of(student))


class PieceFinder:
    """Finds a student's pieces in sentences, and counts the teacher's tokens.

    Args:
        student: The student's tokenizer.
        teacher_tokenizer: The teacher's, without truncation and padding.
    """

    def __init__(self, student: Tokenizer, teacher_tokenizer: Tokenizer) -> None:
        self._student = ChunkTokenizer(student, max_chunks=_MEMO_CHUNKS)
        self._teacher = ChunkTokenizer(teacher_tokenizer, max_chunks=_MEMO_CHUNKS)

    def __call__(self, texts: pa.Array) -> Found:
        """Look at sentences [B]."""
        ids = self._student(texts)
        pieces = ids.filter(ids.values >= len(SPECIAL_TOKENS))
        return Found(pieces, self._teacher(texts).lengths, pieces.lengths)


class WordFinder:
    """Finds vocabulary words in sentences, and counts the teacher's tokens.

    Args:
        words: The vocabulary; its words follow the special tokens, [V].
        teacher_tokenizer: The teacher's, without truncation and padding.
        normalization: What becomes of a text before it is split into words.
    """

    def __init__(
        self, words: pa.Array, teacher_tokenizer: Tokenizer, normalization: Normalization = ENGLISH
    ) -> None:
        self.words = words
        self.normalization = normalization
        self._teacher = ChunkTokenizer(teacher_tokenizer, max_chunks=_MEMO_CHUNKS)

    def __call__(self, texts: pa.Array) -> Found:
        """Look at sentences [B]."""
        chunks = split_chunks(texts)
        words = self._ids_of(chunks.distinct).take(chunks.codes)
        return Found(
            Ragged(words.values, words.offsets[chunks.offsets]),
            self._teacher(texts).lengths,
            np.diff(chunks.offsets),
        )

    def _ids_of(self, chunks: pa.Array) -> Ragged:
        """The ids of each chunk's vocabulary words."""
        lists = split_all_words(chunks.cast(pa.string()), self.normalization)
        places = pc.index_in(lists.flatten(), value_set=self.words)
        known = places.is_valid().to_numpy(zero_copy_only=False)
        ids = places.fill_null(0).to_numpy() + np.int32(len(SPECIAL_TOKENS))
        lengths = pc.list_value_length(lists).to_numpy()
        return Ragged(ids, offsets_of(lengths)).filter(known)


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
    more lie under its threshold: `select` takes the `max_candidates` with the smallest keys. Words
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
    pairs = np.minimum(counts, max_candidates + 10 * np.sqrt(max_candidates)).sum()
    return int(pairs) * sum(np.dtype(t).itemsize for t in (np.int32, np.int64, np.int32, np.uint64))


def held_out_threshold(keys: NDArray[np.uint64], n_held_out: int) -> np.uint64:
    """The key from which on sentences are held out: the `n_held_out` largest of all [S].

    Raises:
        ValueError: That would leave less than half of the sentences.
    """
    if 2 * n_held_out > len(keys):
        raise ValueError(
            f"selection.held_out = {n_held_out} needs a corpus of at least {2 * n_held_out} "
            f"sentences, but it has {len(keys)}. Give more text, or hold out fewer."
        )
    # Keys are hashes: the largest are a random sample, the same in whatever order the text comes.
    return np.uint64(np.partition(keys, len(keys) - n_held_out)[len(keys) - n_held_out])


def find_candidates(
    texts: pa.Array,
    keys: NDArray[np.uint64],
    first_sentence: int,
    finder: WordFinder | PieceFinder,
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
    shards: Sequence[Path],
    folder: Path,
    finder_files: FinderFiles,
    plan: CandidatePlan,
    engine: Engine,
) -> list[Pairs]:
    """Summarise every sentence shard, in processes, and map the summaries into memory.

    Args:
        shards: The sentence shards.
        folder: Where `candidates-00000.arrow`, … go; those that are there are kept.
        finder_files: What finds words.
        plan: Which sentences are candidates.
        engine: What runs the parts.
    """
    first = offsets_of(np.array([read_table(path).num_rows for path in shards])).tolist()
    files = [folder / f"candidates-{number:05d}.arrow" for number in range(len(shards))]
    items = [item for item in zip(shards, first, files, strict=False) if not item[2].exists()]
    summarise = functools.partial(_write_candidates, finder_files=finder_files, plan=plan)
    for _ in map_shards(summarise, items, engine, "candidates", len(items)):
        pass
    return [Pairs(*(c.to_numpy() for c in read_table(file).columns)) for file in files]


def _write_candidates(
    item: tuple[Path, int, Path], finder_files: FinderFiles, plan: CandidatePlan
) -> None:
    path, first_sentence, file = item
    table = read_table(path)
    pairs = find_candidates(
        table["text"].combine_chunks(),
        table["key"].to_numpy(),
        first_sentence,
        load_finder(finder_files),
        plan,
    )
    write_table(file, pa.table(pairs._asdict()))
