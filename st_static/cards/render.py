"""Render a card's Markdown from its facts; the same facts give the same bytes."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import yaml
from huggingface_hub import EvalResult, ModelCardData
from jinja2 import Environment, PackageLoader, StrictUndefined

from st_static.cards.facts import CardFacts, teacher_id
from st_static.examples import NOT_SUITED, SUITED, examples_for, usage_in
from st_static.languages import is_english, languages_of_record
from st_static.model.card_file import NOTES_END, NOTES_START, OF_MODEL, with_notes
from st_static.model.model_name import PACKAGE, ModelName
from st_static.model.modules import CARD_FILE
from st_static.model.records import license_of_recipe, teachers_of
from st_static.yaml_text import dump_yaml

SLOW_MARK = "<!-- st_static: speed=unbelievable -->"
"""An invisible line of a card that tells `publish` of doubtful speeds."""
TERMS_IN_NOTES = "see-model-card"
"""The license_name of a card whose licence is in its notes."""
# The Hub's tags in place of a language.
_NO_LANGUAGES = {"code": "source code", "multilingual": "many languages"}
_LINK = "[{0}](https://huggingface.co/{0})"
OF_MTEB = "MTEB "
"""The beginning of a dataset's name in the results of a card."""
# Texts of the distillation that were chosen for no word, as the record calls them; further
# sentences were an option of version 0.2.
_MORE_TEXTS = {"further": "further sentences", "spans": "spans of words", "passages": "passages"}
_TAGS = ["sentence-transformers", "sentence-similarity", "feature-extraction", "static-embeddings"]
# Hub ids of the licences that let everybody redistribute changed works.
_OPEN_LICENSES = """
    apache-2.0 mit bsd bsd-2-clause bsd-3-clause cc0-1.0 cc-by-3.0 cc-by-4.0 cc-by-sa-3.0
    cc-by-sa-4.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 odc-by odbl pddl
    unlicense isc zlib mpl-2.0 gpl-3.0 lgpl-3.0 agpl-3.0
""".split()  # noqa: SIM905 (a list of words reads better)


def render(facts: CardFacts, notes: str = "") -> str:
    """Write a card, with the notes that a person wrote between its markers."""
    environment = Environment(
        loader=PackageLoader("st_static.cards", "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"cell": _cell, "named": name_languages, "caution": _caution}
    environment.filters |= {"linked": _LINK.format, "listed": _listed}
    environment.filters["quoted"] = partial(json.dumps, ensure_ascii=False)  # Python, JavaScript
    languages, made = languages_of_record(facts.record), facts.made
    marks = [OF_MODEL.format(facts.fingerprint)] if facts.fingerprint else []
    values: dict[str, Any] = {
        "facts": facts,
        "made": made,
        "notes": f"{NOTES_START}\n{NOTES_END}",
        "model_id": facts.hub_id or f"models/{facts.name}",
        "languages": languages,
        "usage": usage_in(languages) or usage_in([]),
        "figures": {figure.file.partition(".")[0]: figure for figure in facts.figures},
        "results": [
            asdict(entry)
            for entry in sorted(facts.results, key=lambda e: (e.type, e.task, e.config, e.split))
        ],
        "marks": marks if facts.is_believable else [*marks, SLOW_MARK],
    }
    recipe = ""
    if "recipe" in facts.record:
        recipe = dump_yaml(dict(made), width=90)
        values |= _values_of_recipe(facts, languages) | {"recipe": recipe}
    body = environment.get_template(f"{facts.kind}.md.jinja").render(values)
    # The template's empty lines collapse; those inside the recipe's values stay.
    parts = body.split(recipe) if recipe else [body]
    body = recipe.join(re.sub(r"\n{3,}", "\n\n", part) for part in parts).rstrip("\n")
    header = dump_yaml(_header(facts, languages))
    return with_notes(f"---\n{header}---\n\n{body}\n", notes)


def _values_of_recipe(facts: CardFacts, languages: Sequence[str]) -> dict[str, Any]:
    """Compute the values that only the template of built models needs."""
    from st_static.distill.loss import CITATION  # not in the base install

    recipe, examples = facts.record["recipe"], examples_for(languages)
    chosen = facts.record["stages"]["selection"]
    pairs, corpus = recipe.get("pairs") or {}, recipe["corpus"]
    distillation = recipe.get("distillation") or {}
    of_teachers = _values_of_teachers(facts.record)
    # The command that rebuilds it; readers fill in the places of files and of teachers' folders.
    command = ["st-static", "build", "recipe.yaml"]
    for section in ("corpus", "pairs"):
        names = recipe.get(section, {}).get("files") or []
        if files := [f"PATH/TO/{name}" for name in names]:
            one_line = yaml.safe_dump(files, default_flow_style=True, width=math.inf).strip()
            command += [f"--{section}.files", files[0] if len(files) == 1 else one_line]
    command += [*of_teachers["options"], "--output", f"models/{facts.name}"]
    # The text is linked, or described as the recipe does.
    if corpus.get("description"):
        text = str(corpus["description"])
    elif corpus["files"]:
        text = f"files {', '.join(f'`{file}`' for file in corpus['files'])}"
    elif corpus["docstrings"]:
        text = f"docstrings of {', '.join(corpus['docstrings'])}"
    else:
        names = corpus["dataset_config"] or []
        link = f"[{corpus['dataset']}](https://huggingface.co/datasets/{corpus['dataset']})"
        text = ", ".join([link, *([names] if isinstance(names, str) else names)])
    return {
        "is_english": is_english(languages),
        "of_examples": [examples.language],
        "has_examples": not languages or {examples.language, "multilingual"} & set(languages),
        "for_queries": distillation.get("target") == "vectors",
        "suited": SUITED,
        "not_suited": NOT_SUITED,
        **of_teachers,
        "corpus": text,
        # Builds of version 0.2 knew other sources, which the recipe below the sentence has.
        "pairs_from": ", ".join(pairs.get("files") or []) or "see the recipe",
        "full_terms": distillation.get("terms") == "full",
        "more_texts": {kind: chosen[key] for key, kind in _MORE_TEXTS.items() if chosen.get(key)},
        "rebuild": shlex.join(command),
        "citation": CITATION.strip(),
    }


def _values_of_teachers(record: Mapping[str, Any]) -> dict[str, Any]:
    """Compute the values of a built model's card on its teachers; in `options`, if any, readers
    fill in the paths of folders."""
    from st_static.distill.stages import kind_of  # not in the base install

    recipe, teachers = record["recipe"], teachers_of(record["recipe"])
    names, placed = [], []
    for teacher in teachers:
        model, hub_id = teacher["model"], teacher_id(teacher)
        of_model = ModelName.parse(model)
        if hub_id:
            name = _LINK.format(hub_id)
        elif of_model.kind == PACKAGE:
            name = f"a model in the Python package `{of_model.rest.partition('/')[0]}`"
        else:
            name = f"a local model, `{model}`"
        names.append(name)
        placed.append({**teacher, "model": model if "/" in model else f"PATH/TO/{model}"})
    options: list[str] = []
    if placed != teachers and "teachers" not in recipe:
        options = ["--teacher.model", placed[0]["model"]]
    elif placed != teachers:  # one of several can be given with the whole list alone
        from st_static.distill.teacher_config import WeightedTeacher

        usual = vars(WeightedTeacher())
        entries = [
            {k: v for k, v in teacher.items() if k == "model" or (k in usual and v != usual[k])}
            for teacher in placed
        ]
        options = ["--teachers", dump_yaml(entries, math.inf, in_brackets=True).strip()]
    several = len(teachers) > 1
    labels = [f"teacher {i}" if several else "teacher" for i in range(1, 1 + len(teachers))]
    stages = record["stages"].items()
    passes = [figures for stage, figures in stages if kind_of(stage) == "extraction"]
    each = zip(labels, passes, strict=False)  # a record need not have the passes
    weights_differ = len({teacher.get("weight") for teacher in teachers}) > 1
    return {
        "teachers": list(zip(teachers, names, labels, strict=True)),
        "teacher_name": _listed(list(dict.fromkeys(names))),
        "several": several,
        "of_teachers": "the teachers'" if several else "the teacher's",
        "mean": "weighted mean" if weights_differ else "mean",
        "weights_differ": weights_differ,
        "extractions": passes,
        "centred": _listed([label for label, figures in each if figures.get("teacher_centered")]),
        "options": options,
    }


def _header(facts: CardFacts, languages: Sequence[str]) -> dict[str, Any]:
    """Make the values of the card's YAML."""
    made, datasets = facts.made, []
    if "recipe" in facts.record:
        terms = licence_fields(license_of_recipe(made) or "unknown")
        corpus = made["corpus"]
        of_text = None if corpus["files"] or corpus["docstrings"] else corpus["dataset"]
        datasets = [of_text] if of_text else []
    elif facts.kind != "ensemble":
        terms = licence_fields(made["license"] or "unknown")
        datasets = made.get("datasets") or []
    else:
        licences = {str(member["license"]).lower() for member in made["members"]}
        terms = {"license": "other", "license_name": "those-of-the-members"}
        terms |= {"license_link": CARD_FILE}
        if len(licences) == 1 and licences <= set(_OPEN_LICENSES):
            terms = {"license": licences.pop()}
    if ids := facts.teacher_ids:
        # The nearest of the Hub's four relations: weights that were trained after another model.
        terms |= {"base_model": ids if len(ids) > 1 else ids[0], "base_model_relation": "finetune"}
    # Machines take these for claims on the Hub's datasets, but a local copy may be anything.
    official = [entry for entry in facts.results if not entry.is_local]
    if official:
        results = [
            EvalResult(
                task_type=entry.hub_task,
                task_name=entry.type,
                dataset_type=entry.dataset,
                dataset_name=f"{OF_MTEB}{entry.task}"
                f"{'' if entry.config == 'default' else f' ({entry.config})'}",
                dataset_config=entry.config,
                dataset_split=entry.split,
                dataset_revision=entry.revision,
                metric_type=entry.metric,
                metric_value=entry.value,
            )
            for entry in official
        ]
        terms |= {"model_name": facts.name, "eval_results": results}
    data = ModelCardData(
        language=languages[0] if len(languages) == 1 else list(languages) or None,
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        datasets=datasets or None,
        tags=[*_TAGS, *(["mteb"] if official else []), *made.get("tags", [])],
        **terms,
    )
    header: dict[str, Any] = data.to_dict()  # type: ignore[no-untyped-call]
    return header


def licence_fields(license_id: str) -> dict[str, Any]:
    """Make a licence's YAML fields; the terms of `other` go into the notes, as publish expects."""
    if license_id != "other":
        return {"license": license_id}
    return {"license": "other", "license_name": TERMS_IN_NOTES, "license_link": CARD_FILE}


def _caution(license_id: str | None) -> str:
    """Say what a licence, given by its Hub id, forbids; empty for an open one."""
    terms = str(license_id).lower()
    if "nd" in terms.split("-"):
        return f"({license_id}) may not be redistributed in a changed form, as it is here."
    if terms not in _OPEN_LICENSES:
        named = f"has the licence {license_id}" if license_id else "names no licence"
        return f"{named}: see whether it may be redistributed, or ask its authors."
    return f"({license_id}) may not be used commercially." if "nc" in terms.split("-") else ""


def name_languages(codes: Sequence[str]) -> str:
    """Name languages: `German`, `German and English`; empty for none."""
    from langcodes import Language  # not in the base install

    names = []
    for code in dict.fromkeys(codes):
        name = _NO_LANGUAGES.get(code) or Language.get(code).language_name()
        names.append(f"`{code}`" if name.startswith("Unknown language") else name)
    return _listed(names)


def _listed(names: Sequence[str]) -> str:
    """Write a list: `one, two and three`."""
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def _cell(value: Any) -> str:
    """Format a value for a table: numbers with two digits, bars escaped."""
    text = f"{value:.2f}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")
