"""A card's Markdown from its facts: the same facts give the same bytes."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import langcodes
import yaml
from huggingface_hub import EvalResult, ModelCard, ModelCardData
from jinja2 import Environment, PackageLoader, StrictUndefined

from st_static.distill.loss import CITATION
from st_static.evaluate.speed import is_believable
from st_static.evaluate.tasks import language_tag
from st_static.examples import NOT_SUITED, SUITED, examples_for
from st_static.languages import is_english, recorded_languages
from st_static.model.model_name import PACKAGE, ModelName
from st_static.publish.card.facts import CardFacts, ResultEntry
from st_static.publish.checks.card_format import licence_fields
from st_static.publish.checks.fingerprint import SLOW_MARK, mark

_TEMPLATE = "card.md.jinja"
# What the Hub has in place of a language.
_NO_LANGUAGES = {"code": "source code", "multilingual": "many languages"}
_MTEB, _LOCAL = "MTEB ", " (local copy)"
_TAGS = ["sentence-transformers", "sentence-similarity", "feature-extraction", "static-embeddings"]


def render(facts: CardFacts, notes: str = "") -> str:
    """Write a card.

    Args:
        facts: What it says.
        notes: What a person wrote between the markers, with the line breaks around it.

    Returns:
        YAML and Markdown, as the Hub wants a README.md.
    """
    languages = recorded_languages(facts.recipe)
    examples = examples_for(languages)
    body = render_template(
        _TEMPLATE,
        facts=facts,
        notes=notes.strip("\n"),
        figures={figure.file.partition(".")[0]: figure for figure in facts.figures},
        model_id=facts.hub_id or f"models/{facts.name}",
        languages=name_languages(languages),
        is_english=is_english(languages),
        examples=examples,
        suited=SUITED,
        not_suited=NOT_SUITED,
        of_examples=name_languages([examples.language]),
        has_examples=not languages or bool({examples.language, "multilingual"} & set(languages)),
        teacher_name=describe_teacher(facts),
        is_believable=is_believable(facts.speed, facts.name),
        pairs_from=_source_of_pairs(facts.recipe.get("pairs") or {}),
        marks=_marks(facts),
        recipe=yaml.safe_dump(facts.recipe, sort_keys=False, allow_unicode=True, width=90),
        corpus=describe_corpus(facts.recipe["corpus"]),
        rebuild=_rebuild_command(facts),
        citation=CITATION.strip(),
    )
    return str(ModelCard(f"---\n{card_data(facts).to_yaml()}\n---\n\n{body}"))


def _marks(facts: CardFacts) -> list[str]:
    """Invisible lines that tell `publish` which model a card is of, and of doubtful speeds."""
    of_model = [mark(facts.fingerprint)] if facts.fingerprint else []
    return of_model if is_believable(facts.speed, facts.name) else [*of_model, SLOW_MARK]


def render_template(name: str, facts: Any, **values: Any) -> str:
    """Fill in a template of this folder with facts, their results by task, and other values."""
    environment = Environment(
        loader=PackageLoader("st_static.publish.card", "."),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["cell"] = _cell
    teacher_id = getattr(facts, "teacher_id", None)
    template = environment.get_template(name)
    return template.render(
        facts=facts, teacher_id=teacher_id, results=_by_task(facts.results), **values
    )


def _source_of_pairs(pairs: Mapping[str, Any]) -> str:
    """Where pairs of texts come from, by the recipe."""
    if pairs.get("mined"):
        return "mined from the corpus with the teacher"
    return ", ".join(pairs.get("files") or []) or f"dataset {pairs.get('dataset')}"


def card_data(facts: CardFacts) -> ModelCardData:
    """The card's YAML."""
    languages = recorded_languages(facts.recipe)
    return ModelCardData(
        language=languages[0] if len(languages) == 1 else languages or None,
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        datasets=_datasets(facts.recipe) or None,
        tags=[*_TAGS, "mteb"],
        model_name=facts.name,
        eval_results=[eval_result(entry) for entry in facts.results],
        **licence_fields(facts.license),
        **lineage(facts.teacher_id),
    )


def _datasets(recipe: Mapping[str, Any]) -> list[str]:
    """The datasets of the Hub that a model was made of: text, and pairs."""
    corpus, pairs = recipe["corpus"], recipe.get("pairs") or {}
    from_hub = corpus["dataset"] and not (corpus["files"] or corpus["docstrings"])
    named = [corpus["dataset"] if from_hub else None, pairs.get("dataset")]
    return list(dict.fromkeys(filter(None, named)))


def lineage(teacher_id: str | None) -> dict[str, Any]:
    """The YAML on a model's teacher, if the Hub has it."""
    if teacher_id is None:
        return {}
    # Of the Hub's four relations the nearest: weights that were trained after another model.
    return {"base_model": teacher_id, "base_model_relation": "finetune"}


def eval_result(entry: ResultEntry) -> EvalResult:
    """A result as the Hub's model-index has it."""
    local = _LOCAL if entry.is_local else ""
    config = "" if entry.config == "default" else f" ({entry.config})"
    return EvalResult(
        task_type=entry.hub_task,
        task_name=entry.type,
        dataset_type=entry.dataset,
        dataset_name=f"{_MTEB}{entry.task}{config}{local}",
        dataset_config=entry.config,
        dataset_split=entry.split,
        dataset_revision=entry.revision,
        metric_type=entry.metric,
        metric_value=entry.value,
    )


def official_task(dataset_name: str) -> str | None:
    """The task of a result's `dataset_name`; None of a local copy, and of what is not mteb's."""
    if not dataset_name.startswith(_MTEB) or dataset_name.endswith(_LOCAL):
        return None
    return dataset_name.removeprefix(_MTEB).partition(" ")[0]


def name_languages(codes: Sequence[str]) -> str:
    """Languages by name: `German`, `German and English`; empty for none."""
    names = [_NO_LANGUAGES.get(code) or _name_language(code) for code in codes]
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def _name_language(code: str) -> str:
    name = langcodes.Language.get(code).language_name()
    return f"`{code}`" if name.startswith("Unknown language") else name


def describe_teacher(facts: CardFacts) -> str:
    """The teacher as a link, or as the recipe describes or names it."""
    teacher = facts.recipe["teacher"]
    if facts.teacher_id:
        return f"[{facts.teacher_id}](https://huggingface.co/{facts.teacher_id})"
    if teacher.get("description"):
        return str(teacher["description"])
    name = ModelName.parse(teacher["model"])
    if name.kind == PACKAGE:
        return f"a model in the Python package `{name.rest.partition('/')[0]}`"
    return f"a local model, `{teacher['model']}`"


def describe_corpus(corpus: dict[str, Any]) -> str:
    """What the text was, as the recipe describes it or as it names it."""
    if corpus["files"]:
        source = f"files {', '.join(f'`{file}`' for file in corpus['files'])}"
    elif corpus["docstrings"]:
        source = f"docstrings of {', '.join(corpus['docstrings'])}"
    else:
        name = corpus["dataset"]
        source = f"[{name}](https://huggingface.co/datasets/{name})"
        if names := corpus["dataset_config"]:
            source += f", {names if isinstance(names, str) else ', '.join(names)}"
    description = corpus.get("description")
    return str(description) if description else source


def _rebuild_command(facts: CardFacts) -> str:
    """The command that builds the model again; places of files are the reader's to fill in."""
    command = ["st-static", "build", "recipe.yaml"]
    for section in ("corpus", "pairs"):
        names = facts.recipe.get(section, {}).get("files") or []
        if files := [f"PATH/TO/{name}" for name in names]:
            one_line = yaml.safe_dump(files, default_flow_style=True, width=math.inf).strip()
            command += [f"--{section}.files", files[0] if len(files) == 1 else one_line]
    teacher = facts.recipe["teacher"]["model"]
    if "/" not in teacher:  # the name of a folder
        command += ["--teacher.model", f"PATH/TO/{teacher}"]
    return shlex.join([*command, "--output", f"models/{facts.name}"])


def _by_task(entries: Sequence[ResultEntry]) -> list[dict[str, Any]]:
    """The results, those of a type together, with their languages by name."""
    rows = []
    for entry in sorted(entries, key=lambda e: (e.type, e.task, e.config, e.split)):
        languages = list(dict.fromkeys(map(language_tag, entry.languages)))
        rows.append({**asdict(entry), "language": name_languages(languages)})
    return rows


def _cell(value: Any) -> str:
    """A value in a table: numbers with two digits, no bar that would end the cell."""
    text = f"{value:.2f}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")
