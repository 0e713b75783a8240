"""The command `st-static`: a thin layer over the package's functions."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import gc
import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from st_static import __version__
from st_static.commands.parser import CommandParser, nearest, read_yaml
from st_static.commands.terminal import drop_stdout, hide_bars_of_libraries, log_to_terminal
from st_static.distill.config import BuildConfig, without_false_facts
from st_static.ensemble.config import EnsembleConfig
from st_static.model.model_name import ModelName

if TYPE_CHECKING:
    from st_static.evaluate.benchmark import TaskOutcome

Recipe = BuildConfig | EnsembleConfig

DESCRIPTION = "Static sentence encoders from any SentenceTransformer."


def build_parser(config: type[Recipe] = BuildConfig) -> CommandParser:
    """The parser of `build`: a recipe, and an option for every value in it."""
    parser = CommandParser(
        prog="st-static build",
        usage="%(prog)s [RECIPE] [--OPTION VALUE ...]",
        description="Build a static sentence encoder from a teacher and a corpus; or, from a "
        "recipe that names `members`, an ensemble of static models.",
        recipe=config,
    )
    parser.add_argument(
        "--config", action="config", help="A recipe: a YAML file; the same as RECIPE."
    )
    parser.add_class_arguments(config)
    return parser


def parse_build(arguments: Sequence[str], default_recipe: str | None = None) -> Recipe:
    """Turn `[RECIPE] [--option value ...]` into a configuration.

    Args:
        arguments: The command line. Options override the recipe.
        default_recipe: The recipe that is read when none is given.
    """
    arguments = list(arguments)
    if arguments and not arguments[0].startswith("-"):
        arguments.insert(0, "--config")
    elif default_recipe and not any(a.split("=")[0] == "--config" for a in arguments):
        arguments[:0] = ["--config", default_recipe]
    kind = EnsembleConfig if _names_members(arguments) else BuildConfig
    parser = build_parser(kind)
    values = parser.instantiate(parser.read(arguments)).as_dict()
    del values["config"]
    return _without_false_facts(kind(**values), parser, arguments)


def _without_false_facts(config: Recipe, parser: CommandParser, arguments: list[str]) -> Recipe:
    """Drop what a recipe states about a corpus or teacher in whose place options name another."""
    configs = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    configs.add_argument("--config", action="append", default=[])
    known, options = configs.parse_known_args(arguments)
    for other in known.config[1:]:
        options += ["--config", other]
    if not known.config or not options:
        return config
    recipe = parser.parse_args(["--config", known.config[0]]).as_dict()
    given = parser.parse_args(options, defaults=False).as_dict()
    return without_false_facts(config, recipe, given)


def _names_members(arguments: Sequence[str]) -> bool:
    """Whether a recipe, or an option, names the members of an ensemble."""
    names = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    names.add_argument("--config")
    names.add_argument("--members", nargs="?")
    known, _ = names.parse_known_args(list(arguments))
    recipe = Path(known.config) if known.config else None
    if recipe is None or not recipe.is_file():
        return known.members is not None
    with contextlib.suppress(UnicodeDecodeError):
        values = read_yaml(recipe.read_text("utf-8"))
        return isinstance(values, dict) and "members" in values
    return False


def run_build(arguments: Sequence[str], default_recipe: str | None = None) -> int:
    """Run `build` and print its report."""
    config = parse_build(arguments, default_recipe)
    log_to_terminal()
    hide_bars_of_libraries()
    # It warns that checkpoints follow each other within a second, which does no harm.
    logging.getLogger("transformers.trainer_utils").setLevel(logging.ERROR)
    from tqdm.contrib.logging import logging_redirect_tqdm

    # Torch takes seconds to load: not before what the recipe names is known to be there.
    from st_static.distill import sources as sources_of_build
    from st_static.ensemble import sources as sources_of_ensemble

    try:
        with logging_redirect_tqdm():  # a line that comes while there is a bar stands above it
            if isinstance(config, EnsembleConfig):
                sources_of_ensemble.require_sources(config)
                return _build_ensemble(config)
            sources_of_build.require_sources(config)
            return _build(config)
    except KeyboardInterrupt:
        print(
            "Interrupted. Run the same command again: it goes on where it stopped.", file=sys.stderr
        )
        return 130


def _build(config: BuildConfig) -> int:
    from st_static.distill.pipeline import build
    from st_static.distill.report import print_report

    print_report(build(config), config.questions, config.work_dir)
    _tell_of_an_older_card(Path(config.output))
    return 0


def _tell_of_an_older_card(model: Path) -> None:
    """Say so where the card beside a model was written for what was there before."""
    from st_static.model.notes import CARD_FILE
    from st_static.publish.checks.fingerprint import fingerprint, marked

    card = model / CARD_FILE
    known = marked(card.read_text("utf-8", errors="replace")) if card.is_file() else None
    if known is not None and known != fingerprint(model):
        print(f"{card} was written for an earlier build. Write it again; your notes stay.")


def _build_ensemble(config: EnsembleConfig) -> int:
    from st_static.ensemble.build_ensemble import build_ensemble

    result = build_ensemble(config)
    print(f"Built {result.output}")
    figures = dict(result.figures)
    print(
        f"Correlation with the exact ensemble's cosines, on {figures.pop('random_pairs'):,} random "
        f"pairs of sentences of Python's documentation: {figures.pop('fused_agreement')} fused, "
        f"{figures.pop('model_agreement')} as written"
    )
    for name, value in figures.items():
        print(f"{name}: {value}")
    return 0


def run_evaluate(arguments: Sequence[str]) -> int:
    """Run `evaluate`; the exit status is 1 if a task failed."""
    parser = CommandParser(
        prog="st-static evaluate",
        description="Score a model on MTEB tasks. Finished tasks are not run again.",
    )
    parser.add_argument(
        "model",
        help="A folder or Hub id, also as sentence-transformers:ID, or a peer: model2vec:ID, "
        "wordllama:256, glove:FILE, sif:FILE,TEXTS, sent2vec:FILE, or a floor: borep:FILE, "
        "borep-max:FILE, borep-relu:FILE, borep-max-relu:FILE.",
    )
    parser.add_argument("--benchmark", type=str | None, help='For example "MTEB(eng, v2)".')
    parser.add_argument("--tasks", nargs="+", type=str, help="Names of tasks instead.")
    parser.add_argument("--data", type=Path | None, help="Folder of local copies of the datasets.")
    parser.add_argument(
        "--folder", type=Path, default=Path(), help="Results go to results/ in this folder."
    )
    parser.add_argument("--trust_remote_code", type=bool, default=False, help="Run a model's code.")
    options = parser.read(arguments)
    if (options.benchmark is None) == (not options.tasks):
        raise ValueError("Name either tasks with --tasks, or a benchmark with --benchmark.")
    ModelName.parse(options.model).require()
    hide_bars_of_libraries(downloads=True)
    with _extra("eval"):
        from st_static.evaluate.benchmark import run_tasks
        from st_static.evaluate.load_model import load_model
        from st_static.evaluate.tasks import find_tasks
    tasks = find_tasks(options.benchmark, options.tasks)
    _silence_evaluation()
    finished: list[str] = []

    def on_task(outcome: TaskOutcome) -> None:
        """Print a task's score, and remember whether it had been finished before."""
        _print_task(outcome)
        finished.extend([] if outcome.is_new else [outcome.task])

    model = load_model(options.model, options.trust_remote_code)
    outcome = run_tasks(model, tasks, options.folder, options.data, on_task=on_task)
    if outcome.scores:
        print(f"Results: {outcome.folder}")
    if finished:
        print(f"Finished before and not run again: {', '.join(finished)}", file=sys.stderr)
    if len(outcome.failures) > 1:
        failed = f"{len(outcome.failures)} of {len(tasks)} tasks failed"
        print(f"Error: {failed}: {', '.join(outcome.failures)}", file=sys.stderr)
    return 1 if outcome.failures else 0


def _silence_evaluation() -> None:
    """Let libraries say nothing that changes no score."""
    # mteb warns of what it does not know of local models.
    for library in ("mteb", "datasets", "sentence_transformers", "huggingface_hub"):
        logging.getLogger(library).setLevel(logging.ERROR)
    for library in ("mteb", "datasets", "sklearn", "umap"):
        warnings.filterwarnings("ignore", module=library)


def _print_task(outcome: TaskOutcome) -> None:
    """Print a task's score, or why it failed, without breaking the bar of all tasks."""
    from tqdm import tqdm

    if outcome.failure is not None:
        reason = " ".join(outcome.failure.split())
        tqdm.write(f"Error: {outcome.task} failed: {reason}", file=sys.stderr)
        return
    mean = f" (mean of {outcome.parts} subsets and splits)" if outcome.parts > 1 else ""
    tqdm.write(f"{outcome.task}: {outcome.score:.2f}{mean}", file=sys.stdout)
    sys.stdout.flush()


def run_compare(arguments: Sequence[str]) -> int:
    """Run `compare`."""
    parser = CommandParser(
        prog="st-static compare",
        description="Put measured and published scores side by side.",
    )
    parser.add_argument("results", nargs="*", type=Path, help="Folders results/MODEL/REVISION.")
    parser.add_argument("--benchmark", type=str, default="MTEB(eng, v1)", help="Which tasks count.")
    parser.add_argument("--published", nargs="+", type=str, default=[], help="Names of models.")
    parser.add_argument("--output", type=Path | None, help="Also write OUTPUT.md, .csv and .json.")
    parser.add_argument(
        "--update", nargs="+", type=Path, default=[], help="Add these folders to the published."
    )
    options = parser.read(arguments)
    if not (options.results or options.published or options["update"]):
        raise ValueError("Name folders of results, models with --published, or both.")
    with _extra("eval"):
        from st_static.evaluate import compare
    if options.output:
        compare.check_place(options.output)
    # Not as an attribute: the namespace has a method of that name.
    updates: list[Path] = options["update"]
    for folder in updates:
        n_tasks = compare.add_to_published(folder, options.benchmark)
        print(f"{folder}: {n_tasks} tasks added to {compare.PUBLISHED_FILE}")
    if updates and not (options.results or options.published):
        return 0
    models = [compare.read_results(folder, options.benchmark) for folder in options.results]
    models += compare.find_published(options.published, options.benchmark)
    table = compare.compare(models, options.benchmark)
    print(compare.as_markdown(table))
    if options.published:
        print(f"\nPublished scores: {compare.PUBLISHED_SOURCE}.")
    if options.output:
        compare.write_table(table, options.output)
    return 0


def _analyse_parser() -> CommandParser:
    parser = CommandParser(
        prog="st-static analyse",
        description="Write tables and figures about a built model, from the stages of its recipe.",
    )
    parser.add_argument("model", type=Path, help="Folder of the model.")
    parser.add_argument("--work_dir", type=Path, required=True, help="The recipe's work_dir.")
    parser.add_argument(
        "--output",
        type=Path | None,
        help="Folder for the tables and figures; by default analysis/NAME for models/NAME.",
    )
    parser.add_argument(
        "--teacher",
        type=str | None,
        help="The teacher, to measure its second-order collapse as well.",
    )
    parser.add_argument(
        "--texts",
        type=Path | None,
        help="File of texts, one per line: measure second-order collapse.",
    )
    parser.add_argument(
        "--pairs",
        type=Path | None,
        help="File of two paraphrases per line, with a tab between them: alignment and uniformity.",
    )
    parser.add_argument(
        "--tagged",
        type=Path | None,
        help="File of word/TAG tokens: tell parts of speech of the longest and shortest words.",
    )
    parser.add_argument(
        "--tasks",
        nargs="+",
        type=str,
        default=[],
        help="MTEB tasks: score the table after each stage.",
    )
    parser.add_argument("--data", type=Path | None, help="Local copies of the tasks' datasets.")
    return parser


def run_analyse(arguments: Sequence[str]) -> int:
    """Run `analyse`."""
    options = _analyse_parser().read(arguments)
    with _extra("eval"):
        from st_static.evaluate.analysis.analyse import BuiltModel, Inputs, analyse
    values = options.as_dict()
    model = BuiltModel(values.pop("model"), values.pop("work_dir"))
    output = values.pop("output") or Path("analysis") / model.name
    for file in analyse(model, output, Inputs(**values)):
        print(file)
    return 0


def run_explain(arguments: Sequence[str]) -> int:
    """Run `explain`."""
    with _extra("publish"):
        from st_static.commands import publish as commands

        return commands.run_explain(arguments)


def run_card(arguments: Sequence[str]) -> int:
    """Run `card`."""
    with _extra("publish"):
        from st_static.commands import publish as commands

        return commands.run_card(arguments)


def run_encode(arguments: Sequence[str]) -> int:
    """Run `encode`."""
    from st_static.commands import encode as encode_command

    return encode_command.run_encode(arguments)


def run_publish(arguments: Sequence[str]) -> int:
    """Run `publish`."""
    from st_static.commands.publish import run_publish

    return run_publish(arguments)


@contextlib.contextmanager
def _extra(name: str) -> Iterator[None]:
    """Say which extra brings a package that is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ValueError(
            f'This command needs {error.name}: pip install "st-static[{name}]".'
        ) from error


COMMANDS: dict[str, tuple[Callable[[Sequence[str]], int], str]] = {
    "build": (run_build, "Build a static model from a teacher and text, as a recipe says."),
    "evaluate": (run_evaluate, "Score a model on MTEB tasks."),
    "compare": (run_compare, "Put measured and published scores side by side."),
    "encode": (run_encode, "Encode a file of texts into a file of vectors."),
    "analyse": (run_analyse, "Write tables and figures about a built model."),
    "card": (run_card, "Write a model's card with its figures."),
    "explain": (run_explain, "Show which words make two texts similar."),
    "publish": (run_publish, "Put a model on the Hugging Face Hub."),
}


def _help() -> str:
    """What the bare command says: a line for each command."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {purpose}" for name, (_, purpose) in COMMANDS.items()]
    return "\n".join(
        [
            DESCRIPTION,
            "",
            "usage: st-static COMMAND ...",
            "",
            *lines,
            "",
            "st-static COMMAND --help lists a command's options; st-static --version, the version.",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; an error that the user can mend is printed without a traceback."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        return 0
    if arguments[0] == "--version":
        print(f"st-static {__version__}")
        return 0
    if arguments[0] not in COMMANDS:
        expected = ", ".join(COMMANDS)
        hint = nearest(arguments[0], COMMANDS)
        print(
            f"Error: There is no command {arguments[0]!r}.{hint} Expected one of {expected}.",
            file=sys.stderr,
        )
        return 2
    return run_command(COMMANDS[arguments[0]][0], arguments[1:])


def run_command(command: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """Run a command, turning errors that the user can mend into one line and exit status 1."""
    # Else Python looks for garbage in all that is loaded before it ends: two seconds with mteb.
    atexit.register(gc.freeze)
    try:
        return command(arguments)
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # of `| head`
        drop_stdout()
        return 141  # as a program that the signal ended
    except (ValueError, OSError) as error:
        print("Error:", " ".join(str(error).split()), file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
