"""Checking a card: what the Hub would refuse or ignore in it, and whether it is of its model."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from huggingface_hub import ModelCardData, parse_eval_result_entries
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

from st_static.foreign_files import read_bounded
from st_static.languages import languages_of_record
from st_static.model.card_file import SLOW_MARK, header_of, marked, notes_of, read_yaml
from st_static.model.model_folder import ModelFolder
from st_static.model.model_name import ModelName
from st_static.model.modules import CARD_FILE, ONNX_FILE_OF_DTYPE, RECORD_FILE

# The license_name of a card whose licence is in its notes.
TERMS_IN_NOTES = "see-model-card"
RELATIONS = ("adapter", "merge", "quantized", "finetune")
# Of https://huggingface.co/docs/hub/repositories-licenses.
_LICENSES = """
    apache-2.0 mit openrail bigscience-openrail-m creativeml-openrail-m bigscience-bloom-rail-1.0
    bigcode-openrail-m afl-3.0 artistic-2.0 bsl-1.0 bsd bsd-2-clause bsd-3-clause bsd-3-clause-clear
    c-uda cc cc0-1.0 cc-by-2.0 cc-by-2.5 cc-by-3.0 cc-by-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-2.0
    cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nd-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0
    cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cdla-sharing-1.0 cdla-permissive-1.0 cdla-permissive-2.0 wtfpl
    ecl-2.0 epl-1.0 epl-2.0 etalab-2.0 eupl-1.1 eupl-1.2 agpl-3.0 gfdl gpl gpl-2.0 gpl-3.0 lgpl
    lgpl-2.1 lgpl-3.0 isc h-research intel-research lppl-1.3c ms-pl apple-ascl apple-amlr mpl-2.0
    odc-by odbl openmdw-1.0 openrail++ osl-3.0 postgresql ofl-1.1 ncsa unlicense zlib pddl lgpl-lr
    deepfloyd-if-license fair-noncommercial-research-license llama2 llama3 llama3.1 llama3.2
    llama3.3 llama4 grok2-community gemma unknown other
"""
_PARTS: dict[str, type] = {"task": dict, "dataset": dict, "metrics": list}
_DATASET = re.compile(r"[\w.-]+(/[\w.-]+)?")
_LANGUAGE_CODE = re.compile("[a-z]{2,3}|code|multilingual")  # as the Hub takes it
# A link to a file of the repository, and what an example in the card loads.
_LINK = re.compile(r"(?![\w+.-]+:|[#/])[^\s#]+")
_LOADED = re.compile(r"""SentenceTransformer\(\s*["']([^"']+)["']""")
_DTYPE = re.compile(r"""dtype: ["'](\w+)["']""")
_DIMENSION = re.compile(r"\b(\d+)[- ]dimension")  # in a card that was written by hand
_AGAIN = "Write it again: st-static card."


# -- what the Hub takes ----------------------------------------------------------------


def check_card(text: str) -> list[str]:
    """Find what is wrong with the card of a sentence-transformers model.

    Args:
        text: The card: YAML between two lines of `---`, then Markdown.

    Returns:
        All problems, each a sentence; none for a card that the Hub takes as it is meant.
    """
    try:
        data = header_of(text)
    except ValueError as error:
        return [f"The card's YAML cannot be read: {error}."]
    if data is None:
        return ["The card does not begin with YAML between two lines of ---."]
    problems = [*_fields(data), *check_licence(data), *_model_index(data)]
    # Split, for a regular expression would look for the end of each beginning in all that follows.
    parts = [part.partition("\n")[0].partition("](") for part in text.split("![")[1:]]
    alts = [alt for alt, end, _ in parts if end]
    problems += [f"Image {i} has no alt text." for i, alt in enumerate(alts, 1) if not alt.strip()]
    if not problems:
        try:
            # As ModelCard, whose own search for the YAML takes minutes in many empty lines.
            ModelCardData(**data)
        except (ValueError, TypeError, KeyError) as error:
            problems.append(f"huggingface_hub cannot read the card: {error}.")
    return problems


def card_yaml(text: str) -> dict[str, Any]:
    """Parse a card's YAML; empty if it has none that can be read."""
    try:
        return header_of(text) or {}
    except ValueError:
        return {}


def dataset_names(text: str) -> set[str]:
    """Find what the results of a card's model-index call their datasets."""
    return {
        name
        for entry in _list(card_yaml(text).get("model-index"))
        for result in _list(entry.get("results") if isinstance(entry, dict) else None)
        if isinstance(result, dict) and isinstance(result.get("dataset"), dict)
        if isinstance(name := result["dataset"].get("name"), str)
    }


def check_licence(data: dict[str, Any]) -> Iterator[str]:
    """Say what is wrong with the licence in a card's YAML."""
    licence = data.get("license")
    if licence not in _LICENSES.split():
        yield (
            f"Expected a license that the Hub knows, such as apache-2.0, or other with a "
            f"license_name, but got {licence!r}."
        )
    if licence == "other" and not (data.get("license_name") and data.get("license_link")):
        yield "A license called other needs license_name and license_link."


def licence_fields(license_id: str) -> dict[str, Any]:
    """Write the YAML on a licence; the terms of `other` are for the notes, where publish looks.

    Args:
        license_id: As the Hub calls it.
    """
    if license_id != "other":
        return {"license": license_id}
    return {"license": "other", "license_name": TERMS_IN_NOTES, "license_link": CARD_FILE}


def _fields(data: dict[str, Any]) -> Iterator[str]:
    languages = data.get("language", [])  # may be left out
    languages = [languages] if isinstance(languages, str) else languages
    if not isinstance(languages, list) or (not languages and "language" in data):
        yield f"Expected a language, such as en, but got {data['language']!r}."
    else:
        for code in languages:
            if not _LANGUAGE_CODE.fullmatch(str(code)):
                yield f"Expected a language's code of two or three letters, but got {code!r}."
    for key, expected in (
        ("library_name", "sentence-transformers"),
        ("pipeline_tag", "sentence-similarity"),
    ):
        if data.get(key) != expected:
            yield f"Expected {key} to be {expected}, but got {data.get(key)!r}."
    tags = data.get("tags", [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        yield f"Expected tags to be a list of strings, but got {tags!r}."
    for key in ("base_model", "datasets"):
        ids = data.get(key, [])
        for name in [ids] if isinstance(ids, str) else ids if isinstance(ids, list) else [ids]:
            try:
                validate_repo_id(name)
            except HFValidationError:
                yield f"Expected ids of the Hub in {key}, but got {name!r}."
    relation = data.get("base_model_relation")
    if relation is not None and relation not in RELATIONS:
        yield f"Expected base_model_relation to be one of {RELATIONS}, but got {relation!r}."
    if relation is not None and not data.get("base_model"):
        yield "base_model_relation is there without a base_model."


def _model_index(data: dict[str, Any]) -> Iterator[str]:
    if "model-index" not in data:
        return
    index = data["model-index"]
    if not isinstance(index, list) or not all(isinstance(entry, dict) for entry in index):
        yield "Expected model-index to be a list of models."
        return
    for entry in index:
        if not isinstance(entry.get("name"), str) or not entry["name"]:
            yield "A model of the model-index has no name."
        results = entry.get("results")
        if isinstance(results, list) and results:
            for number, result in enumerate(results, 1):
                yield from (f"Result {number} of the model-index {p}." for p in _result(result))
            keys = Counter(_key(result) for result in results if isinstance(result, dict))
            for key, count in keys.items():
                if count > 1:
                    yield f"The model-index has {count} results of {key}."
        else:
            yield f"{entry.get('name')} has no results in the model-index."


def _result(result: Any) -> Iterator[str]:
    """What is wrong with one result, as what follows "The result …"."""
    for key, kind in _PARTS.items():
        if not isinstance(result, dict) or not isinstance(result.get(key), kind) or not result[key]:
            yield f"has no {key}"
            return
    for key, name in (("task", "type"), ("dataset", "type"), ("dataset", "name")):
        if not isinstance(result[key].get(name), str) or not result[key][name]:
            yield f"has no {key}.{name}"
    dataset = result["dataset"].get("type")
    if isinstance(dataset, str) and dataset and not _DATASET.fullmatch(dataset):
        yield f"has a dataset.type that is not an id of the Hub: {dataset!r}"
    for metric in result["metrics"]:
        if not isinstance(metric, dict) or not isinstance(metric.get("type"), str):
            yield "has a metric without a type"
        elif not _is_number(metric.get("value")):
            yield f"has a {metric['type']} that is not a finite number: {metric.get('value')!r}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _key(result: dict[str, Any]) -> str:
    """What a result is of; two of the same would contradict each other."""
    dataset = result.get("dataset")
    dataset = dataset if isinstance(dataset, dict) else {}
    names = [dataset.get(key) for key in ("name", "type", "config", "split", "revision")]
    return " ".join(str(name) for name in names if name)


def check_results_file(path: Path) -> list[str]:
    """Say what is wrong with a file of `.eval_results/`.

    Args:
        path: The YAML file, a list of entries.

    Returns:
        The problems, none if the Hub can read the file.
    """
    try:
        entries = parse_eval_result_entries(read_yaml(read_bounded(path).decode()))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        return [f"is not a list of results as the Hub reads them ({type(error).__name__}: {error})"]
    return [
        f"has the value {entry.value!r} for {entry.dataset_id}, where a number is expected"
        for entry in entries
        if not _is_number(entry.value)
    ]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


# -- the card and its model ------------------------------------------------------------


def check_card_of_model(folder: ModelFolder, repo_id: str | None) -> Iterator[str]:
    """Say what a card and a record leave open, forbid, or state that is not so of their model.

    Args:
        folder: The model.
        repo_id: Where it will be published, if that is known.
    """
    try:
        card = folder.card
    except ValueError:
        card = ""  # which is said elsewhere
    if card:
        yield from _check_references(card, {file.path for file in folder.files})
        yield from _check_model_of(card, folder, repo_id)
    try:
        record = folder.record
        if not ("recipe" in record or "conversion" in record):
            return  # of an ensemble
        problems, stated = _said_by(record)
    except ValueError as error:
        yield str(error)
        return
    except (AttributeError, KeyError, TypeError):  # of somebody's own
        return
    yield from (f"{RECORD_FILE}: {problem}" for problem in problems)
    source, again = ("the recipe", "build") if "recipe" in record else (RECORD_FILE, "convert")
    said = card_yaml(card)
    for key, values in stated.items():
        found = said.get(key) or []
        found = [str(value) for value in (found if isinstance(found, list) else [found])]
        if values and found and sorted(found) != sorted(values):
            yield (
                f"{CARD_FILE} says {key}: {', '.join(found)}, but {source} {', '.join(values)}. "
                f"Write it again: st-static card; or {again} again with other values."
            )


def _check_references(card: str, names: set[str]) -> Iterator[str]:
    """Say what the card names that is not there, and which figures it does not name."""
    links = map(_LINK.match, _calls(card, "]("))
    linked = {unquote(link[0]) for link in links if link}
    for link in sorted(linked - names):
        yield f"{CARD_FILE} links to {link}, which is not there. {_AGAIN}"
    loads = "".join(_calls(card, "AutoModel.from_pretrained("))
    for dtype in sorted(set(_DTYPE.findall(loads)) & ONNX_FILE_OF_DTYPE.keys()):
        if (file := ONNX_FILE_OF_DTYPE[dtype]) not in names:
            yield f"{CARD_FILE} says to load {dtype}, but there is no {file}. {_AGAIN}"
    for name in sorted(names):
        if name.startswith("figures/") and name not in linked and name not in card:
            yield f"{name} is not in {CARD_FILE}. Remove it, or write the card again."


def _calls(card: str, beginning: str) -> list[str]:
    """What stands between each beginning and the bracket that closes it, in one pass."""
    parts = [part.partition(")") for part in card.split(beginning)[1:]]
    return [inside for inside, closing, _ in parts if closing]


def _check_model_of(card: str, folder: ModelFolder, repo_id: str | None) -> Iterator[str]:
    """Say what a card states that is not so: name, build, dimension, speeds; and missing terms."""
    data = card_yaml(card)
    if repo_id is not None:
        change = f"Change it: st-static card … --hub_id {repo_id}, or by hand."
        loaded = _LOADED.findall(card)
        if loaded and repo_id not in loaded:
            yield f"{CARD_FILE} says to load {loaded[0]}, which is not {repo_id}. {change}"
        entry = next(iter(_list(data.get("model-index"))), None)
        name = entry.get("name") if isinstance(entry, dict) else None
        if isinstance(name, str) and name not in ("", repo_id.rpartition("/")[2]):
            yield (
                f"{CARD_FILE} names the model {name} in its model-index, which is not {repo_id}. "
                f"{change}"
            )
    written_for, dimension = marked(card), folder.dimension
    # Without a table, which is said elsewhere, to hash what is there may take long.
    if dimension is not None and written_for and written_for != folder.fingerprint:
        yield (
            f"{CARD_FILE} was written for another build: weights, tokenizer or {RECORD_FILE} have "
            f"changed since. {_AGAIN}"
        )
    named = set() if written_for else set(_DIMENSION.findall(card))
    if dimension is not None and named and str(dimension) not in named:
        yield (
            f"{CARD_FILE} speaks of {' and '.join(sorted(named))} dimensions, but the model has "
            f"{dimension}."
        )
    if SLOW_MARK in card:
        yield (
            f"{CARD_FILE} has speeds that were measured while the machine was too busy: "
            "FastEncoder came out slower than encoders that do more. Measure again on an "
            "idle machine: st-static card."
        )
    if data.get("license_name") == TERMS_IN_NOTES and not notes_of(card):
        yield (
            f"{CARD_FILE} has the license other, but does not say what it allows. Write its terms "
            "between the card's two markers."
        )


# -- the record ------------------------------------------------------------------------


def _said_by(record: Mapping[str, Any]) -> tuple[list[str], dict[str, list[str]]]:
    """What a record leaves open, and the language, license and base_model that it states."""
    if "conversion" in record:
        facts = record["conversion"]
        problems, license_id, teacher = [], facts["license"], facts["teacher"]
        if not license_id:
            said = "The licence of the text vectors is not known."
            problems = [f"{said} Convert again with --license LICENCE."]
    else:
        recipe = record["recipe"]
        problems, teacher = check_recipe(recipe), teacher_id(recipe["teacher"])
        license_id = (recipe.get("export") or {}).get("license")
    stated = {"license": license_id, "base_model": teacher}
    of_names = {key: [value] if value else [] for key, value in stated.items()}
    return problems, {"language": languages_of_record(record), **of_names}


def check_recipe(recipe: Mapping[str, Any]) -> list[str]:
    """Find what a recipe leaves open, or forbids, about the text and the teacher of its model.

    Args:
        recipe: As the model's record has it.

    Returns:
        All problems, each a sentence or two that name the options to build again with.
    """
    corpus, teacher, problems, missing = recipe["corpus"], recipe["teacher"], [], []
    if not corpus.get("redistributable", True):
        problems.append(
            "The text of the model may not be redistributed (corpus.redistributable). Build it "
            "again from open text."
        )
    if corpus["files"] and not corpus.get("description"):
        missing.append("--corpus.description 'WHAT THE TEXT IS'")
    if not corpus.get("license"):
        missing.append("--corpus.license LICENCE")
    if missing:
        problems.append(
            "The recipe does not say what the text is or what its licence is. Build again with "
            f"{' and '.join(missing)}: no stage is run again."
        )
    if teacher_id(teacher) is None and not teacher.get("description"):
        problems.append(
            f"The recipe does not say which model of the Hub the teacher {teacher['model']} is. "
            "Build again with --teacher.hub_id ORG/NAME or, if it is not on the Hub, with "
            "--teacher.description 'WHAT IT IS': no stage is run again."
        )
    return problems


def teacher_id(teacher: Mapping[str, Any]) -> str | None:
    """Find the teacher's id on the Hub: as named, or its name where that is an id."""
    name: str = teacher.get("hub_id") or teacher["model"]
    is_plain = not ModelName.parse(name).kind and not name.startswith(".")
    return name if name.count("/") == 1 and is_plain else None
