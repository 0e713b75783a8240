"""Sentences to counts of their words.

Each shard's counts are a partial summary, and merging them is associative and commutative. They
are merged by ranges of a hash, so that no process holds the words of the whole corpus.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numpy.typing import NDArray

from st_static.distill.corpus.ranges import read_parts, write_missing, write_parts
from st_static.distill.engines import Engine
from st_static.distill.stages import require_disk
from st_static.files import read_table, write_table
from st_static.model.tokenizer import ENGLISH, Normalization, build_tokenizer, split_words
from st_static.texts import arrow
from st_static.tokens.ragged import offsets_of

COUNTS_SCHEMA = pa.schema([("text", pa.string()), ("count", pa.int64())])
CHUNKS_AT_A_TIME = 100_000
# Of sentence shards, for each range: what is merged at a time is about a gigabyte. Of a small
# corpus ranges are smaller, up to a number that gives some processors work.
_BYTES_PER_RANGE, _BYTES_PER_SMALL_RANGE, _SMALL_RANGES = 1_000_000_000, 64_000_000, 8
# What is written meanwhile, as a share of the sentences; most of it are the shards' chunks.
_SHARE_OF_SENTENCES = 0.5


def count_words(
    texts: Sequence[str] | pa.Array, normalization: Normalization = ENGLISH
) -> pa.Table:
    """Count the words of texts, by the student tokenizer's normaliser and pre-tokenizer.

    Args:
        texts: The texts.
        normalization: What becomes of them before they are split.

    Returns:
        Columns `text` (the word) and `count`, one row per word, in the order of first occurrence.

    Example:
        >>> count_words(["To be or not to be"]).to_pydict()
        {'text': ['to', 'be', 'or', 'not'], 'count': [2, 2, 1, 1]}
    """
    return words_of_chunks(count_chunks(texts), normalization)


def count_chunks(texts: Sequence[str] | pa.Array, pattern: str | None = None) -> pa.Table:
    """Count the chunks between spaces; each distinct one is then split into words only once.

    Args:
        texts: The texts.
        pattern: A regular expression that chunks are to match somewhere; by default all count.

    Returns:
        Columns `text` (the chunk) and `count`, one row per chunk.
    """
    array = texts.cast(pa.large_string()) if isinstance(texts, pa.Array) else arrow.strings(texts)
    end, space = arrow.strings(["", " "])
    _, data = arrow.bytes_of_strings(pc.binary_join_element_wise(array, end, space))
    # The chunks as they stand in the texts, with the spaces at their ends: nothing is copied.
    bounds = np.append(0, np.flatnonzero(data == ord(" ")) + 1)
    distinct, counts = arrow.strings_of_bytes(bounds, data).value_counts().flatten()
    chunks = pc.ascii_rtrim(distinct, " ").cast(pa.string())
    table = pa.table([chunks, counts], schema=COUNTS_SCHEMA)
    return table.filter(pc.match_substring_regex(table["text"], pattern)) if pattern else table


def words_of_chunks(chunks: pa.Table, normalization: Normalization) -> pa.Table:
    """Turn counts of chunks into counts of words."""
    words = split_all_words(chunks["text"].combine_chunks(), normalization)
    counts = chunks["count"].to_numpy()[pc.list_parent_indices(words).to_numpy()]
    return merge_counts([pa.table([words.flatten(), counts], schema=COUNTS_SCHEMA)])


def merge_counts(partials: Iterable[pa.Table]) -> pa.Table:
    """Add up partial counts."""
    table = pa.concat_tables([COUNTS_SCHEMA.empty_table(), *partials])
    merged = table.group_by("text", use_threads=False).aggregate([("count", "sum")])
    return pa.table([merged["text"], merged["count_sum"]], schema=COUNTS_SCHEMA)


def _merge_stream(partials: Iterable[pa.Table]) -> pa.Table:
    merged = COUNTS_SCHEMA.empty_table()
    waiting: list[pa.Table] = []
    for partial in partials:
        waiting.append(partial)
        # Merging when as much waits as is merged keeps the work linear.
        if sum(map(len, waiting)) > max(len(merged), CHUNKS_AT_A_TIME):
            merged, waiting = merge_counts([merged, *waiting]), []
    return merge_counts([merged, *waiting])


def n_ranges_of(shards: Iterable[Path]) -> int:
    """How many ranges the words of a corpus are merged in: it depends on the corpus alone."""
    size = sum(shard.stat().st_size for shard in shards)
    small = min(_SMALL_RANGES, math.ceil(size / _BYTES_PER_SMALL_RANGE))
    return max(1, small, math.ceil(size / _BYTES_PER_RANGE))


@contextmanager
def counted_words(
    shards: Sequence[Path],
    engine: Engine,
    folder: Path,
    normalization: Normalization,
    pattern: str | None = None,
) -> Iterator[list[Path]]:
    """Count the words of all sentence shards, for as long as the block takes.

    Args:
        shards: The sentence shards.
        engine: What runs the parts.
        folder: Where the counts go; those that an interrupted run left are kept, and all are
            removed when the block ends without an error.
        normalization: What becomes of a text before it is split.
        pattern: A regular expression; chunks between spaces that do not match it are left out.

    Yields:
        Files with columns `text` (the word) and `count`; each word is in one file, in one row.

    Raises:
        ValueError: The disk is too small.
    """
    needed = _SHARE_OF_SENTENCES * sum(shard.stat().st_size for shard in shards)
    require_disk(folder, int(needed), "Counting words")
    n_ranges = n_ranges_of(shards)
    chunks = [folder / f"chunks-of-shard-{number:05d}.arrow" for number in range(len(shards))]
    words = [folder / f"words-of-range-{number:05d}.arrow" for number in range(n_ranges)]
    counts = [folder / f"counts-of-range-{number:05d}.arrow" for number in range(n_ranges)]
    if not all(file.exists() for file in counts):  # else a kill came while they were removed
        write = functools.partial(_write_chunks, pattern=pattern, n_ranges=n_ranges)
        write_missing(write, list(zip(shards, chunks, strict=True)), engine, "word counts", int)
        split = functools.partial(
            _split_chunks, files=chunks, normalization=normalization, n_ranges=n_ranges
        )
        write_missing(split, list(enumerate(words)), engine, "words")
        merge = functools.partial(_merge_words, files=words)
        write_missing(merge, list(enumerate(counts)), engine, "merged words")
    yield counts
    for file in [*chunks, *words, *counts]:
        file.unlink(missing_ok=True)


def _write_chunks(item: tuple[Path, Path], pattern: str | None, n_ranges: int) -> int:
    """Write the chunks of a shard by range; count its sentences."""
    shard, file = item
    texts = read_table(shard)["text"].combine_chunks()
    _write_ranges(file, count_chunks(texts, pattern), n_ranges)
    return len(texts)


def _split_chunks(
    item: tuple[int, Path], files: Sequence[Path], normalization: Normalization, n_ranges: int
) -> None:
    """Merge the chunks of a range, and write their words by the words' own ranges."""
    number, file = item
    chunks = _merge_stream(read_parts(files, number)).combine_chunks()
    starts = range(0, len(chunks), CHUNKS_AT_A_TIME)
    parts = (chunks.slice(start, CHUNKS_AT_A_TIME) for start in starts)
    words = _merge_stream(words_of_chunks(part, normalization) for part in parts)
    _write_ranges(file, words, n_ranges)


def _merge_words(item: tuple[int, Path], files: Sequence[Path]) -> None:
    number, file = item
    write_table(file, _merge_stream(read_parts(files, number)).combine_chunks())


def _write_ranges(file: Path, counts: pa.Table, n_ranges: int) -> None:
    """Write counts by the range of their texts' hashes."""
    if n_ranges == 1:  # nothing to tell apart
        write_parts(file, counts, np.array([0, len(counts)]))
        return
    ranges = _hashes(counts["text"]) % np.uint64(n_ranges)
    bounds = offsets_of(np.bincount(ranges.astype(np.int64), minlength=n_ranges))
    write_parts(file, counts.take(np.argsort(ranges, kind="stable")), bounds)


def _hashes(texts: pa.ChunkedArray) -> NDArray[np.uint64]:
    encoded = texts.cast(pa.binary()).to_pylist()
    return np.fromiter(map(xxhash.xxh3_64_intdigest, encoded), np.uint64, len(encoded))


def split_all_words(texts: pa.Array, normalization: Normalization = ENGLISH) -> pa.ListArray:
    """`split_words` for many texts [B]: Arrow splits those of printable ASCII, most of English.

    Args:
        texts: The texts.
        normalization: That of the tokenizer.

    Example:
        >>> split_all_words(pa.array(["Don't!", "Café"])).to_pylist()
        [['don', "'", 't', '!'], ['cafe']]
    """
    plain = pc.match_substring_regex(texts, "^ *[!-~][ -~]*$").to_numpy(zero_copy_only=False)
    plain_texts = texts.filter(pa.array(plain))
    if normalization.dotless_i and normalization.lowercase:
        plain_texts = pc.replace_substring(plain_texts, "I", "ı")
    split = split_plain_words(plain_texts, normalization.lowercase)
    tokenizer = build_tokenizer([], normalization=normalization)
    others = [split_words(tokenizer, text) for text in texts.filter(pa.array(~plain)).to_pylist()]
    lists = pa.concat_arrays([split, pa.array(others, pa.list_(pa.string()))])
    places = np.concatenate([np.flatnonzero(plain), np.flatnonzero(~plain)])
    return lists.take(pa.array(np.argsort(places)))


def split_plain_words(texts: pa.Array, lowercase: bool = True) -> pa.ListArray:
    """BERT's normaliser and pre-tokenizer for texts [B] of printable ASCII and spaces.

    Args:
        texts: Texts with at least one character that is no space.
        lowercase: Whether the normaliser lower-cases.
    """
    texts = pc.ascii_lower(texts) if lowercase else texts
    isolated = pc.replace_substring_regex(texts, r"([!-/:-@\[-`{-~])", r" \1 ")
    return pc.ascii_split_whitespace(pc.ascii_trim_whitespace(isolated))
