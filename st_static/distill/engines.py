"""What runs the parts of a stage: processes of this machine, or a Ray cluster."""

from __future__ import annotations

import contextlib
import functools
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from joblib import Parallel, delayed

from st_static.actors import Actors
from st_static.distill.gpu_processes import GpuProcess
from st_static.distill.progress import bar
from st_static.processors import n_processors

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
        """The same in processes that keep the function, and a teacher with it: one for each GPU."""


class Processes:
    """Processes of this machine.

    Args:
        workers: How many; 0 is one per processor, 1 works in this process.
        gpus: The GPUs that a teacher runs on, as CUDA_VISIBLE_DEVICES names them; with fewer than
            two, it runs in this process.
    """

    def __init__(self, workers: int = 0, gpus: Sequence[str] = ()) -> None:
        self._workers, self._gpus = workers, gpus

    @property
    def n_workers(self) -> int:
        """How many parts run at the same time."""
        return self._workers or n_processors()

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """As `Engine.map`."""
        parallel = Parallel(n_jobs=self.n_workers, return_as="generator_unordered")
        yield from parallel(delayed(function)(item) for item in items)

    def map_on_devices(
        self, function: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[Result]:
        """As `Engine.map_on_devices`.

        Raises:
            ValueError: With several GPUs: an item failed three times.
        """
        if len(self._gpus) < 2:
            yield from map(function, items)
            return
        new_actor = functools.partial(GpuProcess, pickle.dumps(function), list(self._gpus))
        actors: Actors[Item, Result] = Actors(new_actor, len(self._gpus))
        with contextlib.closing(actors):
            yield from actors.map(items)


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
