"""What mean pooling loses: second-order collapse of a model's words and of transformers' tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer

from st_static.distill.teacher import check_weights_are_there
from st_static.evaluate.analysis.built_model import BuiltModel, Floats
from st_static.evaluate.analysis.socm import mean_socm
from st_static.evaluate.models import load_model
from st_static.model.vectors import has_vector
from st_static.tokens.ragged import Ragged

SOCM_TEXTS = 1000


def sample_texts(file: Path, n: int = SOCM_TEXTS, seed: int = 0) -> list[str]:
    """At most `n` of a file's different lines, drawn at random; empty ones are left out."""
    texts = file.read_text("utf-8").split("\n")
    lines = list(dict.fromkeys(line for line in texts if line.strip()))
    if len(lines) < 2:
        raise ValueError(
            f"Expected at least two different lines of text in {file}, but got {len(lines)}."
        )
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(lines), min(n, len(lines)), replace=False)
    return [lines[i] for i in sorted(chosen)]


def collapse(model: BuiltModel, texts: Sequence[str], teacher: str | None) -> pl.DataFrame:
    """Second-order collapse of the model's word vectors and of the teacher's tokens."""
    words = pl.DataFrame([_socm_row(model.name, word_vectors(model, texts))])
    return pl.concat([words, collapse_of_transformers([teacher], texts)]) if teacher else words


def collapse_of_transformers(names: Sequence[str], texts: Sequence[str]) -> pl.DataFrame:
    """Second-order collapse of the tokens of transformers, such as a base and a fine-tuned one.

    Args:
        names: Folders or Hub ids. One without a sentence-transformers configuration is loaded with
            mean pooling, which is what the measure is about.
        texts: The same for all of them; each cuts a text at its own longest length.

    Returns:
        One row per model.

    Raises:
        ValueError: One of them cannot be had, or is no transformer.
    """
    rows = []
    for name in names:
        rows.append(_socm_row(name, token_vectors(load_transformer(name), texts)))
    return pl.DataFrame(rows)


def _socm_row(name: str, vectors: Sequence[Floats]) -> dict[str, object]:
    result = mean_socm(vectors, progress=True)
    return {
        "model": name,
        "SOCM x 100": 100 * result.mean,
        "pairs": result.pairs,
        "texts": result.texts,
        "texts with tr(Sigma) > 2": result.texts_over_trace,
    }


def word_vectors(model: BuiltModel, texts: Sequence[str]) -> list[Floats]:
    """The vectors of each text's words, without zero rows; texts without words are left out."""
    ids: Ragged = model.tokenize(texts)
    words = ids.filter(has_vector(model.table)[ids.values])
    rows = [words.values[a:b] for a, b in zip(words.offsets, words.offsets[1:], strict=False)]
    return [model.table[row] for row in rows if len(row)]


def load_transformer(name: str) -> SentenceTransformer:
    """Load a transformer, with mean pooling if it says nothing of how it pools.

    Raises:
        ValueError: It cannot be had, is no transformer, or lacks weights.
    """
    model = load_model(name).sentence_transformer
    if model is None or not isinstance(model[0], Transformer):
        raise ValueError(
            f"Expected a transformer, but {name!r} is none: its words have no context. For a model "
            "that st_static built, give its folder, --work_dir and --texts."
        )
    check_weights_are_there(model, name)
    return model


def token_vectors(model: SentenceTransformer, texts: Sequence[str]) -> list[Floats]:
    """The last layer's vectors of each text's tokens, special ones included, as it pools them."""
    # `encode` cuts off padding behind a text, not before it, where decoders have it.
    model.tokenizer.padding_side = "right"
    tokens = model.encode(
        list(texts), output_value="token_embeddings", convert_to_numpy=False, show_progress_bar=True
    )
    return [torch.as_tensor(text).float().cpu().numpy() for text in tokens]
