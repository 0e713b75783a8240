"""A card's Markdown from its facts: the same facts give the same bytes."""

from __future__ import annotations

import math
import shlex
from importlib import resources
from typing import Any

import yaml
from huggingface_hub import EvalResult, ModelCard, ModelCardData
from jinja2 import Environment, StrictUndefined

from st_static.build.loss import CITATION
from st_static.publish.facts import CardFacts

_TEMPLATE = "card.md.jinja"
_TAGS = ["sentence-transformers", "sentence-similarity", "feature-extraction", "static-embeddings"]


def render(facts: CardFacts, notes: str = "") -> str:
    """Write a card.

    Args:
        facts: What it says.
        notes: What a person wrote between the markers, with the line breaks around it.

    Returns:
        YAML and Markdown, as the Hub wants a README.md.
    """
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters["cell"] = _cell
    template = resources.files("st_static.publish").joinpath(_TEMPLATE).read_text("utf-8")
    body = environment.from_string(template).render(
        facts=facts,
        notes=notes.strip("\n"),
        figures={figure["file"].partition(".")[0]: figure for figure in facts.figures},
        model_id=facts.hub_id or f"models/{facts.name}",
        recipe=yaml.safe_dump(facts.recipe, sort_keys=False, allow_unicode=True, width=90),
        corpus=describe_corpus(facts.recipe["corpus"]),
        rebuild=_rebuild_command(facts),
        results=_by_task(facts),
        citation=CITATION.strip(),
    )
    return str(ModelCard(f"---\n{card_data(facts).to_yaml()}\n---\n\n{body}"))


def card_data(facts: CardFacts) -> ModelCardData:
    """The card's YAML."""
    corpus = facts.recipe["corpus"]
    lineage: dict[str, Any] = {}
    if facts.teacher_id:
        # Of the Hub's four relations the nearest: weights that were trained after another model.
        lineage = {"base_model": facts.teacher_id, "base_model_relation": "finetune"}
    from_hub = corpus["dataset"] and not (corpus["files"] or corpus["docstrings"])
    return ModelCardData(
        language="en",
        license=facts.license,
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        datasets=[corpus["dataset"]] if from_hub else None,
        tags=[*_TAGS, "mteb"],
        model_name=facts.name,
        eval_results=[_eval_result(entry) for entry in facts.results],
        **lineage,
    )


def _eval_result(entry: dict[str, Any]) -> EvalResult:
    local = " (local copy)" if entry["is_local"] else ""
    config = "" if entry["config"] == "default" else f" ({entry['config']})"
    return EvalResult(
        task_type=entry["hub_task"],
        task_name=entry["type"],
        dataset_type=entry["dataset"],
        dataset_name=f"MTEB {entry['task']}{config}{local}",
        dataset_config=entry["config"],
        dataset_split=entry["split"],
        dataset_revision=entry["revision"],
        metric_type=entry["metric"],
        metric_value=entry["value"],
    )


def describe_corpus(corpus: dict[str, Any]) -> str:
    """What the text was, as the recipe describes it or as it names it."""
    if corpus["files"]:
        source = f"files {', '.join(f'`{file}`' for file in corpus['files'])}"
    elif corpus["docstrings"]:
        source = f"docstrings of {', '.join(corpus['docstrings'])}"
    else:
        name = corpus["dataset"]
        source = f"[{name}](https://huggingface.co/datasets/{name})"
        source += f", {corpus['dataset_config']}" if corpus["dataset_config"] else ""
    description = corpus.get("description")
    return str(description) if description else source


def _rebuild_command(facts: CardFacts) -> str:
    """The command that builds the model again; places of files are the reader's to fill in."""
    command = ["st-static", "build", "recipe.yaml"]
    if files := [f"PATH/TO/{file}" for file in facts.recipe["corpus"]["files"] or []]:
        one_line = yaml.safe_dump(files, default_flow_style=True, width=math.inf).strip()
        command += ["--corpus.files", files[0] if len(files) == 1 else one_line]
    teacher = facts.recipe["teacher"]["model"]
    if "/" not in teacher:  # the name of a folder
        command += ["--teacher.model", f"PATH/TO/{teacher}"]
    return shlex.join([*command, "--output", f"models/{facts.name}"])


def _by_task(facts: CardFacts) -> list[dict[str, Any]]:
    """The results, those of a type together."""
    return sorted(facts.results, key=lambda e: (e["type"], e["task"], e["config"], e["split"]))


def _cell(value: Any) -> str:
    """A value in a table: numbers with two digits, no bar that would end the cell."""
    text = f"{value:.2f}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")
