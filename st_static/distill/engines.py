"""Run the parts of a stage: in processes of this machine, or elsewhere by an add-on."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Protocol, TypeVar

from joblib import Parallel, delayed

from st_static.dependencies import add_on, has_add_on
from st_static.distill.config import BuildConfig
from st_static.progress import bar
from st_static.threads import n_processors

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")


class Engine(Protocol):
    """Runs the parts of a stage, in any order; a stage's files must not depend on it."""

    @property
    def n_workers(self) -> int:
        """Number of parts that run at the same time."""

    @property
    def teacher_on(self) -> str | None:
        """The kind of device of other processes that run the teacher, if there are any."""

    def check_machines(
        self, work_dir: Path, files: Sequence[Path], fingerprint: Callable[[], str]
    ) -> None:
        """Check that other machines see work directory, text and teacher; else a ValueError."""

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Apply a picklable function to items, taken as needed, and yield results as they come."""

    def map_on_devices(
        self, function: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[Result]:
        """Apply a function in processes that keep it, and a teacher with it."""


@dataclass
class Processes:
    """Processes of this machine: `workers` of them, 0 for one per processor, 1 for this one."""

    workers: int = 0
    devices: Callable[[], Engine] | None = None  # opens what runs the teacher on several GPUs

    @property
    def n_workers(self) -> int:
        """Number of processes."""
        return self.workers or n_processors()

    @property
    def teacher_on(self) -> str | None:
        """The kind of device of other processes that run the teacher, if there are any."""
        return "cuda" if self.devices else None

    def check_machines(
        self, work_dir: Path, files: Sequence[Path], fingerprint: Callable[[], str]
    ) -> None:
        """Check nothing: there is no other machine."""

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Apply a picklable function to items, taken as needed, and yield results as they come; a
        single one in this process."""
        items, n = iter(items), self.n_workers
        first = list(islice(items, 2)) if n > 1 else []
        if len(first) < 2:  # processes take seconds to start
            yield from map(function, chain(first, items))
            return
        parallel = Parallel(n_jobs=n, return_as="generator_unordered")
        yield from parallel(delayed(function)(item) for item in chain(first, items))

    def map_on_devices(
        self, function: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[Result]:
        """Apply a function in processes that keep it, and a teacher with it: one for each GPU."""
        run = self.devices().map_on_devices if self.devices else map
        yield from run(function, items)


def map_shards(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    engine: Engine,
    label: str,
    sentences: Callable[[Result], int] | None = None,
) -> Iterator[Result]:
    """Apply a picklable function to a corpus's shards; results come in any order. `sentences`
    counts those of a result: the bar then shows how many all workers do a second."""
    done, start = 0, time.perf_counter()
    total = len(items) if isinstance(items, Sized) else None
    with bar(label, total, "shard") as progress:
        for result in engine.map(function, items):
            if sentences is not None:
                done += sentences(result)
                rate = done / (time.perf_counter() - start)
                progress.set_postfix_str(f"{rate:,.0f} sentences/s", refresh=False)
            progress.update()
            yield result


@contextlib.contextmanager
def build_engine(config: BuildConfig) -> Iterator[Engine]:
    """Start the engine that a recipe names, until the block ends."""
    teachers = config.all_teachers
    device = teachers[0].device
    if any(teacher.device != device for teacher in teachers):
        raise ValueError("teachers name several devices: give all of them the same, or none.")
    if config.engine == "ray":
        with add_on("ray").cluster_for(config, device) as cluster:
            yield cluster
        return
    with contextlib.ExitStack() as stack:

        @functools.cache
        def devices() -> Engine:  # started when the teacher is to read, and then kept
            cluster: Engine = stack.enter_context(add_on("ray").ray_cluster("local"))
            return cluster

        yield Processes(config.workers, devices if _has_several_gpus(device) else None)


def _has_several_gpus(device: str | None) -> bool:
    """Tell whether the teacher can run on all GPUs of this machine, with a Ray of its own."""
    import torch  # which takes seconds to load

    n_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device not in (None, "cuda") or n_gpus < 2:
        return False
    kinds = sorted({torch.cuda.get_device_name(number) for number in range(n_gpus)})
    if len(kinds) > 1:
        remedy = (
            f"as those of several kinds ({', '.join(kinds)}) round differently. To use more, name "
            "those of one kind in CUDA_VISIBLE_DEVICES."
        )
    elif importlib.util.find_spec("ray") is None or not has_add_on("ray"):
        remedy = 'as Ray is not installed. To use all: pip install "st-static[cluster]".'
    else:
        return True
    logger.warning("The teacher runs on one GPU of %s, %s", n_gpus, remedy)
    return False
