"""All tasks of a folder of local datasets, for several models, side by side.

    python benchmarks/local_tasks.py --data DIR [--folder .] [--language ja] MODEL [MODEL ...]

evaluates each model as `st-static evaluate` does on every task that the folder holds, in its own
languages unless others are named, and prints a table of main scores x 100 and the seconds that each
model took.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from st_static.evaluate.benchmark import Outcome, run_tasks
from st_static.evaluate.models import EvaluatedModel, load_model
from st_static.evaluate.tables import as_markdown
from st_static.evaluate.tasks import choose_subsets, find_tasks, languages_of_model


def evaluate(
    model: EvaluatedModel,
    tasks: Sequence[str],
    languages: Sequence[str],
    data: Path,
    folder: Path = Path(),
) -> Outcome:
    """The results of a model on tasks whose data lie in a folder, in the subsets of languages."""
    chosen = find_tasks(tasks=tasks)
    choose_subsets(chosen, languages)
    return run_tasks(model, chosen, folder, data)


def main() -> None:
    """Evaluate and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="+", help="as for st-static evaluate")
    parser.add_argument("--data", type=Path, required=True, help="a folder a task")
    parser.add_argument("--folder", type=Path, default=Path(), help="where results/ goes")
    parser.add_argument("--language", nargs="+", help="as for st-static evaluate")
    arguments = parser.parse_args()
    names = sorted(path.name for path in arguments.data.iterdir() if path.is_dir())
    rows: dict[str, list[object]] = {"task": [*names, "seconds"]}
    models = {spec: load_model(spec) for spec in arguments.models}
    for spec, model in models.items():
        languages = arguments.language or languages_of_model(spec)
        start = time.perf_counter()
        outcome = evaluate(model, names, languages, arguments.data, arguments.folder)
        seconds = time.perf_counter() - start
        rows[spec] = [*(outcome.scores.get(name) for name in names), seconds]
        for task, reason in outcome.failures.items():
            print(f"{spec}: {task} failed: {reason}")
    print(as_markdown(pl.DataFrame(rows, strict=False)))


if __name__ == "__main__":
    main()
