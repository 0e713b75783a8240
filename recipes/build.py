"""Build a model from a recipe: `python recipes/build.py [RECIPE] [--option value ...]`.

The same as `st-static build`; without a recipe it builds `quickstart.yaml`. `--help` lists every
option of a recipe, `--print_config` prints the whole recipe.

`--publish ORG/NAME` also evaluates the model, writes its card and publishes it on the Hub.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from st_static.cli import require_utf8, run_command
from st_static.commands import build

QUICKSTART = str(Path(__file__).with_name("quickstart.yaml"))


def run(arguments: Sequence[str]) -> int:
    """Build, as `st-static build` does."""
    return build.run(arguments, QUICKSTART)


if __name__ == "__main__":
    require_utf8()
    sys.exit(run_command(run, sys.argv[1:]))
