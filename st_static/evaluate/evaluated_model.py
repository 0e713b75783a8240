"""What an evaluation asks of a model: a name, a revision, and a function from texts to vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from st_static.encode.encoder import EncodeTexts
from st_static.files import hash_files
from st_static.model.model_folder import ModelFolder
from st_static.model.modules import RECORD_FILE
from st_static.model.vectors import sentence_means, unit_rows
from st_static.tokens.ragged import Ragged

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

# What a model computes follows from these.
_DETERMINING = ("*.safetensors", "*.bin", "*.json", "*.txt")


@dataclass(frozen=True)
class EvaluatedModel:
    """A model under its name in results.

    Attributes:
        name: `org/name`; `local/FOLDER` for a folder.
        revision: The Hub's commit, or a hash of a folder's weights, tokenizer and configuration.
        encode: Texts [B] to vectors [B, D].
        dimension: D.
        sentence_transformer: The model, if it is one: its prompts then apply.
    """

    name: str
    revision: str
    encode: EncodeTexts
    dimension: int
    sentence_transformer: SentenceTransformer | None = None


def table_encoder(
    tokenize: Callable[[Sequence[str]], Ragged], table: NDArray[np.floating]
) -> EncodeTexts:
    """An encoder that takes the mean of a text's rows, at length 1; zero for a text without any."""
    return lambda texts: unit_rows(sentence_means(table, tokenize(texts)))


def local_name(name: str) -> str:
    """A model's name in results: `local/FOLDER` for a folder or file, else the Hub's id."""
    return f"local/{Path(name).resolve().name}" if Path(name).exists() else name


def revision_of(model: str, revision: str | None = None) -> str:
    """What a model was when it was loaded.

    Args:
        model: A folder, or an id on the Hub.
        revision: The branch, tag or commit that was loaded from the Hub; by default its main one.

    Returns:
        A hash of all that determines a folder's vectors; or the Hub's commit, of a model that is
        in the cache, else "unknown".
    """
    folder = Path(model)
    if folder.is_dir():
        files = (file for kind in _DETERMINING for file in folder.rglob(kind))
        if (folder / RECORD_FILE).is_file():
            own = ModelFolder(folder)
            # What is recorded of a build, or lies beside the model, changes no vector.
            files = (file for file in files if own.is_own(file.relative_to(folder).as_posix()))
        return hash_files(sorted(file for file in files if file.name != RECORD_FILE))
    from huggingface_hub import try_to_load_from_cache

    for file in ("modules.json", "config.json"):
        cached = try_to_load_from_cache(model, file, revision=revision)
        if isinstance(cached, str):
            return Path(cached).parent.name
    return "unknown"
