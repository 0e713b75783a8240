"""The facts of a model card: one plain JSON value that determines the card."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from st_static.examples import Limit
from st_static.model.model_name import ModelName

# The libraries that encode with a model, as cards name them.
FAST, SENTENCE_TRANSFORMERS, MODEL2VEC = "FastEncoder", "sentence-transformers", "Model2Vec"

Kind = Literal["recipe", "ensemble", "conversion"]


@dataclass(frozen=True)
class ResultEntry:
    """A result that mteb wrote for one task, split and subset.

    Attributes:
        task: The task's name.
        type: Its type, as mteb calls it.
        hub_task: Its type, as the Hub calls it.
        dataset: Its dataset's id on the Hub.
        config: The subset.
        languages: Tags of its languages, without script and region.
        split: The split.
        counts: Whether the benchmark counts the split and the subset.
        revision: The dataset's.
        metric: The main metric.
        value: Its value, as mteb wrote it.
        mteb_version: The version that wrote it.
        is_local: Whether the dataset was a local copy.
    """

    task: str
    type: str
    hub_task: str
    dataset: str
    config: str
    languages: list[str]
    split: str
    counts: bool
    revision: str
    metric: str
    value: float
    mteb_version: str
    is_local: bool


@dataclass(frozen=True)
class MeasuredSpeed:
    """The speed of a model with one of the libraries that can load it.

    Attributes:
        model: Its name.
        encoder: The library: `FAST`, `SENTENCE_TRANSFORMERS`, `MODEL2VEC` or `st_static`.
        speed: Sentences per second.
    """

    model: str
    encoder: str
    speed: int


def is_believable(speeds: Sequence[MeasuredSpeed], model: str) -> bool:
    """Tell whether a model's speeds were measured without other work on the machine.

    FastEncoder does less than sentence-transformers: if it comes out slower, something else took
    the processor.

    Args:
        speeds: Of one model and others, as on a card.
        model: The name of the model whose speeds are judged.
    """
    by_encoder = {row.encoder: row.speed for row in speeds if row.model == model}
    return by_encoder.get(FAST, math.inf) >= by_encoder.get(SENTENCE_TRANSFORMERS, 0)


@dataclass(frozen=True)
class MeasuredLimit(Limit):
    """Two texts that show a limit of static models, with their cosines.

    Attributes:
        cosine: The model's.
        teacher: The teacher's, or null.
    """

    cosine: float
    teacher: float | None


@dataclass(frozen=True)
class CardFigure:
    """A figure of a card.

    Attributes:
        file: Its name.
        title: What it shows.
        alt: What it shows, with its numbers, for those who do not see it.
    """

    file: str
    title: str
    alt: str


@dataclass(frozen=True)
class CardFacts:
    """The facts of a card; written as plain JSON.

    The card of an ensemble or of converted text vectors needs only the first three, and has scores
    if there are results. Only models that a recipe built have the measurements after the scores.

    Attributes:
        name: The model's name: the last part of `hub_id`, else its folder's.
        record: What `st_static.json` says of how the model was made.
        hub_id: Where it will be published, or null.
        fingerprint: Of the model's files, or null.
        results: One entry per task, split and subset.
        scores: A table of scores by task type: `columns`, and `rows` from columns to values.
        left_out: Tasks that the table leaves out, because they were not scored on the
            benchmark's splits.
        benchmark: The benchmark of that table.
        published_source: Where published scores come from.
        dimension: D.
        tokens: Rows of the table, V.
        dtype: Number format of the table as stored.
        bytes_on_disk: Size of the files that a user downloads, without card and figures.
        bytes_in_memory: Size of the table, and of the head's layers if there is one, as
            sentence-transformers holds them.
        recipe_hash: The hash of the recipe.
        seconds: How long each stage took; empty without the stages.
        speed: Of the model, its teacher and its peers.
        speed_texts: What the speeds were measured on: `stdlib`, the documentation of Python's
            standard library; `corpus`, held-out sentences of the model's; empty without speeds.
        processor: Of that measurement.
        threads: Processors that it could use.
        load: Programs that wanted a processor at its start, on average over a minute.
        limits: Examples of what the model does not see, or not rightly, with cosines.
        lengths: Teacher agreement by sentence length; empty without the stages.
        variances: Variance along the components of the sentence PCA, the dropped ones first.
        figures: The figures, in the order in which they were drawn.
        head_units: Hidden units of the head, H; 0 of a table alone.
        onnx: The smallest of the model's ONNX files as transformers.js calls it, `q8` or `fp32`;
            empty without any.
    """

    name: str
    record: Mapping[str, Any]
    hub_id: str | None = None
    fingerprint: str | None = None
    results: list[ResultEntry] = field(default_factory=list)
    scores: dict[str, Any] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    benchmark: str = ""
    published_source: str = ""
    dimension: int = 0
    tokens: int = 0
    dtype: str = ""
    bytes_on_disk: int = 0
    bytes_in_memory: int = 0
    recipe_hash: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    speed: list[MeasuredSpeed] = field(default_factory=list)
    speed_texts: str = ""
    processor: str = ""
    threads: int = 0
    load: float = 0.0
    limits: list[MeasuredLimit] = field(default_factory=list)
    lengths: list[dict[str, Any]] = field(default_factory=list)
    variances: list[float] = field(default_factory=list)
    figures: list[CardFigure] = field(default_factory=list)
    head_units: int = 0
    onnx: str = ""

    @property
    def kind(self) -> Kind:
        """The way the model was made, which is a key of its record."""
        return next(kind for kind in get_args(Kind) if kind in self.record)

    @property
    def teacher_id(self) -> str | None:
        """The teacher's id on the Hub, if it has one."""
        return teacher_of(self.record)

    @property
    def is_believable(self) -> bool:
        """Whether the model's own speeds can be believed."""
        return is_believable(self.speed, self.name)

    def to_json(self) -> str:
        """Write the facts as JSON; the same facts give the same text."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"


def teacher_of(record: Mapping[str, Any]) -> str | None:
    """Find the Hub id of the teacher that a record names, if it has one."""
    if "recipe" in record:
        return teacher_id(record["recipe"]["teacher"])
    teacher: str | None = record.get("conversion", {}).get("teacher")
    return teacher


def teacher_id(teacher: Mapping[str, Any]) -> str | None:
    """Find the Hub id of a recipe's teacher: its `hub_id`, or its name if that is an id."""
    name: str = teacher.get("hub_id") or teacher["model"]
    is_plain = not ModelName.parse(name).kind and not name.startswith(".")
    return name if name.count("/") == 1 and is_plain else None
