"""The command `st-static`: a thin layer over the package's functions."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jsonargparse import ArgumentParser

from st_static.build.config import BuildConfig

if TYPE_CHECKING:
    from st_static.build.recipe import BuildResult

DESCRIPTION = "Static sentence encoders from any SentenceTransformer."


def build_parser() -> ArgumentParser:
    """The parser of `build`: a recipe, and an option for every value in it."""
    parser = ArgumentParser(
        prog="st-static build",
        usage="%(prog)s [RECIPE] [--OPTION VALUE ...]",
        description="Build a static sentence encoder from a teacher and a corpus.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--config", action="config", help="A recipe: a YAML file; the same as RECIPE."
    )
    parser.add_class_arguments(BuildConfig)
    return parser


def parse_build(arguments: Sequence[str], default_recipe: str | None = None) -> BuildConfig:
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
    parser = build_parser()
    values = parser.instantiate(parser.parse_args(arguments)).as_dict()
    del values["config"]
    return BuildConfig(**values)


def run_build(arguments: Sequence[str], default_recipe: str | None = None) -> BuildResult:
    """Run `build` and print its report."""
    config = parse_build(arguments, default_recipe)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    for library in ("httpx", "sentence_transformers", "datasets"):
        logging.getLogger(library).setLevel(logging.WARNING)
    # Torch takes seconds to load: not before the arguments are known to be good.
    from st_static.build.recipe import build
    from st_static.build.report import print_report

    result = build(config)
    print_report(result, config.questions)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; an error that the user can mend is printed without a traceback."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(f"{DESCRIPTION}\n\nusage: st-static build [RECIPE] [--help] [--OPTION VALUE ...]")
        return 0
    if arguments[0] != "build":
        print(f"st-static: expected the command build, but got {arguments[0]!r}", file=sys.stderr)
        return 2
    return run_command(arguments[1:])


def run_command(arguments: Sequence[str], default_recipe: str | None = None) -> int:
    """Run `build`, turning errors that the user can mend into one line and exit status 1."""
    try:
        run_build(arguments, default_recipe)
    except (ValueError, OSError) as error:
        print("Error:", " ".join(str(error).split()), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
