"""Scores that others published, from a table that comes with this package."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from st_static.evaluate.scores import ModelScores, read_results
from st_static.evaluate.tasks import benchmark_tasks
from st_static.files import atomic, read_json

PUBLISHED_FILE = Path(str(resources.files("st_static.evaluate") / "published.csv"))
PUBLISHED_SOURCE = "embeddings-benchmark/results on GitHub, commit f4cc6c8b of 20 August 2026"


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


def add_to_published(folder: Path, benchmark: str, file: Path = PUBLISHED_FILE) -> int:
    """Add a model's results to the table of published scores; of the same tasks, replace them.

    Args:
        folder: `results/<org__name>/<revision>`, as mteb publishes them.
        benchmark: The benchmark; only its tasks are added.
        file: The table.

    Returns:
        The number of tasks added.

    Raises:
        ValueError: The results come from local copies of the datasets.
    """
    model = read_results(folder, benchmark)
    if model.is_local:
        raise ValueError(
            f"{folder} was measured on local copies of the datasets, and cannot be published."
        )
    types = {t.metadata.name: t.metadata.type for t in benchmark_tasks(benchmark)}
    added = [
        {"model": model.name, "revision": folder.name, "benchmark": benchmark}
        | {"task": task, "type": types[task], "main_score_x100": f"{score:.2f}"}
        | {"mteb_version": read_json(folder / f"{task}.json")["mteb_version"]}
        for task, score in sorted(model.scores.items())
        if task in types
    ]
    _replace_rows(file, added)
    return len(added)


def _replace_rows(file: Path, added: list[dict[str, str]]) -> None:
    """Write a table of published scores with rows that replace those of the same tasks."""
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    new = {_key(row) for row in added}
    kept = [row for row in rows if _key(row) not in new]
    with atomic(file) as partial, partial.open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows([*kept, *added])


def _key(row: dict[str, str]) -> tuple[str, str, str]:
    """What a row of published scores is of."""
    return row["model"], row["benchmark"], row["task"]
