"""Running a function over a corpus's shards, in processes, with progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from joblib import Parallel, delayed

from st_static.distill.progress import bar
from st_static.processors import n_processors

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_shards(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    workers: int,
    label: str,
    total: int | None = None,
) -> Iterator[Result]:
    """Apply a function to every item in worker processes, and yield the results in order.

    Items are taken as they are needed, so that a stream of them never fills the memory.

    Args:
        function: A picklable function of one item.
        items: The items, possibly a generator.
        workers: Number of processes; 0 is one per processor, 1 works in this process.
        label: What the progress bar says.
        total: Number of items, where it is known.
    """
    parallel = Parallel(n_jobs=workers or n_processors(), return_as="generator")
    results = parallel(delayed(function)(item) for item in items)
    with bar(label, total, "shard") as progress:
        for result in results:
            progress.update()
            yield result
