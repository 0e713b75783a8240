"""The card of an ensemble with scores: facts from its record and mteb's results, then Markdown."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard, ModelCardData

from st_static.ensemble.card_text import card_metadata, ensemble_body
from st_static.languages import languages_of_members
from st_static.publish.card.facts import ResultEntry
from st_static.publish.card.inputs import CardInputs, name_of
from st_static.publish.card.render import eval_result, name_languages, render_template
from st_static.publish.card.results import ScoreTable, read_entries, score_table
from st_static.publish.checks.fingerprint import fingerprint, mark

_TEMPLATE = "scores.md.jinja"


@dataclass(frozen=True)
class EnsembleFacts:
    """What an ensemble's card says; written as plain JSON.

    Attributes:
        name: The model's name: the last part of `hub_id`, else its folder's.
        hub_id: Where it will be published, or null.
        fingerprint: Of the model's files.
        ensemble: Form, members and what was measured, as the record has them.
        results: One entry per task, split and subset.
        scores: A table of scores by task type, as of `CardFacts`; empty without results.
        left_out: Tasks that the table leaves out.
        benchmark: The benchmark of that table.
        published_source: Where published scores come from.
    """

    name: str
    hub_id: str | None
    fingerprint: str
    ensemble: dict[str, Any]
    results: list[ResultEntry]
    scores: dict[str, Any]
    left_out: list[str]
    benchmark: str
    published_source: str

    def to_json(self) -> str:
        """The facts as text, the same for the same facts."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"


def gather_ensemble(folder: Path, record: dict[str, Any], inputs: CardInputs) -> EnsembleFacts:
    """Gather what an ensemble's card says; for the arguments see `gather.gather`."""
    name = name_of(folder, inputs.hub_id)
    languages = languages_of_members(record["ensemble"]["members"])
    scores = ScoreTable({}, [], "")
    if inputs.results:
        scores = score_table(name, None, inputs, languages)
    return EnsembleFacts(
        name=name,
        hub_id=inputs.hub_id,
        fingerprint=fingerprint(folder),
        ensemble=record["ensemble"],
        results=read_entries(inputs.results, inputs.benchmark, languages),
        scores=scores.table,
        left_out=scores.left_out,
        benchmark=inputs.benchmark,
        published_source=scores.published_source,
    )


def render_ensemble(facts: EnsembleFacts, notes: str = "") -> str:
    """Write an ensemble's card.

    Args:
        facts: What it says.
        notes: What a person wrote between the markers.

    Returns:
        YAML and Markdown, as the Hub wants a README.md.
    """
    record = {"ensemble": facts.ensemble}
    metadata = card_metadata(record)
    if facts.results:
        metadata["tags"].append("mteb")
        metadata["model_name"] = facts.name
        metadata["eval_results"] = [eval_result(entry) for entry in facts.results]
    data = ModelCardData(**metadata)
    languages = name_languages(languages_of_members(facts.ensemble["members"]))
    scores = (
        render_template(_TEMPLATE, facts=facts, figures={}, languages=languages)
        if facts.results
        else ""
    )
    body = ensemble_body(record, facts.name, notes, facts.hub_id or "", scores)
    return str(ModelCard(f"---\n{data.to_yaml()}\n---\n\n{body}\n{mark(facts.fingerprint)}\n"))
