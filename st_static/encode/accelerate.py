"""Make static models encode fast inside sentence-transformers."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import logging
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, StaticEmbedding
from sentence_transformers.util import fullname
from tokenizers import Tokenizer
from torch import Tensor

from st_static.arguments import check_type
from st_static.cluster.processes import unblock_torch
from st_static.encode.fast_encoder import FastEncoder
from st_static.model.head import DenseLayer, Head
from st_static.model.modules import STATIC_FORMS
from st_static.model.static_model import StaticModel
from st_static.model.static_word_embedding import (
    StaticWordEmbedding,
    fast_tokenizer,
    features_of,
)

_SIGNATURE = inspect.signature(SentenceTransformer.encode)
# Its level decides on the progress bar.
_LIBRARY_LOGGER = logging.getLogger(SentenceTransformer.__module__)


def accelerate(model: SentenceTransformer) -> SentenceTransformer:
    """Make a static model encode many times faster, with the same vectors.

    `FastEncoder`'s code, with the model's own weights, does what `model.encode` is usually called
    for, on a CPU and in float32: texts in a list or column, prompts, a progress bar, vectors that
    are truncated, scaled, or tensors. For all else, such as training, other devices, several
    processes and quantised vectors, the model works as before, with a faster tokenizer. It saves a
    plain `StaticEmbedding`. If you change the tokenizer itself later, such as its truncation, call
    this again. A text without any known word gets a vector of zeros, except under `model.half()`,
    where sentence-transformers' `Normalize` gives NaN.

    Args:
        model: A model that begins with a `StaticEmbedding`. It is changed in place.

    Returns:
        The same model.

    Raises:
        ValueError: The model does not begin with a `StaticEmbedding`.
        TypeError: It is not a SentenceTransformer.

    Example:
        >>> from st_static.model.tokenizer import build_tokenizer
        >>> embedding = StaticEmbedding(build_tokenizer(["hello", "world"]), embedding_dim=2)
        >>> accelerate(SentenceTransformer(modules=[embedding])).encode(["Hello world"]).shape
        (1, 2)
    """
    advice = "Load it: SentenceTransformer(…)."
    check_type(model, SentenceTransformer, "a SentenceTransformer", advice)
    module = model[0]
    if not isinstance(module, StaticEmbedding):
        raise ValueError(
            "Expected a static model, which begins with a StaticEmbedding, but this one begins "
            f"with a {type(module).__name__}."
        )
    preprocess = functools.partial(_preprocess, module)
    module.preprocess = preprocess  # type: ignore[method-assign]
    model.encode = _FastEncode(model)  # type: ignore[method-assign]
    return model


def as_static_model(model: SentenceTransformer, tokenizer: Tokenizer | None = None) -> StaticModel:
    """Take tokenizer, which must not pad, and table of a loaded static model, not copied if float32
    on a CPU; a ValueError if it has other modules than a model of st_static."""
    table, *others = model
    kinds = [type(module).__name__ for module in others]
    is_ours = ["StaticEmbedding", *kinds] in STATIC_FORMS and "SegmentNormalize" not in kinds
    if not isinstance(table, StaticEmbedding) or not is_ours:
        found = ", ".join([type(table).__name__, *kinds])
        raise ValueError(
            "Expected the modules StaticEmbedding and Normalize, with or without a head between "
            f"them, but the model has {found}."
        )
    dense = []
    for module in others:
        if isinstance(module, Dense):
            bias = module.linear.bias
            if getattr(module, "use_residual", False) or (bias is not None and bias.any()):
                raise ValueError("Expected a head as st_static writes it, but got other layers.")
            weight = module.linear.weight.detach().float().cpu().numpy()
            dense.append(DenseLayer(weight, fullname(module.activation_function)))
    if tokenizer is None:
        tokenizer = Tokenizer.from_str(table.tokenizer.to_str())
        tokenizer.no_padding()
    return StaticModel(
        tokenizer,
        table.embedding.weight.detach().float().cpu().numpy(),
        normalize=kinds[-1:] == ["Normalize"],
        prompt=model.prompts.get(model.default_prompt_name or "", "") or "",
        truncate_dim=model.truncate_dim,
        head=Head.of_dense(dense) if dense else None,
    )


def _preprocess(
    module: StaticEmbedding, inputs: list[str], prompt: str | None = None, **kwargs: Any
) -> dict[str, Tensor]:
    """`StaticEmbedding.preprocess`, with a `FastTokenizer`."""
    unblock_torch()
    if set(map(type, inputs)) != {str}:  # left to sentence-transformers, and its messages
        return StaticEmbedding.preprocess(module, inputs, prompt, **kwargs)
    if prompt:
        inputs = [prompt + text for text in inputs]
    return features_of(fast_tokenizer(module)(inputs))


class _FastEncode:
    """`SentenceTransformer.encode`, replaced as a whole for usual calls."""

    def __init__(self, model: SentenceTransformer) -> None:
        self._model = model
        self.__signature__ = inspect.signature(type(model).encode.__get__(model))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        encode = type(self._model).encode
        try:
            given = _SIGNATURE.bind(self._model, *args, **kwargs)
        except TypeError:  # such as the old name of `inputs`, which the library accepts
            return encode(self._model, *args, **kwargs)
        given.apply_defaults()
        asked = given.arguments
        is_one = isinstance(asked["inputs"], str)
        texts = [asked["inputs"]] if is_one else _as_list(asked["inputs"])
        static = None
        if _is_usual(asked) and isinstance(texts, list) and set(map(type, texts)) == {str}:
            static = self._static_model(asked)
        if static is None:
            asked["inputs"] = asked["inputs"] if is_one else texts
            return encode(*given.args, **given.kwargs)
        show = asked["show_progress_bar"]
        if show is None:
            show = _LIBRARY_LOGGER.getEffectiveLevel() in (logging.INFO, logging.DEBUG)
        encoder = FastEncoder(static, tokenize=fast_tokenizer(self._model[0]))
        vectors = encoder.encode(
            asked["inputs"] if is_one else texts,
            show_progress_bar=show,
            normalize_embeddings=asked["normalize_embeddings"],
        )
        if asked["convert_to_numpy"] and not asked["convert_to_tensor"]:
            return vectors
        tensors = torch.from_numpy(vectors)
        return tensors if is_one or asked["convert_to_tensor"] else list(tensors)

    def _static_model(self, asked: dict[str, Any]) -> StaticModel | None:
        """Take the model as it is now, with the call's options; None if it is not of our form."""
        model = self._model
        if not _is_plain(model):
            return None
        prompt, name = asked["prompt"], asked["prompt_name"]
        if prompt is not None and name is not None:
            return None  # the library warns
        if prompt is None:
            name = model.default_prompt_name if name is None else name
            if name is not None and name not in model.prompts:
                return None  # the library lists them
            prompt = "" if name is None else model.prompts[name]
        try:
            static = as_static_model(model, fast_tokenizer(model[0]).tokenizer)
        except ValueError:  # it has other modules
            return None
        dim = model.truncate_dim if asked["truncate_dim"] is None else asked["truncate_dim"]
        return dataclasses.replace(static, prompt=prompt, truncate_dim=dim)


def _is_plain(model: SentenceTransformer) -> bool:
    """Tell whether a model computes on a CPU, in float32, by the library's own code alone."""
    table, others = model[0], list(model)[1:]
    own, methods = type(model), ("encode", "preprocess", "forward")
    return (
        all(getattr(own, name) is getattr(SentenceTransformer, name) for name in methods)
        and isinstance(table, StaticEmbedding)
        and type(table).forward in (StaticEmbedding.forward, StaticWordEmbedding.forward)
        and type(table).preprocess in (StaticEmbedding.preprocess, StaticWordEmbedding.preprocess)
        and type(table.embedding) is torch.nn.EmbeddingBag
        and table.embedding.mode == "mean"
        and all(type(module) in (Dense, Normalize) for module in others)
        and not any(vars(module).get("_forward_hooks") for module in model.modules())
        and not any(vars(module).get("_forward_pre_hooks") for module in model.modules())
        and all(w.device.type == "cpu" and w.dtype == torch.float32 for w in model.parameters())
    )


def _is_usual(asked: dict[str, Any]) -> bool:
    """Tell whether `FastEncoder` can do all that a call of `encode` asks for."""
    return (
        asked["output_value"] == "sentence_embedding"
        and asked["precision"] == "float32"
        and all(asked[name] is None for name in ("device", "pool", "chunk_size"))
        and asked["batch_size"] > 0
        and (asked["truncate_dim"] is None or asked["truncate_dim"] in range(1, 2**31))
        and not asked["kwargs"].keys() - {"task"}
    )


def _as_list(inputs: Any) -> Any:
    """Make a list of a column or other iterable of inputs; keep a single input as it is."""
    if isinstance(inputs, np.ndarray):
        return inputs.tolist() if inputs.ndim else inputs
    is_one = isinstance(inputs, dict | list) or not hasattr(inputs, "__iter__")
    return inputs if is_one else list(inputs)
