"""The command `compare`: folders of results in, a table of several models' scores out, by task type
or by task, and a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from st_static.commands.options import CommandParser, UsageError
from st_static.dependencies import needed_by


@needed_by("This command", "eval")
def run(arguments: Sequence[str]) -> int:
    """Run `compare`."""
    parser = CommandParser(
        prog="st-static compare", description="Put measured and published scores side by side."
    )
    add = parser.add_argument
    add("results", nargs="*", type=Path, help="Folders results/MODEL/REVISION.")
    add(
        "--benchmark",
        default="MTEB(eng, v1)",
        help='Which tasks count; by default those of "MTEB(eng, v1)".',
    )
    add("--published", nargs="+", default=[], help="Models whose published scores are shown, too.")
    add(
        "--by_task",
        action="store_true",
        help="A row for each task, and how far the first model lies above each other one.",
    )
    add(
        "--metrics", action="store_true", help="With --by_task: also a row for each further metric."
    )
    add(
        "--figure",
        type=Path,
        help="With --by_task: also draw the differences: a file .png, .svg or .pdf.",
    )
    add("--output", type=Path, help="Also write OUTPUT.md, .csv and .json.")
    options = parser.read(arguments, _check)
    if not (options.results or options.published):
        raise ValueError("Name folders of results, models with --published, or both.")
    from st_static.evaluate import scores, tables

    if options.output:
        tables.check_place(options.output)
    if options.figure:
        from st_static.evaluate.figures import check_figure, draw_by_task

        check_figure(options.figure)
    for folder in options.results:
        scores.check_results(folder)
    theirs = scores.find_published(options.published, options.benchmark, options.by_task)
    models = [scores.read_results(folder, options.benchmark) for folder in options.results] + theirs
    if options.by_task:
        table = scores.compare_by_task(models, options.benchmark, options.metrics)
    else:
        table = scores.compare(models, options.benchmark)
        table = table.hstack(scores.compare_further(models, options.benchmark))
    if options.figure:
        draw_by_task(scores.compare_by_task(models, options.benchmark), options.figure)
    print(tables.as_markdown(table))
    if options.by_task and any(column.has_nulls() for column in table):
        print("\nIn an empty cell, a score is missing, or is on other splits in another row.")
    if sources := scores.sources_of(models):
        print(f"\nPublished scores: {sources}.")
    if options.output:
        tables.write_table(table, options.output)
    if options.figure:
        print(f"Figure: {options.figure}")
    return 0


def _check(options: Any) -> None:
    for name in ("metrics", "figure"):
        if getattr(options, name) and not options.by_task:
            raise UsageError(f"--{name} needs --by_task: add it.")
    models = [*options.results, *options.published]
    if options.figure and len(models) < 2:
        raise UsageError(
            f"--figure draws differences: expected two models or more, but got {len(models)}. "
            "Name another."
        )
