"""The command `build`: a recipe in, a model out; with `--publish`, on the Hub."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from st_static.commands.next_steps import next_steps
from st_static.commands.options import (
    CommandParser,
    UsageError,
    options_in,
    refusing,
    with_underscores,
)
from st_static.commands.publication import BENCHMARK, Publication
from st_static.commands.recipe import (
    add_recipe,
    checked_keys,
    hints_of,
    make_recipe,
    read_recipe,
    values_of,
)
from st_static.commands.terminal import hide_bars_of_libraries, log_to_terminal
from st_static.dependencies import needed_by
from st_static.distill.config import BuildConfig
from st_static.distill.stated_facts import without_false_facts
from st_static.ensemble.config import EnsembleConfig
from st_static.languages import recorded_languages
from st_static.texts.columns import is_broken

Recipe = BuildConfig | EnsembleConfig


@needed_by("This command", "build")
def run(arguments: Sequence[str], default_recipe: str | None = None) -> int:
    """Run `build`.

    Args:
        arguments: The command line.
        default_recipe: The recipe that is read when none is given.
    """
    config, publication = _parse(arguments, default_recipe)
    if publication is None:
        return build_model(config)
    if isinstance(config, EnsembleConfig):
        raise ValueError("An ensemble is published by itself: build it, then st-static publish.")
    publication.check(config)
    return build_model(config) or publication.run(config)


# -- the command line ------------------------------------------------------------------


def parse_build(arguments: Sequence[str], default_recipe: str | None = None) -> Recipe:
    """Turn `[RECIPE] [--option value ...]` into a configuration.

    Args:
        arguments: The command line. Options override the recipe.
        default_recipe: The recipe that is read when none is given.
    """
    return _parse(arguments, default_recipe)[0]


def _parse(
    arguments: Sequence[str], default_recipe: str | None
) -> tuple[Recipe, Publication | None]:
    arguments = with_underscores(arguments)
    if arguments and not arguments[0].startswith("-"):
        arguments.insert(0, "--config")
    elif default_recipe and "--config" not in options_in(arguments):
        arguments[:0] = ["--config", default_recipe]
    with refusing("st-static build"):
        for argument in filter(is_broken, arguments):
            raise UsageError(f"A recipe is text in UTF-8, but {argument!r} is not.")
        files = {file: read_recipe(file) for file in values_of("--config", arguments)}
        keys = {key for values in files.values() for key in values}
        is_ensemble = "members" in keys or "--members" in options_in(arguments)
        kind = EnsembleConfig if is_ensemble else BuildConfig
        options = vars(_parser(kind).read(arguments))
        recipes = [checked_keys(values, kind, file) for file, values in files.items()]
        given = {key: value for key, value in options.items() if key in hints_of(kind)}
        values: dict[str, Any] = {}
        places: dict[str, str] = {}
        for file, found in zip(files, recipes, strict=True):
            values |= found
            places |= {key: f"{file}, {key}" for key in found}
        values |= given
        places |= {key: f"--{key}" for key in given}
        config: Recipe = make_recipe(kind, values, places)
    if recipes:
        later = {key for recipe in recipes[1:] for key in recipe}
        config = without_false_facts(config, recipes[0], later | set(given))
    if options["print_config"]:  # as it is built, not as it stands in file and options
        print(yaml.safe_dump(asdict(config), sort_keys=False, allow_unicode=True), end="")
        raise SystemExit(0)
    repo_id, tasks, data = options["publish"], options["tasks"], options["data"]
    if repo_id is None and (tasks or data):
        raise ValueError("--tasks and --data say how to evaluate for --publish ORG/NAME.")
    return config, None if repo_id is None else Publication(repo_id, tasks, data)


def _parser(recipe: type[Recipe]) -> CommandParser:
    """The parser of `build`: a recipe, an option for every value in it, and those to publish."""
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
        metavar="FILE",
        help="A recipe: a YAML file; the same as RECIPE. A later one overrides an earlier one.",
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
    """Build what a recipe says, and print the report.

    Returns:
        The exit status: 130 if the build was interrupted.
    """
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
        print(
            "Interrupted. Run the same command again: it goes on where it stopped.", file=sys.stderr
        )
        return 130
    return 0


def _build(config: BuildConfig) -> None:
    from st_static.distill.sources import check_places, require_sources

    # Torch takes seconds to load: not before what the recipe names is known to be there.
    check_places(config)
    require_sources(config)
    from st_static.distill.pipeline import build
    from st_static.distill.report import print_report

    print_report(build(config), config.questions)
    output, languages = Path(config.output), recorded_languages(config.recipe())
    print(f"\n{next_steps(output, Path(config.work_dir), languages)}")
    _tell_of_an_older_card(output)


def _tell_of_an_older_card(model: Path) -> None:
    """Say so where the card beside a model was written for what was there before."""
    from st_static.card.render import marked
    from st_static.model.model_folder import ModelFolder
    from st_static.model.modules import CARD_FILE

    card = model / CARD_FILE
    known = marked(card.read_text("utf-8", errors="replace")) if card.is_file() else None
    if known is not None and known != ModelFolder(model).fingerprint:
        print(f"{card} was written for an earlier build. Write it again; your notes stay.")


def _build_ensemble(config: EnsembleConfig) -> None:
    from st_static.ensemble.sources import require_sources

    require_sources(config)
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
