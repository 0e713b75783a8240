"""The card of an ensemble or of text vectors: facts from its record and mteb's results, then text.

No recipe built these models, so their cards have no stages, and are short.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard, ModelCardData

from st_static.ensemble.card_text import card_metadata, ensemble_body
from st_static.languages import languages_of_record
from st_static.model.card_file import mark
from st_static.model.model_folder import ModelFolder
from st_static.publish.card.converted_text import converted_body, converted_metadata
from st_static.publish.card.facts import ResultEntry
from st_static.publish.card.inputs import CardInputs, name_of
from st_static.publish.card.render import eval_result, name_languages, render_template
from st_static.publish.card.results import ScoreTable, read_entries, score_table

_TEMPLATE = "scores.md.jinja"
# What a record has in the place of a recipe: the YAML and the Markdown of its card.
_TEXTS = {
    "ensemble": (card_metadata, ensemble_body),
    "conversion": (converted_metadata, converted_body),
}


@dataclass(frozen=True)
class ShortFacts:
    """What a short card says; written as plain JSON.

    Attributes:
        name: The model's name: the last part of `hub_id`, else its folder's.
        hub_id: Where it will be published, or null.
        fingerprint: Of the model's files.
        record: `ensemble` or `conversion`, as the model's record has it.
        results: One entry per task, split and subset.
        scores: A table of scores by task type, as of `CardFacts`; empty without results.
        left_out: Tasks that the table leaves out.
        benchmark: The benchmark of that table.
        published_source: Where published scores come from.
    """

    name: str
    hub_id: str | None
    fingerprint: str
    record: dict[str, Any]
    results: list[ResultEntry]
    scores: dict[str, Any]
    left_out: list[str]
    benchmark: str
    published_source: str

    @property
    def teacher_id(self) -> str | None:
        """The teacher's id on the Hub, of text vectors that have one."""
        return _teacher_of(self.record)

    def to_json(self) -> str:
        """The facts as text, the same for the same facts."""
        facts = asdict(self)
        return json.dumps(facts | facts.pop("record"), indent=1, ensure_ascii=False) + "\n"


def gather_short(folder: Path, record: dict[str, Any], inputs: CardInputs) -> ShortFacts:
    """Gather what a short card says; for the arguments see `gather.gather`."""
    name = name_of(folder, inputs.hub_id)
    languages = languages_of_record(record)
    scores = ScoreTable({}, [], "")
    if inputs.results:
        scores = score_table(name, _teacher_of(record), inputs, languages)
    return ShortFacts(
        name=name,
        hub_id=inputs.hub_id,
        fingerprint=ModelFolder(folder).fingerprint,
        record={kind: record[kind] for kind in _TEXTS if kind in record},
        results=read_entries(inputs.results, inputs.benchmark, languages),
        scores=scores.table,
        left_out=scores.left_out,
        benchmark=inputs.benchmark,
        published_source=scores.published_source,
    )


def render_short(facts: ShortFacts, notes: str = "") -> str:
    """Write a short card.

    Args:
        facts: What it says.
        notes: What a person wrote between the markers.

    Returns:
        YAML and Markdown, as the Hub wants a README.md.
    """
    [kind] = facts.record
    metadata_of, body_of = _TEXTS[kind]
    metadata = metadata_of(facts.record)
    if facts.results:
        metadata["tags"].append("mteb")
        metadata["model_name"] = facts.name
        metadata["eval_results"] = [eval_result(entry) for entry in facts.results]
    data = ModelCardData(**metadata)
    languages = name_languages(languages_of_record(facts.record))
    scores = (
        render_template(_TEMPLATE, facts=facts, figures={}, languages=languages)
        if facts.results
        else ""
    )
    body = body_of(facts.record, facts.name, notes, facts.hub_id or "", scores)
    return str(ModelCard(f"---\n{data.to_yaml()}\n---\n\n{body}\n{mark(facts.fingerprint)}\n"))


def _teacher_of(record: dict[str, Any]) -> str | None:
    teacher: str | None = (record.get("conversion") or {}).get("teacher")
    return teacher
