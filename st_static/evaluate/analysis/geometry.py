"""Measure the geometry of vectors: second-order collapse, alignment, and uniformity.

Second-order collapse by mean pooling (SOCM, Hara et al. 2026) measures what a mean loses: it is
large for two texts whose means agree while the spreads of their tokens differ.

Each text's token vectors X [T, d] are divided by the norm of their mean. With the means mu and the
covariances S of the two texts

    d_mu = |mu_1 - mu_2|^2 / 4
    d_Sigma = tr(S_1 + S_2 - 2 (S_1^(1/2) S_2 S_1^(1/2))^(1/2)) / 4     (Bures distance)
    SOCM = (1 - d_mu) d_Sigma

With centred token vectors C_i, S_i = C_i^T C_i / T_i, and the trace of the matrix root is the sum
of the singular values of C_1 C_2^T / sqrt(T_1 T_2). That matrix is T_1 x T_2, so no d x d matrix
is ever formed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import ArrayLike, NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from tqdm import tqdm

from st_static.distill.teacher import check_weights_are_there
from st_static.evaluate.analysis.built_model import BuiltModel, Floats
from st_static.evaluate.models import load_model
from st_static.files import read_lines, reading_text
from st_static.model.vectors import has_vector, unit_rows

_SOCM_TEXTS = 1000
_MAX_TRACE = 2.0  # d_Sigma is at most 1 if both covariances have at most this trace


def sample_texts(file: Path) -> list[str]:
    """Draw at most 1,000 of a file's different lines at random, without empty ones."""
    lines = list(dict.fromkeys(line for line in read_lines(file) if line.strip()))
    if len(lines) < 2:
        raise ValueError(
            f"Expected at least two different lines of text in {file}, but got {len(lines)}."
        )
    rng = np.random.default_rng(0)
    chosen = rng.choice(len(lines), min(_SOCM_TEXTS, len(lines)), replace=False)
    return [lines[i] for i in sorted(chosen)]


def collapse(
    model: BuiltModel | None, transformers: Sequence[str], texts: Sequence[str]
) -> pl.DataFrame:
    """Measure second-order collapse of a model's word vectors and of transformers' tokens."""
    rows = [{"model": model.name, **mean_socm(word_vectors(model, texts))}] if model else []
    for name in transformers:
        rows.append({"model": name, **mean_socm(token_vectors(load_transformer(name), texts))})
    return pl.DataFrame(rows)


def word_vectors(model: BuiltModel, texts: Sequence[str]) -> list[Floats]:
    """Get the vectors of each text's words, without zero rows and texts without words."""
    ids = model.tokenize(texts)
    words = ids.filter(has_vector(model.table)[ids.values])
    return [model.table[row] for row in np.split(words.values, words.offsets[1:-1]) if len(row)]


def load_transformer(name: str) -> SentenceTransformer:
    """Load a transformer, with mean pooling unless its configuration has another."""
    model = load_model(name).sentence_transformer
    if model is None or not isinstance(model[0], Transformer):
        raise ValueError(
            f"Expected a transformer, but {name!r} is none: its words have no context. For a model "
            "that st_static built, give its folder, --work_dir and --texts."
        )
    check_weights_are_there(model[0], name)
    return model


def token_vectors(model: SentenceTransformer, texts: Sequence[str]) -> list[Floats]:
    """Get the last layer's vectors of each text's tokens, including special ones."""
    # `encode` cuts off padding behind a text, but not before it, where decoders put it.
    model.tokenizer.padding_side = "right"
    tokens = model.encode(
        list(texts), output_value="token_embeddings", convert_to_numpy=False, show_progress_bar=True
    )
    return [torch.as_tensor(text).float().cpu().numpy() for text in tokens]


def mean_socm(texts: Sequence[ArrayLike]) -> dict[str, Any]:
    """Compute the mean second-order collapse x 100 over all pairs of texts, N times [T_i, d]: 0 to
    100, unless a covariance has a trace above 2; such texts count, and their number is given."""
    if len(texts) < 2:
        raise ValueError(f"Expected at least two texts to compare, but got {len(texts)}.")
    # Sorted by length, so that equally shaped matrices share a call for their singular values.
    moments = sorted(map(_moments, texts), key=lambda moments: len(moments[1]))
    means = np.stack([mean for mean, _ in moments])
    traces = np.array([np.square(centred).sum() for _, centred in moments])
    lengths = np.array([len(centred) for _, centred in moments])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    stacked = np.concatenate([centred for _, centred in moments])
    total = 0.0
    for i in tqdm(range(len(moments) - 1), desc="pairs", unit="text", disable=None):
        # Sum the singular values with each later text, texts of one length at a time.
        products = stacked[starts[i + 1] :] @ stacked[starts[i] : starts[i + 1]].T
        sizes, counts = np.unique(lengths[i + 1 :], return_counts=True)
        blocks = np.split(products, np.cumsum(sizes * counts)[:-1])
        roots = [
            np.linalg.svd(block.reshape(n, size, -1), compute_uv=False).sum(axis=1)
            for block, size, n in zip(blocks, sizes, counts, strict=True)
        ]
        d_mu = (1 - means[i + 1 :] @ means[i]) / 2
        d_sigma = np.maximum(traces[i] + traces[i + 1 :] - 2 * np.concatenate(roots), 0) / 4
        total += float(((1 - d_mu) * d_sigma).sum())
    pairs = len(moments) * (len(moments) - 1) // 2
    return {
        "SOCM x 100": 100 * total / pairs,
        "pairs": pairs,
        "texts": len(moments),
        "texts with tr(Sigma) > 2": int((traces > _MAX_TRACE).sum()),
    }


def _moments(vectors: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute a text's mean at length 1, and the centred tokens C, [T, d], with S = C^T C."""
    tokens = np.asarray(vectors, dtype=np.float64)
    mean = tokens.mean(axis=0)
    norm = float(np.linalg.norm(mean))
    if not np.isfinite(norm):
        raise ValueError("Expected finite token vectors, but got NaN or infinity.")
    if norm == 0:
        raise ValueError("The mean of the token vectors is zero: it has no direction.")
    return mean / norm, (tokens - mean) / (norm * np.sqrt(len(tokens)))


def read_pairs(file: Path) -> list[tuple[str, str]]:
    """Read two texts per line, separated by a tab; at least two of the first ones differ."""
    pairs = []
    with reading_text(file):
        lines = file.read_text("utf-8").rstrip("\n").split("\n")
    for number, line in enumerate(lines, 1):
        first, tab, second = line.partition("\t")
        if not tab or not first.strip() or not second.strip():
            raise ValueError(f"{file}, line {number}: expected two texts with a tab between them.")
        pairs.append((first, second))
    if len({first for first, _ in pairs}) < 2:
        raise ValueError(f"{file}: expected two different texts at the beginnings of its lines.")
    return pairs


def sphere(model: BuiltModel, pairs: Sequence[tuple[str, str]]) -> pl.DataFrame:
    """Measure alignment of paraphrases, the mean |x - y|^2, and uniformity of random pairs, log of
    the mean of exp(-2 |x - y|^2), after each stage: smaller is better (Wang and Isola 2020)."""
    first, second = zip(*pairs, strict=True)
    ids = model.tokenize(first), model.tokenize(second)
    # A text may begin several pairs, and a random pair must not be the same text twice. So each
    # text is paired with its neighbour in a random circle; a circle of two is one pair.
    distinct = np.unique(first, return_index=True)[1]
    circle = np.random.default_rng(0).permutation(distinct)
    neighbours = np.roll(circle, 1)
    if len(circle) == 2:
        circle, neighbours = circle[:1], neighbours[:1]
    rows = []
    for stage in model.tables:
        x, y = (unit_rows(model.text_vectors(side, stage)) for side in ids)
        distances = np.square(x[circle] - x[neighbours]).sum(axis=1).astype(np.float64)
        alignment = float(np.square(x - y).sum(axis=1).mean())
        uniformity = float(np.log(np.mean(np.exp(-2 * distances))))
        rows.append({"stage": stage, "alignment": alignment, "uniformity": uniformity})
    return pl.DataFrame(rows)
