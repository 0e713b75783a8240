"""What a model card says: one plain JSON value, of which the card is a function."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from st_static.evaluate.speed import MeasuredSpeed
from st_static.examples import Limit


@dataclass(frozen=True)
class ResultEntry:
    """What mteb wrote of one task, split and subset.

    Attributes:
        task: The task's name.
        type: Its type, as mteb calls it.
        hub_task: Its type, as the Hub calls it.
        dataset: Its dataset's id on the Hub.
        config: The subset.
        languages: Codes of ISO 639-3.
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
        alt: The same with its numbers, for those who do not see it.
    """

    file: str
    title: str
    alt: str


@dataclass(frozen=True)
class CardFacts:
    """What a card says; written as plain JSON.

    Attributes:
        name: The model's name: the last part of `hub_id`, else its folder's.
        hub_id: Where it will be published, or null.
        fingerprint: Of the model's files, see `fingerprint.py`; null of older facts.
        license: Its licence as the Hub spells it; `unknown` if the recipe does not say it.
        dimension: D.
        tokens: Rows of the table, V.
        dtype: Number format of the table as stored.
        bytes_on_disk: Size of the files that a user downloads, without card and figures.
        bytes_in_memory: Size of the table, and of the head's layers if there is one, as
            sentence-transformers holds them.
        recipe: The recipe.
        recipe_hash: Its hash.
        stages: What each stage measured.
        seconds: How long each stage took; empty without the stages.
        versions: Versions of packages, of the build and of mteb.
        teacher_id: The teacher's id on the Hub, or null.
        results: One entry per task, split and subset.
        n_tasks: Number of tasks in `results`.
        scores: A table of scores by task type: `columns`, and `rows` from model to values.
        left_out: Tasks that the table leaves out, because they were not scored on the
            benchmark's splits.
        benchmark: The benchmark of that table.
        published_source: Where published scores come from.
        speed: Of the model, its teacher and its peers.
        processor: Of that measurement.
        threads: Processors that it could use.
        load: Programs that wanted a processor at its start, on average over a minute.
        limits: Examples of what the model does not see, or not rightly, with cosines.
        lengths: Teacher agreement by sentence length; empty without the stages.
        variances: Variance along the components of the sentence PCA, the dropped ones first.
        figures: The figures, in the order in which they were drawn.
        speed_texts: What the speeds were measured on: `stdlib`, the documentation of Python's
            standard library; `corpus`, held-out sentences of the model's; empty without speeds.
        head_units: Hidden units of the head, H; 0 of a table alone.
        onnx: The smallest of the model's ONNX files as transformers.js calls it, `q8` or `fp32`;
            empty without any.
    """

    name: str
    hub_id: str | None
    fingerprint: str | None
    license: str
    dimension: int
    tokens: int
    dtype: str
    bytes_on_disk: int
    bytes_in_memory: int
    recipe: dict[str, Any]
    recipe_hash: str
    stages: dict[str, dict[str, Any]]
    seconds: dict[str, float]
    versions: dict[str, str]
    teacher_id: str | None
    results: list[ResultEntry]
    n_tasks: int
    scores: dict[str, Any]
    left_out: list[str]
    benchmark: str
    published_source: str
    speed: list[MeasuredSpeed]
    processor: str
    threads: int
    load: float
    limits: list[MeasuredLimit]
    lengths: list[dict[str, Any]]
    variances: list[float]
    figures: list[CardFigure] = field(default_factory=list)
    speed_texts: str = "stdlib"
    head_units: int = 0
    onnx: str = ""

    def to_json(self) -> str:
        """The facts as text, the same for the same facts."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"
