"""Checking a model's folder before others get it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file

from st_static.arguments import as_path
from st_static.files import read_json
from st_static.model.export import PCA_FILE, RECORD_FILE
from st_static.model.notes import CARD_FILE, notes_of
from st_static.model.static_model import read_static_model
from st_static.publish.checks.card import (
    TERMS_IN_NOTES,
    card_yaml,
    check_card,
    check_results_file,
    model_name,
)
from st_static.publish.checks.fingerprint import SLOW_MARK, fingerprint, marked
from st_static.publish.checks.record import check_recipe, languages_of, teacher_id
from st_static.publish.checks.secrets import find_secrets

MODULES_FILE = "modules.json"
TABLE_FILE = "model.safetensors"
_REQUIRED = (CARD_FILE, MODULES_FILE)
_REQUIRED_OF_STATIC = (TABLE_FILE, "tokenizer.json", "config_sentence_transformers.json")
# What export and the card write, by their paths in the folder.
_EXPECTED = re.compile(
    "|".join(
        [
            *map(re.escape, (*_REQUIRED, *_REQUIRED_OF_STATIC, RECORD_FILE, PCA_FILE)),
            r"1_Normalize/[^/]+\.json",
            r"\.eval_results/[^/]+\.ya?ml",
            r"figures/([^/.][^/]*/)*[^/.][^/]*\.(svg|png)",
        ]
    )
)
_EXPECTED_OF_ENSEMBLES = re.compile(r"segment_normalize\.py|1_SegmentNormalize/config\.json")
# Beside them, where a repository may bring modules and code of its own.
_EXPECTED_OF_MODULES = re.compile(r"([^/.][^/]*/)*[^/.][^/]*\.(py|json|txt|model|safetensors)")
# A link to a file of the repository, and what an example in the card loads.
_LINK = re.compile(r"\]\((?![\w+.-]+:|[#/])([^)\s#]+)[^)]*\)")
_LOADED = re.compile(r"""SentenceTransformer\(\s*["']([^"']+)["']""")
_DIMENSION = re.compile(r"\b(\d+)[- ]dimension")  # in a card that was written by hand
_BINARY = (".safetensors", ".png")
_BUILT_IN = "sentence_transformers."
# Larger files cannot be downloaded over HTTP; and the Hub asks for fewer entries in a folder.
_MAX_BYTES = 50_000_000_000
_MAX_ENTRIES = 10_000


class UnfitFolderError(ValueError):
    """A folder that is not fit to be published; says all that is wrong with it, one line each."""


@dataclass(frozen=True)
class ModelFile:
    """A file to publish.

    Attributes:
        path: In the repository, with slashes.
        size: In bytes.
    """

    path: str
    size: int


def check_folder(
    folder: str | Path, allow_remote_code: bool = False, repo_id: str | None = None
) -> list[ModelFile]:
    """Check that a model's folder is whole and fit for others.

    Looked at are: which files there are and how large; whether tables are finite and have a row
    for each token; whether the model consists of sentence-transformers' own modules; the card
    and its results; and whether a text holds what looks like a secret.

    Args:
        folder: The model.
        allow_remote_code: Whether the model may bring modules of its own, which run only for
            users who trust them.
        repo_id: Where it will be: what the card must say to load.

    Returns:
        The files, sorted by path.

    Raises:
        ValueError: There is no such folder.
        UnfitFolderError: Something is wrong with it.
    """
    folder = as_path(folder, "the model's folder")
    if not folder.is_dir():
        raise ValueError(f"There is no folder {folder}. Build a model first: st-static build.")
    files = list_files(folder)
    problems = [
        *_check_names(files, allow_remote_code),
        *_check_sizes(files),
        *_check_modules(folder, allow_remote_code),
        *_check_tensors(folder, files),
        *_check_texts(folder, files),
        *_check_references(folder, files, repo_id),
        *_check_card_facts(folder, repo_id),
        *_check_record(folder),
    ]
    if problems:
        lines = "".join(f"\n- {problem}" for problem in problems)
        raise UnfitFolderError(f"{folder} cannot be published as it is. Mend the following:{lines}")
    return files


def list_files(folder: Path) -> list[ModelFile]:
    """The files of a folder and of the folders in it, sorted by path."""
    paths = sorted(path for path in folder.rglob("*") if not path.is_dir())
    return [ModelFile(path.relative_to(folder).as_posix(), path.stat().st_size) for path in paths]


def is_written_here(path: str) -> bool:
    """Whether a path in a repository is one that st_static writes."""
    return any(pattern.fullmatch(path) for pattern in (_EXPECTED, _EXPECTED_OF_ENSEMBLES))


def _check_names(files: list[ModelFile], allow_remote_code: bool) -> Iterator[str]:
    names = {file.path for file in files}
    needed = _REQUIRED if allow_remote_code else _REQUIRED + _REQUIRED_OF_STATIC
    for name in needed:
        if name not in names:
            hint = " Write it with st-static card." if name == CARD_FILE else ""
            yield f"There is no {name}.{hint}"
    patterns = [_EXPECTED, _EXPECTED_OF_MODULES] if allow_remote_code else [_EXPECTED]
    for name in sorted(names):
        if any(pattern.fullmatch(name) for pattern in patterns):
            continue
        if _EXPECTED_OF_ENSEMBLES.fullmatch(name):
            yield f"{name} belongs to a module with code of its own: give --allow_remote_code."
        else:
            yield f"{name} is not part of a model. Move it elsewhere."


def _check_sizes(files: list[ModelFile]) -> Iterator[str]:
    for file in files:
        if file.size > _MAX_BYTES:
            yield (
                f"{file.path} has {file.size:,} bytes, but the Hub lets everybody download files "
                f"of up to {_MAX_BYTES:,} only. Make it smaller: float16, or fewer words."
            )
    folders = Counter(file.path.rpartition("/")[0] for file in files)
    for folder, n_files in folders.items():
        if n_files > _MAX_ENTRIES:
            where = folder or "The folder"
            yield f"{where} holds {n_files:,} files, but the Hub takes up to {_MAX_ENTRIES:,}."


def _check_modules(folder: Path, allow_remote_code: bool) -> Iterator[str]:
    if not (folder / MODULES_FILE).is_file():
        return
    types = _module_types(folder)
    if not types:
        yield f"{MODULES_FILE} is not a list of modules, each with a type and a path."
    elif not allow_remote_code:
        for kind in types:
            if not kind.startswith(_BUILT_IN):
                yield (
                    f"{MODULES_FILE} names the module {kind}, which is not in "
                    "sentence-transformers: it would run code of yours on the machines of others. "
                    "Export the model, or give --allow_remote_code if its users are to trust it."
                )


def _module_types(folder: Path) -> list[str]:
    """The types in modules.json; none if it is not there, or no list of modules."""
    try:
        modules = read_json(folder / MODULES_FILE)
        types = [module["type"] for module in modules if isinstance(module["path"], str)]
        is_valid = len(types) == len(modules) and all(isinstance(kind, str) for kind in types)
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return types if is_valid else []


def _check_tensors(folder: Path, files: list[ModelFile]) -> Iterator[str]:
    """What is wrong with the tables, and whether the model's own fits its tokenizer."""
    problems = [
        f"{file.path} {problem}"
        for file in files
        if file.path.endswith(".safetensors")
        for problem in _check_tensor_file(folder / file.path)
    ]
    yield from problems
    names = {file.path for file in files}
    if not problems and names.issuperset(_REQUIRED_OF_STATIC) and _is_static(folder):
        yield from _check_table(folder)


def _check_tensor_file(path: Path) -> Iterator[str]:
    # Reading compares the header's shapes with the file's length, too.
    try:
        tensors = load_file(path)
    except SafetensorError as error:
        yield f"is broken: {error}. Build or copy it again."
        return
    for name, tensor in tensors.items():
        n_wrong = int((~torch.isfinite(tensor)).sum()) if tensor.is_floating_point() else 0
        if n_wrong:
            yield f"holds {n_wrong:,} values in {name} that are not finite numbers."


def _is_static(folder: Path) -> bool:
    kinds = [kind.rpartition(".")[2] for kind in _module_types(folder)]
    return kinds[:1] == ["StaticEmbedding"] and set(kinds[1:]) <= {"Normalize", "SegmentNormalize"}


def _check_table(folder: Path) -> Iterator[str]:
    try:
        model = read_static_model(folder)
    except ValueError as error:
        yield str(error)
        return
    n_tokens = model.tokenizer.get_vocab_size()
    if model.table.ndim != 2 or len(model.table) != n_tokens:
        yield (
            f"tokenizer.json has {n_tokens:,} tokens, but the table in {TABLE_FILE} has the shape "
            f"{model.table.shape}; it should have a row for each. They are not of the same model."
        )


def _check_texts(folder: Path, files: list[ModelFile]) -> Iterator[str]:
    """What is wrong with the card and results, and which texts hold secrets."""
    for file in files:
        path = folder / file.path
        if file.path == CARD_FILE:
            yield from (f"{file.path}: {problem}" for problem in _check_card_file(path))
        if file.path.startswith(".eval_results/"):
            yield from (f"{file.path} {problem}." for problem in check_results_file(path))
        if not file.path.endswith(_BINARY):
            yield from (f"{file.path}: {problem}. Remove it." for problem in find_secrets(path))


def _check_references(folder: Path, files: list[ModelFile], repo_id: str | None) -> Iterator[str]:
    """What the card names that is not there, and figures that it does not name."""
    try:
        card = (folder / CARD_FILE).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return  # which is said elsewhere
    names = {file.path for file in files}
    linked = {unquote(link) for link in _LINK.findall(card)}
    for link in sorted(linked - names):
        yield f"{CARD_FILE} links to {link}, which is not there. Write it again: st-static card."
    for name in sorted(names):
        if name.startswith("figures/") and name not in linked and name not in card:
            yield f"{name} is not in {CARD_FILE}. Remove it, or write the card again."
    loaded = _LOADED.findall(card)
    if repo_id and loaded and repo_id not in loaded:
        yield (
            f"{CARD_FILE} says to load {loaded[0]}, which is not {repo_id}. Change it: "
            f"st-static card … --hub_id {repo_id}, or by hand."
        )


def _check_record(folder: Path) -> Iterator[str]:
    """What the record leaves open, or forbids, about the text and the teacher."""
    try:
        recipe = read_json(folder / RECORD_FILE)["recipe"]
        problems = check_recipe(recipe)
        contradictions = _contradictions(folder, recipe)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return  # of an ensemble, or an older one
    yield from (f"{RECORD_FILE}: {problem}" for problem in problems)
    yield from contradictions


def _contradictions(folder: Path, recipe: dict[str, Any]) -> list[str]:
    """What the card's YAML says otherwise than the recipe, also where it was changed by hand."""
    card = folder / CARD_FILE
    said = card_yaml(card.read_text("utf-8")) if card.is_file() else {}
    stated = {
        "language": languages_of(recipe["corpus"]),
        "license": _as_list(recipe.get("export", {}).get("license")),
        "base_model": _as_list(teacher_id(recipe["teacher"])),
    }
    return [
        f"{CARD_FILE} says {key}: {', '.join(_as_list(said[key]))}, but the recipe "
        f"{', '.join(values)}. Write it again: st-static card; or build again with other values."
        for key, values in stated.items()
        if values and said.get(key) and sorted(_as_list(said[key])) != sorted(values)
    ]


def _as_list(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [] if value is None else [value]
    return [str(value) for value in values]


def _check_card_facts(folder: Path, repo_id: str | None) -> Iterator[str]:
    """What the card states that is not so of this model, as far as that can be checked."""
    again = "Write it again: st-static card."
    try:
        card = (folder / CARD_FILE).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return  # which is said elsewhere
    written_for = marked(card)
    if written_for not in (None, fingerprint(folder)):
        yield (
            f"{CARD_FILE} was written for another build: weights, tokenizer or {RECORD_FILE} have "
            f"changed since. {again}"
        )
    if SLOW_MARK in card:
        yield (
            f"{CARD_FILE} has speeds that were measured while the machine was too busy: "
            "FastEncoder came out slower than encoders that do more. Measure again on an "
            "idle machine: st-static card."
        )
    if card_yaml(card).get("license_name") == TERMS_IN_NOTES and not notes_of(card):
        yield (
            f"{CARD_FILE} has the license other, but does not say what it allows. Write its terms "
            "between the card's two markers."
        )
    name = model_name(card)
    if repo_id and name and name != repo_id.rpartition("/")[2]:
        yield (
            f"{CARD_FILE} names the model {name} in its model-index, which is not {repo_id}. "
            f"Change it: st-static card … --hub_id {repo_id}, or by hand."
        )
    dimension, named = _dimension(folder), set(_DIMENSION.findall(card))
    if written_for is None and dimension and named and str(dimension) not in named:
        yield (
            f"{CARD_FILE} speaks of {' and '.join(sorted(named))} dimensions, but the model has "
            f"{dimension}."
        )


def _dimension(folder: Path) -> int | None:
    """The dimension of the model's table; None if it cannot be read."""
    try:
        with safe_open(folder / TABLE_FILE, "np") as tensors:
            shapes = [tensors.get_slice(name).get_shape() for name in tensors.keys()]  # noqa: SIM118
    except (OSError, SafetensorError):
        return None
    return int(shapes[0][1]) if len(shapes) == 1 and len(shapes[0]) == 2 else None


def _check_card_file(path: Path) -> list[str]:
    try:
        return check_card(path.read_text("utf-8"))
    except UnicodeDecodeError:
        return ["Expected text in UTF-8, but there is other data."]
