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
system delivers and what the driver holds is arithmetic, in `traffic` and `memory`: all of these in
scaling_size.py. scaling_sample.py measures. A sentence that is selected serves 1 / 0.55 words and
has 16 tokens. One worker is one processor here. The rate of --teacher_rate is that of one GPU,
taken as given. Nothing is measured of a network or a file system: both are taken to keep up with
what the table says.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable, Iterator

import numpy as np
import torch
from measuring import parser_of
from numpy.typing import NDArray
from scaling_sample import Measured, Phase, Seconds, Stage, measure
from scaling_size import PHASES, SHARDS, Size, memory, openings, traffic

GB, HOUR = 1e9, 3600


def serial_seconds(measured: Measured) -> Seconds:
    """Seconds of each stage at the whole size in which only the driver works."""
    stages, alone = measured.stages, measured.alone
    beside = {stage.name: max(0.0, stage.serial) for stage in stages}
    more_shards = SHARDS / len(stages[0].phases[-1].parts)
    more_words = measured.full.words / measured.sample.words
    return {
        # Lists of blocks and shards, with the figures of each.
        "sentences": beside["sentences"] * more_shards,
        # Tokenizers, and the most frequent words of each range.
        "vocabulary": beside["vocabulary"] * more_words + alone["most_frequent"],
        # Choosing word by word, then sorting and writing what is chosen.
        "selection": alone["select"] + alone["sort"],
        "extraction": alone["gather"] + alone["ids"] + alone["mean"],
        "pca": alone["pca"] + alone["mean"],
        # The mean for what is learnt, and for the table's test.
        "distillation": alone["clustering"] + alone["steps"] + 2 * alone["mean"],
        "export": alone["export"],
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


class Model:
    """The build at the whole size.

    Args:
        measured: What its parts cost.
    """

    def __init__(self, measured: Measured) -> None:
        self.stages, self.sample, self.full = measured.stages, measured.sample, measured.full
        self.serial = serial_seconds(measured)  # seconds in which only the driver works

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


def table_of(model: Model, base: float, workers: list[int], rate: float | None) -> Iterator[str]:
    """The table's lines; `base` as `memory` takes it, `rate` is a GPU's tokens a second."""
    most = max(workers)
    moved, held = traffic(model.full, most), memory(model.full, most, base)
    times = [model.seconds(n) for n in workers]
    names = " | ".join(f"{n}" for n in workers)
    yield (
        f"| hours, by number of workers | {names} | of which driver only | file system, GB | "
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
    """Cells of a table: hours of these seconds."""
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


def print_costs(model: Model, alone: Seconds) -> None:
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
    print("measured alone:", {name: f"{seconds:.1f} s" for name, seconds in alone.items()})
    for name, n, n_full in zip(Size._fields, model.sample, model.full, strict=True):
        print(f"{name}: {n:,.0f} in the sample, {n_full:,.0f}")
    print(f"teacher: {model.teacher_rate():,.0f} tokens/s\n")


def main() -> None:
    """Measure, simulate and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--every", type=int, default=8)
    parser.add_argument("--teacher_rate", type=float, help="tokens a second on one GPU")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 8, 64])
    arguments = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))
    measured = measure(arguments.corpus, arguments.every)
    model = Model(measured)
    print_costs(model, measured.alone)
    print(*table_of(model, measured.base, arguments.workers, arguments.teacher_rate), sep="\n")
    print("", limits_of(model, 1.0, "processors"), sep="\n")
    if arguments.teacher_rate:
        print(limits_of(model, arguments.teacher_rate / model.teacher_rate(), "GPUs"))
    print(f"What only the driver does: {longest_serial(model)}.")
    print(f"Files are opened {openings(model.full) / 1e6:.0f} million times.")


if __name__ == "__main__":
    main()
