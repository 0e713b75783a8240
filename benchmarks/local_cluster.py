"""Builds on a Ray cluster of two nodes on this machine: what the measurements of it share."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ray.cluster_utils import Cluster


def keep_to_processors(n: int) -> None:
    """Leave the last n processors to this process and those that it starts, on Linux."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-n:])


@contextlib.contextmanager
def two_nodes() -> Iterator[Cluster]:
    """A cluster of two nodes with a processor each, that of RAY_ADDRESS until the block ends."""
    from ray.cluster_utils import Cluster  # not for those who only read a work directory

    # Its own processes would count the driver's threads.
    threads, other = os.environ.pop("OMP_NUM_THREADS", None), os.environ.get("RAY_ADDRESS")
    head = {"num_cpus": 1, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        cluster.add_node(num_cpus=1)
        if threads:
            os.environ["OMP_NUM_THREADS"] = threads
        os.environ["RAY_ADDRESS"] = cluster.address
        yield cluster
    finally:
        del os.environ["RAY_ADDRESS"]
        os.environ |= {"RAY_ADDRESS": other} if other else {}
        cluster.shutdown()


def build_command(recipe: str, folder: Path, options: Sequence[str]) -> list[str]:
    """The command that builds a recipe into `folder/model`, by way of `folder/work`."""
    paths = ["--output", str(folder / "model"), "--work_dir", str(folder / "work")]
    return [sys.executable, "-m", "st_static.cli", "build", recipe, *paths, *options]


def driver_environment(threads: int) -> dict[str, str]:
    """The environment of a command: PCA and training round by the driver's threads."""
    return {**os.environ, "OMP_NUM_THREADS": str(threads)}


def stage_name(folder: Path) -> str:
    """The name of a stage by its folder, complete or not."""
    return folder.name.removesuffix(".partial").rpartition("-")[0]


def seconds_by_stage(work_dir: Path) -> dict[str, float]:
    """How long each complete stage took, in their order."""
    records = sorted(work_dir.glob("*/stage.json"), key=lambda record: record.stat().st_mtime)
    return {stage_name(r.parent): json.loads(r.read_text("utf-8"))["seconds"] for r in records}


def model_files(folder: Path) -> dict[str, bytes]:
    """Every file of a model, by its path within."""
    files = sorted(path for path in (folder / "model").rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def differing(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    """Files that two models do not have alike."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
