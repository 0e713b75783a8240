"""Writing a static model's ONNX files into its folder, and telling whether they are still its own.

| file | what |
|---|---|
| `onnx/model.onnx` | the graph of `onnx_graph`, with the table as stored |
| `onnx/model_quantized.onnx` | the same with the table in int8 |

Clients want the tokenizer and two small files in the model's own folder. Where the table lies in a
folder of its own, they are written there, too: Model2Vec still finds no table beside them.
"""

from __future__ import annotations

import filecmp
import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import onnx
from google.protobuf.message import DecodeError

from st_static.arguments import as_path
from st_static.files import atomic
from st_static.foreign_files import check_regular
from st_static.model.client_files import (
    CLIENT_FILES,
    is_plain_table,
    problems_of_client_files,
    write_client_files,
    write_client_files_for_onnx,
)
from st_static.model.client_tokenizer import check_tokenizer
from st_static.model.int8_check import check_int8
from st_static.model.int8_table import Table
from st_static.model.modules import CONFIG_FILE, RECORD_FILE, TOKENIZER_FILE, read_modules
from st_static.model.onnx_files import ONNX_FILES, ONNX_FOLDER, check_onnx, files_in, is_ours
from st_static.model.onnx_graph import build_graph
from st_static.model.static_model import StaticModel, read_static_model

# What clients read beside ONNX files.
BESIDE_ONNX = (TOKENIZER_FILE, *CLIENT_FILES)
# Protocol Buffers hold less than 2 GiB; the rest of the graph is small.
_MAX_TABLE_BYTES = 2_000_000_000
_MAX_FILE_BYTES = 2**31
# Writes a plain table again, in our layout.
_RENAMING = (
    "python -c 'import sys; from st_static.model.export import export_model; "
    "from st_static.model.static_model import read_static_model; m = read_static_model("
    "sys.argv[1]); export_model(sys.argv[2], m.table, m.tokenizer, {}, m.table.dtype.name, "
    "m.normalize)'"
)
# What to do with a model that is not fit for int8.
_WITHOUT_INT8 = (
    f"Write it without int8 (no --quantize, or export.onnx: true), and remove {ONNX_FILES[1]}, if "
    "it is there."
)


def export_onnx(model: str | Path, quantize: Literal["int8"] | None = None) -> list[Path]:
    """Write a model's ONNX files, and what clients read beside them, into its folder.

    Args:
        model: The folder of a static model. Its own files stay as they are.
        quantize: Whether `onnx/model_quantized.onnx` is written, too: a quarter of the size, with
            cosines to the exact vectors of more than 0.999, which is measured, see `check_int8`.
            One that st_static wrote there before is written again in any case: it may be of an
            older table.

    Returns:
        The ONNX files.

    Raises:
        ValueError: The folder is not there, cannot be written, or holds no static model; a file
            that st_static did not write is in the way; the tokenizer cannot be run elsewhere; the
            table has a name that clients do not read, or numbers that are not finite; it is too
            large; or it turns vectors too far in int8.
        TypeError: The folder is neither a str nor a path.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from st_static.model.export import export_model
        >>> from st_static.model.tokenizer import build_tokenizer
        >>> folder = Path(tempfile.mkdtemp(), "model")
        >>> table = np.array([[0, 0], [0, 0], [3, 4]], dtype=np.float32)
        >>> export_model(folder, table, build_tokenizer(["a"]), {})
        >>> [file.name for file in export_onnx(folder)]
        ['model.onnx']
    """
    folder = as_path(model, "the model's folder")
    if quantize not in (None, "int8"):
        raise ValueError(f"Expected quantize to be int8 or None, but got {quantize!r}.")
    if not folder.is_dir():
        raise ValueError(f"There is no folder {folder}. Build a model first: st-static build.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"The folder {folder} cannot be written: it is write-protected.")
    check_onnx(folder, quantize or True)
    static = read_static_model(folder)
    check_tokenizer(static.tokenizer)
    _check_size(static.table)
    files = files_in(folder, quantize == "int8" or is_ours(folder / ONNX_FILES[1]))
    if folder / ONNX_FILES[1] in files:
        check_int8(static, _WITHOUT_INT8)
    _write_beside(folder, static)
    (folder / ONNX_FOLDER).mkdir(exist_ok=True)
    for file in files:
        with atomic(file) as temporary:
            temporary.write_bytes(_graph_of(file, static).SerializeToString())
    return files


def outdated(folder: Path) -> Iterator[str]:
    """What is wrong with the ONNX files of a folder: those that are not of its model."""
    model, home = read_static_model(folder), read_modules(folder).home
    for name in ONNX_FILES:
        file = folder / name
        if file.is_file() and _read(file) != _graph_of(file, model):
            yield f"{name} is not of this model, or of another version of st_static"
    for name in BESIDE_ONNX:
        if not (folder / name).is_file():
            yield f"There is no {name}, which clients of ONNX files read"
        elif name == TOKENIZER_FILE and not filecmp.cmp(folder / name, home / name, shallow=False):
            yield f"{name} is not that in {home.name}/"


def _graph_of(file: Path, model: StaticModel) -> onnx.ModelProto:
    return build_graph(model, int8=file.name == Path(ONNX_FILES[1]).name)


def _read(file: Path) -> onnx.ModelProto | None:
    """A file's graph; None if it holds none."""
    if check_regular(file) > _MAX_FILE_BYTES:
        return None
    try:
        return onnx.load_model(file, format="protobuf", load_external_data=False)
    except DecodeError:
        return None


def _check_size(table: Table) -> None:
    if table.nbytes > _MAX_TABLE_BYTES:
        raise ValueError(
            f"The table has {table.nbytes:,} bytes, but an ONNX file holds up to "
            f"{_MAX_TABLE_BYTES:,}. Build the model with fewer words, or with export.dtype float16."
        )


def _write_beside(folder: Path, model: StaticModel) -> None:
    """Write what clients read beside ONNX files, where it is not there already."""
    for problem in problems_of_client_files(folder):
        raise ValueError(f"{folder}: {problem}. Move it away, and one is written.")
    home = read_modules(folder).home
    dimension = model.truncate_dim or model.table.shape[1]
    is_inside = not home.samefile(folder)
    if is_inside or model.head or model.segments:
        write_client_files_for_onnx(folder, model.tokenizer, dimension)
    elif is_plain_table(folder):
        write_client_files(folder, model.tokenizer, dimension, model.normalize)
    else:
        raise ValueError(_how_to_rename(folder))
    if not is_inside:
        return
    copy = folder / TOKENIZER_FILE
    if not copy.exists():
        with atomic(copy) as temporary:
            shutil.copyfile(home / TOKENIZER_FILE, temporary)
    elif not filecmp.cmp(copy, home / TOKENIZER_FILE, shallow=False):
        raise ValueError(f"{copy} is not the tokenizer of the model, {home / TOKENIZER_FILE}.")


def _how_to_rename(folder: Path) -> str:
    new = folder.with_name(f"{folder.name}-for-clients")
    is_built = (folder / RECORD_FILE).is_file()
    again = "If it is as it was built, build it again: complete stages are not run a second time. "
    return (
        f"{folder} holds its table under the name that sentence-transformers saves it by, which "
        f"clients of ONNX files do not expect beside a config.json. {again if is_built else ''}"
        "Write a model that was trained further to another folder, and export that one: "
        f"{_RENAMING} {shlex.quote(str(folder))} {shlex.quote(str(new))}. If it has prompts, copy "
        f"its {CONFIG_FILE} there, too."
    )
