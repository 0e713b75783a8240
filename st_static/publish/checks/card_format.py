"""What the Hub would refuse or ignore in a model card, found without the Hub."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCardData, parse_eval_result_entries
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

from st_static.foreign_files import read_bounded
from st_static.model.card_header import header_of, read_yaml

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
    problems = [*_fields(data), *check_licence(data), *_lineage(data), *_model_index(data)]
    problems += [f"Image {i} has no alt text." for i in _images_without_alt(text)]
    if not problems:
        try:
            # As ModelCard, whose own search for the YAML takes minutes in many empty lines.
            ModelCardData(**data)
        except (ValueError, TypeError, KeyError) as error:
            problems.append(f"huggingface_hub cannot read the card: {error}.")
    return problems


def model_name(text: str) -> str | None:
    """What a card's model-index calls the model, if it has one that can be read."""
    try:
        name = card_yaml(text)["model-index"][0]["name"]
    except (KeyError, IndexError, TypeError):
        return None
    return name if isinstance(name, str) else None


def dataset_names(text: str) -> set[str]:
    """What the results of a card's model-index call their datasets."""
    return {
        name
        for entry in _list(card_yaml(text).get("model-index"))
        for result in _list(entry.get("results") if isinstance(entry, dict) else None)
        if isinstance(result, dict) and isinstance(result.get("dataset"), dict)
        if isinstance(name := result["dataset"].get("name"), str)
    }


def card_yaml(text: str) -> dict[str, Any]:
    """A card's YAML; empty if it has none that can be read."""
    try:
        return header_of(text) or {}
    except ValueError:
        return {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


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


def check_licence(data: dict[str, Any]) -> Iterator[str]:
    """What is wrong with the licence in a card's YAML."""
    licence = data.get("license")
    if licence not in _LICENSES.split():
        yield (
            f"Expected a license that the Hub knows, such as apache-2.0, or other with a "
            f"license_name, but got {licence!r}."
        )
    if licence == "other" and not (data.get("license_name") and data.get("license_link")):
        yield "A license called other needs license_name and license_link."


def _lineage(data: dict[str, Any]) -> Iterator[str]:
    for key in ("base_model", "datasets"):
        ids = data.get(key, [])
        for name in [ids] if isinstance(ids, str) else ids if isinstance(ids, list) else [ids]:
            if not _is_repo_id(name):
                yield f"Expected ids of the Hub in {key}, but got {name!r}."
    relation = data.get("base_model_relation")
    if relation is not None and relation not in RELATIONS:
        yield f"Expected base_model_relation to be one of {RELATIONS}, but got {relation!r}."
    if relation is not None and not data.get("base_model"):
        yield "base_model_relation is there without a base_model."


def _is_repo_id(name: Any) -> bool:
    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    return True


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
            yield from _results(results)
        else:
            yield f"{entry.get('name')} has no results in the model-index."


def _results(results: list[Any]) -> Iterator[str]:
    """What is wrong with the results of one model of the model-index."""
    for number, result in enumerate(results, 1):
        yield from (f"Result {number} of the model-index {p}." for p in _result(result))
    keys = Counter(_key(result) for result in results if isinstance(result, dict))
    for key, count in keys.items():
        if count > 1:
            yield f"The model-index has {count} results of {key}."


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


def _images_without_alt(text: str) -> list[int]:
    # Split, for a regular expression would look for the end of each beginning in all that follows.
    parts = [part.partition("\n")[0].partition("](") for part in text.split("![")[1:]]
    alts = [alt for alt, end, _ in parts if end]
    return [number for number, alt in enumerate(alts, 1) if not alt.strip()]


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
