"""The command `evaluate`: a model and tasks in, scores out."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from st_static.commands.options import CommandParser, hide_bars_of_libraries
from st_static.dependencies import needed_by
from st_static.files import check_folder
from st_static.languages import check_language

if TYPE_CHECKING:
    from st_static.evaluate.benchmark import TaskOutcome


@dataclass(frozen=True)
class Evaluation:
    """The options of the command, which `build` gives, too."""

    model: str
    benchmark: str | None = None
    tasks: Sequence[str] | None = None
    language: Sequence[str] | None = None
    data: Path | None = None
    folder: Path = Path()
    trust_remote_code: bool = False


@needed_by("This command", "eval")
def run(arguments: Sequence[str]) -> int:
    """Run `evaluate`; the exit status is 1 if a task failed."""
    parser = CommandParser(
        prog="st-static evaluate",
        description="Score a model on MTEB tasks. Finished tasks are not run again.",
    )
    add = parser.add_argument
    add(
        "model",
        help="A folder or Hub id, also as sentence-transformers:ID, or a peer: model2vec:ID, "
        "wordllama:256, glove:FILE, sif:FILE,TEXTS, sent2vec:FILE, doc2vec:TEXTS, "
        "doc2vec-dm:TEXTS, use:multilingual, or a floor: borep:FILE, random-lstm:FILE, esn:FILE, "
        "each also with another pooling, as in borep-max:FILE.",
    )
    add("--benchmark", help='For example "MTEB(eng, v2)".')
    add("--tasks", nargs="+", help="Names of tasks instead.")
    add(
        "--language",
        nargs="+",
        help="Run the subsets of the tasks in these languages: tags such as en, ja or zh; by "
        "default those in the model's own, where its record or its card says them.",
    )
    add("--data", type=Path, help="Folder of local copies of the datasets.")
    add(
        "--folder",
        type=Path,
        default=Path(),
        help="Results go to results/ in this folder; by default the current one.",
    )
    add("--trust_remote_code", action="store_true", help="Run code that the model brings.")
    return evaluate(Evaluation(**vars(parser.read(arguments))))


def evaluate(evaluation: Evaluation) -> int:
    """Score a model, and print each score as soon as it is there; return 1 if a task failed."""
    check(evaluation)
    from st_static.evaluate.models import load_model, require_named

    require_named(evaluation.model)
    hide_bars_of_libraries(downloads=True)
    from st_static.evaluate.tasks import choose_subsets, find_tasks, languages_of_model

    tasks = find_tasks(evaluation.benchmark, evaluation.tasks)
    if evaluation.tasks:  # a benchmark has chosen its subsets
        languages = evaluation.language or languages_of_model(evaluation.model)
        without = ", ".join(choose_subsets(tasks, languages) if languages else [])
        if without and evaluation.language:
            raise ValueError(f"No subset of {without} is in {' or '.join(languages)}.")
        if without:
            own = ", ".join(languages)
            said = f"No subset of {without} is in the model's {own}: all are run."
            print(said, file=sys.stderr)
    # Torch takes seconds to load: not before the arguments are known to be good.
    from tqdm import tqdm

    from st_static.evaluate.benchmark import run_tasks

    # mteb warns of what it does not know of local models; none of it changes a score.
    for library in ("mteb", "datasets", "sentence_transformers", "huggingface_hub"):
        logging.getLogger(library).setLevel(logging.ERROR)
    for library in ("mteb", "datasets", "sklearn", "umap"):
        warnings.filterwarnings("ignore", module=library)

    def on_task(outcome: TaskOutcome) -> None:
        """Print a task's score, or why it failed, without breaking the bar of all tasks."""
        if outcome.failure is not None:
            reason = " ".join(outcome.failure.split())
            tqdm.write(f"Error: {outcome.task} failed: {reason}", file=sys.stderr)
            return
        mean = f" (mean of {outcome.parts} subsets and splits)" if outcome.parts > 1 else ""
        tqdm.write(f"{outcome.task}: {outcome.score:.2f}{mean}", file=sys.stdout)
        sys.stdout.flush()

    model = load_model(evaluation.model, evaluation.trust_remote_code)
    outcome = run_tasks(model, tasks, evaluation.folder, evaluation.data, on_task=on_task)
    if outcome.scores:
        print(f"Results: {outcome.folder}")
    if finished := [task.task for task in outcome.tasks if not task.is_new]:
        print(f"Finished before and not run again: {', '.join(finished)}", file=sys.stderr)
    if len(outcome.failures) > 1:
        failed = f"{len(outcome.failures)} of {len(tasks)} tasks failed"
        print(f"Error: {failed}: {', '.join(outcome.failures)}", file=sys.stderr)
    return 1 if outcome.failures else 0


def check(evaluation: Evaluation) -> None:
    """Check what the options alone tell, in a second."""
    if (evaluation.benchmark is None) == (not evaluation.tasks):
        raise ValueError("Name either tasks with --tasks, or a benchmark with --benchmark.")
    if evaluation.benchmark and evaluation.language:
        raise ValueError("A benchmark has languages of its own: give --language with --tasks only.")
    check_language(list(evaluation.language or []), "--language")
    check_folder(evaluation.folder, f"The folder of results {evaluation.folder}")
    from st_static.evaluate.tasks import check_data, check_names

    check_names("benchmark", [evaluation.benchmark] if evaluation.benchmark else [])
    check_names("task", evaluation.tasks or [])
    if evaluation.data:
        check_data(evaluation.data, evaluation.tasks or [])
