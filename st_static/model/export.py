"""Writing a word table as a repository that sentence-transformers and Model2Vec load."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from st_static.arguments import as_path
from st_static.files import write_json
from st_static.model.head import Head
from st_static.model.modules import (
    BUILT_IN_FILES,
    CODE_FILES,
    CONFIG_FILE,
    MODEL_FOLDERS,
    TABLE_FILE,
    TOKENIZER_FILE,
    Segment,
    write_modules,
    write_weights,
)
from st_static.model.notes import CARD_FILE, read_notes, with_notes
from st_static.model.replacement import check_output_folder, replacing
from st_static.model.vectors import in_format

RECORD_FILE = "st_static.json"
PCA_FILE = "sentence_pca.safetensors"
# All else in a model's folder is not ours.
_OWN_FILES = (*BUILT_IN_FILES, *CODE_FILES, RECORD_FILE, PCA_FILE)
# The oldest releases that load what is written here; they warn of models from newer ones.
_OLDEST_RELEASE = "3.2.0"
_OLDEST_RELEASE_FOR_SEGMENTS = "5.4.0"


def check_output(folder: Path, with_card: bool = False) -> None:
    """Check that a model may be written into a folder: new, empty, or a model of st_static.

    To be called before hours of work; nothing is changed.

    Args:
        folder: Where to.
        with_card: Whether a card will be written, too.

    Raises:
        ValueError: The folder holds something else, or is the current folder; a file of the user
            is in the way of the model's; the card there has no markers around what is the user's.
    """
    there = check_output_folder(folder, RECORD_FILE, "a model of st_static")
    if there is None:
        return
    _check_names(there)
    if with_card and (there / CARD_FILE).is_file():
        read_notes(there / CARD_FILE)


def is_own(path: Path) -> bool:
    """Whether a path inside a model's folder is of the model's own files, its card left aside."""
    return path.parts[0] in (*_OWN_FILES, *MODEL_FOLDERS)


def own_files(folder: Path) -> list[Path]:
    """The files of a model that are its own: not its card, and nothing of the user's."""
    return [folder / name for name in _OWN_FILES if (folder / name).is_file()]


def _check_names(folder: Path) -> None:
    """Check that a model's files and folders find no folder or file of the user in their place."""
    files = [folder / name for name in (*_OWN_FILES, CARD_FILE)]
    folders = [folder / name for name in MODEL_FOLDERS]
    in_the_way = [path for path in files if path.is_dir() and not path.is_symlink()]
    in_the_way += [path for path in folders if path.is_symlink() or path.is_file()]
    if in_the_way:
        raise ValueError(
            f"A model has a file or folder of its own where {in_the_way[0]} is something else. "
            "Move it away, or choose another output."
        )


def export_model(
    folder: str | Path,
    table: NDArray[np.floating],
    tokenizer: Tokenizer,
    record: Mapping[str, Any],
    dtype: str = "float32",
    normalize: bool = True,
    pca: Path | None = None,
    segments: Sequence[Segment] = (),
    card: str = "",
    head: Head | None = None,
) -> None:
    """Write a model that loads with sentence-transformers alone; a table alone in Model2Vec, too.

    It holds sentence-transformers' own modules, see `st_static.model.modules`; with `segments` it
    brings code, and loads with `trust_remote_code=True`. It appears whole or not at all.

    Where a model of st_static is there already, its own files are replaced. All others stay, and
    with `card` the notes between the markers of the card that is there.

    Args:
        folder: Where to.
        table: One row per token, [V, D].
        tokenizer: The student's tokenizer.
        record: What goes into `st_static.json`.
        dtype: Number format, "float32" or "float16". In float16 a text without any known word gets
            NaN instead of zeros from sentence-transformers' Normalize.
        normalize: Whether vectors are scaled to length 1, by `Normalize`.
        pca: File of the fitted `SentencePCA`, copied into the folder to add words with later.
        segments: Parts of the vector that are scaled by themselves, of a fused ensemble.
        card: Text of the model card, README.md; by default none is written.
        head: What comes behind the mean.

    Raises:
        ValueError: As `check_output`; or the parts do not fit, or values the number format.
    """
    folder = as_path(folder, "a folder to write")
    check_output(folder, with_card=bool(card))
    table = _fitting(table, tokenizer, dtype)
    head = head and head.in_format(table.dtype)
    with replacing(folder, (*_OWN_FILES, *MODEL_FOLDERS)) as partial:
        home = write_modules(partial, normalize, segments, head)
        write_weights(home / TABLE_FILE, {"embedding.weight": table})
        tokenizer.save(str(home / TOKENIZER_FILE))
        write_json(partial / CONFIG_FILE, _config(bool(segments), normalize))
        write_json(partial / RECORD_FILE, record)
        if card:
            _write_card(partial / CARD_FILE, card, folder / CARD_FILE)
        if pca is not None:
            shutil.copyfile(pca, partial / PCA_FILE)


def _fitting(table: NDArray[np.floating], tokenizer: Tokenizer, dtype: str) -> NDArray[np.floating]:
    """The table in its number format, checked to have a row for each token."""
    if dtype not in ("float32", "float16"):
        raise ValueError(f"Expected the number format float32 or float16, but got {dtype!r}.")
    if table.ndim != 2 or len(table) != tokenizer.get_vocab_size():
        raise ValueError(
            f"Expected a table of {tokenizer.get_vocab_size()} rows, one for each token of the "
            f"tokenizer, but the table has the shape {table.shape}."
        )
    return in_format(table, np.dtype(dtype))


def _write_card(path: Path, card: str, old: Path) -> None:
    """Write a card with the notes of the one that it replaces, and with markers for them."""
    notes = read_notes(old) if old.is_file() else ""
    path.write_text(with_notes(card, notes), "utf-8")


def _config(is_ensemble: bool, normalize: bool) -> dict[str, Any]:
    oldest = _OLDEST_RELEASE_FOR_SEGMENTS if is_ensemble else _OLDEST_RELEASE
    return {
        "__version__": {"sentence_transformers": oldest},
        "model_type": "SentenceTransformer",
        "prompts": {},
        "default_prompt_name": None,
        # Where a member knows no word of a text, an ensemble's vector is shorter than 1: only its
        # dot product is then the mean of the members' cosines.
        "similarity_fn_name": "dot" if is_ensemble else "cosine",
        # Model2Vec reads these two; it does not know of the Normalize module.
        "normalize": normalize,
        "max_length": None,
    }
