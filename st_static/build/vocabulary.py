"""Sentences to a vocabulary: word counts, the V most frequent words, and the student's tokenizer.

Counts are partial summaries: each is made from one shard alone, and merging them is associative
and commutative.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer

from st_static.build.config import VocabularyConfig
from st_static.build.workers import map_shards
from st_static.model.chunks import split_chunks
from st_static.model.files import read_table
from st_static.model.tokenizer import CONTINUATION, build_tokenizer, is_punctuation, split_words

logger = logging.getLogger(__name__)

COUNTS_SCHEMA = pa.schema([("word", pa.string()), ("count", pa.int64())])


@functools.lru_cache(maxsize=1)
def _word_splitter() -> Tokenizer:
    return build_tokenizer([])


@functools.lru_cache(maxsize=500_000)
def _words_of_chunk(chunk: str) -> tuple[str, ...]:
    return tuple(split_words(_word_splitter(), chunk))


def count_words(texts: Sequence[str] | pa.Array) -> pa.Table:
    """Count the words of texts, by the student tokenizer's normaliser and pre-tokenizer.

    Returns:
        Columns `word` and `count`, one row a word, in the order of first occurrence.

    Example:
        >>> count_words(["To be or not to be"]).to_pydict()
        {'word': ['to', 'be', 'or', 'not'], 'count': [2, 2, 1, 1]}
    """
    chunks = split_chunks(texts)
    counts = np.bincount(chunks.codes, minlength=len(chunks.distinct))
    words = [_words_of_chunk(chunk) for chunk in chunks.distinct]
    repeats = np.fromiter(map(len, words), np.int64, len(words))
    flat = pa.array([word for row in words for word in row], pa.string())
    return merge_counts([pa.table([flat, np.repeat(counts, repeats)], schema=COUNTS_SCHEMA)])


def merge_counts(partials: Iterable[pa.Table]) -> pa.Table:
    """Add up partial word counts."""
    table = pa.concat_tables([COUNTS_SCHEMA.empty_table(), *partials])
    merged = table.group_by("word", use_threads=False).aggregate([("count", "sum")])
    return pa.table([merged["word"], merged["count_sum"]], schema=COUNTS_SCHEMA)


def _count_shard(path: Path) -> pa.Table:
    return count_words(read_table(path)["text"].combine_chunks())


def count_shards(shards: Sequence[Path], workers: int) -> pa.Table:
    """Count the words of all sentence shards.

    Returns:
        Columns `word` and `count`; the most frequent word first, equals in alphabetical order.
    """
    merged = COUNTS_SCHEMA.empty_table()
    waiting: list[pa.Table] = []
    for partial in map_shards(_count_shard, shards, workers, "word counts", len(shards)):
        waiting.append(partial)
        # Merging when as much waits as is merged keeps the work linear.
        if sum(map(len, waiting)) > len(merged):
            merged, waiting = merge_counts([merged, *waiting]), []
    merged = merge_counts([merged, *waiting])
    return merged.sort_by([("count", "descending"), ("word", "ascending")])


def choose_words(counts: pa.Table, config: VocabularyConfig) -> pa.Table:
    """Keep the V most frequent words with at least `min_count` occurrences.

    Words of punctuation only are left out: their rows are zero.

    Args:
        counts: Columns `word` and `count`, sorted by `count_shards`.
        config: Size and least count.

    Raises:
        ValueError: No word is frequent enough.
    """
    frequent = counts.filter(counts["count"].to_numpy() >= config.min_count)
    spoken = [not is_punctuation(word) for word in frequent["word"].to_pylist()]
    words = frequent.filter(pa.array(spoken, pa.bool_()))[: config.size]
    if not len(words):
        raise ValueError(
            f"No word of the corpus occurs at least {config.min_count} times "
            f"(vocabulary.min_count), of {len(counts)} distinct words. Give more text, or lower "
            "vocabulary.min_count."
        )
    if len(words) < config.size:
        logger.warning(
            "The corpus offers %d words with at least %d occurrences, fewer than "
            "vocabulary.size = %d: the vocabulary is that much smaller.",
            len(words),
            config.min_count,
            config.size,
        )
    return words


def single_characters(words: Iterable[str]) -> list[str]:
    """Every character seen, as the beginning of a word (`c`) or inside it (`##c`), sorted.

    A character that is missing from the tokenizer would send its whole word to [UNK].
    """
    first: set[str] = set()
    inner: set[str] = set()
    for word in words:
        first.add(word[0])
        inner.update(word[1:])
    beginnings = {c for c in first | inner if not is_punctuation(c)}
    return sorted(beginnings) + sorted(CONTINUATION + c for c in inner & beginnings)
