"""Checking a model's modules and weights: whose code they run, and whether they are whole."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from st_static.foreign_files import read_as
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
    Model2VecConfig,
    read_module_list,
    table_folder,
)
from st_static.model.static_model import StaticModel, read_static_model
from st_static.model.table_file import stored_arrays
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
    try:
        modules = read_module_list(folder)
    except ValueError as error:
        yield str(error)
        return
    if not modules:
        yield f"{MODULES_FILE} names no module."
    for module in modules:
        if not (allow_remote_code or module.type.startswith(_BUILT_IN)):
            yield (
                f"{MODULES_FILE} names the module {module.type}, which is not in "
                "sentence-transformers: it would run code of yours on the machines of others. "
                "Export the model, or give --allow_remote_code if its users are to trust it."
            )


def check_tensors(folder: Path, names: Collection[str]) -> Iterator[str]:
    """What is wrong with the tables, and whether the model's own fits its tokenizer."""
    problems = [
        problem
        for name in names
        if name.endswith(".safetensors")
        for problem in _check_tensor_file(folder, name)
    ]
    yield from problems
    if not problems and set(names).issuperset(static_files(folder)) and _is_static(folder):
        yield from _check_table(folder)


def _check_tensor_file(folder: Path, name: str) -> Iterator[str]:
    try:
        arrays = stored_arrays(folder / name)
    except ValueError as error:
        yield str(error)
        return
    for array in arrays.values():
        if n_wrong := array.not_finite():
            yield f"{name} holds {n_wrong:,} values in {array.name} that are not finite numbers."


def _is_static(folder: Path) -> bool:
    try:
        kinds = [module.kind for module in read_module_list(folder)]
    except (OSError, ValueError):  # which is said elsewhere
        return False
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
        try:
            yield from _check_client_files(folder, model)
        except ValueError as error:
            yield str(error)


def _check_client_files(folder: Path, model: StaticModel) -> Iterator[str]:
    """Whether config.json, which clients go by, tells what the table and the modules are."""
    is_plain = is_plain_table(folder)
    config = folder / CLIENT_CONFIG
    has_config = config.is_file()
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
    elif has_config and bool(read_as(config, Model2VecConfig).normalize) != model.normalize:
        yield (
            f"{CLIENT_CONFIG} and {MODULES_FILE} differ in whether vectors are scaled to length 1. "
            "Export the model again."
        )


def table_dimension(folder: Path) -> int | None:
    """The dimension of the model's table; None if it cannot be read."""
    try:
        arrays = stored_arrays(table_folder(folder) / TABLE_FILE)
    except (OSError, ValueError):
        return None
    shapes = [array.shape for array in arrays.values()]
    return shapes[0][1] if len(shapes) == 1 and len(shapes[0]) == 2 else None
