"""Fast tokenisation for static models inside sentence-transformers."""

from __future__ import annotations

import logging
from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, StaticEmbedding
from sentence_transformers.util import fullname
from tokenizers import Tokenizer
from torch import Tensor

from st_static.arguments import check_type
from st_static.forks import unblock_torch
from st_static.model.head import DenseLayer, Head
from st_static.model.modules import STATIC_FORMS
from st_static.model.static_model import StaticModel
from st_static.model.static_word_embedding import features_of
from st_static.tokens.chunk_tokenizer import ChunkTokenizer

logger = logging.getLogger(__name__)


def accelerate(model: SentenceTransformer) -> SentenceTransformer:
    """Make a static model's tokenisation many times faster, with the same vectors.

    The model's `StaticEmbedding` gets another `preprocess`; nothing else about it changes, so
    encoding in several processes, training and saving work as before, and what is saved is a plain
    `StaticEmbedding`. After changing the tokenizer itself, call it again. A text without any known
    word is a vector of zeros, except under `model.half()`, where sentence-transformers' `Normalize`
    gives NaN.

    Args:
        model: A model that begins with a `StaticEmbedding`. It is changed in place.

    Returns:
        The same model; unchanged, with a warning, if its tokenizer cannot be accelerated exactly.

    Raises:
        ValueError: The model does not begin with a `StaticEmbedding`.
        TypeError: It is not a SentenceTransformer.

    Example:
        >>> from st_static.tokens.tokenizer import build_tokenizer
        >>> embedding = StaticEmbedding(build_tokenizer(["hello", "world"]), embedding_dim=2)
        >>> accelerate(SentenceTransformer(modules=[embedding])).encode(["Hello world"]).shape
        (1, 2)
    """
    check_type(
        model, SentenceTransformer, "a SentenceTransformer", "Load it: SentenceTransformer(…)."
    )
    module = model[0]
    if not isinstance(module, StaticEmbedding):
        raise ValueError(
            "Expected a static model, which begins with a StaticEmbedding, but this one begins "
            f"with a {type(module).__name__}."
        )
    fast = _FastPreprocess(module)
    if fast.encode_ids.chunking.cut is None:
        logger.warning("The model is not accelerated: %s.", fast.encode_ids.chunking.reason)
        return model
    module.preprocess = fast  # type: ignore[method-assign]
    return model


def as_static_model(model: SentenceTransformer) -> StaticModel:
    """Tokenizer and table of a static model that sentence-transformers has loaded.

    Raises:
        ValueError: It has other modules than a model of st_static.
    """
    table, *others = model
    kinds = [type(module).__name__ for module in others]
    is_ours = ["StaticEmbedding", *kinds] in STATIC_FORMS and "SegmentNormalize" not in kinds
    if not isinstance(table, StaticEmbedding) or not is_ours:
        found = ", ".join([type(table).__name__, *kinds])
        raise ValueError(
            "Expected the modules StaticEmbedding and Normalize, with or without a head between "
            f"them, but the model has {found}."
        )
    dense = [_as_dense_layer(module) for module in others if isinstance(module, Dense)]
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


def _as_dense_layer(module: Dense) -> DenseLayer:
    bias = module.linear.bias
    if getattr(module, "use_residual", False) or (bias is not None and bias.any()):
        raise ValueError("Expected a head as st_static writes it, but its layers are of others.")
    weight = module.linear.weight.detach().float().cpu().numpy()
    return DenseLayer(weight, fullname(module.activation_function))


class _FastPreprocess:
    """`StaticEmbedding.preprocess`, with the ids from a `ChunkTokenizer`."""

    def __init__(self, module: StaticEmbedding) -> None:
        self.module = module
        self.encode_ids = ChunkTokenizer(module.tokenizer)

    def __call__(
        self, inputs: list[str], prompt: str | None = None, **kwargs: Any
    ) -> dict[str, Tensor]:
        unblock_torch()
        if set(map(type, inputs)) != {str}:  # sentence-transformers knows what to do, or to say
            plain: dict[str, Tensor] = StaticEmbedding.preprocess(
                self.module, inputs, prompt, **kwargs
            )
            return plain
        if self.encode_ids.tokenizer is not self.module.tokenizer:
            self.encode_ids = ChunkTokenizer(self.module.tokenizer)
        if prompt:
            inputs = [prompt + text for text in inputs]
        return features_of(self.encode_ids(inputs))
