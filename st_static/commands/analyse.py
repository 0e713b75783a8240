"""The command `analyse`: a built model, or transformers alone, in; tables and figures out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from st_static.commands.options import CommandParser, UsageError, hide_bars_of_libraries
from st_static.dependencies import loading, needed_by
from st_static.files import check_writable


@needed_by("This command", "eval")
def run(arguments: Sequence[str]) -> int:
    """Run `analyse`."""
    parser = CommandParser(
        prog="st-static analyse",
        description="Write tables and figures about a built model, from the stages of its recipe; "
        "with --socm, the second-order collapse of transformers; or, with --labelled, whether "
        "lengths and cosines tell the labels of your texts apart.",
    )
    add = parser.add_argument
    add("model", nargs="?", help="Folder of the model; for --labelled any, as for evaluate.")
    add("--work_dir", type=Path, help="The recipe's work_dir.")
    add(
        "--output",
        type=Path,
        help="Folder for tables and figures; by default analysis/NAME, or analysis/socm of --socm.",
    )
    add(
        "--socm",
        nargs="+",
        metavar="MODEL",
        help="Transformers, such as a base model and a fine-tuned one: measure their second-order "
        "collapse on --texts, without a built model.",
    )
    add(
        "--labelled",
        type=Path,
        help="Table of text and label, or of text1, text2 and label: distributions by label.",
    )
    # Each of these adds an analysis.
    add("--teacher", help="The teacher, to measure it on --texts, --pairs and --probe as well.")
    add("--texts", type=Path, help="File of texts, one per line: measure second-order collapse.")
    add(
        "--pairs",
        type=Path,
        help="File of two paraphrases per line, with a tab between: alignment and uniformity.",
    )
    add("--peers", nargs="+", default=[], help="Other models to measure on --pairs and --probe.")
    add(
        "--tagged",
        type=Path,
        help="File of word/TAG tokens: of its 10,000 most frequent words, those whose vectors grow "
        "and shrink most, and the longest and shortest, with their parts of speech.",
    )
    add(
        "--probe",
        nargs="+",
        default=[],
        type=Path,
        help="Files of a sentence per line, perhaps of word/TAG tokens, or of SentEval: what a "
        "linear classifier reads from vectors, such as length, order of words and tense.",
    )
    add("--tasks", nargs="+", default=[], help="MTEB tasks: score the table after each stage.")
    add("--data", type=Path, help="Local copies of the tasks' datasets.")
    values = vars(parser.read(arguments, _check))
    hide_bars_of_libraries()
    with loading():
        from st_static.evaluate.built_model import BuiltModel
        from st_static.lab.analyse import Inputs, analyse, analyse_transformers
    from st_static.evaluate.models import load_model, require_named

    model_name, output, work_dir = (values.pop(name) for name in ("model", "output", "work_dir"))
    models, labelled = values.pop("socm"), values.pop("labelled")
    model = None if models or labelled else BuiltModel(Path(model_name), work_dir)
    output = output or Path("analysis", model.name if model else "socm" if models else "labels")
    check_writable(output, f"The output {output}")
    if model:
        files = analyse(model, output, Inputs(**values))
    elif models:
        files = analyse_transformers(models, values["texts"], output)
    else:
        from st_static.evaluate.own_data import Columns
        from st_static.lab.labels import analyse_labels

        require_named(model_name)
        columns = Columns(labelled)  # before the model is loaded
        files = analyse_labels(load_model(model_name), columns, output)
    if not model:
        print(files[0].read_text("utf-8"))
    print(*files, sep="\n")
    return 0


def _check(options: Any) -> None:
    """Check that the options are of a built model with its stages, or transformers with texts."""
    used = {f"--{name}" for name, value in vars(options).items() if value and name != "model"}
    used |= {"MODEL"} if options.model else set()
    if "--labelled" in used:
        if used - {"--output"} != {"MODEL", "--labelled"}:
            raise UsageError("--labelled takes MODEL and --output alone.")
    elif "--socm" not in used:
        if missing := [shown for shown in ("MODEL", "--work_dir") if shown not in used]:
            names = ", ".join(missing)
            raise UsageError(f"Missing: {names}. Name a model and its work_dir, or use --socm.")
    elif "--texts" not in used:
        raise UsageError("--socm needs a file of texts to measure on: add --texts FILE.")
    elif others := sorted(used - {"--socm", "--texts", "--output"}):
        raise UsageError(
            f"--socm takes --texts and --output alone, but {', '.join(others)} came, too. "
            f"Leave out --socm, or {' and '.join(others)}."
        )
