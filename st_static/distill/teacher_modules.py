"""What a teacher must consist of, so that a mean over words lives in the space of its sentences."""

from __future__ import annotations

from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Dropout, Pooling
from tokenizers import Tokenizer
from torch import nn


def check_vocabulary(tokenizer: Tokenizer, transformer: Transformer) -> None:
    """Check that a teacher's tokenizer belongs to its transformer.

    Raises:
        ValueError: It has too few tokens, or too many.
    """
    rows = transformer.model.get_input_embeddings().weight.shape[0]
    tokens = tokenizer.get_vocab_size()
    # A folder without tokenizer files loads with an almost empty one; padded tables are common.
    if not rows / 2 <= tokens <= rows:
        raise ValueError(
            f"The teacher's tokenizer has {tokens} tokens, but its transformer has {rows} token "
            "vectors: they do not belong together. Check the teacher's tokenizer.json."
        )


_MARK_OF_READ = "_is_hf_initialized"
SINGLE_POOLINGS = ("mean", "cls", "lasttoken")


def transformer_of(model: SentenceTransformer) -> Transformer:
    """The module that a teacher begins with.

    Raises:
        ValueError: It is not a transformer.
    """
    first: Any = model[0] if len(model) else None
    if not isinstance(first, Transformer):
        raise ValueError(
            "Expected a teacher whose first module is a transformer, but it is "
            f"{type(first).__name__}. A static model cannot teach: it has no words in context."
        )
    transformer: Transformer = first
    return transformer


def check_weights_are_there(model: SentenceTransformer, name: str) -> None:
    """Check that a transformer's weights all came from its file.

    Where one is missing, transformers takes random numbers, and says so in its log alone. What only
    the transformer's own pooler uses may be missing: sentence vectors do without it.

    Args:
        model: A model that begins with a transformer.
        name: What it was loaded as.

    Raises:
        ValueError: Some are missing.
    """
    transformer = transformer_of(model).auto_model
    parameters = list(transformer.named_parameters())
    # The mark that transformers leaves on what it has read; code of others may leave none.
    unread = [key for key, value in parameters if not getattr(value, _MARK_OF_READ, False)]
    missing = [key for key in unread if "pooler" not in key]
    leaves_marks = type(transformer).__module__.startswith("transformers.")
    if missing and (leaves_marks or len(unread) < len(parameters)):
        raise ValueError(
            f"{name!r} lacks {len(missing)} of its transformer's {len(parameters)} weights, the "
            f"first of which is {missing[0]}. They would be random numbers. Get the whole model."
        )


def pooling_of(model: SentenceTransformer) -> str | None:
    """How a teacher pools, one of `SINGLE_POOLINGS`; null where no module of it does."""
    return next((_single_mode(module) for module in model if isinstance(module, Pooling)), None)


def dense_layers_of(model: SentenceTransformer) -> list[Dense]:
    """The Dense layers after the pooling, which words must go through, too.

    Raises:
        ValueError: A module is not linear, or the pooling is not mean, CLS or last token alone.
    """
    dense: list[Dense] = []
    is_normalised = False
    for module in list(model)[1:]:
        is_normalised |= isinstance(module, Normalize)
        if isinstance(module, Dense):
            _check_dense(module, is_normalised)
            dense.append(module)
        else:
            _check_other(module)
    return dense


def _check_dense(module: Dense, is_normalised: bool) -> None:
    if is_normalised:
        raise ValueError(
            "The teacher's Dense layer follows a Normalize module: a mean over words does "
            "not commute with it. Use another teacher."
        )
    if not isinstance(module.activation_function, nn.Identity):
        activation = type(module.activation_function).__name__
        raise ValueError(
            f"The teacher's Dense layer has the activation {activation}: only a linear "
            "one (Identity) commutes with the mean over words. Use another teacher."
        )
    if getattr(module, "use_residual", False):
        raise ValueError("The teacher's Dense layer has a residual path: not supported.")


def _check_other(module: nn.Module) -> None:
    if isinstance(module, Pooling) and _single_mode(module) is None:
        raise ValueError(
            f"The teacher pools by {module.pooling_mode!r}: expected mean, cls or lasttoken alone, "
            "so that words live in the space of sentences."
        )
    # Normalize changes lengths only; the student's sentence vectors are compared by cosine.
    if not isinstance(module, (Pooling, Normalize, Dropout)):
        raise ValueError(
            f"The teacher's module {type(module).__name__} is not linear, so a mean over words "
            "cannot go through it. Expected Transformer, Pooling, Dense, Normalize."
        )


def _single_mode(pooling: Pooling) -> str | None:
    mode = pooling.pooling_mode
    modes = (mode,) if isinstance(mode, str) else tuple(mode)
    return next((only for only in SINGLE_POOLINGS if modes == (only,)), None)
