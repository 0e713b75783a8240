"""The command `analyse`: a built model in, tables and figures out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from st_static.commands.options import CommandParser
from st_static.dependencies import needed_by


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="st-static analyse",
        description="Write tables and figures about a built model, from the stages of its recipe.",
    )
    parser.add_argument("model", type=Path, help="Folder of the model.")
    parser.add_argument("--work_dir", type=Path, required=True, help="The recipe's work_dir.")
    parser.add_argument(
        "--output",
        type=Path,
        help="Folder for the tables and figures; by default analysis/NAME for models/NAME.",
    )
    parser.add_argument(
        "--teacher", help="The teacher, to measure its second-order collapse as well."
    )
    parser.add_argument(
        "--texts", type=Path, help="File of texts, one per line: measure second-order collapse."
    )
    parser.add_argument(
        "--pairs",
        type=Path,
        help="File of two paraphrases per line, with a tab between them: alignment and uniformity.",
    )
    parser.add_argument(
        "--tagged",
        type=Path,
        help="File of word/TAG tokens: tell parts of speech of the longest and shortest words.",
    )
    parser.add_argument(
        "--tasks", nargs="+", default=[], help="MTEB tasks: score the table after each stage."
    )
    parser.add_argument("--data", type=Path, help="Local copies of the tasks' datasets.")
    return parser


@needed_by("This command", "eval")
def run(arguments: Sequence[str]) -> int:
    """Run `analyse`."""
    values = vars(_parser().read(arguments))
    from st_static.evaluate.analysis.analyse import Inputs, analyse
    from st_static.evaluate.analysis.built_model import BuiltModel

    model = BuiltModel(values.pop("model"), values.pop("work_dir"))
    output = values.pop("output") or Path("analysis") / model.name
    for file in analyse(model, output, Inputs(**values)):
        print(file)
    return 0
