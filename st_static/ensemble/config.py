"""What a recipe of an ensemble may say, checked when it is made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from st_static.arguments import check_fields, require
from st_static.distill.config import (
    CorpusConfig,
    DistillationConfig,
    ExportConfig,
    SentencesConfig,
    TeacherConfig,
    as_text,
)


@dataclass(frozen=True)
class EnsembleConfig:
    """A recipe of an ensemble: a YAML file that names `members`.

    Args:
        members: Models by name: a folder, a Hub id, `package:NAME/FOLDER`, `wordllama:256` or
            `glove:FILE`. The first one's words are the vocabulary.
        weights: Weight of each member; null is 1 for all.
        form: `exact` brings the code of a module and loads with `trust_remote_code=True`;
            `calibrated` uses sentence-transformers' own modules, nearly exactly; `distilled` is a
            smaller table, trained to give the same similarities.
        output: Folder that the model is written to.
        work_dir: Folder for the sentences of the corpus, and for checkpoints.
        corpus: Text, to calibrate or distil with.
        sentences: Which sentences of it are kept.
        n_sentences: Of these, how many are used, drawn by a hash of their text.
        dimension: Output dimension of a distilled table.
        target: What a distilled table is to give: the similarities of the ensemble, of the
            teacher, or the mean of both.
        teacher: The teacher, where it is the target or a part of it.
        distillation: How a distilled table is trained.
        export: Number format of the table.
        held_out: Sentences that a distilled table is not trained on.
        seed: Seed of training.
        workers: Processes that split the corpus into sentences; 0 means one per processor.
    """

    members: list[str] = field(default_factory=list)
    weights: list[float] | None = None
    form: Literal["exact", "calibrated", "distilled"] = "exact"
    output: str = "models/ensemble"
    work_dir: str = "work/ensemble"
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    sentences: SentencesConfig = field(default_factory=SentencesConfig)
    n_sentences: int = 300_000
    dimension: int = 256
    target: Literal["ensemble", "teacher", "mean"] = "ensemble"
    teacher: TeacherConfig = field(default_factory=TeacherConfig)
    distillation: DistillationConfig = field(default_factory=DistillationConfig)
    export: ExportConfig = field(default_factory=ExportConfig)
    held_out: int = 4096
    seed: int = 0
    workers: int = 0

    def __post_init__(self) -> None:
        as_text(self, "output", "work_dir")
        check_fields(self)
        if not self.members:
            raise ValueError("Expected at least one model in members, but there is none.")
        if self.weights is not None and len(self.weights) != len(self.members):
            raise ValueError(
                f"Expected a weight for each of the {len(self.members)} members, but got "
                f"{len(self.weights)}."
            )
        if self.form != "exact" and not self.has_corpus:
            raise ValueError(
                f"The form {self.form} needs text: set corpus.files, corpus.docstrings or "
                "corpus.dataset, or take the form exact."
            )
        if not self.export.normalize:
            raise ValueError(
                "export.normalize is false, but an ensemble scales the vectors of its members, "
                "and so its own. Leave it out."
            )
        for name in ("n_sentences", "dimension", "held_out"):
            if getattr(self, name) < 1:
                value = getattr(self, name)
                raise ValueError(f"{name} must be positive, but it is {value}.")
        if self.form == "distilled":
            self._check_numbers()

    def _check_numbers(self) -> None:
        """Check that the numbers of a distillation fit each other."""
        batch_size, least = self.distillation.batch_size, max(2 * self.held_out, self.dimension)
        require(
            self.held_out >= batch_size,
            f"held_out ({self.held_out}) must be at least distillation.batch_size ({batch_size}): "
            "the held-out loss is measured on whole batches.",
        )
        require(
            self.n_sentences >= least,
            f"n_sentences ({self.n_sentences}) must be at least {least}: twice held_out "
            f"({self.held_out}), and dimension ({self.dimension}).",
        )

    @property
    def has_corpus(self) -> bool:
        """Whether any text is named."""
        return self.corpus.is_named
