"""Check the sources of an ensemble's recipe before anything heavy is loaded."""

from __future__ import annotations

from pathlib import Path

from st_static.distill.corpus.documents import Corpus
from st_static.distill.sources import check_device, check_work_dir, require_teacher
from st_static.ensemble.config import EnsembleConfig
from st_static.model.export import check_output
from st_static.model.model_folder import ModelFolder
from st_static.model.model_name import ModelName


def require_sources(config: EnsembleConfig) -> None:
    """Check that members, text, teacher and device exist, and that the output can be written."""
    output = Path(config.output)
    check_output(output, with_card=True)
    for member in config.members:
        if output.exists() and Path(member).exists() and output.samefile(member):
            raise ValueError(f"output is {output}, which is a member. Choose another folder.")
    for member in config.members:
        name = ModelName.parse(member)
        name.require()
        if name.is_folder_or_id and Path(name.folder_or_id()).is_dir():
            _ = ModelFolder(name.folder_or_id()).tokenizer_file
    if config.form == "distilled":
        check_device("distillation.device", config.distillation.device)
    if config.form != "exact":
        check_work_dir(config.work_dir)
        Corpus(config.corpus).require_text()
    if config.form == "distilled" and config.target != "ensemble":
        require_teacher(config.teacher)
