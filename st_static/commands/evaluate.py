"""The command `evaluate`: models, and tasks or data of one's own, in; scores out."""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from st_static.arguments import require
from st_static.commands.options import CommandParser, UsageError, hide_bars_of_libraries
from st_static.dependencies import loading, needed_by
from st_static.files import check_writable, output_file
from st_static.languages import check_language

if TYPE_CHECKING:
    from st_static.evaluate.benchmark import TaskOutcome
    from st_static.evaluate.models import EvaluatedModel

# The options that name files of one's own.
_OWN = ("pairs", "labelled", "queries", "documents", "relevant")


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
    documents_by: str | None = None


@needed_by("This command", "eval")
def run(arguments: Sequence[str]) -> int:
    """Run `evaluate`; the exit status is 1 if a task failed."""
    parser = CommandParser(
        prog="st-static evaluate",
        description="Score a model on MTEB tasks, of which finished ones are not run again; or "
        "several models on data of your own.",
    )
    add = parser.add_argument
    add(
        "models",
        nargs="+",
        metavar="model",
        help="A folder or Hub id, also as sentence-transformers:ID, or a peer: model2vec:ID, "
        "wordllama:256, glove:FILE, sif:FILE,TEXTS, sent2vec:FILE, tfidf:TEXTS, doc2vec:TEXTS, "
        "doc2vec-dm:TEXTS, doc2vec-dm-concat:TEXTS, doc2vec-dm-dbow:TEXTS, use:multilingual, or a "
        "floor: borep:FILE, random-lstm:FILE, esn:FILE, esn-leaky:FILE, each also with another "
        "pooling, as in borep-max:FILE.",
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
    add(
        "--documents_by",
        metavar="MODEL",
        help="Another model that encodes the documents of a search, such as the teacher of a model "
        "for queries.",
    )
    group = parser.add_argument_group("data of your own, in CSV, TSV, JSON lines or Parquet")
    add = group.add_argument
    add("--pairs", type=Path, help="text1, text2, and a score or a label 0 or 1.")
    add("--labelled", type=Path, help="text and label.")
    add("--queries", type=Path, help="id and text; needs the next two.")
    add("--documents", type=Path, help="id and text.")
    add("--relevant", type=Path, help="query_id, document_id and, unless it is 1, score.")
    options = vars(parser.read(arguments, _check_models))
    files = {name: options.pop(name) for name in _OWN}
    models: list[str] = options.pop("models")
    if any(files.values()):
        return _judge(models, files, options)
    return evaluate(Evaluation(models[0], **options))


def _check_models(options: Any) -> None:
    if len(options.models) > 1 and not any(getattr(options, name) for name in _OWN):
        raise UsageError(
            f"Expected one model for MTEB tasks, but got {' and '.join(options.models)}."
        )


def _judge(models: Sequence[str], files: dict[str, Path | None], options: dict[str, Any]) -> int:
    """Judge models on data of the user's; print the table, and write it as JSON."""
    roles = [name for name, file in files.items() if file]
    valid = [["pairs"], ["labelled"], ["queries", "documents", "relevant"]]
    wanted = "--pairs, --labelled, or --queries with --documents and --relevant"
    hint = " A model that encodes the documents is --documents_by." if "documents" in roles else ""
    require(roles in valid, f"Expected {wanted}, but got --{', --'.join(roles)}.{hint}")
    for name in ("benchmark", "tasks", "language", "data"):
        require(not options[name], f"--{name} is of MTEB tasks: leave it out.")
    by = options["documents_by"]
    require(not by or roles[0] == "queries", f"--{roles[0]} has no documents: drop --documents_by.")
    require(len(set(models)) == len(models), "A model is named twice. Name each once.")
    output = options["folder"] / "results" / f"own_{roles[0]}.json"
    check_writable(output.parent, f"The folder of results {output.parent}")
    _require_named(models, by)
    hide_bars_of_libraries(downloads=True)
    from st_static.evaluate import own_data

    _hush_libraries()
    kinds: dict[str, Callable[..., own_data.OwnData]] = {
        "pairs": own_data.ScoredPairs,
        "labelled": own_data.LabelledTexts,
        "queries": own_data.AnsweredQueries,
    }
    data = kinds[roles[0]](*(files[name] for name in roles))
    loaded = _load(models, by, options["trust_remote_code"])
    names = [model.name for model in loaded]
    for name in names:
        require(names.count(name) == 1, f"Two models are called {name!r}: rename a folder.")
    facts = own_data.facts_of(data, loaded)
    print(facts["table"], "", facts["about"], sep="\n")
    if facts["above"]:
        print(f"The rows that each row is above by more than chance; by how much: {output}")
        print(facts["above"])
    else:
        print("Differences that exceed chance:", *(facts["differences"] or ["none"]), sep="\n  ")
    with output_file(output) as partial:
        partial.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(f"Results: {output}")
    return 0


def evaluate(evaluation: Evaluation) -> int:
    """Score a model, and print each score as soon as it is there; return 1 if a task failed."""
    check(evaluation)
    _require_named([evaluation.model], evaluation.documents_by)
    hide_bars_of_libraries(downloads=True)
    from st_static.evaluate.tasks import (
        choose_subsets,
        find_tasks,
        languages_of_model,
        require_documents,
    )

    with loading():  # mteb
        tasks = find_tasks(evaluation.benchmark, evaluation.tasks)
    if evaluation.documents_by:
        require_documents(tasks)
    if evaluation.tasks:  # a benchmark has chosen its subsets
        languages = evaluation.language or languages_of_model(evaluation.model)
        without = ", ".join(choose_subsets(tasks, languages) if languages else [])
        if without and evaluation.language:
            raise ValueError(f"No subset of {without} is in {' or '.join(languages)}.")
        if without:
            names = ", ".join(languages)
            said = f"No subset of {without} is in the model's {names}: all are run."
            print(said, file=sys.stderr)
    # Torch takes seconds to load: not before the arguments are known to be good.
    from tqdm import tqdm

    with loading():
        from st_static.evaluate.benchmark import run_tasks

    _hush_libraries()

    def on_task(outcome: TaskOutcome) -> None:
        """Print a task's score, or why it failed, without breaking the bar of all tasks."""
        if outcome.failure is not None:
            reason = " ".join(outcome.failure.split())
            tqdm.write(f"Error: {outcome.task} failed: {reason}", file=sys.stderr)
            return
        mean = f" (mean of {outcome.parts} subsets and splits)" if outcome.parts > 1 else ""
        tqdm.write(f"{outcome.task}: {outcome.score:.2f}{mean}", file=sys.stdout)
        sys.stdout.flush()

    [model] = _load([evaluation.model], evaluation.documents_by, evaluation.trust_remote_code)
    outcome = run_tasks(model, tasks, evaluation.folder, evaluation.data, on_task=on_task)
    if outcome.scores:
        print(f"Results: {outcome.folder}")
    if finished := [task.task for task in outcome.tasks if not task.is_new]:
        print(f"Finished before and not run again: {', '.join(finished)}", file=sys.stderr)
    if len(outcome.failures) > 1:
        failed = f"{len(outcome.failures)} of {len(tasks)} tasks failed"
        print(f"Error: {failed}: {', '.join(outcome.failures)}", file=sys.stderr)
    return 1 if outcome.failures else 0


def _require_named(models: Sequence[str], documents_by: str | None) -> None:
    """Check that models, and the one that encodes the documents, are available."""
    from st_static.evaluate.models import require_named

    for model in [*models, documents_by] if documents_by else models:
        require_named(model)


def _load(models: Sequence[str], documents_by: str | None, trust: bool) -> list[EvaluatedModel]:
    """Load models, with one that encodes the documents for all of them."""
    from st_static.evaluate.models import load_model, local_name

    loaded = [load_model(model, trust) for model in models]
    if not documents_by:
        return loaded
    # A teacher in a package is known by that name, not by its folder there.
    documents = replace(load_model(documents_by, trust), name=local_name(documents_by))
    return [model.with_documents(documents) for model in loaded]


def _hush_libraries() -> None:
    """Hide what mteb says of local models, and libraries of their work: no score depends on it."""
    for library in ("mteb", "datasets", "sentence_transformers", "huggingface_hub"):
        logging.getLogger(library).setLevel(logging.ERROR)
    for library in ("mteb", "datasets", "sklearn", "umap"):
        warnings.filterwarnings("ignore", module=library)


def check(evaluation: Evaluation) -> None:
    """Check what the options alone tell, in a second."""
    if (evaluation.benchmark is None) == (not evaluation.tasks):
        raise ValueError(
            "Name tasks with --tasks, a benchmark with --benchmark, or data of your own with "
            "--pairs, --labelled or --queries."
        )
    if evaluation.benchmark and evaluation.language:
        raise ValueError("A benchmark has languages of its own: give --language with --tasks only.")
    check_language(list(evaluation.language or []), "--language")
    check_writable(evaluation.folder, f"The folder of results {evaluation.folder}")
    from st_static.evaluate.tasks import check_data, check_names

    check_names("benchmark", [evaluation.benchmark] if evaluation.benchmark else [])
    check_names("task", evaluation.tasks or [])
    if evaluation.data:
        check_data(evaluation.data, evaluation.tasks or [])
