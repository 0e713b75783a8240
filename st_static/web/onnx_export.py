"""Write a static model's ONNX files into its folder, and check that they still match it.

Many clients take the mean of `last_hidden_state` over the tokens and ignore other outputs. With a
head or segments, that mean would be another vector: there each token has `sentence_embedding`,
whose mean is right. The files that clients expect in the model's own folder are copied there if
the table has a folder of its own: Model2Vec still finds no table beside them.
"""

from __future__ import annotations

import contextlib
import filecmp
import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper, numpy_helper

from st_static.files import atomic
from st_static.foreign_files import check_regular
from st_static.model import modules as layout
from st_static.model.model_folder import ModelFolder
from st_static.model.static_model import StaticModel, check_int8
from st_static.model.table import Int8Table
from st_static.web.javascript_tokenizer import check_tokenizer

# The files that clients read beside ONNX files.
BESIDE_ONNX = (layout.TOKENIZER_FILE, *layout.CLIENT_FILES)
# Protocol Buffers are limited to 2 GiB; the rest of the graph is small.
_MAX_TABLE_BYTES = 2_000_000_000
_MAX_FILE_BYTES = 2**31
# For onnxruntime from 1.17 on, including that of transformers.js 3.8.
_OPSET, _IR_VERSION = 17, 8
_SMALLEST_NORM = 1e-12  # as in torch's normalize
_BATCH = ["batch", "sequence"]
_IDS, _MASK = "input_ids", "attention_mask"
_TOKENS, _SENTENCE = "last_hidden_state", "sentence_embedding"
# A command that writes a plain table again, in our layout.
_RENAMING = (
    "python -c 'import sys; from st_static.model.export import export_model; "
    "from st_static.model.model_folder import read_static_model; m = read_static_model("
    "sys.argv[1]); export_model(sys.argv[2], m.table, m.tokenizer, {}, "
    "dtype=m.table.dtype.name, normalize=m.normalize)'"
)


def export_onnx(model: str | Path, quantize: Literal["int8"] | None = None) -> list[Path]:
    """Write a model's ONNX files, and what clients read beside them, into its folder.

    Args:
        model: The folder of a static model. Its own files stay unchanged.
        quantize: Whether to write `onnx/model_quantized.onnx`, too: a quarter of the size, with
            measured cosines to the exact vectors of more than 0.999, see `check_int8`. An existing
            one of st_static is always written again, as it may be outdated.

    Returns:
        The ONNX files.

    Raises:
        ValueError: The folder is missing, cannot be written, or holds no static model; a file that
            st_static did not write is in the way; clients cannot run the tokenizer; the table has a
            name that clients do not read, numbers that are not finite, or too many bytes; or
            vectors turn too far in int8.
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
    if quantize not in (None, "int8"):
        raise ValueError(f"Expected quantize to be int8 or None, but got {quantize!r}.")
    folder = ModelFolder.local(model)
    if not os.access(folder.path, os.W_OK | os.X_OK):
        raise ValueError(f"The folder {folder.path} cannot be written: it is write-protected.")
    onnx_folder, n_files = folder.path / layout.ONNX_FOLDER, 2 if quantize else 1
    foreign = [onnx_folder] if os.path.lexists(onnx_folder) and not onnx_folder.is_dir() else []
    wanted = (folder.path / name for name in layout.ONNX_FILES[:n_files])
    foreign += [file for file in wanted if os.path.lexists(file) and not layout.is_ours(file)]
    if foreign:
        raise ValueError(f"{foreign[0]} was not written by st_static. Move it away.")
    static = folder.model
    check_tokenizer(static.tokenizer)
    if static.table.nbytes > _MAX_TABLE_BYTES:
        raise ValueError(
            f"The table has {static.table.nbytes:,} bytes, but an ONNX file holds up to "
            f"{_MAX_TABLE_BYTES:,}. Build the model with fewer words, or store it in float16: "
            "st-static export --dtype float16 --output DIR."
        )
    plain, quantized = (folder.path / name for name in layout.ONNX_FILES)
    files = [plain, quantized] if quantize or layout.is_ours(quantized) else [plain]
    if quantized in files:
        check_int8(
            static,
            f"Write it without int8 (no --quantize), and remove {layout.ONNX_FILES[1]}, if it is "
            "there.",
        )
    _write_beside(folder)
    (folder.path / layout.ONNX_FOLDER).mkdir(exist_ok=True)
    for file in files:
        with atomic(file) as temporary:
            graph = _build_graph(static, int8=file == quantized)
            temporary.write_bytes(graph.SerializeToString())
    return files


def _write_beside(folder: ModelFolder) -> None:
    """Write the files that clients read beside ONNX files, unless they exist."""
    path, home, model = folder.path, folder.modules.home, folder.model
    for problem in layout.problems_of_client_files(path):
        raise ValueError(f"{path}: {problem}. Move it away, and one is written.")
    is_inside = not home.samefile(path)
    is_table = not (is_inside or model.head or model.segments)
    if is_table and layout.PLAIN_TABLE not in folder.arrays:
        new = path.with_name(f"{path.name}-for-clients")
        hint = "If it is as it was built, build it again: complete stages are used again. "
        raise ValueError(
            f"{path} holds its table under the name that sentence-transformers saves it by, which "
            "clients of ONNX files do not expect beside a config.json. "
            f"{hint if (path / layout.RECORD_FILE).is_file() else ''}Write a model that was "
            f"trained further to another folder, and export that one: {_RENAMING} "
            f"{shlex.quote(str(path))} {shlex.quote(str(new))}. If it has prompts, copy its "
            f"{layout.CONFIG_FILE} there, too."
        )
    dimension = model.truncate_dim or model.table.shape[1]
    layout.write_client_files(
        path, model.tokenizer, dimension, model.normalize if is_table else None
    )
    copy = path / layout.TOKENIZER_FILE
    if is_inside and not copy.exists():
        with atomic(copy) as temporary:
            shutil.copyfile(home / layout.TOKENIZER_FILE, temporary)
    elif is_inside and not filecmp.cmp(copy, home / layout.TOKENIZER_FILE, shallow=False):
        raise ValueError(
            f"{copy} is not the tokenizer of the model, {home / layout.TOKENIZER_FILE}."
        )


def outdated(folder: ModelFolder) -> Iterator[str]:
    """Say which ONNX files of a folder do not match its model; a ValueError if it is not static."""
    model, home = folder.model, folder.modules.home
    for name in layout.ONNX_FILES:
        file = folder.path / name
        if not file.is_file():
            continue
        stored = None
        if check_regular(file) <= _MAX_FILE_BYTES:
            with contextlib.suppress(DecodeError):
                stored = onnx.load_model(file, format="protobuf", load_external_data=False)
        if stored != _build_graph(model, int8=name == layout.ONNX_FILES[1]):
            yield f"{name} is not of this model, or of another version of st_static"
    for name in BESIDE_ONNX:
        file = folder.path / name
        if not file.is_file():
            yield f"There is no {name}, which clients of ONNX files read"
        elif name == layout.TOKENIZER_FILE and not filecmp.cmp(file, home / name, shallow=False):
            yield f"{name} is not that in {home.name}/"


def _build_graph(model: StaticModel, int8: bool) -> onnx.ModelProto:
    """Build the graph of a model; in int8, the table has a scale for each row and segment."""
    graph, table = _Graph(), np.asarray(model.table)
    dimension = model.truncate_dim or table.shape[1]
    # The row of each token, [B, T, D] in float32.
    if int8:
        quantized = Int8Table.of(table, model.widths)
        rows = graph.add("Gather", graph.constant(quantized.rows, np.int8, "rows"), _IDS)
        rows = graph.as_float(rows)
        scales = graph.add("Gather", graph.constant(quantized.scales, name="scales"), _IDS)
        if model.segments:  # [B, T, L] becomes [B, T, D]
            segments = graph.constant(np.repeat(np.arange(len(model.segments)), model.widths))
            scales = graph.add("Gather", scales, segments, axis=2)
        rows = graph.add("Mul", rows, scales)
    else:
        rows = graph.add("Gather", graph.constant(table, table.dtype, "table"), _IDS)
        rows = rows if table.dtype == np.float32 else graph.as_float(rows)
    # The mean of each text's rows, [B, D]; zeros for a text without a token. By a product of
    # matrices, whose sums of many rows are more exact than those of ReduceSum.
    axis, least = graph.constant([1]), graph.constant(1.0)
    mask = graph.as_float(_MASK)
    total = graph.add("MatMul", graph.add("Unsqueeze", mask, axis), rows)
    count = graph.add("Max", graph.add("ReduceSum", mask, axis, keepdims=1), least)
    vector = graph.add("Div", graph.add("Squeeze", total, axis), count)
    if model.segments:  # each at its own length, as in `SegmentNormalize`
        parts = []
        for dimensions, length in model.scaled:
            edges = [graph.constant([n]) for n in (dimensions.start, dimensions.stop, 1)]
            part = graph.scaled(graph.add("Slice", vector, *edges))
            parts.append(graph.add("Mul", part, graph.constant(length)))
        vector = graph.add("Concat", *parts, axis=1)
    if model.head:  # x + B relu(A x)
        first, second = graph.constant(model.head.first.T), graph.constant(model.head.second.T)
        hidden = graph.add("Relu", graph.add("MatMul", vector, first))
        vector = graph.add("Add", vector, graph.add("MatMul", hidden, second))
    if model.normalize and not model.segments:
        vector = graph.scaled(vector)
    tokens = rows
    if model.truncate_dim:
        vector = graph.first(vector, dimension, axis=1)
    if model.head or model.segments:  # the vector again at each token, [B, T, D]
        batch = graph.add("Shape", _IDS)
        shape = graph.add("Concat", batch, graph.constant([dimension]), axis=0)
        tokens = graph.add("Expand", graph.add("Unsqueeze", vector, graph.constant([1])), shape)
    elif model.truncate_dim:
        tokens = graph.first(rows, dimension, axis=2)
    graph.add("Identity", tokens, output=_TOKENS)
    graph.add("Identity", vector, output=_SENTENCE)
    return graph.as_model(dimension)


class _Graph:
    """Collects nodes and constants in order."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def add(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add a node with one output, and return the output's name."""
        output = output or f"{operator}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def constant(self, values: Any, dtype: Any = None, name: str = "") -> str:
        """Add a constant, by default in float32, or int64 for whole numbers; return its name."""
        name = name or f"constant_{len(self._constants)}"
        dtype = dtype or (np.int64 if np.asarray(values).dtype.kind == "i" else np.float32)
        array = np.ascontiguousarray(values, dtype).reshape(np.shape(values))
        self._constants.append(numpy_helper.from_array(array, name))
        return name

    def as_float(self, name: str) -> str:
        """Cast a tensor to float32."""
        return self.add("Cast", name, to=TensorProto.FLOAT)

    def first(self, name: str, count: int, axis: int) -> str:
        """Slice the first entries of a tensor along an axis."""
        begin, end, along = self.constant([0]), self.constant([count]), self.constant([axis])
        return self.add("Slice", name, begin, end, along)

    def scaled(self, vectors: str) -> str:
        """Scale vectors [B, n] to length 1; zeros stay zeros."""
        norms = self.add("ReduceL2", vectors, axes=[1], keepdims=1)
        return self.add("Div", vectors, self.add("Max", norms, self.constant(_SMALLEST_NORM)))

    def as_model(self, dimension: int) -> onnx.ModelProto:
        """Make a model with the module's inputs and outputs."""
        ids = [helper.make_tensor_value_info(n, TensorProto.INT64, _BATCH) for n in (_IDS, _MASK)]
        outputs = [
            helper.make_tensor_value_info(_TOKENS, TensorProto.FLOAT, [*_BATCH, dimension]),
            helper.make_tensor_value_info(_SENTENCE, TensorProto.FLOAT, [_BATCH[0], dimension]),
        ]
        graph = helper.make_graph(self._nodes, layout.ONNX_PRODUCER, ids, outputs, self._constants)
        opsets = [helper.make_opsetid("", _OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, producer_name=layout.ONNX_PRODUCER)
        model.ir_version = _IR_VERSION
        return model
