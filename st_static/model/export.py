"""Writing a word table as a repository that sentence-transformers and Model2Vec load."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import Tokenizer

from st_static.arguments import as_path
from st_static.files import write_json
from st_static.model.notes import CARD_FILE, read_notes, with_notes
from st_static.model.replacement import check_place, present, replacing
from st_static.model.vectors import in_format

if TYPE_CHECKING:
    from st_static.model.static_model import Segment

RECORD_FILE = "st_static.json"
PCA_FILE = "sentence_pca.safetensors"
# The older spelling of the modules' types: it loads in old and new sentence-transformers.
_BUILT_IN = "sentence_transformers.models"
_CODE_FILE = "segment_normalize.py"
# What a model may consist of, in any form. All else in its folder is not ours.
_OWN_FILES = (
    "model.safetensors",
    "tokenizer.json",
    "modules.json",
    "config_sentence_transformers.json",
    RECORD_FILE,
    PCA_FILE,
    _CODE_FILE,
    "1_SegmentNormalize/config.json",
)
_OWN_FOLDERS = ("1_Normalize", "1_SegmentNormalize")
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
    if folder.resolve() in (Path.cwd(), *Path.cwd().parents):
        raise ValueError(
            f"The output {folder} is the folder that you are in, or holds it, and would be "
            "replaced. Choose another."
        )
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"The output {folder} is a file. Choose a folder.")
    check_place(folder)
    there = present(folder)
    if not there.is_dir() or not any(there.iterdir()):
        return
    if not (there / RECORD_FILE).is_file():
        raise ValueError(
            f"The output folder {folder} holds something that is not a model of st_static (it has "
            f"no {RECORD_FILE}). Choose another folder, or empty this one."
        )
    _check_names(there)
    if with_card and (there / CARD_FILE).is_file():
        read_notes(there / CARD_FILE)


def is_own(path: Path) -> bool:
    """Whether a path inside a model's folder is of the model's own files, its card left aside."""
    return path.parts[0] in (*_OWN_FILES, *_OWN_FOLDERS)


def own_files(folder: Path) -> list[Path]:
    """The files of a model that are its own: not its card, and nothing of the user's."""
    return [folder / name for name in _OWN_FILES if (folder / name).is_file()]


def _check_names(folder: Path) -> None:
    """Check that a model's files and folders find no folder or file of the user in their place."""
    files = [folder / name for name in (*_OWN_FILES, CARD_FILE)]
    folders = [folder / name for name in _OWN_FOLDERS]
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
) -> None:
    """Write a model that loads with sentence-transformers alone, and without segments in Model2Vec.

    It holds sentence-transformers' own modules only: `StaticEmbedding` and `Normalize`; with
    `segments` it holds the code of `SegmentNormalize` instead, and loads with
    `trust_remote_code=True`. The model appears whole or not at all.

    Where a model of st_static is there already, its own files are replaced. All others stay, such
    as its card with figures, and with `card` the notes between the markers of the one that is
    there.

    Args:
        folder: Where to.
        table: One row per token, [V, D].
        tokenizer: The student's tokenizer.
        record: What goes into `st_static.json`.
        dtype: Number format of the table, "float32" or "float16". In float16 a text without
            any known word gets NaN instead of zeros from sentence-transformers, whose Normalize
            divides by a number that float16 rounds to zero.
        normalize: Whether vectors are scaled to length 1, by `Normalize`.
        pca: File of the fitted `SentencePCA`, copied beside the model to add words with later.
        segments: Parts of the vector that are scaled by themselves, of a fused ensemble.
        card: Text of the model card, README.md; by default none is written.

    Raises:
        ValueError: As `check_output`; table and tokenizer do not fit, or values are too large for
            the number format.
    """
    folder = as_path(folder, "a folder to write")
    check_output(folder, with_card=bool(card))
    table = _fitting(table, tokenizer, dtype)
    with replacing(folder, (*_OWN_FILES, *_OWN_FOLDERS)) as partial:
        _write_weights(partial / "model.safetensors", table)
        tokenizer.save(str(partial / "tokenizer.json"))
        _write_modules(partial, segments, normalize)
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


def _write_weights(path: Path, table: NDArray[np.floating]) -> None:
    # save_file leaves a file that only its owner may read; save copies the table twice.
    path.touch()
    mode = path.stat().st_mode
    save_file({"embedding.weight": table}, path, metadata={"format": "pt"})
    path.chmod(mode)


def _write_card(path: Path, card: str, old: Path) -> None:
    """Write a card with the notes of the one that it replaces, and with markers for them."""
    notes = read_notes(old) if old.is_file() else ""
    path.write_text(with_notes(card, notes), "utf-8")


def _write_modules(folder: Path, segments: Sequence[Segment], normalize: bool) -> None:
    """Write which modules a text goes through, what they need, and the configuration."""
    # "." is the model's own folder. Before 5.0 an empty path is a transformer's, and does not load.
    modules = [{"path": ".", "type": f"{_BUILT_IN}.StaticEmbedding"}]
    if segments:
        modules.append(_write_segments(folder, segments))
    elif normalize:
        modules.append({"path": "1_Normalize", "type": f"{_BUILT_IN}.Normalize"})
        (folder / "1_Normalize").mkdir()
    numbered = [{"idx": i, "name": str(i), **module} for i, module in enumerate(modules)]
    write_json(folder / "modules.json", numbered)
    config = _config(bool(segments), normalize)
    write_json(folder / "config_sentence_transformers.json", config)


def _write_segments(folder: Path, segments: Sequence[Segment]) -> dict[str, str]:
    """Write the module that scales segments, and its code; its place and its type."""
    path = "1_SegmentNormalize"
    shutil.copyfile(Path(__file__).with_name(_CODE_FILE), folder / _CODE_FILE)
    (folder / path).mkdir()
    widths, weights = zip(*segments, strict=True)
    write_json(folder / path / "config.json", {"widths": widths, "weights": weights})
    return {"path": path, "type": "segment_normalize.SegmentNormalize"}


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
