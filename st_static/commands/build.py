"""The command `build`: a recipe in, a model out; with `--publish`, on the Hub."""

from __future__ import annotations

import argparse
import json
import logging
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from st_static.commands import card, evaluate, publish
from st_static.commands.options import (
    CommandParser,
    UsageError,
    hide_bars_of_libraries,
    log_to_terminal,
    options_in,
    refusing,
    with_underscores,
)
from st_static.commands.recipe import (
    add_recipe,
    checked_keys,
    hints_of,
    listed_recipes,
    make_recipe,
    read_recipe,
    without_false_facts,
)
from st_static.dependencies import loading, needed_by, require_packages
from st_static.distill.config import BuildConfig
from st_static.ensemble.config import EnsembleConfig, require_members
from st_static.evaluate.tasks import ENGLISH_MTEB, benchmark_of, options_to_score
from st_static.examples import usage_in
from st_static.hub import check_repo_id, require_hub
from st_static.languages import recorded_languages
from st_static.model.model_name import locate
from st_static.texts.columns import is_broken
from st_static.yaml_text import dump_yaml

BENCHMARK = "MTEB(eng, v2)"  # of English; it has fewer tasks than v1

Recipe = BuildConfig | EnsembleConfig


@needed_by("This command", "build")
def run(arguments: Sequence[str], default_recipe: str | None = None) -> int:
    """Run `build`, with a recipe that is read when the command line gives none."""
    config, publication = _parse(arguments, default_recipe)
    if publication is None:
        return build_model(config)
    if isinstance(config, EnsembleConfig):
        raise ValueError("An ensemble is published by itself: build it, then st-static publish.")
    publication.check(config)
    return build_model(config) or publication.run(config)


# -- the command line ------------------------------------------------------------------


def parse_build(arguments: Sequence[str], default_recipe: str | None = None) -> Recipe:
    """Turn `[RECIPE] [--option value ...]` into a configuration; options override the recipe."""
    return _parse(arguments, default_recipe)[0]


def _parse(
    arguments: Sequence[str], default_recipe: str | None
) -> tuple[Recipe, Publication | None]:
    arguments = with_underscores(arguments)
    if arguments and not arguments[0].startswith("-"):
        arguments.insert(0, "--config")
    elif default_recipe and "--config" not in options_in(arguments):
        arguments[:0] = ["--config", default_recipe]
    # The recipes are read first: their keys tell which options there are.
    named = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    named.add_argument("--config", nargs="?", action="append", default=[])
    with refusing("st-static build"):
        for argument in filter(is_broken, arguments):
            raise UsageError(f"A recipe is text in UTF-8, but {argument!r} is not.")
        named_files = filter(None, named.parse_known_args(arguments)[0].config)
        files = {file: read_recipe(file) for file in named_files}
        has_members = any("members" in values for values in files.values())
        has_members = has_members or "--members" in options_in(arguments)
        kind = EnsembleConfig if has_members else BuildConfig
        options, hints = vars(_parser(kind).read(arguments)), hints_of(kind)
        if options["list"]:
            print(*listed_recipes(), sep="\n")
            raise SystemExit(0)
        recipes = {file: checked_keys(values, kind, file) for file, values in files.items()}
        overrides = {key: value for key, value in options.items() if key in hints}
        values: dict[str, Any] = {}
        for part in (*recipes.values(), overrides):
            if part.get("teachers"):  # in place of those before
                values = {k: v for k, v in values.items() if not k.startswith("teacher.")}
            elif "teacher.model" in part:
                values.pop("teachers", None)
            values |= part
        origins = {key: f"{file}, {key}" for file, part in recipes.items() for key in part}
        origins |= {key: f"--{key}" for key in overrides}
        config: Recipe = make_recipe(kind, values, origins)
    if recipes:
        first, *others = recipes.values()
        config = without_false_facts(config, first, set(overrides).union(*others))
    if options["print_config"]:  # as it is built, not as it stands in file and options
        print(dump_yaml(asdict(config)), end="")
        raise SystemExit(0)
    repo_id, tasks, data = options["publish"], options["tasks"], options["data"]
    if repo_id is None and (tasks or data):
        raise ValueError("--tasks and --data say how to evaluate for --publish ORG/NAME.")
    return config, None if repo_id is None else Publication(repo_id, tasks, data)


def _parser(recipe: type[Recipe]) -> CommandParser:
    parser = CommandParser(
        prog="st-static build",
        usage="%(prog)s [RECIPE] [--OPTION VALUE ...]",
        description="Build a static sentence encoder from a teacher and a corpus; or, from a "
        "recipe that names `members`, an ensemble of static models.",
    )
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="RECIPE",
        help="The same as RECIPE: a YAML file, or a name that --list prints. A later one overrides "
        "an earlier one.",
    )
    parser.add_argument(
        "--list", action="store_true", help="Print the recipes in this package, and build nothing."
    )
    parser.add_argument(
        "--print_config", action="store_true", help="Print the whole recipe, and build nothing."
    )
    add_recipe(parser, recipe)
    options = parser.add_argument_group("publishing the model after the build")
    options.add_argument(
        "--publish",
        metavar="ORG/NAME",
        help="Also evaluate the model, write its card and publish it on the Hub, as the commands "
        "evaluate, card and publish do.",
    )
    options.add_argument(
        "--tasks",
        nargs="+",
        help="MTEB tasks to evaluate on; by default those of the benchmark of the recipe's "
        f"languages, {BENCHMARK} for English.",
    )
    options.add_argument("--data", type=Path, help="Folder of local copies of the tasks' datasets.")
    return parser


# -- the work --------------------------------------------------------------------------


def build_model(config: Recipe) -> int:
    """Build what a recipe says, print the report, and return the exit status."""
    log_to_terminal()
    hide_bars_of_libraries()
    # It warns that checkpoints follow each other within a second, which does no harm.
    logging.getLogger("transformers.trainer_utils").setLevel(logging.ERROR)
    from tqdm.contrib.logging import logging_redirect_tqdm

    try:
        with logging_redirect_tqdm():  # a line that comes while there is a bar stands above it
            if isinstance(config, EnsembleConfig):
                _build_ensemble(config)
            else:
                _build(config)
    except KeyboardInterrupt:
        print("Interrupted. Run the same command again to go on.", file=sys.stderr)
        return 130
    return 0


def _build(config: BuildConfig) -> None:
    from st_static.distill.sources import check_places, require_sources

    # Check first what the recipe names: torch takes seconds to load.
    check_places(config)
    require_sources(config)
    with loading():
        from st_static.distill.pipeline import build
    from st_static.distill.report import print_report
    from st_static.model.card_file import marked
    from st_static.model.model_folder import ModelFolder
    from st_static.model.modules import CARD_FILE

    print_report(build(config), config.questions)
    print(f"\n{next_steps(config)}")
    card = Path(config.output, CARD_FILE)
    written_for = marked(card.read_text("utf-8", errors="replace")) if card.is_file() else None
    if written_for and written_for != ModelFolder(config.output).fingerprint:
        print(f"{card} was written for an earlier build. Write it again; your notes stay.")


def next_steps(config: BuildConfig) -> str:
    """Return the commands that one gives after a build, to be copied as they are; on text of the
    user's own, with an evaluation on data of theirs; for queries, with the teacher's documents."""
    output, languages = Path(config.output), recorded_languages(config.recipe())
    model, work = shlex.quote(str(output)), shlex.quote(config.work_dir)
    results = shlex.quote(f"results/local__{output.resolve().name}")
    judged_on, with_results = shlex.join(options_to_score(languages)), f"--results {results}/*"
    columns = ""
    # Where we have no sentence of the language, the user puts one in.
    texts = json.dumps(usage_in(languages) or ("A TEXT", "ANOTHER TEXT"), ensure_ascii=False)
    program = [
        f"model = SentenceTransformer({str(output)!r})",
        f"embeddings = model.encode({texts})",
    ]
    if config.corpus.files:  # whose texts' quality no public task tells
        judged_on, with_results = "--pairs PAIRS.csv", "--own_data results/own_pairs.json"
        columns = "; PAIRS.csv has the columns text1, text2 and score"
    if config.is_for_queries:
        [teacher] = config.all_teachers
        judged_on = (
            "--queries QUERIES.csv --documents DOCUMENTS.csv --relevant RELEVANT.csv "
            f"--documents_by {shlex.quote(teacher.model)}"
        )
        with_results = "--own_data results/own_queries.json"
        columns = "; the files have the columns id and text, the last one query_id and document_id"
        program = [
            f"queries = SentenceTransformer({str(output)!r})",
            f"documents = SentenceTransformer({(teacher.hub_id or locate(teacher.model))!r})",
            f"index = documents.encode_document({texts})",
            'print(queries.similarity(queries.encode(["A QUERY"]), index))',
        ]
    return "\n".join(
        [
            "Next, in Python:",
            "  from sentence_transformers import SentenceTransformer",
            *(f"  {line}" for line in program),
            f'On the command line, after pip install "st-static[publish]"{columns}:',
            f"  st-static evaluate {model} {judged_on}",
            f"  st-static card {model} {with_results} --work_dir {work}",
        ]
    )


def _build_ensemble(config: EnsembleConfig) -> None:
    require_members(config)
    from st_static.ensemble.build_ensemble import build_ensemble

    figures = dict(build_ensemble(config))
    print(
        f"Built {config.output}\nCorrelation with the exact ensemble's cosines, on "
        f"{figures.pop('random_pairs'):,} random pairs of sentences of Python's documentation: "
        f"{figures.pop('fused_agreement')} fused, {figures.pop('model_agreement')} as written"
    )
    for name, value in figures.items():
        print(f"{name}: {value}")


# -- to the Hub ------------------------------------------------------------------------


@dataclass(frozen=True)
class Publication:
    """Says where a model is published once it is built, and on what it is scored before."""

    repo_id: str
    tasks: Sequence[str] | None = None  # by default those of the recipe's languages
    data: Path | None = None  # a folder of local copies of their datasets

    def check(self, config: BuildConfig) -> None:
        """Check, before hours of work, what would fail after them."""
        with needed_by("This command", "publish"):
            require_packages(*card.PACKAGES)
        if config.is_for_queries:
            raise ValueError(
                "The model encodes queries for its teacher's documents, which MTEB's tasks do not "
                "score by themselves: build it, then st-static evaluate with --queries and "
                "--documents_by, st-static card with --own_data, and st-static publish."
            )
        from st_static.cards.check_card import check_licence, check_recipe
        from st_static.cards.publish import find_token

        for problem in check_recipe(config.recipe()):
            raise ValueError(problem)
        license_id = config.export.license or "unknown"
        if license_id == "other":
            raise ValueError(
                "export.license is other, whose terms are yours to write into the card: build, "
                "write the card and its notes, then st-static publish."
            )
        for problem in check_licence({"license": license_id}):
            raise ValueError(f"export.license: {problem}")
        evaluate.check(self.evaluation(config))
        check_repo_id(self.repo_id)
        find_token()
        require_hub(self.repo_id)

    def run(self, config: BuildConfig) -> int:
        """Score the built model, write its card and publish it; the first that fails ends it."""
        evaluation = self.evaluation(config)
        if status := evaluate.evaluate(evaluation):
            return status
        from st_static.cards.plan_card import CardInputs
        from st_static.evaluate.benchmark import results_folder

        inputs = CardInputs(
            results=[results_folder(config.output, is_local=self.data is not None)],
            published=None,
            benchmark=evaluation.benchmark or "",
            work_dir=Path(config.work_dir),
            hub_id=self.repo_id,
        )
        output = Path(config.output)
        return card.write(output, inputs) or publish.publish_folder(output, self.repo_id)

    def evaluation(self, config: BuildConfig) -> evaluate.Evaluation:
        """Say what is scored."""
        benchmark = None if self.tasks else benchmark_of(recorded_languages(config.recipe()))
        benchmark = BENCHMARK if benchmark == ENGLISH_MTEB else benchmark
        return evaluate.Evaluation(config.output, benchmark, self.tasks, data=self.data)
