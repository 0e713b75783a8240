"""MTEB's tasks and benchmarks by name, and local copies of their datasets."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Sequence
from pathlib import Path

import mteb
from mteb.abstasks import AbsTask

# The revision of a dataset that was read from a local copy.
LOCAL_REVISION = "local"


@functools.cache
def benchmark_tasks(benchmark: str) -> list[AbsTask]:
    """A benchmark's tasks, to read.

    Takes half a second, but two more once torch is loaded: mteb then seeds it for each task of each
    benchmark.

    Raises:
        ValueError: There is no such benchmark; the message says the nearest names.
    """
    return find_tasks(benchmark)


def find_tasks(benchmark: str | None = None, tasks: Sequence[str] | None = None) -> list[AbsTask]:
    """The tasks of a benchmark, or those named.

    Raises:
        ValueError: There is no such benchmark or task; the message says the nearest names.
    """
    if (benchmark is None) == (not tasks):
        raise ValueError("Name either a benchmark or tasks.")
    if benchmark is not None:
        try:
            return list(mteb.get_benchmark(benchmark).tasks)
        except KeyError as error:
            names = [known.name for known in mteb.get_benchmarks()]
            raise _unknown("benchmark", benchmark, names) from error
    found = []
    for name in tasks or ():
        try:
            found.append(mteb.get_task(name))
        except KeyError as error:
            names = [known.metadata.name for known in mteb.get_tasks()]
            raise _unknown("task", name, names) from error
    return found


def _unknown(kind: str, name: str, names: Sequence[str]) -> ValueError:
    """What to say of an unknown name: the nearest ones, without regard to case."""
    by_lower = {known.lower(): known for known in names}
    near = [known for known in sorted(by_lower, key=len) if name.lower() in known][:3]
    near += difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.5)
    listed = ", ".join(by_lower[known] for known in dict.fromkeys(near)) or "nothing like it"
    return ValueError(f"There is no {kind} {name!r} in mteb. There is: {listed}.")


def use_local_copy(task: AbsTask, data: Path) -> AbsTask:
    """Let a task read its dataset from a folder; its results then say so.

    Args:
        task: The task.
        data: Holds a folder for each task, named like it, in the layout of its Hub repository.

    Returns:
        The task, with the subsets and splits that the copy has; with other splits of it where it
        has none of those that the task is scored on.

    Raises:
        ValueError: There is no copy of the task's dataset.
    """
    folder = data / task.metadata.name
    if not folder.is_dir():
        raise ValueError(f"There is no local copy of the dataset: {folder} is not a folder.")
    local = {**task.metadata.dataset, "path": str(folder), "revision": LOCAL_REVISION}
    task.metadata = task.metadata.model_copy(update={"dataset": local})
    if not isinstance(task, mteb.abstasks.AbsTaskRetrieval):
        _keep_what_is_there(task, str(folder))
    return task


def _keep_what_is_there(task: AbsTask, path: str) -> None:
    """Narrow a task to the subsets and splits that a copy of its dataset has."""
    from datasets import get_dataset_config_names, get_dataset_split_names, load_dataset

    configs = get_dataset_config_names(path)
    subsets = [subset for subset in task.hf_subsets if subset in configs]
    present = get_dataset_split_names(path, (subsets or configs)[0])
    splits = [split for split in task.eval_splits if split in present]
    splits = splits or [split for split in present if split != "train"]
    if not subsets:  # all in one file, told apart by a column
        languages = load_dataset(path, split=splits[0]).to_dict().get("lang", task.hf_subsets)
        subsets = [subset for subset in task.hf_subsets if subset in set(languages)]
    task.hf_subsets = subsets
    task.filter_eval_splits(splits)
