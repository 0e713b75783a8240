"""The engine of a recipe: processes of this machine, or a Ray cluster whose nodes are checked."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from st_static.distill.config import BuildConfig, TeacherConfig
from st_static.distill.engines import Engine, Processes
from st_static.distill.teacher import Teacher
from st_static.encode.places import Place, check_access, seen_by_others

logger = logging.getLogger(__name__)


class BuildEngine(NamedTuple):
    """The processes or the cluster of a build.

    Attributes:
        engine: Runs the parts of stages.
        teacher_on: The kind of device that other processes run the teacher on; None if this one
            does.
        check: Checks that all machines can take part, from the work directory, the files of the
            text and the teacher; raises a ValueError that names one that cannot.
    """

    engine: Engine
    teacher_on: str | None
    check: Callable[[Path, Sequence[Path], Teacher], None]


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

        def check(work_dir: Path, files: Sequence[Path], teacher: Teacher) -> None:
            """As `BuildEngine.check`."""
            with seen_by_others(Place.parse(str(work_dir))) as seen:
                cluster.check(functools.partial(_facts, seen, files, teacher, device))

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
    """Tell whether the teacher runs on all GPUs of this machine, with a Ray of its own."""
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


def _facts(seen: Place, files: Sequence[Path], teacher: Teacher, device: str) -> dict[str, str]:
    """Facts that all machines must share; unpickling the teacher has checked its weights."""
    check_access(seen)
    for file in files:
        if not file.is_file():
            raise ValueError(f"it does not see {file}")
    capability = torch.backends.cpu.get_cpu_capability() if device == "cpu" else "any"
    return {
        "the text": f"{sum(file.stat().st_size for file in files):,} bytes long",
        "the processor's instructions": capability,
        "the teacher": teacher.fingerprint(),
    }
