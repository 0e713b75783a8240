"""The ONNX files of a model's folder, as far as one needs no package to know them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from st_static.dependencies import needed_by, require_packages

ONNX_FOLDER = "onnx"
# The model as it is, and with its table in int8, under the names that transformers.js asks for.
ONNX_FILES = (f"{ONNX_FOLDER}/model.onnx", f"{ONNX_FOLDER}/model_quantized.onnx")
# By the name that transformers.js has for how the table is stored.
FILE_OF_DTYPE = dict(zip(("fp32", "q8"), ONNX_FILES, strict=True))
PRODUCER = "st_static"
# A file begins with its version and its producer.
_BEGINNING = 64


def is_ours(file: Path) -> bool:
    """Whether st_static wrote an ONNX file."""
    if not file.is_file():
        return False
    with file.open("rb") as stream:
        return bytes([len(PRODUCER), *PRODUCER.encode()]) in stream.read(_BEGINNING)


def check_onnx(folder: Path, onnx: bool | Literal["int8"]) -> None:
    """Check that ONNX files can be written into a folder, if they are wanted.

    Args:
        folder: The model's folder, which need not be there.
        onnx: Whether they are wanted; "int8" is with the quantised one.

    Raises:
        ValueError: A package is missing, a file of the user is in the way, or the choice is none.
    """
    if onnx not in (True, False, "int8"):
        raise ValueError(f"Expected onnx to be true, false or int8, but got {onnx!r}.")
    if not onnx:
        return
    with needed_by("The option onnx", "onnx"):
        require_packages("onnx")
    for file in (folder / ONNX_FOLDER, *files_in(folder, onnx == "int8")):
        is_right = file.is_dir() if file.name == ONNX_FOLDER else is_ours(file)
        if os.path.lexists(file) and not is_right:
            raise ValueError(f"{file} was not written by st_static. Move it away.")


def files_in(folder: Path, int8: bool) -> list[Path]:
    """The ONNX files of a folder, with the quantised one or without."""
    return [folder / name for name in ONNX_FILES[: 1 + int8]]
