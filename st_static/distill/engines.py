"""Engines run the parts of a stage: in processes of this machine, or on a Ray cluster."""

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
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from joblib import Parallel, delayed

from st_static.cluster.processes import n_processors
from st_static.distill.config import BuildConfig
from st_static.encode.places import Place, check_access, seen_by_others
from st_static.progress import bar

if TYPE_CHECKING:
    from st_static.cluster.ray_cluster import RayCluster

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass
class Processes:
    """Processes of this machine: `workers` of them, 0 for one per processor, 1 for this one."""

    workers: int = 0
    devices: Callable[[], RayCluster] | None = None  # opens what runs the teacher on several GPUs

    @property
    def n_workers(self) -> int:
        """Number of processes."""
        return self.workers or n_processors()

    @property
    def teacher_on(self) -> str | None:
        """The kind of device of other processes that run the teacher, if there are any."""
        return "cuda" if self.devices else None

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


Engine: TypeAlias = "Processes | RayCluster"
"""Runs the parts of a stage, in any order; a stage's files must not depend on it."""


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
    if config.engine == "processes":
        with contextlib.ExitStack() as stack:

            @functools.cache
            def devices() -> RayCluster:  # started when the teacher is to read, and then kept
                from st_static.cluster.ray_cluster import ray_cluster

                return stack.enter_context(ray_cluster("local"))

            yield Processes(config.workers, devices if _has_several_gpus(device) else None)
        return
    if device not in (None, "cpu", "cuda"):
        raise ValueError(
            f"teacher.device is {device}, but on a cluster it is cpu or cuda; each process of the "
            "teacher gets one GPU."
        )
    from st_static.cluster.ray_cluster import ray_cluster

    with ray_cluster(config.address, config.workers or 1, device != "cpu") as cluster:
        if cluster.dashboard:
            logger.info("Ray's dashboard: http://%s", cluster.dashboard)
        if device == "cuda" and not cluster.n_gpus:
            raise ValueError(
                "teacher.device is cuda, but no node of the Ray cluster has a GPU: set it to cpu."
            )
        cluster.n_actors()  # an error now, not after the corpus stages, if there is room for none
        yield cluster


def check_machines(
    engine: Engine, work_dir: Path, files: Sequence[Path], fingerprint: Callable[[], str]
) -> None:
    """Raise a ValueError that names a machine without work directory, text or the same teacher."""
    if not isinstance(engine, Processes):
        with seen_by_others(Place.parse(str(work_dir))) as seen:
            engine.check(functools.partial(_facts, seen, files, fingerprint, engine.teacher_on))


def _has_several_gpus(device: str | None) -> bool:
    """Tell if the teacher can run on all GPUs of this machine, with a Ray of its own."""
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
    elif importlib.util.find_spec("ray") is None:
        remedy = 'as Ray is not installed. To use all: pip install "st-static[cluster]".'
    else:
        return True
    logger.warning("The teacher runs on one GPU of %s, %s", n_gpus, remedy)
    return False


def _facts(
    seen: Place, files: Sequence[Path], fingerprint: Callable[[], str], device: str
) -> dict[str, str]:
    """Gather what all machines must share; unpickling a teacher has checked its weights."""
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
