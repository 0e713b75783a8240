"""Write a word table as a repository that sentence-transformers and Model2Vec load."""

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
from st_static.foreign_files import read_object
from st_static.model import modules as layout
from st_static.model.card_file import (
    NOTES_START,
    marked_for,
    notes_of,
    read_notes,
    with_line,
    with_notes,
)
from st_static.model.head import Head
from st_static.model.model_folder import ModelFolder
from st_static.model.modules import Segment
from st_static.model.records import Record
from st_static.model.replacement import check_output_folder, present, replacing, steady
from st_static.model.static_model import check_int8
from st_static.model.table import Int8Table
from st_static.model.vectors import in_format

# The oldest releases that load each form. They warn of models that name a newer one.
_OLDEST_RELEASES = {"table": "3.4.1", "head": "3.2.0", "segments": "5.4.0", "int8": "6.2.0"}
_FIGURES = "figures"


@steady
def check_output(folder: Path, with_card: bool = False) -> None:
    """Check, before hours of work, that a model may be written into a folder; change nothing. A
    ValueError if it is neither new, empty, nor a model of st_static; if a file of the user is in
    the way; or, with a card, if the present card has no markers around the notes."""
    present_folder = check_output_folder(folder, layout.RECORD_FILE, "a model of st_static")
    if present_folder is None:
        return
    files = [present_folder / name for name in (*layout.OWN_FILES, layout.CARD_FILE)]
    folders = [present_folder / name for name in layout.MODEL_FOLDERS]
    in_the_way = [path for path in files if path.is_dir() and not path.is_symlink()]
    in_the_way += [path for path in folders if path.is_symlink() or path.is_file()]
    clients = [present_folder / name for name in layout.CLIENT_FILES]
    in_the_way += [path for path in clients if path.exists() and not layout.is_ours(path)]
    if in_the_way:
        raise ValueError(
            f"{in_the_way[0]} was not written by st_static, and a model has a file or folder of "
            "its own there. Move it away, or choose another output."
        )
    if with_card:
        read_notes(present_folder / layout.CARD_FILE)


@steady
def _notes(folder: Path) -> str:
    """Read the notes in the card of a present model."""
    return read_notes(present(folder) / layout.CARD_FILE)


def _is_replaced(folder: Path, name: str) -> bool:
    """Tell whether a new model replaces a file or folder."""
    if name == layout.ONNX_FOLDER:
        return any(layout.is_ours(folder / file) for file in layout.ONNX_FILES)
    if name in (*layout.CLIENT_FILES, *layout.ONNX_FILES):
        return layout.is_ours(folder / name)
    return name in (*layout.OWN_FILES, *layout.MODEL_FOLDERS)


def export_model(
    folder: str | Path,
    table: NDArray[np.floating],
    tokenizer: Tokenizer,
    record: Mapping[str, Any] | Record,
    *,
    dtype: str = "float32",
    normalize: bool = True,
    pca: Path | None = None,
    segments: Sequence[Segment] = (),
    card: str = "",
    head: Head | None = None,
    config: Mapping[str, Any] | None = None,
    figures: Path | None = None,
) -> None:
    """Write a model for sentence-transformers and, if it is only a table, for Model2Vec.

    It consists of sentence-transformers' own modules, see `st_static.model.modules`; with
    `segments`, those of a fused ensemble, it includes code, and loads with
    `trust_remote_code=True`. It appears whole or not at all. The files of an existing model of
    st_static are replaced; its notes and all others stay. In float16, a text without any known word
    gets NaN instead of zeros from sentence-transformers' Normalize. In int8, which is for tables
    alone, each row has a scale, as Model2Vec stores it. The fitted `pca` serves to add words later;
    `config` has the prompts of a present model, and `figures` is the folder of its card's. Errors
    are those of `check_output`.
    """
    folder = as_path(folder, "a folder to write")
    check_output(folder, with_card=bool(card))
    is_plain, is_int8 = not segments and head is None, dtype == "int8"
    if dtype not in ("float32", "float16") and not (is_int8 and is_plain):
        instead = "the table of a head or an ensemble has no other" if is_int8 else f"got {dtype!r}"
        raise ValueError(f"Expected the number format float32 or float16, but {instead}.")
    if table.ndim != 2 or len(table) != tokenizer.get_vocab_size():
        raise ValueError(
            f"Expected a table of {tokenizer.get_vocab_size()} rows, one for each token of the "
            f"tokenizer, but the table has the shape {table.shape}."
        )
    table = in_format(table, np.dtype("float32" if is_int8 else dtype))
    head = head and head.in_format(table.dtype)
    form = "segments" if segments else "head" if head else "int8" if is_int8 else "table"
    weights: dict[str, Any] = {layout.PLAIN_TABLE if is_plain else "embedding.weight": table}
    if is_int8:
        quantized = Int8Table.of(table)
        weights = {layout.PLAIN_TABLE: quantized.rows, "weights": quantized.scales[:, 0]}
    settings = {
        "__version__": {"sentence_transformers": _OLDEST_RELEASES[form]},
        "model_type": "SentenceTransformer",
        "prompts": {},
        "default_prompt_name": None,
        # If a member knows no word of a text, an ensemble's vector is shorter than 1: then only the
        # dot product is the mean of the members' cosines.
        "similarity_fn_name": "dot" if segments else "cosine",
    }
    settings |= {key: value for key, value in (config or {}).items() if key != "__version__"}
    with replacing(folder, _is_replaced) as partial:
        home = layout.write_modules(partial, normalize, segments, head)
        layout.write_weights(home / layout.TABLE_FILE, weights)
        tokenizer.save(str(home / layout.TOKENIZER_FILE))
        write_json(partial / layout.CONFIG_FILE, settings)
        if is_plain:
            layout.write_client_files(partial, tokenizer, table.shape[1], normalize)
        write_json(partial / layout.RECORD_FILE, record)
        if card:
            notes = _notes(folder)
            if notes or NOTES_START not in card:
                card = with_notes(card, notes)
            card = marked_for(card, ModelFolder(partial).fingerprint)
            (partial / layout.CARD_FILE).write_text(card, "utf-8")
        if figures is not None:
            shutil.copytree(figures, partial / _FIGURES)
        if pca is not None:
            shutil.copyfile(pca, partial / layout.PCA_FILE)


def export_as(model: ModelFolder, folder: str | Path, dtype: str = "float32") -> None:
    """Write a model of st_static into another folder, with its table in a number format, and with
    its card. Errors are those of `export_model`, and a ValueError if st_static did not build the
    model, both folders have notes in their cards, or int8 would turn vectors too far."""
    folder = as_path(folder, "a folder to write")
    if folder.exists() and folder.samefile(model.path):
        raise ValueError(f"{folder} is the model itself. Choose another folder for the output.")
    record, static, card = model.whole_record(), model.read(), model.card
    if dtype == "int8":
        check_int8(static, "Take float16.")
    if card:
        if NOTES_START in card and _notes(folder) not in ("", notes_of(card)):
            raise ValueError(
                f"The notes in {model.path / layout.CARD_FILE} and {folder / layout.CARD_FILE} "
                "differ. Make them equal, or empty those of the output."
            )
        line = f"Exported as {dtype} from `{model.name}`, whose scores, speeds and sizes these are."
        card = with_line(card, line)
    config, pca = model.path / layout.CONFIG_FILE, model.path / layout.PCA_FILE
    figures = model.path / _FIGURES
    export_model(
        folder,
        np.asarray(static.table),
        static.tokenizer,
        record,
        dtype=dtype,
        normalize=static.normalize,
        pca=pca if pca.is_file() and dtype != "int8" else None,
        segments=static.segments,
        card=card,
        head=static.head,
        config=read_object(config, dict) if config.is_file() else None,
        figures=figures if card and figures.is_dir() else None,
    )
