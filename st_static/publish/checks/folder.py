"""Checking a model's folder before others get it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from st_static.arguments import as_path
from st_static.foreign_files import check_regular
from st_static.model.client_files import CLIENT_FILES
from st_static.model.export import PCA_FILE
from st_static.model.modules import BUILT_IN_FILES, CODE_FILES, MODULES_FILE, RECORD_FILE
from st_static.model.notes import CARD_FILE, read_card
from st_static.model.onnx_files import ONNX_FILES
from st_static.publish.checks.card_format import check_card, check_results_file
from st_static.publish.checks.card_of_model import check_card_of_model
from st_static.publish.checks.onnx_files import check_onnx_files
from st_static.publish.checks.secrets import find_secrets
from st_static.publish.checks.weights import check_modules, check_tensors, static_files

_REQUIRED = (CARD_FILE, MODULES_FILE)
# What export and the card write, by their paths in the folder.
_EXPECTED = re.compile(
    "|".join(
        [
            *map(re.escape, (CARD_FILE, *BUILT_IN_FILES, *CLIENT_FILES, RECORD_FILE, PCA_FILE)),
            *map(re.escape, ONNX_FILES),
            r"[13]_Normalize/[^/]+\.json",
            r"\.eval_results/[^/]+\.ya?ml",
            r"figures/([^/.][^/]*/)*[^/.][^/]*\.(svg|png)",
        ]
    )
)
_EXPECTED_OF_ENSEMBLES = re.compile("|".join(map(re.escape, CODE_FILES)))
# Beside them, where a repository may bring modules and code of its own.
_EXPECTED_OF_MODULES = re.compile(r"([^/.][^/]*/)*[^/.][^/]*\.(py|json|txt|model|safetensors)")
_BINARY = (".safetensors", ".onnx", ".png")
# Larger files cannot be downloaded over HTTP; and the Hub asks for fewer entries in a folder.
_MAX_BYTES = 50_000_000_000
# Of text: the tokenizers of the largest vocabularies have a tenth of it.
_MAX_TEXT_BYTES = 1_000_000_000
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
    for each token; whether ONNX files are of this model; whether the model consists of
    sentence-transformers' own modules; the card and its results; and whether a text holds what
    looks like a secret.

    Args:
        folder: The model.
        allow_remote_code: Whether the model may bring modules of its own, which run only for
            users who trust them.
        repo_id: Where it will be: what the card must say to load.

    Returns:
        The files, sorted by path.

    Raises:
        ValueError: There is no such folder, or something in it is neither a file nor a folder.
        UnfitFolderError: Something is wrong with it.
    """
    folder = as_path(folder, "the model's folder")
    if not folder.is_dir():
        raise ValueError(f"There is no folder {folder}. Build a model first: st-static build.")
    files = _list_files(folder)
    names = [file.path for file in files]
    too_large = list(_check_sizes(files))
    problems = [*_check_names(folder, files, allow_remote_code), *too_large]
    if not too_large:  # else reading them would take long
        problems += [
            *check_modules(folder, allow_remote_code),
            *check_tensors(folder, names),
            *check_onnx_files(folder, names),
            *_check_texts(folder, files),
            *check_card_of_model(folder, names, repo_id),
        ]
    if problems:
        lines = "".join(f"\n- {problem}" for problem in problems)
        raise UnfitFolderError(f"{folder} cannot be published as it is. Mend the following:{lines}")
    return files


def _list_files(folder: Path) -> list[ModelFile]:
    """The files of a folder and of the folders in it, sorted by path."""
    paths = sorted(path for path in folder.rglob("*") if not path.is_dir())
    return [ModelFile(path.relative_to(folder).as_posix(), check_regular(path)) for path in paths]


def is_written_here(path: str) -> bool:
    """Whether a path in a repository is one that st_static writes."""
    return any(pattern.fullmatch(path) for pattern in (_EXPECTED, _EXPECTED_OF_ENSEMBLES))


def _check_names(folder: Path, files: list[ModelFile], allow_remote_code: bool) -> Iterator[str]:
    names = {file.path for file in files}
    needed = _REQUIRED if allow_remote_code else _REQUIRED + static_files(folder)
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
        elif file.size > _MAX_TEXT_BYTES and not file.path.endswith(_BINARY):
            yield (
                f"{file.path} has {file.size:,} bytes, but a text in a model's folder has up to "
                f"{_MAX_TEXT_BYTES:,}. Write it again."
            )
    folders = Counter(file.path.rpartition("/")[0] for file in files)
    for folder, n_files in folders.items():
        if n_files > _MAX_ENTRIES:
            where = folder or "The folder"
            yield f"{where} holds {n_files:,} files, but the Hub takes up to {_MAX_ENTRIES:,}."


def _check_texts(folder: Path, files: list[ModelFile]) -> Iterator[str]:
    """What is wrong with the card and results, and which texts hold secrets."""
    for file in files:
        path = folder / file.path
        if file.path == CARD_FILE:
            yield from _check_card_file(path)
        if file.path.startswith(".eval_results/"):
            yield from (f"{file.path} {problem}." for problem in check_results_file(path))
        if not file.path.endswith(_BINARY):
            yield from (f"{file.path}: {problem}. Remove it." for problem in find_secrets(path))


def _check_card_file(path: Path) -> list[str]:
    try:
        return [f"{CARD_FILE}: {problem}" for problem in check_card(read_card(path))]
    except ValueError as error:
        return [str(error)]
