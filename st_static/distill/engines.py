"""What runs the parts of a stage: processes of this machine, or a Ray cluster."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.queues import Queue
from typing import Any, Protocol, TypeVar

from joblib import Parallel, delayed

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
            ValueError: A process died.
        """
        if len(self._gpus) < 2:
            yield from map(function, items)
            return
        spawning = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
        gpus = spawning.Queue()
        for gpu in self._gpus:
            gpus.put(gpu)
        with ProcessPoolExecutor(
            len(self._gpus), spawning, _take, (pickle.dumps(function), gpus)
        ) as pool:
            waiting = [pool.submit(_call, item) for item in items]
            try:
                for done in as_completed(waiting):
                    yield done.result()
            except BrokenProcessPool as error:
                raise ValueError(
                    "A process of a GPU died. What is complete is kept: run the build again."
                ) from error
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


_taken: list[Callable[[Any], Any]] = []  # by a process that keeps a GPU


def _take(function: bytes, gpus: Queue[str]) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Before the function is unpickled, which loads its teacher.
    os.environ["CUDA_VISIBLE_DEVICES"] = gpus.get()
    _taken.append(pickle.loads(function))


def _end_with_parent() -> None:
    """End this process when the one that started it is killed: it holds a GPU's memory."""
    parent = multiprocessing.parent_process()
    if parent:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def _call(item: Any) -> Any:
    return _taken[0](item)


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
