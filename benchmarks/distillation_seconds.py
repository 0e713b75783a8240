"""Seconds of distillation at the paper's size, from measured steps and a measured clustering.

    python benchmarks/distillation_seconds.py TEXT_FILE [--dimensions 256 512] [--device cpu]

trains random tables of 150k rows through the Trainer on the file's lines, in clustered batches of
256 as by default, with random teacher vectors, and prints the median step and how long 10,000 and
30,000 steps take. Of the clustering of 2 million sentences around 8,192 centres, the time grows
with sentences x centres, and for its sample with the centres alone: both are measured on fewer of
each. Random vectors cluster no faster or slower than others. Threads are those of OMP_NUM_THREADS.
"""

import argparse
from pathlib import Path

import numpy as np
from distillation_speed import make_problem, trainer_step
from measuring import seconds_of
from sentence_transformers import SentenceTransformer

from st_static.distill.batches import cluster
from st_static.distill.config import DistillationConfig

ROWS = 150_000
SENTENCES, CLUSTERS = 2_000_000, 8_192
FEWER_SENTENCES, FEWER_CLUSTERS = (32_768, 131_072), 1_024
TEACHER_DIMENSION = 768


def clustering_seconds(n_sentences: int = SENTENCES) -> float:
    """How long the clustering of so many sentences takes, from two smaller ones."""
    rng = np.random.default_rng(0)
    shape = max(FEWER_SENTENCES), TEACHER_DIMENSION
    vectors = rng.standard_normal(shape, dtype=np.float32).astype(np.float16)
    seconds = [
        seconds_of(cluster, vectors, np.arange(n), FEWER_CLUSTERS, seed=0) for n in FEWER_SENTENCES
    ]
    small, large = FEWER_SENTENCES
    of_sentence = (seconds[1] - seconds[0]) / (large - small)
    of_sample = max(0.0, seconds[0] - of_sentence * small)
    return (of_sentence * n_sentences + of_sample) * CLUSTERS / FEWER_CLUSTERS


def step_milliseconds(file: Path, dimension: int, steps: int, device: str) -> float:
    """Median milliseconds of a step."""
    embedding, data = make_problem(file, ROWS, dimension)
    config = DistillationConfig(max_steps=steps, device=device)
    return trainer_step(SentenceTransformer(modules=[embedding], device=device), data, config)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--dimensions", type=int, nargs="+", default=[256, 512])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    for dimension in arguments.dimensions:
        step = step_milliseconds(arguments.file, dimension, arguments.steps, arguments.device)
        print(
            f"{dimension} dimensions: {step:.1f} ms a step, {10 * step:,.0f} s of 10,000 steps, "
            f"{30 * step:,.0f} s of 30,000",
            flush=True,
        )
    print(f"clustering of {SENTENCES:,} sentences: {clustering_seconds():,.0f} s")


if __name__ == "__main__":
    main()
