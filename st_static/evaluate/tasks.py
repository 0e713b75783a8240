"""MTEB's tasks and benchmarks by name, and local copies of their datasets."""

from __future__ import annotations

import difflib
import functools
import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from mteb.abstasks import AbsTask

from st_static.dependencies import require_packages

Kind = Literal["task", "benchmark"]

_NAMED = re.compile(r'(?:Metadata|Benchmark)\(\s*name="([^"]+)"')  # in mteb's files
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
    check_names("benchmark", [benchmark] if benchmark else [])
    check_names("task", tasks or [])
    import mteb

    if benchmark is not None:
        try:
            return list(mteb.get_benchmark(benchmark).tasks)
        except KeyError as error:
            raise _unknown("benchmark", benchmark) from error
    found = []
    for name in tasks or ():
        try:
            found.append(mteb.get_task(name))
        except KeyError as error:
            raise _unknown("task", name) from error
    return found


def check_names(kind: Kind, names: Sequence[str]) -> None:
    """Check that names stand among those of mteb's files: to import mteb takes seconds.

    Raises:
        ValueError: One does not; the message says the nearest names.
    """
    for name in names:
        if f'"{name}"' not in _source(kind):
            raise _unknown(kind, name)


@functools.cache
def _source(kind: Kind) -> str:
    """mteb's files in which all its tasks or benchmarks are named, with their former names."""
    require_packages("mteb")
    spec = importlib.util.find_spec("mteb")
    [folder] = (spec and spec.submodule_search_locations) or [""]
    files = [*sorted(Path(folder, f"{kind}s").rglob("*.py")), Path(folder, "get_tasks.py")]
    return "\n".join(file.read_text("utf-8") for file in files)


def _unknown(kind: Kind, name: str) -> ValueError:
    """What to say of an unknown name: the nearest ones, without regard to case."""
    by_lower = {known.lower(): known for known in _NAMED.findall(_source(kind))}
    near = [known for known in sorted(by_lower, key=len) if name.lower() in known][:3]
    near += difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.5)
    listed = ", ".join(by_lower[known] for known in dict.fromkeys(near)) or "nothing like it"
    return ValueError(f"There is no {kind} {name!r} in mteb. There is: {listed}.")


def check_data(data: Path, tasks: Sequence[str] = ()) -> None:
    """Check that a folder of local copies is there, with one of each task that is named.

    Raises:
        ValueError: It is not, or has none of a task.
    """
    if not data.is_dir():
        raise ValueError(f"There is no folder {data} of local copies of datasets.")
    if missing := [name for name in tasks if not (data / name).is_dir()]:
        raise ValueError(
            f"There is no local copy of {', '.join(missing)} in {data}. Expected a folder for each "
            "task, named like it."
        )


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
    from mteb.abstasks import AbsTaskRetrieval

    if not isinstance(task, AbsTaskRetrieval):
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
