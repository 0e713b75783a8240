"""Run the parts of a stage, in processes of this machine or on a Ray cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from joblib import Parallel, delayed

from st_static.cluster.processes import n_processors
from st_static.distill.progress import bar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Engine(Protocol):
    """Runs the parts of a stage, in any order; a stage's files must not depend on it."""

    @property
    def n_workers(self) -> int:
        """How many parts run at the same time."""

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
        workers: How many; 0 is one per processor, 1 works in this process.
        on_gpus: Run the teacher on each GPU, by a Ray that is started for it; else it runs in this
            process.
    """

    def __init__(self, workers: int = 0, on_gpus: bool = False) -> None:
        self._workers, self._on_gpus = workers, on_gpus

    @property
    def n_workers(self) -> int:
        """How many parts run at the same time."""
        return self._workers or n_processors()

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
        engine: What runs it.
        label: What the progress bar says.
        total: Number of items, where it is known.
        sentences: How many sentences a result stands for: the bar then tells how many all workers
            do in a second.
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
