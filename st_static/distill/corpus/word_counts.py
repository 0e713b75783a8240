"""Count the words of sentences, as the student's tokenizer splits them."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from st_static.distill.corpus.shards import Shards, Task, merged_by_range, read_parts, write_parts
from st_static.distill.stages import require_disk
from st_static.files import read_arrow, write_arrow
from st_static.model.tokenizer import ENGLISH, Normalization, build_tokenizer, split_words
from st_static.texts import arrow
from st_static.tokens.ragged import offsets_of

COUNTS_SCHEMA = pa.schema([("text", pa.string()), ("count", pa.int64())])
ROWS_AT_A_TIME = 100_000
# Bytes of sentence shards for each range, which is merged in about a gigabyte of memory. A small
# corpus has smaller ranges, so that several processors have work.
_BYTES_PER_RANGE, _BYTES_PER_SMALL_RANGE, _SMALL_RANGES = 1_000_000_000, 64_000_000, 8
# Bytes of temporary files, mostly the shards' counts, as a share of the sentences.
_SHARE_OF_SENTENCES = 0.5


def word_frequencies(
    texts: Sequence[str] | pa.Array,
    normalization: Normalization = ENGLISH,
    pattern: str | None = None,
) -> pa.Table:
    """Count words, as the student's tokenizer splits them, in the order of first occurrence;
    with a regular expression `pattern`, only in text between spaces that matches it."""
    array = texts.cast(pa.large_string()) if isinstance(texts, pa.Array) else arrow.strings(texts)
    end, space = arrow.strings(["", " "])
    _, data = arrow.bytes_of_strings(pc.binary_join_element_wise(array, end, space))
    # Chunks end with a space, so that nothing is copied. Each distinct chunk is split only once.
    bounds = np.append(0, np.flatnonzero(data == ord(" ")) + 1)
    distinct, counts = arrow.strings_of_bytes(bounds, data).value_counts().flatten()
    chunks = pc.ascii_rtrim(distinct, " ").cast(pa.string())
    if pattern:
        matching = pc.match_substring_regex(chunks, pattern)
        chunks, counts = chunks.filter(matching), counts.filter(matching)
    words = split_all_words(chunks, normalization)
    counts = counts.take(pc.list_parent_indices(words))
    return merge_counts([pa.table([words.flatten(), counts], schema=COUNTS_SCHEMA)])


def merge_counts(partials: Iterable[pa.Table]) -> pa.Table:
    """Add up partial counts."""
    merged, waiting = COUNTS_SCHEMA.empty_table(), list[pa.Table]()

    def add_up() -> pa.Table:
        table = pa.concat_tables([merged, *waiting]).group_by("text", use_threads=False)
        sums = table.aggregate([("count", "sum")])
        return pa.table([sums["text"], sums["count_sum"]], schema=COUNTS_SCHEMA)

    for partial in partials:
        waiting.append(partial)
        # Merging only once as much is waiting as is merged keeps the work linear.
        if sum(map(len, waiting)) > max(len(merged), ROWS_AT_A_TIME):
            merged, waiting = add_up(), []
    return add_up()


def n_ranges_of(size: int) -> int:
    """Compute the number of ranges that words are merged in, from the bytes of all sentences."""
    small = min(_SMALL_RANGES, math.ceil(size / _BYTES_PER_SMALL_RANGE))
    return max(1, small, math.ceil(size / _BYTES_PER_RANGE))


def counted_words(
    shards: Shards, folder: Path, normalization: Normalization, pattern: str | None = None
) -> AbstractContextManager[list[Path]]:
    """Count the words of all sentence shards; each file has those of a range of hashes."""
    needed = _SHARE_OF_SENTENCES * shards.n_bytes
    require_disk(folder, int(needed), "Counting words")
    n_ranges = n_ranges_of(shards.n_bytes)
    count = functools.partial(
        _count_shard, normalization=normalization, pattern=pattern, n_ranges=n_ranges
    )
    return merged_by_range(
        folder,
        "words",
        shards.files,
        n_ranges=n_ranges,
        split=count,
        merge=_merge_range,
        engine=shards.engine,
    )


def _count_shard(
    task: Task[Path], normalization: Normalization, pattern: str | None, n_ranges: int
) -> int:
    """Write the words of a shard by the range of their hashes; count its sentences."""
    texts = read_arrow(task.source)["text"].combine_chunks()
    counts = word_frequencies(texts, normalization, pattern)
    encoded = counts["text"].cast(pa.binary()).to_pylist()
    hashes = np.fromiter(map(xxhash.xxh3_64_intdigest, encoded), np.uint64, len(encoded))
    ranges = (hashes % np.uint64(n_ranges)).astype(np.int64)
    bounds = offsets_of(np.bincount(ranges, minlength=n_ranges))
    write_parts(task.file, counts.take(np.argsort(ranges, kind="stable")), bounds)
    return len(texts)


def _merge_range(task: Task[int], files: Sequence[Path]) -> None:
    write_arrow(task.file, merge_counts(read_parts(files, task.source)).combine_chunks())


def split_all_words(texts: pa.Array, normalization: Normalization = ENGLISH) -> pa.ListArray:
    """Split many texts [B] as `split_words`; Arrow splits printable ASCII, so most of English."""
    is_plain = pc.match_substring_regex(texts, "^ *[!-~][ -~]*$").to_numpy(zero_copy_only=False)
    plain = texts.filter(pa.array(is_plain))
    if normalization.lowercase:
        if normalization.dotless_i:
            plain = pc.replace_substring(plain, "I", "ı")
        plain = pc.ascii_lower(plain)
    isolated = pc.replace_substring_regex(plain, r"([!-/:-@\[-`{-~])", r" \1 ")
    split = pc.ascii_split_whitespace(pc.ascii_trim_whitespace(isolated))
    tokenizer = build_tokenizer([], normalization=normalization)
    unsplit = texts.filter(pa.array(~is_plain)).to_pylist()
    others = pa.array([split_words(tokenizer, t) for t in unsplit], pa.list_(pa.string()))
    positions = np.concatenate([np.flatnonzero(is_plain), np.flatnonzero(~is_plain)])
    return pa.concat_arrays([split, others]).take(pa.array(np.argsort(positions)))
