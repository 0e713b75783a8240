"""Checking a model's modules and weights: whose code they run, and whether they are whole."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file

from st_static.files import read_json
from st_static.model.client_files import (
    CLIENT_CONFIG,
    PLAIN_TABLE,
    is_plain_table,
    problems_of_client_files,
)
from st_static.model.modules import (
    CONFIG_FILE,
    MODULES_FILE,
    TABLE_FILE,
    TOKENIZER_FILE,
    table_folder,
)
from st_static.model.static_model import StaticModel, read_static_model
from st_static.publish.checks.odd_texts import check_odd_texts

_BUILT_IN = "sentence_transformers."
_BEHIND_A_TABLE = {"Normalize", "SegmentNormalize", "Dense"}


def static_files(folder: Path) -> tuple[str, ...]:
    """Paths of the files without which there is no static model."""
    home = table_folder(folder)
    paths = (home / TABLE_FILE, home / TOKENIZER_FILE)
    return (*(path.relative_to(folder).as_posix() for path in paths), CONFIG_FILE)


def check_modules(folder: Path, allow_remote_code: bool) -> Iterator[str]:
    """What is wrong with the list of modules, and which of them bring code of their own."""
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


def check_tensors(folder: Path, names: Collection[str]) -> Iterator[str]:
    """What is wrong with the tables, and whether the model's own fits its tokenizer."""
    problems = [
        f"{name} {problem}"
        for name in names
        if name.endswith(".safetensors")
        for problem in _check_tensor_file(folder / name)
    ]
    yield from problems
    if not problems and set(names).issuperset(static_files(folder)) and _is_static(folder):
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
    return kinds[:1] == ["StaticEmbedding"] and set(kinds[1:]) <= _BEHIND_A_TABLE


def _check_table(folder: Path) -> Iterator[str]:
    try:
        model = read_static_model(folder)
    except ValueError as error:
        yield str(error)
        return
    n_tokens = model.tokenizer.get_vocab_size()
    if len(model.table.shape) != 2 or len(model.table) != n_tokens:
        yield (
            f"tokenizer.json has {n_tokens:,} tokens, but the table in {TABLE_FILE} has the shape "
            f"{model.table.shape}; it should have a row for each. They are not of the same model."
        )
    yield from check_odd_texts(model.tokenizer)
    broken = list(problems_of_client_files(folder))
    yield from (f"{problem}. Remove it, and export the model again." for problem in broken)
    if table_folder(folder) == folder and not broken:
        yield from _check_client_files(folder, model)


def _check_client_files(folder: Path, model: StaticModel) -> Iterator[str]:
    """Whether config.json, which clients go by, tells what the table and the modules are."""
    is_plain = is_plain_table(folder)
    has_config = (folder / CLIENT_CONFIG).is_file()
    if is_plain and not has_config:
        yield (
            f"There is no {CLIENT_CONFIG}, without which Model2Vec does not find a table called "
            f"{PLAIN_TABLE}. Export the model again."
        )
    elif has_config and not is_plain:
        yield (
            f"{CLIENT_CONFIG} makes Model2Vec look for a table called {PLAIN_TABLE}, but in "
            f"{TABLE_FILE} it has another name. Remove the file, or export the model again."
        )
    elif has_config and bool(read_json(folder / CLIENT_CONFIG).get("normalize")) != model.normalize:
        yield (
            f"{CLIENT_CONFIG} and {MODULES_FILE} differ in whether vectors are scaled to length 1. "
            "Export the model again."
        )


def table_dimension(folder: Path) -> int | None:
    """The dimension of the model's table; None if it cannot be read."""
    try:
        with safe_open(table_folder(folder) / TABLE_FILE, "np") as tensors:
            shapes = [tensors.get_slice(name).get_shape() for name in tensors.keys()]  # noqa: SIM118
    except (OSError, SafetensorError):
        return None
    return int(shapes[0][1]) if len(shapes) == 1 and len(shapes[0]) == 2 else None
