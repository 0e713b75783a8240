"""What each stage is worth: MTEB scores of the table after each, and with the PCA changed.

Vectors are scaled, or not, as the exported model's are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from st_static.distill.sentence_pca import SentencePCA
from st_static.encode.fast_encoder import FastEncoder
from st_static.evaluate.analysis.built_model import BuiltModel, Floats
from st_static.evaluate.benchmark import run_tasks
from st_static.evaluate.models import EvaluatedModel
from st_static.evaluate.tasks import choose_subsets, find_tasks
from st_static.model.static_model import StaticModel
from st_static.model.vectors import sentence_means


def ablation(
    model: BuiltModel, tasks: Sequence[str], output: Path, data: Path | None
) -> pl.DataFrame:
    """Scores after each stage, and with the PCA changed (paper section 4)."""
    rows = []
    for name, table in ablation_tables(model).items():
        static = StaticModel(model.tokenizer, table, model.normalize, head=model.head_of(name))
        encoder = EvaluatedModel(
            f"{model.name}/{name.replace(' ', '-').replace(',', '')}",
            _revision(static),
            FastEncoder(static).encode,
            table.shape[1],
        )
        found = find_tasks(tasks=tasks)
        choose_subsets(found, model.languages)
        outcome = run_tasks(encoder, found, output, data)
        if outcome.failures:
            raise ValueError(f"The ablation's tasks failed: {outcome.failures}")
        mean = np.mean(list(outcome.scores.values()))
        rows.append({"table": name, **outcome.scores, "mean": mean})
    return pl.DataFrame(rows)


def _revision(model: StaticModel) -> str:
    """What determines its scores. Older results, by the table's hash alone, may be of others."""
    hasher = hashlib.sha256(np.asarray(model.table).tobytes())
    if model.head:
        hasher.update(model.head.first.tobytes() + model.head.second.tobytes())
    return f"{hasher.hexdigest()[:40]}-{'normalized' if model.normalize else 'unscaled'}"


def ablation_tables(model: BuiltModel) -> dict[str, Floats]:
    """The word table after each stage, and after two other ways to reduce it."""
    extracted, reduced = model.tables["extraction"], model.tables["pca"]
    dimension = reduced.shape[1]
    train = model.for_words[:: max(1, len(model.is_held_out) // 100_000)]
    sentences = sentence_means(extracted, model.tokenize(model.selected.texts.take(train)))

    tables = {
        "extraction": extracted,
        "sentence PCA": reduced,
        "sentence PCA, nothing dropped": SentencePCA(dimension, n_remove=0)
        .fit(sentences)
        .transform_table(extracted),
        "vocabulary PCA": SentencePCA(dimension)
        .fit(model.rows_of_words(extracted))
        .transform_table(extracted),
    }
    trained = ("distillation", "pairs")
    return tables | {stage: model.tables[stage] for stage in trained if stage in model.tables}
