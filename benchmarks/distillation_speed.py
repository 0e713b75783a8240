"""A distillation step through the Trainer against a bare loop on batches of the same size.

    python benchmarks/distillation_speed.py TEXT_FILE [--rows 150000] [--dimension 256]

trains a random table of 150k x 256 on batches of 128 lines of the file with random teacher
vectors of 384 dimensions, in turn with a bare loop (gather, loss, backward, SparseAdam), through
the Trainer, and through the Trainer with `distillation.optimizer: adam`, whose steps are a tenth as
many. Prints the median step of each.
"""

import argparse
import statistics
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from threadpoolctl import threadpool_limits
from transformers import TrainerCallback

from st_static.distill.batches import batch_sampler
from st_static.distill.config import DistillationConfig
from st_static.distill.distillation import (
    TrainingData,
    make_loss,
    trainer_for,
    training_arguments,
)
from st_static.distill.static_word_embedding import StaticWordEmbedding
from st_static.model.tokenizer import SPECIAL_TOKENS, build_tokenizer


class StepTimes(TrainerCallback):
    """Notes when each step ends."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, *args: object, **kwargs: object) -> None:
        """Note the time."""
        self.ends.append(time.perf_counter())


def make_problem(file: Path, rows: int, dimension: int) -> tuple[StaticWordEmbedding, TrainingData]:
    """A random table over the file's words, and its lines with random teacher vectors."""
    lines = [line.strip() for line in file.read_text("utf-8").splitlines()]
    lines = [line for line in lines if 5 <= len(line.split()) <= 20][:200_000]
    counts = Counter(word for line in lines for word in line.lower().split())
    words = [word for word, _ in counts.most_common(rows - len(SPECIAL_TOKENS))]
    words += [f"unused{i}" for i in range(rows - len(SPECIAL_TOKENS) - len(words))]
    rng = np.random.default_rng(0)
    table = rng.standard_normal((rows, dimension), dtype=np.float32)
    embedding = StaticWordEmbedding(build_tokenizer(words), table, sparse=True)
    ids = embedding.encode_ids(lines)
    ids = ids.filter(ids.values >= len(SPECIAL_TOKENS))
    vectors = rng.standard_normal((len(lines), 384), dtype=np.float32).astype(np.float16)
    return embedding, TrainingData(ids, vectors)


def bare_step(
    model: SentenceTransformer, data: TrainingData, config: DistillationConfig, n: int
) -> float:
    """Median milliseconds of a step of a plain loop."""
    loss = make_loss(model, config)
    optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=config.learning_rate)
    rng, times = np.random.default_rng(1), []
    for _ in range(n):
        start = time.perf_counter()
        rows = rng.integers(0, len(data.vectors), config.batch_size)
        batch = data([{"sentence": int(row)} for row in rows])
        features = {"input_ids": batch["sentence_input_ids"], "offsets": batch["sentence_offsets"]}
        loss([features], batch["label"]).backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times)


def trainer_step(
    model: SentenceTransformer, data: TrainingData, config: DistillationConfig
) -> float:
    """Median milliseconds from step to step of the Trainer."""
    times = StepTimes()
    with tempfile.TemporaryDirectory() as folder:
        arguments = training_arguments(Path(folder), config, seed=0)
        arguments.eval_strategy = arguments.save_strategy = "no"
        arguments.load_best_model_at_end = False
        arguments.batch_sampler = batch_sampler(
            data.vectors, np.arange(len(data.vectors)), config, 0
        )
        trainer_for(config)(
            model=model,
            args=arguments,
            train_dataset=Dataset.from_dict({"sentence": np.arange(len(data.vectors))}),
            loss=make_loss(model, config),
            data_collator=data,
            callbacks=[times],
        ).train()
    return 1000 * statistics.median(np.diff(times.ends).tolist())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--rows", type=int, default=150_000)
    parser.add_argument("--dimension", type=int, default=256)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--pairs", type=int, default=5)
    arguments = parser.parse_args()
    embedding, data = make_problem(arguments.file, arguments.rows, arguments.dimension)
    model = SentenceTransformer(modules=[embedding], device="cpu")
    dense = StaticWordEmbedding(embedding.tokenizer, embedding.embedding.weight)
    dense_model = SentenceTransformer(modules=[dense], device="cpu")
    config = DistillationConfig(max_steps=arguments.steps, batch_size=128, groups_per_batch=0)
    adam = replace(config, max_steps=arguments.steps // 10, optimizer="adam", device="cpu")
    ratios, adam_ratios = [], []
    with threadpool_limits(limits=1, user_api="openmp"):
        bare_step(model, data, config, 50)
        for _ in range(arguments.pairs):
            bare = bare_step(model, data, config, arguments.steps)
            whole = trainer_step(model, data, config)
            every_row = trainer_step(dense_model, data, adam)
            ratios.append(whole / bare)
            adam_ratios.append(every_row / whole)
            print(
                f"bare {bare:.2f} ms, through the Trainer {whole:.2f} ms, with adam "
                f"{every_row:.2f} ms a step"
            )
    print(f"the Trainer takes {statistics.median(ratios):.2f} times the bare loop (median)")
    print(f"adam takes {statistics.median(adam_ratios):.2f} times sparse_adam (median)")


if __name__ == "__main__":
    main()
