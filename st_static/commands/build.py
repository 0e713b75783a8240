"""The command `build`: a recipe in, a model out; with `--publish`, on the Hub."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from st_static.commands.next_steps import next_steps
from st_static.commands.options import with_underscores
from st_static.commands.publication import BENCHMARK, Publication
from st_static.commands.terminal import hide_bars_of_libraries, log_to_terminal
from st_static.dependencies import needed_by
from st_static.distill.config import BuildConfig
from st_static.distill.stated_facts import without_false_facts
from st_static.ensemble.config import EnsembleConfig
from st_static.languages import recorded_languages

if TYPE_CHECKING:
    from st_static.commands.recipe_options import RecipeParser

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
    elif default_recipe and not any(a.split("=")[0] == "--config" for a in arguments):
        arguments[:0] = ["--config", default_recipe]
    printing = [a for a in arguments if a.partition("=")[0] == "--print_config"]
    kind = EnsembleConfig if _names_members(arguments) else BuildConfig
    parser = _parser(kind)
    arguments = parser.with_values_of_switches([a for a in arguments if a not in printing])
    values = parser.instantiate(parser.read(arguments)).as_dict()
    publication = _publication(*(values.pop(name, None) for name in ("publish", "tasks", "data")))
    del values["config"]
    config = _without_false_facts(kind(**values), parser, arguments)
    if printing:  # the recipe as it is built, not as it stands in file and options
        parser.parse_args([f"--config={json.dumps(asdict(config))}", *printing])
    return config, publication


def _parser(config: type[Recipe]) -> RecipeParser:
    """The parser of `build`: a recipe, an option for every value in it, and those to publish."""
    from st_static.commands.recipe_options import RecipeParser

    parser = RecipeParser(
        config,
        prog="st-static build",
        usage="%(prog)s [RECIPE] [--OPTION VALUE ...]",
        description="Build a static sentence encoder from a teacher and a corpus; or, from a "
        "recipe that names `members`, an ensemble of static models.",
    )
    # Without defaults, for these are no values of the recipe that --print_config prints.
    options = parser.add_argument_group("publishing the model after the build")
    options.add_argument(
        "--publish",
        metavar="ORG/NAME",
        default=argparse.SUPPRESS,
        help="Also evaluate the model, write its card and publish it on the Hub, as the commands "
        "evaluate, card and publish do.",
    )
    options.add_argument(
        "--tasks",
        nargs="+",
        type=str,
        default=argparse.SUPPRESS,
        help="MTEB tasks to evaluate on; by default those of the benchmark of the recipe's "
        f"languages, {BENCHMARK} for English.",
    )
    options.add_argument(
        "--data",
        type=Path,
        default=argparse.SUPPRESS,
        help="Folder of local copies of the tasks' datasets.",
    )
    return parser


def _publication(
    repo_id: str | None, tasks: Sequence[str] | None, data: Path | None
) -> Publication | None:
    if repo_id is not None:
        return Publication(repo_id, tasks, data)
    if tasks or data:
        raise ValueError("--tasks and --data say how to evaluate for --publish ORG/NAME.")
    return None


def _without_false_facts(config: Recipe, parser: RecipeParser, arguments: list[str]) -> Recipe:
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
    from st_static.commands.recipe_file import read_yaml

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
