"""Add results to the published scores that `st-static compare --published` and cards show.

    python benchmarks/update_published.py results/ORG__NAME/REVISION ... [--benchmark NAME]

reads results as mteb publishes them, one folder per model, and writes their scores into
`st_static/evaluate/published.csv`; a model's scores of the same tasks are replaced.
"""

import argparse
import csv
import json
from pathlib import Path

from st_static.evaluate.scores import PUBLISHED_FILE, ModelScores, read_results
from st_static.evaluate.tasks import benchmark_tasks
from st_static.files import atomic


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
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    added = new_rows(model, folder, benchmark)
    replaced = {(row["model"], row["benchmark"], row["task"]) for row in added}
    kept = [r for r in rows if (r["model"], r["benchmark"], r["task"]) not in replaced]
    with atomic(file) as partial, partial.open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows([*kept, *added])
    return len(added)


def new_rows(model: ModelScores, folder: Path, benchmark: str) -> list[dict[str, str]]:
    """A row for each of a model's scores on a benchmark's tasks."""
    types = {task.metadata.name: task.metadata.type for task in benchmark_tasks(benchmark)}
    return [
        {
            "model": model.name,
            "revision": folder.name,
            "benchmark": benchmark,
            "task": task,
            "type": types[task],
            "main_score_x100": f"{score:.2f}",
            "mteb_version": mteb_version(folder / f"{task}.json"),
            "published_by": "",
        }
        for task, score in sorted(model.scores.items())
        if task in types
    ]


def mteb_version(result: Path) -> str:
    """The version of mteb that wrote a file of results."""
    version: str = json.loads(result.read_text("utf-8"))["mteb_version"]
    return version


def main() -> None:
    """Add each folder, and say how many tasks that were."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="results/ORG__NAME/REVISION")
    parser.add_argument("--benchmark", default="MTEB(eng, v1)")
    options = parser.parse_args()
    for folder in options.folders:
        n_tasks = add_to_published(folder, options.benchmark)
        print(f"{folder}: {n_tasks} tasks added to {PUBLISHED_FILE}")


if __name__ == "__main__":
    main()
