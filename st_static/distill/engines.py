"""Engines run the parts of a stage: in processes of this machine, or on a Ray cluster."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from joblib import Parallel, delayed

from st_static.cluster.processes import n_processors
from st_static.distill.config import BuildConfig, TeacherConfig
from st_static.encode.places import Place, check_access, seen_by_others
from st_static.progress import bar

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")


class Engine(Protocol):
    """Runs the parts of a stage, in any order; a stage's files must not depend on it."""

    @property
    def n_workers(self) -> int:
        """The number of parts that run at the same time."""

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Apply a picklable function to items, and yield the results as they come.

        Items are taken as they are needed, so that a stream of them never fills the memory.
        """

    def map_on_devices(
        self, function: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[Result]:
        """Apply a function in processes that keep it, and a teacher with it: one for each GPU."""


class Processes:
    """Processes of this machine.

    Args:
        workers: Number of processes; 0 is one per processor, 1 works in this process.
        on_gpus: True runs the teacher on each GPU, by a Ray that is started for it; else it runs
            in this process.
    """

    def __init__(self, workers: int = 0, on_gpus: bool = False) -> None:
        self.n_workers = workers or n_processors()
        self._on_gpus = on_gpus

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Apply a function in processes, see `Engine`."""
        parallel = Parallel(n_jobs=self.n_workers, return_as="generator_unordered")
        yield from parallel(delayed(function)(item) for item in items)

    def map_on_devices(
        self, function: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[Result]:
        """Apply a function where the teacher runs, see `Engine`."""
        if not self._on_gpus:
            yield from map(function, items)
            return
        from st_static.cluster.ray_cluster import ray_cluster

        with ray_cluster("local") as cluster:
            yield from cluster.map_on_devices(function, items)


def map_shards(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    engine: Engine,
    label: str,
    total: int | None = None,
    sentences: Callable[[Result], int] | None = None,
) -> Iterator[Result]:
    """Apply a function to a corpus's shards, with a progress bar; the results come in any order.

    Args:
        function: A picklable function of one item.
        items: The items, possibly a generator.
        engine: The engine that runs it.
        label: The label of the progress bar.
        total: Number of items, where it is known.
        sentences: Counts the sentences of a result: the bar then shows the sentences per second of
            all workers.
    """
    done, start = 0, time.perf_counter()
    with bar(label, total, "shard") as progress:
        for result in engine.map(function, items):
            if sentences is not None:
                done += sentences(result)
                rate = done / (time.perf_counter() - start)
                progress.set_postfix_str(f"{rate:,.0f} sentences/s", refresh=False)
            progress.update()
            yield result


class BuildEngine(NamedTuple):
    """The processes or the cluster of a build.

    Attributes:
        engine: Runs the parts of stages.
        teacher_on: The kind of device that other processes run the teacher on; None if this one
            does.
        check: Checks that all machines can take part, from the work directory, the files of the
            text, and the teacher's `fingerprint`, whose teacher is sent along; raises a ValueError
            that names one that cannot.
    """

    engine: Engine
    teacher_on: str | None
    check: Callable[[Path, Sequence[Path], Callable[[], str]], None]


@contextlib.contextmanager
def build_engine(config: BuildConfig) -> Iterator[BuildEngine]:
    """Start the engine that a recipe names, until the block ends.

    Raises:
        ValueError: There is no such cluster, or not with the devices that the teacher needs.
    """
    if config.engine == "processes":
        on_gpus = _has_several_gpus(config.teacher)
        engine = Processes(config.workers, on_gpus)
        yield BuildEngine(engine, "cuda" if on_gpus else None, lambda *_: None)
        return
    if config.teacher.device not in (None, "cpu", "cuda"):
        raise ValueError(
            f"teacher.device is {config.teacher.device}, but on a cluster it is cpu or cuda; each "
            "process of the teacher gets one GPU."
        )
    from st_static.cluster.ray_cluster import ray_cluster

    wanted = config.teacher.device != "cpu"
    with ray_cluster(config.address, config.workers or 1, wanted) as cluster:
        if cluster.dashboard:
            logger.info("Ray's dashboard: http://%s", cluster.dashboard)
        if config.teacher.device == "cuda" and not cluster.n_gpus:
            raise ValueError(
                "teacher.device is cuda, but no node of the Ray cluster has a GPU: leave it out, "
                "or set it to cpu."
            )
        device = "cuda" if cluster.n_gpus else "cpu"
        cluster.n_actors()  # is there room for any? Not only when the teacher is to run

        def check(work_dir: Path, files: Sequence[Path], fingerprint: Callable[[], str]) -> None:
            with seen_by_others(Place.parse(str(work_dir))) as seen:
                cluster.check(functools.partial(_facts, seen, files, fingerprint, device))

        yield BuildEngine(cluster, device, check)


def with_absolute_paths(config: BuildConfig) -> BuildConfig:
    """Make the paths of a recipe absolute: other processes run in other folders."""
    teacher, corpus = config.teacher, config.corpus
    if Path(teacher.model).is_dir():
        teacher = replace(teacher, model=str(Path(teacher.model).absolute()))
    files = [str(Path(pattern).absolute()) for pattern in corpus.patterns]
    corpus = replace(corpus, files=files or None)
    work_dir = str(Path(config.work_dir).absolute())
    return replace(config, work_dir=work_dir, teacher=teacher, corpus=corpus)


def _has_several_gpus(teacher: TeacherConfig) -> bool:
    """Tell if the teacher can run on all GPUs of this machine, with a Ray of its own."""
    import torch  # which takes seconds to load

    n_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if teacher.device not in (None, "cuda") or n_gpus < 2:
        return False
    kinds = sorted({torch.cuda.get_device_name(number) for number in range(n_gpus)})
    if len(kinds) > 1:
        logger.warning(
            "The teacher runs on one GPU of %s, as those of several kinds (%s) round differently. "
            "To use more, name those of one kind in CUDA_VISIBLE_DEVICES.",
            *(n_gpus, ", ".join(kinds)),
        )
    elif importlib.util.find_spec("ray") is None:
        logger.warning(
            'The teacher runs on one GPU of %s. To use all: pip install "st-static[cluster]".',
            n_gpus,
        )
    else:
        return True
    return False


def _facts(
    seen: Place, files: Sequence[Path], fingerprint: Callable[[], str], device: str
) -> dict[str, str]:
    """Gather what all machines must share; unpickling the teacher has checked its weights."""
    import torch

    check_access(seen)
    for file in files:
        if not file.is_file():
            raise ValueError(f"it does not see {file}")
    capability = torch.backends.cpu.get_cpu_capability() if device == "cpu" else "any"
    return {
        "the text": f"{sum(file.stat().st_size for file in files):,} bytes long",
        "the processor's instructions": capability,
        "the teacher": fingerprint(),
    }
