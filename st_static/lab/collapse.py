"""Measure second-order collapse by mean pooling (SOCM, Hara et al. 2026): what a mean loses.

It is large for two texts whose means agree while the spreads of their tokens differ. Each text's
token vectors X [T, d] are divided by the norm of their mean. With the means mu and the covariances
S of the two texts

    d_mu = |mu_1 - mu_2|^2 / 4
    d_Sigma = tr(S_1 + S_2 - 2 (S_1^(1/2) S_2 S_1^(1/2))^(1/2)) / 4     (Bures distance)
    SOCM = (1 - d_mu) d_Sigma

With centred token vectors C_i, S_i = C_i^T C_i / T_i, and the trace of the matrix root is the sum
of the singular values of C_1 C_2^T / sqrt(T_1 T_2). That matrix is T_1 x T_2, so no d x d matrix
is ever formed.

d_Sigma is at most 1 only while no trace is above 2. A trace is the mean squared norm of the tokens,
divided by the squared norm of their mean, less 1: contextual tokens share a direction, and theirs
is small, but T orthogonal words have T - 1. The bounded variant divides each text's tokens by the
root of their mean squared norm instead, so that a trace is the share of it that the mean loses:

    S'_i = S_i / (1 + tr S_i),  d'_Sigma = tr(S'_1 + S'_2 - 2 (...)^(1/2)) / 2,  both below 1
    bounded SOCM = (1 - d_mu) d'_Sigma
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import torch
from numpy.typing import ArrayLike, NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from tqdm import tqdm

from st_static.distill.teacher import check_weights_are_there
from st_static.evaluate.built_model import BuiltModel, Floats
from st_static.evaluate.models import EvaluatedModel
from st_static.model.vectors import has_vector
from st_static.texts.text_files import read_lines

Doubles = NDArray[np.float64]

_SOCM_TEXTS = 1000
_WORST = 20  # pairs of a model that are named
_MAX_TRACE = 2.0  # d_Sigma is at most 1 if both covariances have at most this trace


@dataclass(frozen=True)
class Collapse:
    """Second-order collapse of all N (N - 1) / 2 pairs of a model's texts."""

    model: str
    vectors: Sequence[Floats]  # of each text's tokens, N times [T_i, d]
    first: NDArray[np.intp]  # numbers of the texts of each pair
    second: NDArray[np.intp]
    d_mu: Doubles  # of each pair
    d_sigma: Doubles
    bounded_d_sigma: Doubles
    traces: Doubles  # of each text's covariance

    @property
    def socm(self) -> Doubles:
        """The collapse of each pair: 0 to 1, unless a covariance has a trace above 2."""
        return (1 - self.d_mu) * self.d_sigma

    @property
    def bounded(self) -> Doubles:
        """The collapse of each pair by the bounded variant: 0 to 1."""
        return (1 - self.d_mu) * self.bounded_d_sigma

    def means(self) -> dict[str, str | float | int]:
        """Average over all pairs, x 100; count the texts on which the measure is not bounded."""
        return {
            "model": self.model,
            "SOCM x 100": 100 * float(self.socm.mean()),
            "bounded SOCM x 100": 100 * float(self.bounded.mean()),
            "d_mu x 100": 100 * float(self.d_mu.mean()),
            "d_Sigma x 100": 100 * float(self.d_sigma.mean()),
            "pairs": len(self.d_mu),
            "texts": len(self.traces),
            "texts with tr(Sigma) > 2": int((self.traces > _MAX_TRACE).sum()),
        }

    def worst(self) -> NDArray[np.intp]:
        """Find the numbers of the twenty pairs that the model loses most, the worst first."""
        return np.lexsort((self.second, self.first, -self.socm))[:_WORST]

    def worst_pairs(self, texts: Sequence[str]) -> pl.DataFrame:
        """List the twenty pairs that the model loses most, with their texts."""
        pairs = self.worst()
        return pl.DataFrame(
            {
                "model": [self.model] * len(pairs),
                "SOCM x 100": 100 * self.socm[pairs],
                "bounded SOCM x 100": 100 * self.bounded[pairs],
                "d_mu x 100": 100 * self.d_mu[pairs],
                "d_Sigma x 100": 100 * self.d_sigma[pairs],
                "text1": [texts[i] for i in self.first[pairs]],
                "text2": [texts[i] for i in self.second[pairs]],
            }
        )


def sample_lines(file: Path) -> list[str]:
    """Draw at most 1,000 of a file's different lines at random, without empty ones."""
    lines = list(dict.fromkeys(line for line in read_lines(file) if line.strip()))
    if len(lines) < 2:
        raise ValueError(
            f"Expected at least two different lines of text in {file}, but got {len(lines)}."
        )
    rng = np.random.default_rng(0)
    chosen = rng.choice(len(lines), min(_SOCM_TEXTS, len(lines)), replace=False)
    return [lines[i] for i in sorted(chosen)]


def collapse_of_transformers(
    models: Iterable[tuple[str, SentenceTransformer]], texts: Sequence[str]
) -> list[Collapse]:
    """Measure second-order collapse of the tokens of transformers, with their names."""
    return [measure_collapse(name, token_vectors(model, texts)) for name, model in models]


def collapse_of_stages(model: BuiltModel, texts: Sequence[str]) -> list[Collapse]:
    """Measure second-order collapse of the word vectors after each stage of a build."""
    return [measure_collapse(stage, word_vectors(model, stage, texts)) for stage in model.tables]


def texts_with_words(model: BuiltModel, texts: Sequence[str]) -> list[str]:
    """Leave out texts that, after some stage, have no word with a vector."""
    ids = model.tokenize(texts)
    valid = np.ones(len(texts), dtype=bool)
    for table in model.tables.values():
        valid &= ids.filter(has_vector(table)[ids.values]).lengths > 0
    if valid.sum() < 2:
        raise ValueError(
            f"Of the {len(texts)} texts for second-order collapse, only {valid.sum()} have words "
            "of the model. Give texts in its language."
        )
    return [text for text, has_word in zip(texts, valid, strict=True) if has_word]


def word_vectors(model: BuiltModel, stage: str, texts: Sequence[str]) -> list[Floats]:
    """Get the vectors of each text's words after a stage, without zero rows."""
    table, ids = model.tables[stage], model.tokenize(texts)
    words = ids.filter(has_vector(table)[ids.values])
    return [table[row] for row in np.split(words.values, words.offsets[1:-1])]


def transformer_of(name: str, evaluated: EvaluatedModel) -> SentenceTransformer:
    """Get the transformer of a model; a ValueError names a model without one or its weights."""
    model = evaluated.sentence_transformer
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
    side, model.tokenizer.padding_side = model.tokenizer.padding_side, "right"
    tokens = model.encode(
        list(texts), output_value="token_embeddings", convert_to_numpy=False, show_progress_bar=True
    )
    model.tokenizer.padding_side = side
    return [torch.as_tensor(text).float().cpu().numpy() for text in tokens]


def measure_collapse(model: str, texts: Sequence[Floats]) -> Collapse:
    """Measure second-order collapse of all pairs of two texts or more, N times [T_i, d]."""
    # Sorted by length, so that equally shaped matrices share a call for their singular values.
    order = np.argsort([len(text) for text in texts], kind="stable")
    moments = [_moments(texts[i]) for i in order]
    means = np.stack([mean for mean, _ in moments])
    traces = np.array([np.square(centred).sum() for _, centred in moments])
    lengths = np.array([len(centred) for _, centred in moments])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    stacked = np.concatenate([centred for _, centred in moments])
    roots = []
    for i in tqdm(range(len(moments) - 1), desc="pairs", unit="text", disable=None):
        # Sum the singular values with each later text, texts of one length at a time.
        products = stacked[starts[i + 1] :] @ stacked[starts[i] : starts[i + 1]].T
        sizes, counts = np.unique(lengths[i + 1 :], return_counts=True)
        blocks = np.split(products, np.cumsum(sizes * counts)[:-1])
        for block, size, n in zip(blocks, sizes, counts, strict=True):
            values = np.linalg.svd(block.reshape(n, size, -1), compute_uv=False)
            roots.append(values.sum(axis=1))
    first, second = np.triu_indices(len(moments), 1)
    root = np.concatenate(roots)
    total = 1 + traces  # the mean squared norm of a text's tokens
    d_sigma = (traces[first] + traces[second] - 2 * root) / 4
    shares = (traces / total)[first] + (traces / total)[second]
    bounded = (shares - 2 * root / np.sqrt(total[first] * total[second])) / 2
    return Collapse(
        model=model,
        vectors=texts,
        first=np.minimum(order[first], order[second]),
        second=np.maximum(order[first], order[second]),
        d_mu=(1 - (means @ means.T)[first, second]) / 2,
        d_sigma=np.maximum(d_sigma, 0),
        bounded_d_sigma=np.maximum(bounded, 0),
        traces=traces,
    )


def _moments(vectors: ArrayLike) -> tuple[Doubles, Doubles]:
    """Compute a text's mean at length 1, and the centred tokens C, [T, d], with S = C^T C."""
    tokens = np.asarray(vectors, dtype=np.float64)
    mean = tokens.mean(axis=0)
    norm = float(np.linalg.norm(mean))
    if not np.isfinite(norm):
        raise ValueError("Expected finite token vectors, but got NaN or infinity.")
    if norm == 0:
        raise ValueError("The mean of the token vectors is zero: it has no direction.")
    return mean / norm, (tokens - mean) / (norm * np.sqrt(len(tokens)))
