"""What an ensemble's recipe takes from elsewhere: told before anything heavy is loaded."""

from __future__ import annotations

from st_static.distill.corpus.documents import Corpus
from st_static.distill.sources import require_teacher
from st_static.ensemble.config import EnsembleConfig
from st_static.model.model_name import ModelName


def require_sources(config: EnsembleConfig) -> None:
    """Make sure that the members can be had, and the text and the teacher if they are needed.

    Raises:
        ValueError: One of them cannot be had.
    """
    for member in config.members:
        ModelName.parse(member).require()
    if config.form != "exact":
        Corpus(config.corpus)
    if config.form == "distilled" and config.target != "ensemble":
        require_teacher(config.teacher)
