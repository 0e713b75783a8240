"""A static model as an ONNX graph: token ids in, vectors out.

| input or output | shape | |
|---|---|---|
| `input_ids` | [B, T], int64 | as the model's tokenizer gives them, without special tokens |
| `attention_mask` | [B, T], int64 | 1 for a token, 0 for padding |
| `last_hidden_state` | [B, T, D] | the vector of each token |
| `sentence_embedding` | [B, D] | what `SentenceTransformer` gives without a prompt; zeros without \
a known word |

Many clients take the mean of `last_hidden_state` over the tokens, whatever else there is. Behind a
head or segments that mean would be another vector: there each token has `sentence_embedding`, of
which the mean is the same.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from st_static.model.head import Head
from st_static.model.modules import Segment
from st_static.model.onnx_files import PRODUCER
from st_static.model.quantization import quantize_rows
from st_static.model.static_model import StaticModel

# What onnxruntime 1.17 reads, and all later ones: those of transformers.js 3.8, too.
_OPSET, _IR_VERSION = 17, 8
_SMALLEST_NORM = 1e-12  # as torch's normalize has it
_BATCH = ["batch", "sequence"]
_IDS, _MASK = "input_ids", "attention_mask"
_TOKENS, _SENTENCE = "last_hidden_state", "sentence_embedding"


def build_graph(model: StaticModel, int8: bool = False) -> onnx.ModelProto:
    """Make the graph of a model.

    Args:
        model: The model, with the table [V, D].
        int8: Whether the table is stored as int8, with a scale for each row and segment.
    """
    graph = _Graph()
    rows = _rows(graph, model, int8)
    mean = _mean(graph, rows)
    vector = _behind_the_mean(graph, model, mean)
    dimension = model.truncate_dim or model.table.shape[1]
    if model.truncate_dim:
        vector = graph.first(vector, dimension, axis=1)
    if model.head or model.segments:
        tokens = _at_each_token(graph, vector, dimension)
    else:
        tokens = graph.first(rows, dimension, axis=2) if model.truncate_dim else rows
    graph.add("Identity", tokens, output=_TOKENS)
    graph.add("Identity", vector, output=_SENTENCE)
    return graph.as_model(dimension)


class _Graph:
    """Nodes and constants, in the order in which they are added."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def add(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add a node with one output, and give the output's name."""
        output = output or f"{operator}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def constant(self, values: Any, dtype: Any = np.float32, name: str = "") -> str:
        """Add a constant, and give its name."""
        name = name or f"constant_{len(self._constants)}"
        array = np.ascontiguousarray(values, dtype).reshape(np.shape(values))
        self._constants.append(numpy_helper.from_array(array, name))
        return name

    def integers(self, *values: int) -> str:
        """Add a constant of whole numbers."""
        return self.constant(values, np.int64)

    def as_float(self, name: str) -> str:
        """A tensor in float32."""
        return self.add("Cast", name, to=TensorProto.FLOAT)

    def first(self, name: str, count: int, axis: int) -> str:
        """The first entries of a tensor along an axis."""
        begin, end, along = self.integers(0), self.integers(count), self.integers(axis)
        return self.add("Slice", name, begin, end, along)

    def as_model(self, dimension: int) -> onnx.ModelProto:
        """All that was added, with the inputs and outputs that the module names."""
        ids = [helper.make_tensor_value_info(n, TensorProto.INT64, _BATCH) for n in (_IDS, _MASK)]
        outputs = [
            helper.make_tensor_value_info(_TOKENS, TensorProto.FLOAT, [*_BATCH, dimension]),
            helper.make_tensor_value_info(_SENTENCE, TensorProto.FLOAT, [_BATCH[0], dimension]),
        ]
        graph = helper.make_graph(self._nodes, PRODUCER, ids, outputs, self._constants)
        opsets = [helper.make_opsetid("", _OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, producer_name=PRODUCER)
        model.ir_version = _IR_VERSION
        return model


def _rows(graph: _Graph, model: StaticModel, int8: bool) -> str:
    """The row of each token, [B, T, D] in float32."""
    table = np.asarray(model.table)
    if int8:
        quantized = quantize_rows(table, model.widths)
        rows = graph.add("Gather", graph.constant(quantized.rows, np.int8, "rows"), _IDS)
        rows = graph.as_float(rows)
        scales = graph.add("Gather", graph.constant(quantized.scales, name="scales"), _IDS)
        if model.segments:  # [B, T, L] becomes [B, T, D]
            segments = graph.integers(*np.repeat(np.arange(len(model.segments)), model.widths))
            scales = graph.add("Gather", scales, segments, axis=2)
        return graph.add("Mul", rows, scales)
    rows = graph.add("Gather", graph.constant(table, table.dtype, "table"), _IDS)
    return rows if table.dtype == np.float32 else graph.as_float(rows)


def _mean(graph: _Graph, rows: str) -> str:
    """The mean of each text's rows, [B, D]; zeros for a text without a token."""
    axis, one = graph.integers(1), graph.constant(1.0)
    mask = graph.as_float(_MASK)
    # A product of matrices: sums of many rows are more exact than those of ReduceSum.
    total = graph.add("MatMul", graph.add("Unsqueeze", mask, axis), rows)
    count = graph.add("Max", graph.add("ReduceSum", mask, axis, keepdims=1), one)
    return graph.add("Div", graph.add("Squeeze", total, axis), count)


def _behind_the_mean(graph: _Graph, model: StaticModel, mean: str) -> str:
    """What the modules behind the table make of means [B, D]."""
    if model.segments:
        return _scaled_segments(graph, mean, model.segments)
    vector = _through(graph, mean, model.head) if model.head else mean
    return _scaled(graph, vector) if model.normalize else vector


def _through(graph: _Graph, mean: str, head: Head) -> str:
    """Means behind a head: x + B relu(A x)."""
    first, second = graph.constant(head.first.T), graph.constant(head.second.T)
    hidden = graph.add("Relu", graph.add("MatMul", mean, first))
    return graph.add("Add", mean, graph.add("MatMul", hidden, second))


def _scaled(graph: _Graph, vectors: str) -> str:
    """Vectors [B, n] at length 1; zeros stay zeros."""
    norms = graph.add("ReduceL2", vectors, axes=[1], keepdims=1)
    return graph.add("Div", vectors, graph.add("Max", norms, graph.constant(_SMALLEST_NORM)))


def _scaled_segments(graph: _Graph, mean: str, segments: tuple[Segment, ...]) -> str:
    """Each segment of means [B, D] at its own length, as `SegmentNormalize` does it."""
    total = math.hypot(*(segment.weight for segment in segments))
    parts, begin = [], 0
    for width, weight in segments:
        edges = [graph.integers(n) for n in (begin, begin + width, 1)]
        part = _scaled(graph, graph.add("Slice", mean, *edges))
        parts.append(graph.add("Mul", part, graph.constant(weight / total)))
        begin += width
    return graph.add("Concat", *parts, axis=1)


def _at_each_token(graph: _Graph, vectors: str, dimension: int) -> str:
    """Vectors [B, D] again at each token, [B, T, D]."""
    batch = graph.add("Shape", _IDS)
    shape = graph.add("Concat", batch, graph.integers(dimension), axis=0)
    return graph.add("Expand", graph.add("Unsqueeze", vectors, graph.integers(1)), shape)
