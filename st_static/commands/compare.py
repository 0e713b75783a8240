"""The command `compare`: folders of results in, a table of several models' scores out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from st_static.commands.options import CommandParser
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
    add("--output", type=Path, help="Also write OUTPUT.md, .csv and .json.")
    options = parser.read(arguments)
    if not (options.results or options.published):
        raise ValueError("Name folders of results, models with --published, or both.")
    from st_static.evaluate import scores, tables

    if options.output:
        tables.check_place(options.output)
    for folder in options.results:
        scores.check_results(folder)
    theirs = scores.find_published(options.published, options.benchmark)
    models = [scores.read_results(folder, options.benchmark) for folder in options.results] + theirs
    table = scores.compare(models, options.benchmark)
    table = table.hstack(scores.compare_further(models, options.benchmark))
    print(tables.as_markdown(table))
    if sources := scores.sources_of(models):
        print(f"\nPublished scores: {sources}.")
    if options.output:
        tables.write_table(table, options.output)
    return 0
