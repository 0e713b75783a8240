"""What words and candidates of a corpus cost by unit: seconds and bytes, for plans of large builds.

    python benchmarks/corpus_costs.py WORK_DIR
    python benchmarks/corpus_costs.py --pairs 100

The first takes a work directory with complete stages `sentences` and `vocabulary`, and does again
in this process alone, in a temporary folder, what workers do: it prints for each step the seconds
per megabyte of sentences (their files, as Arrow) or per million rows that it reads, and what it
writes. The second chooses among so many millions of synthetic pairs of words and sentences, 2,000
for each word, of which each takes 100: what no worker shares.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from st_static.arguments import require
from st_static.distill.config import VocabularyConfig
from st_static.distill.corpus.candidates import (
    CandidatePlan,
    Pairs,
    held_out,
    key_thresholds,
    merge_candidates,
    order_candidates,
    word_ranges,
    write_candidates,
)
from st_static.distill.corpus.config import SelectionConfig
from st_static.distill.corpus.finders import FinderFiles, load_finder
from st_static.distill.corpus.selection import select
from st_static.distill.corpus.shards import Shards
from st_static.distill.corpus.vocabulary import see_words
from st_static.distill.corpus.word_counts import counted_words
from st_static.distill.work_directory import TEACHER_TOKENIZER_FILE, TOKENIZER_FILE, WORDS_FILE
from st_static.files import read_table
from st_static.tokens.tokenizer import Normalization

SAMPLE, N = 2000, 100
HELD_OUT = 4096
WORDS_AT_A_TIME = 1000


class Timed:
    """An engine of this process alone that adds up the seconds of each function."""

    n_workers = 1

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Apply a function to items, one after the other."""
        name = getattr(function, "func", function).__name__
        for item in items:
            start = time.perf_counter()
            result = function(item)
            self.seconds[name] = self.seconds.get(name, 0) + time.perf_counter() - start
            yield result


def n_rows(files: Iterable[Path]) -> int:
    return sum(read_table(file).num_rows for file in files)


def n_megabytes(files: Iterable[Path]) -> float:
    return sum(file.stat().st_size for file in files) / 1e6


def measure(work: Path) -> None:
    """Print what each step costs."""
    files = sorted(work.glob("sentences-*/sentences-*.arrow"))
    vocabulary = next(work.glob("vocabulary-*"), None)
    require(bool(files and vocabulary), f"Expected the stages of a build in {work}.")
    size = n_megabytes(files)
    print(f"{len(files)} shards, {size:.0f} MB, {n_rows(files):,} sentences")
    with tempfile.TemporaryDirectory(dir=work) as folder:
        measure_counts(files, vocabulary, Path(folder), size)
        measure_candidates(files, vocabulary, Path(folder), size)


def measure_counts(files: list[Path], vocabulary: Path, folder: Path, size: float) -> None:
    engine = Timed()
    student = Tokenizer.from_file(str(vocabulary / TOKENIZER_FILE))
    config = VocabularyConfig(size=read_table(vocabulary / WORDS_FILE).num_rows)
    with counted_words(files, engine, folder, Normalization.of(student)) as counts:
        see_words(counts, config, engine)
        chunks, words = (list(folder.glob(name)) for name in ("chunks-*", "words-*"))
        steps = [
            ("chunks of shards", "_write_chunks", size, "MB", chunks),
            ("words of ranges", "_split_chunks", n_rows(chunks) / 1e6, "M rows", words),
            ("merged words", "_merge_words", n_rows(words) / 1e6, "M rows", counts),
            ("their summaries", "_see_file", n_rows(counts) / 1e6, "M rows", []),
        ]
        for label, function, amount, unit, written in steps:
            tell(label, engine.seconds[function], amount, unit, written, size)


def measure_candidates(files: list[Path], vocabulary: Path, folder: Path, size: float) -> None:
    engine = Timed()
    shards, counts = Shards(files, engine), read_table(vocabulary / WORDS_FILE)["count"].to_numpy()
    finder_files = FinderFiles(
        vocabulary / WORDS_FILE, vocabulary / TOKENIZER_FILE, vocabulary / TEACHER_TOKENIZER_FILE
    )
    load_finder(finder_files)
    held_out_from, _ = held_out(shards, min(HELD_OUT, shards.n_sentences // 2))
    plan = CandidatePlan(key_thresholds(counts, SAMPLE), held_out_from, SelectionConfig().min_words)
    ranges = word_ranges(counts, SAMPLE)
    found = write_candidates(shards, folder, finder_files, plan, ranges)
    merged = merge_candidates(found, folder, len(ranges) - 1, SAMPLE, engine)
    tell("keys", engine.seconds["_find_smallest"], size, "MB", [], size)
    tell("candidates of shards", engine.seconds["_write_candidates"], size, "MB", found, size)
    pairs = n_rows(found) / 1e6
    tell("merged candidates", engine.seconds["_merge_range"], pairs, "M pairs", merged, size)


def tell(
    label: str, seconds: float, amount: float, unit: str, written: list[Path], size: float
) -> None:
    megabytes = n_megabytes(written)
    print(
        f"{label:21}{seconds / amount:9.5f} s per {unit:8}{amount:9.2f} {unit:8}"
        f"{megabytes:8.1f} MB written, {megabytes / size:.3f} per MB of sentences"
    )


def synthetic(n_words: int, n_sentences: int) -> Iterator[Pairs]:
    """Candidates of random sentences of 4 to 43 tokens, the rarest words first."""
    rng = np.random.default_rng(0)
    for stop in range(n_words, 0, -WORDS_AT_A_TIME):
        words = np.arange(max(0, stop - WORDS_AT_A_TIME), stop, dtype=np.int32)
        sentences = rng.integers(0, n_sentences, len(words) * SAMPLE)
        # As in a corpus thirty times as large, of which the others are candidates of no word.
        numbers = sentences * 30
        keys = sentences.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        lengths = (4 + (keys >> np.uint64(40)) % np.uint64(40)).astype(np.int32)
        yield order_candidates(Pairs(words.repeat(SAMPLE), numbers, lengths, keys), SAMPLE)


def measure_select(millions: float) -> None:
    """Print what choosing costs without what makes the candidates."""
    n_words = round(millions * 1e6 / SAMPLE)
    waited = [0.0]

    def ranges() -> Iterator[Pairs]:
        start = time.perf_counter()
        for part in synthetic(n_words, round(millions * 1e6 / 1.5)):
            waited[0] += time.perf_counter() - start
            yield part
            start = time.perf_counter()

    start = time.perf_counter()
    pairs = select(ranges(), SelectionConfig(sentences_per_word=N, max_candidates=SAMPLE))
    seconds = time.perf_counter() - start - waited[0]
    print(
        f"{millions:g} M pairs, {n_words:,} words: {seconds:.1f} s, "
        f"{1e6 * seconds / n_words:.0f} us per word; {len(pairs.word):,} pairs of "
        f"{len(np.unique(pairs.sentence)):,} sentences"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description="What counting words and choosing sentences costs by unit."
    )
    parser.add_argument("work_dir", type=Path, nargs="?", help="work directory of a build")
    parser.add_argument("--pairs", type=float, help="millions of synthetic pairs to choose among")
    options = parser.parse_args()
    if not (options.work_dir or options.pairs):
        parser.error("name a work directory, or give --pairs")
    if options.work_dir:
        measure(options.work_dir)
    if options.pairs:
        measure_select(options.pairs)


if __name__ == "__main__":
    main()
