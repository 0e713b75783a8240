"""Check a card for what the Hub would refuse or ignore, and that it matches its model."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import unquote

import msgspec
from huggingface_hub import ModelCardData
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]
from msgspec import Meta, Struct

from st_static.cards.facts import base_models, teacher_id
from st_static.cards.render import OF_MTEB, SLOW_MARK, TERMS_IN_NOTES
from st_static.foreign_files import misfit, read_bounded
from st_static.languages import languages_of_record
from st_static.model.card_file import NOTES_START, header_of, marked, notes_of, read_yaml
from st_static.model.model_folder import ModelFolder
from st_static.model.modules import CARD_FILE, ONNX_FILE_OF_DTYPE, RECORD_FILE
from st_static.model.records import license_of_recipe, teachers_of

# From https://huggingface.co/docs/hub/repositories-licenses.
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
_DATASET = re.compile(r"[\w.-]+(/[\w.-]+)?")
_LANGUAGE_CODE = re.compile("[a-z]{2,3}|code|multilingual")  # as on the Hub
# A link to a file of the repository, and the model that an example in the card loads.
_LINK = re.compile(r"(?![\w+.-]+:|[#/])[^\s#]+")
_LOADED = re.compile(r"""SentenceTransformer\(\s*["']([^"']+)["']""")
_DTYPE = re.compile(r"""dtype: ["'](\w+)["']""")
_DIMENSION = re.compile(r"\b(\d+)[- ]dimension")  # in a card that was written by hand
_EXPECTED = {"library_name": "sentence-transformers", "pipeline_tag": "sentence-similarity"}
_AGAIN = "Write it again: st-static card."
_LOCAL = " (local copy)"  # in cards before 0.3


# -- what the Hub accepts --------------------------------------------------------------


_Name = Annotated[str, Meta(min_length=1)]


class _Named(Struct):
    type: _Name


class _Dataset(_Named):
    name: _Name
    config: Any = None
    split: Any = None
    revision: Any = None


class _Metric(_Named):
    value: float


class _Result(Struct):
    task: _Named
    dataset: _Dataset
    metrics: Annotated[list[_Metric], Meta(min_length=1)]


class _Model(Struct):
    name: _Name
    results: Annotated[list[_Result], Meta(min_length=1)]


class _Header(Struct, rename={"models": "model-index"}):
    """The keys of a card's YAML that the Hub reads."""

    library_name: Any = None
    pipeline_tag: Any = None
    language: str | Annotated[list[str], Meta(min_length=1)] = ""
    tags: list[str] = []
    base_model: str | list[str] = ""
    base_model_relation: Literal["adapter", "merge", "quantized", "finetune"] | None = None
    datasets: str | list[str] = ""
    models: list[_Model] = []


class _DatasetOfResult(Struct):
    id: str
    task_id: str


class _Results(Struct):
    """An entry of a file of `.eval_results/`."""

    dataset: _DatasetOfResult
    value: float


def check_card(text: str) -> list[str]:
    """Find the problems of a sentence-transformers model's card, each a sentence."""
    try:
        data = header_of(text)
    except ValueError as error:
        return [f"The card's YAML cannot be read: {error}."]
    if data is None:
        return ["The card does not begin with YAML between two lines of ---."]
    problems = list(check_licence(data))
    try:
        problems += _check_values(msgspec.convert(data, _Header))
    except msgspec.ValidationError as error:
        problems.append(f"The card's YAML is not as the Hub expects it: {misfit(error)}.")
    # By splitting: a regular expression would search all of the rest for each image's end.
    parts = [part.partition("\n")[0].partition("](") for part in text.split("![")[1:]]
    alts = [alt for alt, end, _ in parts if end]
    problems += [f"Image {i} has no alt text." for i, alt in enumerate(alts, 1) if not alt.strip()]
    if not problems:
        try:
            # Not by ModelCard, whose search for the YAML takes minutes in many empty lines.
            ModelCardData(**data)
        except (ValueError, TypeError, KeyError) as error:
            problems.append(f"huggingface_hub cannot read the card: {error}.")
    return problems


def _check_values(header: _Header) -> Iterator[str]:
    """Say which values of a card's YAML the Hub would refuse or ignore."""
    for key, expected in _EXPECTED.items():
        if (value := getattr(header, key)) != expected:
            yield f"Expected {key} to be {expected}, but got {value!r}."
    for code in _list(header.language):
        if not _LANGUAGE_CODE.fullmatch(code):
            yield f"Expected a language's code of two or three letters, but got {code!r}."
    for key in ("base_model", "datasets"):
        for name in _list(getattr(header, key)):
            try:
                validate_repo_id(name)
            except HFValidationError:
                yield f"Expected ids of the Hub in {key}, but got {name!r}."
    if header.base_model_relation and not header.base_model:
        yield "base_model_relation is there without a base_model."
    for results in (model.results for model in header.models):
        for result in results:
            if not _DATASET.fullmatch(result.dataset.type):
                yield f"Expected ids of the Hub as datasets, but got {result.dataset.type!r}."
            for metric in result.metrics:
                if not math.isfinite(metric.value):
                    yield f"The model-index has a {metric.type} that is not a finite number."
        # Two results of the same dataset would contradict each other.
        of = [result.dataset for result in results]
        keys = [(d.name, d.type, d.config, d.split, d.revision) for d in of]
        for key, count in Counter(" ".join(str(k) for k in key if k) for key in keys).items():
            if count > 1:
                yield f"The model-index has {count} results of {key}."


def official_tasks(header: Mapping[str, Any]) -> set[str]:
    """Find mteb's tasks in a card's model-index, without those on local copies."""
    try:
        models = msgspec.convert(header, _Header).models
    except msgspec.ValidationError:
        return set()
    names = {result.dataset.name for model in models for result in model.results}
    of_mteb = {name for name in names if name.startswith(OF_MTEB) and not name.endswith(_LOCAL)}
    return {name.removeprefix(OF_MTEB).partition(" ")[0] for name in of_mteb}


def check_licence(data: Mapping[str, Any]) -> Iterator[str]:
    """Find problems of the licence in a card's YAML."""
    licence = data.get("license")
    if licence not in _LICENSES.split():
        yield (
            f"Expected a license that the Hub knows, such as apache-2.0, or other with a "
            f"license_name, but got {licence!r}."
        )
    if licence == "other" and not (data.get("license_name") and data.get("license_link")):
        yield "A license called other needs license_name and license_link."


def check_eval_results(file: Path) -> str | None:
    """Say what keeps the Hub from reading a YAML file of `.eval_results/`."""
    try:
        entries = msgspec.convert(read_yaml(read_bounded(file).decode()), list[_Results])
        for entry in entries:
            if not math.isfinite(entry.value):
                raise ValueError(f"the value of {entry.dataset.id} is not a finite number")
    except msgspec.ValidationError as error:
        return misfit(error)
    except ValueError as error:
        return str(error)
    return None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []


# -- the card and its model ------------------------------------------------------------


def check_card_of_model(folder: ModelFolder, repo_id: str | None) -> Iterator[str]:
    """Find a card's false statements about its model, which it must load from `repo_id`, if any."""
    try:
        card = folder.card
    except ValueError:
        card = ""  # reported elsewhere

    def calls(beginning: str) -> list[str]:
        """Find the text from each beginning to its closing bracket, in one pass."""
        parts = [part.partition(")") for part in card.split(beginning)[1:]]
        return [inside for inside, closing, _ in parts if closing]

    data, names = folder.header, {file.path for file in folder.files}
    linked = {unquote(link[0]) for link in map(_LINK.match, calls("](")) if link}
    for link in sorted(linked - names):
        yield f"{CARD_FILE} links to {link}, which is not there. {_AGAIN}"
    loads = "".join(calls("AutoModel.from_pretrained("))
    for dtype in sorted(set(_DTYPE.findall(loads)) & ONNX_FILE_OF_DTYPE.keys()):
        if (file := ONNX_FILE_OF_DTYPE[dtype]) not in names:
            yield f"{CARD_FILE} says to load {dtype}, but there is no {file}. {_AGAIN}"
    for name in sorted(names):
        if card and name.startswith("figures/") and name not in linked and name not in card:
            yield f"{name} is not in {CARD_FILE}. Remove it, or write the card again."
    if repo_id is not None:
        fix = f"Change it: st-static card … --hub_id {repo_id}, or by hand."
        loaded = _LOADED.findall(card)
        if loaded and repo_id not in loaded:
            yield f"{CARD_FILE} says to load {loaded[0]}, which is not {repo_id}. {fix}"
        entry = next(iter(_list(data.get("model-index"))), None)
        listed = entry.get("name") if isinstance(entry, dict) else None
        if listed and listed != repo_id.rpartition("/")[2]:
            yield f"{CARD_FILE} names the model {listed} in its model-index, not {repo_id}. {fix}"
    written_for, dimension = marked(card), folder.dimension
    # Not without a table, which is reported elsewhere: hashing other files may take long.
    if dimension is not None and written_for and written_for != folder.fingerprint:
        yield (
            f"{CARD_FILE} was written for another build: weights, tokenizer or "
            f"{folder.record_file.name} have changed since. {_AGAIN}"
        )
    named = set() if written_for else set(_DIMENSION.findall(card))
    if dimension is not None and named and str(dimension) not in named:
        dimensions = " and ".join(sorted(named))
        yield f"{CARD_FILE} speaks of {dimensions} dimensions, but the model has {dimension}."
    if SLOW_MARK in card:
        yield (
            f"{CARD_FILE} has speeds measured while the machine was too busy: FastEncoder was "
            "slower than encoders that do more. Measure again on an idle machine: st-static card."
        )
    if data.get("license_name") == TERMS_IN_NOTES and not notes_of(card):
        yield f"{CARD_FILE} has the license other: write its terms between the card's two markers."
    yield from _check_record(folder, data, card)


def _check_record(folder: ModelFolder, header: Mapping[str, Any], card: str) -> Iterator[str]:
    """Find what a record omits or forbids, and where a card's header contradicts it."""
    try:
        record = folder.record
        if "recipe" in record:
            source, again, made = "the recipe", "build", record["recipe"]
            notes = notes_of(card) if NOTES_START in card else ""
            problems, license_id = check_recipe(made, notes), license_of_recipe(made)
        elif "conversion" in record:
            source, again, license_id = RECORD_FILE, "convert", record["conversion"]["license"]
            said = "The licence of the text vectors is not known."
            problems = [] if license_id else [f"{said} Convert again with --license LICENCE."]
        elif "fine_tuning" in record:
            source, again = "the training", "train"
            license_id = record["fine_tuning"]["license"]
            file = folder.record_file if folder.record_file.exists() else folder.path / CARD_FILE
            said = (
                "The licence is not known. Say it before saving the trained model: "
                'model.model_card_data.set_license("…"); or set license in '
                f"{file.name} and run `st-static card` again."
            )
            problems = [] if license_id else [said]
        else:
            return  # an ensemble
        stated = {
            "language": languages_of_record(record),
            "license": _list(license_id),
            "base_model": base_models(record),
        }
    except ValueError as error:
        yield str(error)
        return
    except (AttributeError, KeyError, TypeError):  # not a record of ours
        return
    yield from (f"{folder.record_file.name}: {problem}" for problem in problems)
    for key, values in stated.items():
        on_card = list(map(str, _list(header.get(key))))
        if values and on_card and sorted(on_card) != sorted(values):
            yield (
                f"{CARD_FILE} says {key}: {', '.join(on_card)}, but {source} {', '.join(values)}. "
                f"Write it again: st-static card; or {again} again with other values."
            )


def check_recipe(recipe: Mapping[str, Any], notes: str = "") -> list[str]:
    """Find what a recipe omits or forbids about text and teachers, with ways to rebuild; a card's
    notes may describe a teacher that is not on the Hub."""
    corpus, problems, missing = recipe["corpus"], [], []
    if not corpus.get("redistributable", True):  # an option of version 0.2
        problems.append(
            "The text may not be redistributed (corpus.redistributable): use open text."
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
    for number, teacher in enumerate(teachers_of(recipe)):
        if teacher_id(teacher) is None and not notes:
            hub_id = "--teacher.hub_id ORG/NAME"
            if "teachers" in recipe:
                hub_id = f"hub_id: ORG/NAME in the recipe's teachers[{number}]"
            problems.append(
                f"The recipe does not say which model of the Hub the teacher {teacher['model']} "
                f"is. Build again with {hub_id}: no stage is run again. If it is not on the Hub, "
                "write the card, describe it between the card's two markers, and then run "
                "st-static publish."
            )
    return problems
