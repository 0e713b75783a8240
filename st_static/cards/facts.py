"""Define the facts of a model card: one plain JSON value that determines the card."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, get_args

from st_static.evaluate.speed import MeasuredSpeed, is_believable
from st_static.examples import Limit
from st_static.model.model_name import ModelName
from st_static.model.records import Made, teachers_of


@dataclass(frozen=True)
class ResultEntry:
    """A result that mteb wrote for one task, split and subset."""

    task: str
    type: str  # as mteb calls it
    hub_task: str  # its type, as the Hub calls it
    dataset: str  # its id on the Hub
    config: str  # the subset
    languages: list[str]  # tags without script and region
    split: str
    counts: bool  # whether the benchmark counts the split and the subset
    revision: str  # the dataset's
    metric: str
    value: float  # as mteb wrote it
    mteb_version: str
    is_local: bool  # whether the dataset was a local copy


@dataclass(frozen=True)
class MeasuredLimit(Limit):
    """Two texts that show a limit of static models, with the model's and the teacher's cosine."""

    cosine: float
    teacher: float | None  # of several teachers, the weighted mean


@dataclass(frozen=True)
class CardFigure:
    """A figure of a card: its file, its title, and its alt text with the numbers."""

    file: str
    title: str
    alt: str


@dataclass(frozen=True)
class CardFacts:
    """The facts of a card, written as plain JSON. Only models that a recipe built have the facts
    after the scores, and fine-tuned models their sizes."""

    name: str  # the last part of `hub_id`, else the folder's name
    record: Mapping[str, Any]  # what the folder says of how the model was made
    hub_id: str | None = None  # where it will be published
    fingerprint: str | None = None  # of the model's files
    results: list[ResultEntry] = field(default_factory=list)
    # A table of scores by task type, on a benchmark: `columns`, and `rows` from columns to values;
    # the tasks that it leaves out, for they were scored on other splits; sources of published ones.
    scores: dict[str, Any] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    # A table in Markdown of what models reached on data of the author's, what the data are, and
    # which differences exceed chance: `table`, `about`, `differences`.
    own_data: dict[str, Any] = field(default_factory=dict)
    benchmark: str = ""
    published_source: str = ""
    dimension: int = 0
    tokens: int = 0  # rows of the table, V
    dtype: str = ""  # of the table as stored
    bytes_on_disk: int = 0  # of the files that a user downloads, without card and figures
    bytes_in_memory: int = 0  # of the table and the head, as sentence-transformers holds them
    recipe_hash: str = ""
    seconds: dict[str, float] = field(default_factory=dict)  # by stage; empty without the stages
    speed: list[MeasuredSpeed] = field(default_factory=list)  # of model, teacher and peers
    # What the speeds were measured on: `stdlib`, the documentation of Python's standard library;
    # `corpus`, held-out sentences of the model's; empty without speeds.
    speed_texts: str = ""
    processor: str = ""
    threads: int = 0  # processors that the measurement could use
    load: float = 0.0  # programs that wanted a processor at its start, on average over a minute
    limits: list[MeasuredLimit] = field(default_factory=list)
    lengths: list[dict[str, Any]] = field(default_factory=list)  # agreement by sentence length
    variances: list[float] = field(default_factory=list)  # of the PCA, dropped components first
    figures: list[CardFigure] = field(default_factory=list)
    head_units: int = 0  # H; 0 of a table alone
    onnx: str = ""  # the smallest ONNX file as transformers.js calls it, `q8` or `fp32`

    @property
    def kind(self) -> Made:
        """The way the model was made, which is a key of its record."""
        return next(kind for kind in get_args(Made) if kind in self.record)

    @property
    def made(self) -> dict[str, Any]:
        """The record of how the model was made: a recipe, an ensemble, a conversion."""
        made: dict[str, Any] = self.record[self.kind]
        return made

    @property
    def teacher_ids(self) -> list[str]:
        """The ids of the teachers that are on the Hub."""
        return base_models(self.record)

    @property
    def is_believable(self) -> bool:
        """Whether the model's own speeds can be believed."""
        return is_believable(self.speed, self.name)

    def to_json(self) -> str:
        """Write the facts as JSON; the same facts give the same text."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"


def base_models(record: Mapping[str, Any]) -> list[str]:
    """Find the Hub ids of the teachers, or of the fine-tuned model, in a record; models without an
    id are left out."""
    if "recipe" in record:
        ids = [teacher_id(teacher) for teacher in teachers_of(record["recipe"])]
    elif "fine_tuning" in record:
        ids = [teacher_id({"model": record["fine_tuning"].get("base") or ""})]
    else:
        ids = [record.get("conversion", {}).get("teacher")]
    return list(dict.fromkeys(filter(None, ids)))


def teacher_id(teacher: Mapping[str, Any]) -> str | None:
    """Find the Hub id of a recipe's teacher: its `hub_id`, or its name if that is an id."""
    name: str = teacher.get("hub_id") or teacher["model"]
    is_plain = not ModelName.parse(name).kind and not name.startswith(".")
    return name if name.count("/") == 1 and is_plain else None
