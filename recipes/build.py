"""Build a model from a recipe: `python recipes/build.py [RECIPE] [--option value ...]`.

Without a recipe it builds `quickstart.yaml`. `--help` lists every option of a recipe,
`--print_config` prints the whole recipe.

`--publish ORG/NAME` also evaluates the model, writes its card and publishes it on the Hub, as
`st-static evaluate`, `card` and `publish` do: on the tasks named by `--tasks` (by default those of
MTEB(eng, v2)), from local copies of their data in `--data DIR`, if that is given.
"""

import argparse
import functools
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from st_static.cli import (
    Recipe,
    build_parser,
    parse_build,
    run_build,
    run_card,
    run_command,
    run_evaluate,
    run_publish,
)
from st_static.commands.parser import UsageError, nearest, options_in
from st_static.distill.config import BuildConfig
from st_static.ensemble.config import EnsembleConfig
from st_static.hub_access import require_hub

QUICKSTART = str(Path(__file__).with_name("quickstart.yaml"))
OWN_OPTIONS = ("--publish", "--tasks", "--data")
BENCHMARK = "MTEB(eng, v2)"


def run(arguments: Sequence[str]) -> int:
    """Build, and with `--publish` all that comes after it; stops at the first failure."""
    options, recipe = read_own_options(arguments)
    build = functools.partial(run_build, default_recipe=QUICKSTART)
    if {"-h", "--help"} & set(recipe):
        print(__doc__)
    if not options.publish:
        if options.tasks or options.data:
            raise ValueError("--tasks and --data say how to evaluate for --publish ORG/NAME.")
        return build(recipe)
    config = parse_build(recipe, QUICKSTART)
    if isinstance(config, EnsembleConfig):
        raise ValueError("An ensemble is published by itself: build it, then st-static publish.")
    _check_before_hours_of_work(options.publish, config)
    which = ["--tasks", *options.tasks] if options.tasks else ["--benchmark", BENCHMARK]
    data = ["--data", options.data] if options.data else []
    return (
        build(recipe)
        or run_evaluate([config.output, *which, *data])
        or run_card(card_arguments(config, options))
        or run_publish([config.output, options.publish])
    )


def read_own_options(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Take the options of this script out of a command line; what is left is for `build`.

    Raises:
        UsageError: One of them has no value, is given twice, or is misspelt.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--publish", metavar="ORG/NAME")
    parser.add_argument("--tasks", nargs="+")
    parser.add_argument("--data")
    given = list(options_in(arguments))
    known = [*OWN_OPTIONS, *build_parser().option_names]
    for name in given:
        hint = nearest(name, known)
        if name not in known and any(hint == f" Did you mean {own}?" for own in OWN_OPTIONS):
            raise UsageError(f"There is no option {name}.{hint}")
        if name in OWN_OPTIONS and given.count(name) > 1:
            raise UsageError(f"{name} is given twice. Give it once.")
    try:
        return parser.parse_known_args(arguments)
    except argparse.ArgumentError as error:
        raise UsageError(f"{error.argument_name} needs a value.") from error


def _check_before_hours_of_work(repo_id: str, config: BuildConfig) -> None:
    """Fail now where publishing would: an extra that is missing, no token, or a recipe that does
    not say, or does not allow, what a card states."""
    from st_static.publish.checks.card import check_licence
    from st_static.publish.checks.record import check_recipe
    from st_static.publish.hub.publish import check_request, find_token

    for package in ("mteb", "jinja2", "matplotlib"):
        if importlib.util.find_spec(package) is None:
            raise ValueError(f'--publish needs {package}: pip install "st-static[publish]".')
    for problem in check_recipe(config.recipe()):
        raise ValueError(problem)
    license_id = config.export.license or "unknown"
    if license_id == "other":
        raise ValueError(
            "export.license is other, whose terms are yours to write into the card: build, write "
            "the card and its notes, then st-static publish."
        )
    for problem in check_licence({"license": license_id}):
        raise ValueError(f"export.license: {problem}")
    check_request(repo_id)
    find_token()
    require_hub(repo_id)


def card_arguments(config: Recipe, options: argparse.Namespace) -> list[str]:
    """What `st-static card` is called with."""
    from st_static.evaluate.benchmark import results_folder  # needs the extra "eval"

    results = results_folder(config.output, is_local=bool(options.data))
    place = ["--work_dir", config.work_dir, "--hub_id", options.publish]
    which = [] if options.tasks else ["--benchmark", BENCHMARK]
    return [config.output, "--results", str(results), *place, *which]


if __name__ == "__main__":
    sys.exit(run_command(run, sys.argv[1:]))
