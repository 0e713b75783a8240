"""Scores that others published, from a table that comes with this package."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from st_static.evaluate.scores import ModelScores
from st_static.evaluate.tasks import benchmark_tasks

PUBLISHED_FILE = Path(str(resources.files("st_static.evaluate") / "published.csv"))
PUBLISHED_SOURCE = (
    "embeddings-benchmark/results on GitHub, commit f4cc6c8b of 20 August 2026; of "
    "multilingual-e5-small, commits af6430ee, c4eaddfd, cb55c33d and d146b760, read on "
    "22 November 2026"
)


def read_published(file: Path = PUBLISHED_FILE) -> dict[tuple[str, str], ModelScores]:
    """Published scores by (benchmark, model)."""
    models: dict[tuple[str, str], ModelScores] = {}
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            key = (row["benchmark"], row["model"])
            model = models.setdefault(key, ModelScores(row["model"], {}, is_published=True))
            model.scores[row["task"]] = float(row["main_score_x100"])
    return models


def find_published(names: Sequence[str], benchmark: str) -> list[ModelScores]:
    """Published scores of the named models.

    Raises:
        ValueError: There is no such benchmark, or there are none of a model; the message lists
            those that there are.
    """
    benchmark_tasks(benchmark)
    published = read_published()
    missing = [name for name in names if (benchmark, name) not in published]
    if missing:
        known = [name for b, name in published if b == benchmark]
        near = difflib.get_close_matches(missing[0], known, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(known)}."
        raise ValueError(f"No published scores of {', '.join(missing)} on {benchmark}. {hint}")
    return [published[benchmark, name] for name in names]
