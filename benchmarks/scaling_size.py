"""What a build of 1 TB of text has, moves and holds: arithmetic for cluster_scaling.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from st_static.distill.corpus.selection import PAIRS_PER_RANGE
from st_static.distill.corpus.sentences import KEYS_PER_RANGE

TEXT, WORDS, PER_WORD, CANDIDATES = 1e12, 150_000, 100, 2_000
PIECES = 30_000  # of the teacher, which the student has, too
SENTENCES_PER_PAIR, TOKENS_PER_SENTENCE = 0.55, 16
DIMENSION, STUDENT_DIMENSION = 768, 256
PCA_SENTENCES, STEPS, CHECKPOINTS, BATCH = 100_000, 10_000, 10, 256
SHARDS, TEACHER_SHARDS = 8_192, 1_024  # as large corpora and large builds are cut
BYTES_PER_WORD_RANGE, BYTES_PER_SUM_RANGE = 1e9, 32e6
CANDIDATE, PAGE, PART_OF_FOOTER = 24, 4096, 24  # bytes


class Size(NamedTuple):
    """What a corpus and a build over it have: the sample's, and the whole one's."""

    text: float  # bytes
    kept: float  # distinct sentences
    kept_bytes: float  # their shards, as Arrow
    word_rows: float  # distinct words of each shard, added up
    distinct_words: float  # of all shards
    candidates: float  # pairs of words and sentences to choose among
    selected: float  # sentences that the teacher reads
    selected_bytes: float  # of their table
    tokens: float  # that the teacher reads
    pairs: float  # selected; of partial sums there are at most as many rows
    words: float  # of the vocabulary


class Kind(NamedTuple):
    """How a phase grows: its parts' seconds together, with what of `Size`; and into how many."""

    quantity: str
    n_parts: Callable[[Size], float]


def key_ranges(size: Size) -> int:
    """Ranges by which equal sentences are found."""
    return math.ceil(size.kept / KEYS_PER_RANGE)


def word_ranges(size: Size) -> int:
    """Ranges by which words are counted."""
    return math.ceil(size.kept_bytes / BYTES_PER_WORD_RANGE)


def candidate_ranges(size: Size) -> int:
    """Ranges by which candidates are merged."""
    return math.ceil(size.candidates / PAIRS_PER_RANGE)


def sum_ranges(size: Size) -> int:
    """Ranges by which the sums of word vectors are merged."""
    return math.ceil((size.words + PIECES) * 4 * DIMENSION / BYTES_PER_SUM_RANGE)


def in_shards(size: Size) -> float:
    """Shards of the corpus."""
    return SHARDS


# By stage, and the function that its engine is given.
PHASES = {
    ("sentences", "content_hash"): Kind("text", in_shards),
    ("sentences", "_split_part"): Kind("text", in_shards),
    ("sentences", "_write_repeated"): Kind("kept", key_ranges),
    ("sentences", "_write_shard"): Kind("kept", in_shards),
    ("vocabulary", "_count_shard"): Kind("kept", in_shards),
    ("vocabulary", "_merge_range"): Kind("word_rows", word_ranges),
    ("vocabulary", "_summarise"): Kind("distinct_words", word_ranges),
    ("selection", "_find_smaller"): Kind("kept", in_shards),
    ("selection", "_find_in_shard"): Kind("kept", in_shards),
    ("selection", "_merge_range"): Kind("candidates", candidate_ranges),
    ("selection", "_take_rows"): Kind("selected", in_shards),
    ("extraction", "_Writer"): Kind("tokens", lambda size: TEACHER_SHARDS),
    ("extraction", "_merge_range"): Kind("pairs", sum_ranges),
}


def at_full_size(sample: Size, exponent: float) -> Size:
    """The same of 1 TB of text and the paper's vocabulary; `exponent` as `Sample.size` gives it."""
    growth, pairs = TEXT / sample.text, WORDS * PER_WORD
    selected = pairs * SENTENCES_PER_PAIR
    # c n^exponent distinct words are in n bytes: of a shard, and of all.
    words = sample.distinct_words * growth**exponent
    # What the threshold lets through, five standard deviations more than are wanted.
    found = CANDIDATES + 5 * math.sqrt(CANDIDATES)
    return Size(
        text=TEXT,
        kept=growth * sample.kept,
        kept_bytes=growth * sample.kept_bytes,
        word_rows=SHARDS * words / SHARDS**exponent,
        distinct_words=words,
        candidates=WORDS * found,
        selected=selected,
        selected_bytes=selected * sample.selected_bytes / sample.selected,
        tokens=selected * TOKENS_PER_SENTENCE,
        pairs=pairs,
        words=WORDS,
    )


def traffic(size: Size, workers: int) -> dict[str, float]:
    """Bytes that each stage reads and writes at the whole size."""
    keys = 12 * size.kept  # in blocks: 8 of a key, 4 of its row
    blocks = size.kept_bytes + 4 * size.kept
    # A word has about 10 letters, 4 bytes of their end, and a count.
    word_rows, words = 22 * size.word_rows, 22 * size.distinct_words
    candidates = CANDIDATE * size.candidates
    # Who reads a part of a file reads its list of parts.
    footers = {
        n: SHARDS * PART_OF_FOOTER * n**2 for n in (word_ranges(size), candidate_ranges(size))
    }
    table = 4 * (size.words + PIECES) * STUDENT_DIMENSION
    word_sums = 4 * (size.words + PIECES) * DIMENSION
    vectors = 2 * size.selected * DIMENSION
    sums = size.pairs * (4 * DIMENSION + 16)
    return {
        # The text for its hash, and to split it; blocks written, their keys and all of them read,
        # shards written.
        "sentences": 2 * size.text + 2 * blocks + keys + size.kept_bytes,
        # Shards read; words by shard and by range written and read.
        "vocabulary": size.kept_bytes + 2 * word_rows + 2 * words + footers[word_ranges(size)],
        # Keys, shards; candidates by shard and by range, written and read; a page for each
        # selected sentence.
        "selection": 8 * size.kept
        + size.kept_bytes
        + 4 * candidates
        + footers[candidate_ranges(size)]
        + size.selected * PAGE
        + size.selected_bytes,
        # Each worker reads the table of selected sentences. Shards written and read, both files
        # written, vectors read for their mean.
        "extraction": workers * size.selected_bytes + 4 * vectors + 2 * sums + 3 * word_sums,
        "pca": vectors + word_sums + table,
        # The mean twice, the clustering, the batches; of a checkpoint the table and two moments.
        "distillation": 3 * vectors + STEPS * BATCH * 2 * DIMENSION + 3 * CHECKPOINTS * table,
        "export": 2 * table,
    }


def openings(size: Size) -> float:
    """How often a file is opened: whoever merges a range opens all files that have a part of it."""
    # Each shard is written by what all ranges of keys say of it.
    return SHARDS * (2 * key_ranges(size) + word_ranges(size) + candidate_ranges(size))


def memory(size: Size, workers: int, base: float) -> dict[str, float]:
    """Bytes of the driver in each stage at the whole size, without mapped files.

    Args:
        size: The whole size.
        workers: How many work.
        base: Bytes of Python, all that is imported, and the teacher.
    """
    of_word = 8 + 4 + 10  # as Arrow
    words = size.words + PIECES
    ids = 4 * size.selected * TOKENS_PER_SENTENCE + 8 * size.selected
    copy = size.selected_bytes  # of the selected sentences, with their words
    # A set's number takes 32 bytes, and 53 of table where that has just grown; a pair is there in
    # parts and put together.
    choosing = size.selected * (32 + 53) + 2 * CANDIDATE * size.pairs
    # Pairs, their order with the keys that are sorted, the sentences unsorted and sorted.
    gathering = (CANDIDATE + 3 * 8) * size.pairs + 2 * copy
    table, sums = 4 * words * STUDENT_DIMENSION, 4 * words * DIMENSION
    held = {
        # A name of each file; an object, of a task that waits.
        "sentences": 200 * SHARDS + 2 * workers * 10_000,
        # The most frequent words kept, waiting and sorted, and the results that wait at each
        # worker; then strings and the two tokenizers.
        "vocabulary": (3 + 2 * workers) * of_word * size.words + 2 * 300 * words,
        "selection": max(choosing, gathering),
        # Sums, saved ones, means, and those in the sentences' space; ids for the table's test.
        "extraction": 4 * sums + copy + ids,
        # A mean of each sentence in float32 and float64, once more centred; the table, reduced.
        "pca": PCA_SENTENCES * DIMENSION * (4 + 8 + 8) + sums + table + copy + ids,
        # Table, two moments and what is written of them; clusters, orders of an epoch.
        "distillation": 6 * table + copy + ids + (4 + 4 * 8) * size.selected,
        "export": 3 * table,
    }
    return {stage: base + n for stage, n in held.items()}
