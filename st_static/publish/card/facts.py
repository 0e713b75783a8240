"""What a model card says: one plain JSON value, of which the card is a function."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass(frozen=True)
class CardFacts:
    """What a card says; every value is plain JSON.

    Attributes:
        name: The model's name: the last part of `hub_id`, else its folder's.
        hub_id: Where it will be published, or null.
        fingerprint: Of the model's files, see `fingerprint.py`; null of older facts.
        license: Its licence as the Hub spells it; `unknown` if the recipe does not say it.
        dimension: D.
        tokens: Rows of the table, V.
        dtype: Number format of the table as stored.
        bytes_on_disk: Size of the files that a user downloads, without card and figures.
        bytes_in_memory: Size of the table, as sentence-transformers holds it.
        recipe: The recipe.
        recipe_hash: Its hash.
        stages: What each stage measured.
        seconds: How long each stage took; empty without the stages.
        versions: Versions of packages, of the build and of mteb.
        teacher_id: The teacher's id on the Hub, or null.
        results: One entry per task, split and subset: see `gather.read_entries`.
        n_tasks: Number of tasks in `results`.
        scores: A table of scores by task type: `columns`, and `rows` from model to values.
        left_out: Tasks that the table leaves out, because they were not scored on the
            benchmark's splits.
        benchmark: The benchmark of that table.
        published_source: Where published scores come from.
        speed: Sentences a second: entries of `model`, `encoder` and `speed`.
        processor: Of that measurement.
        threads: Processors that it could use.
        load: Programs that wanted a processor at its start, on average over a minute.
        limits: Examples of what the model does not see, with cosines.
        lengths: Teacher agreement by sentence length; empty without the stages.
        variances: Variance along the components of the sentence PCA, the dropped ones first.
        figures: Entries of `file`, `title` and `alt`.
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
    results: list[dict[str, Any]]
    n_tasks: int
    scores: dict[str, Any]
    left_out: list[str]
    benchmark: str
    published_source: str
    speed: list[dict[str, Any]]
    processor: str
    threads: int
    load: float
    limits: list[dict[str, Any]]
    lengths: list[dict[str, Any]]
    variances: list[float]
    figures: list[dict[str, str]] = field(default_factory=list)

    def to_json(self) -> str:
        """The facts as text, the same for the same facts."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> CardFacts:
        """The facts that `to_json` wrote.

        Raises:
            ValueError: Some are missing, or there are others.
        """
        values = json.loads(text)
        expected, got = {f.name for f in fields(cls)}, set(values)
        if expected != got:
            raise ValueError(
                f"Expected facts of a card, but {sorted(expected - got)} are missing and "
                f"{sorted(got - expected)} are unknown. Run st-static card again."
            )
        if "origin" not in values["scores"]["columns"]:
            raise ValueError(
                "Expected a column origin in the facts' scores: they are of another version. Run "
                "st-static card again."
            )
        return cls(**values)
