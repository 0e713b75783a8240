"""The command `analyse`: a built model, or transformers alone, in; tables and figures out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from st_static.commands.options import CommandParser, UsageError
from st_static.commands.terminal import hide_bars_of_libraries
from st_static.dependencies import needed_by
from st_static.files import check_folder


class _Parser(CommandParser):
    """The options of `analyse`: a built model with its stages, or transformers with texts."""

    def check_values(self, options: Any) -> None:
        """Check that the options are of one of the two kinds."""
        names = {name: "MODEL" if name == "model" else f"--{name}" for name in vars(options)}
        given = {shown for name, shown in names.items() if getattr(options, name)}
        if "--socm" not in given:
            if missing := [shown for shown in ("MODEL", "--work_dir") if shown not in given]:
                raise UsageError(
                    f"Missing: {', '.join(missing)}. Name a built model and its recipe's work_dir, "
                    "or transformers with --socm."
                )
        elif "--texts" not in given:
            raise UsageError("--socm needs a file of texts to measure on: add --texts FILE.")
        elif others := sorted(given - {"--socm", "--texts", "--output"}):
            raise UsageError(
                f"--socm takes --texts and --output alone, but {', '.join(others)} came, too. "
                f"Leave out --socm, or {' and '.join(others)}."
            )


def _parser() -> CommandParser:
    parser = _Parser(
        prog="st-static analyse",
        description="Write tables and figures about a built model, from the stages of its recipe; "
        "or, with --socm, the second-order collapse of transformers.",
    )
    parser.add_argument("model", type=Path, nargs="?", help="Folder of the model.")
    parser.add_argument("--work_dir", type=Path, help="The recipe's work_dir.")
    parser.add_argument(
        "--output",
        type=Path,
        help="Folder for the tables and figures; by default analysis/NAME for models/NAME, and "
        "analysis/socm for --socm.",
    )
    parser.add_argument(
        "--socm",
        nargs="+",
        metavar="MODEL",
        help="Transformers, such as a base model and a fine-tuned one: measure their second-order "
        "collapse on --texts, without a built model.",
    )
    _add_inputs(parser)
    return parser


def _add_inputs(parser: CommandParser) -> None:
    """Options that each add an analysis."""
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
        help="File of word/TAG tokens: of its 10,000 most frequent words, those whose vectors grow "
        "and shrink most, and the longest and shortest, with their parts of speech.",
    )
    parser.add_argument(
        "--tasks", nargs="+", default=[], help="MTEB tasks: score the table after each stage."
    )
    parser.add_argument("--data", type=Path, help="Local copies of the tasks' datasets.")


@needed_by("This command", "eval")
def run(arguments: Sequence[str]) -> int:
    """Run `analyse`."""
    values = vars(_parser().read(arguments))
    hide_bars_of_libraries()
    model, output, socm = values.pop("model"), values.pop("output"), values.pop("socm")
    files = (
        _of_built(model, output, values) if socm is None else _of_transformers(socm, output, values)
    )
    for file in files:
        print(file)
    return 0


def _of_built(folder: Path, output: Path | None, values: dict[str, Any]) -> list[Path]:
    """Analyse a built model."""
    from st_static.evaluate.analysis.analyse import Inputs, analyse
    from st_static.evaluate.analysis.built_model import BuiltModel

    model = BuiltModel(folder, values.pop("work_dir"))
    output = output or Path("analysis") / model.name
    check_folder(output, f"The output {output}")
    return analyse(model, output, Inputs(**values))


def _of_transformers(
    models: Sequence[str], output: Path | None, values: dict[str, Any]
) -> list[Path]:
    """Analyse transformers alone, and print their table."""
    from st_static.evaluate.analysis.analyse import analyse_transformers

    output = output or Path("analysis") / "socm"
    check_folder(output, f"The output {output}")
    files = analyse_transformers(models, values["texts"], output)
    print(files[0].read_text("utf-8"))
    return files
