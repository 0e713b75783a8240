"""What mean pooling loses: second-order collapse of a model's words and of its teacher's tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import torch

from st_static.distill.config import TeacherConfig
from st_static.distill.teacher import Teacher, token_batches
from st_static.evaluate.analysis.built_model import BuiltModel, Floats
from st_static.evaluate.analysis.socm import SocmResult, mean_socm
from st_static.model.vectors import has_vector
from st_static.tokens.ragged import Ragged


def sample_texts(file: Path, n: int, seed: int = 0) -> list[str]:
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
    results = {model.name: mean_socm(word_vectors(model, texts), progress=True)}
    if teacher:
        loaded = Teacher.load(TeacherConfig(model=teacher))
        results[teacher] = mean_socm(token_vectors(loaded, texts), progress=True)
    return pl.DataFrame([_socm_row(name, result) for name, result in results.items()])


def _socm_row(name: str, result: SocmResult) -> dict[str, object]:
    return {
        "model": name,
        "SOCM": result.mean,
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


def token_vectors(teacher: Teacher, texts: Sequence[str]) -> list[Floats]:
    """The last layer's vectors of each text's tokens, special ones included, as it pools them."""
    tokens = [teacher.tokenize([text]) for text in texts]
    lengths = np.array([batch.input_ids.shape[1] for batch in tokens])
    order = np.argsort(lengths, kind="stable")
    vectors: list[Floats] = []
    for rows in token_batches(lengths[order], teacher.batch_tokens):
        batch = teacher.tokenize([texts[i] for i in order[rows]])
        last, _ = teacher.forward(
            torch.from_numpy(batch.input_ids), torch.from_numpy(batch.attention_mask)
        )
        layer = last.float().cpu().numpy()
        present = batch.attention_mask.astype(bool)
        vectors += [row[mask] for row, mask in zip(layer, present, strict=True)]
    return vectors
