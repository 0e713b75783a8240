"""The options of an ensemble's recipe, and a check of what it names."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Literal

from pydantic import model_validator

from st_static.arguments import require
from st_static.distill.config import CorpusConfig, DistillationConfig, SentencesConfig
from st_static.distill.section import Count, CountOrZero, PathText, section
from st_static.distill.teacher_config import TeacherConfig
from st_static.model.records import Form


@section
class EnsembleConfig:
    """A recipe of an ensemble: a YAML file that names `members`."""

    members: list[str] = field(default_factory=list)
    """Models by name: a folder, a Hub id, `package:NAME/FOLDER`, `wordllama:256` or `glove:FILE`.
    The first one's words are the vocabulary."""
    weights: list[float] | None = None
    """Weight of each member; null is 1 for all."""
    form: Form = "exact"
    """`exact` brings the code of a module and loads with `trust_remote_code=True`; `calibrated`
    uses sentence-transformers' own modules, nearly exactly; `distilled` is a smaller table, trained
    to give the same similarities."""
    output: PathText = "models/ensemble"
    """Folder that the model is written to."""
    work_dir: PathText = "work/ensemble"
    """Folder for the sentences of the corpus, and for checkpoints."""
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    """Text, to calibrate or distil with."""
    sentences: SentencesConfig = field(default_factory=SentencesConfig)
    """Which sentences of it are kept."""
    n_sentences: Count = 300_000
    """How many of these are used, drawn by a hash of their text."""
    dimension: Count = 256
    """Output dimension of a distilled table."""
    target: Literal["ensemble", "teacher", "mean"] = "ensemble"
    """What a distilled table is to give: the similarities of the ensemble, of the teacher, or the
    mean of both."""
    teacher: TeacherConfig = field(default_factory=TeacherConfig)
    """The teacher, where it is the target or a part of it."""
    distillation: DistillationConfig = field(default_factory=DistillationConfig)
    """How a distilled table is trained."""
    held_out: Count = 4096
    """Sentences that a distilled table is not trained on."""
    seed: int = 0
    """Seed of training."""
    workers: CountOrZero = 0
    """Processes that split the corpus into sentences; 0 means one per processor."""

    @model_validator(mode="after")
    def _values_fit(self) -> EnsembleConfig:
        require(bool(self.members), "Expected at least one model in members, but there is none.")
        require(
            self.weights is None or len(self.weights) == len(self.members),
            f"Expected a weight for each of the {len(self.members)} members, but got "
            f"{len(self.weights or [])}.",
        )
        require(
            self.form == "exact" or self.corpus.is_named,
            f"The form {self.form} needs text: set corpus.files, corpus.docstrings or "
            "corpus.dataset, or take the form exact.",
        )
        require(
            self.distillation.target == "cosines",
            "distillation.target vectors is for models of one teacher: leave it out.",
        )
        if self.form == "distilled":
            size, least = self.distillation.batch_size, max(2 * self.held_out, self.dimension)
            require(
                self.held_out >= size,
                f"held_out ({self.held_out}) must be at least distillation.batch_size ({size}): "
                "the held-out loss is measured on whole batches.",
            )
            require(
                self.n_sentences >= least,
                f"n_sentences ({self.n_sentences}) must be at least {least}: twice held_out "
                f"({self.held_out}), and dimension ({self.dimension}).",
            )
        return self


def require_members(config: EnsembleConfig) -> None:
    """Check that members, text, teacher and device exist, and that the output can be written."""
    # They load tqdm, whose bars the command must hide first.
    from st_static.distill.corpus.documents import Corpus
    from st_static.distill.sources import check_device, check_work_dir, require_teacher
    from st_static.model.export import check_output
    from st_static.model.model_folder import ModelFolder
    from st_static.model.model_name import ModelName

    output = Path(config.output)
    check_output(output, with_card=True)
    for member in config.members:
        if output.exists() and Path(member).exists() and output.samefile(member):
            raise ValueError(f"output is {output}, which is a member. Choose another folder.")
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
