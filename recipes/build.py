"""Build a model from a recipe: `python recipes/build.py [RECIPE] [--option value ...]`.

The same as `st-static build`; without a recipe it builds `quickstart.yaml`. `--help` lists every
option of a recipe, `--print_config` prints the whole recipe.

`--publish ORG/NAME` also evaluates the model, writes its card and publishes it on the Hub, as
`st-static evaluate`, `card` and `publish` do: on the tasks named by `--tasks` (by default those of
MTEB(eng, v2)), from local copies of their data in `--data DIR`, if that is given.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from st_static.cli import run_command
from st_static.commands import build

QUICKSTART = str(Path(__file__).with_name("quickstart.yaml"))


def run(arguments: Sequence[str]) -> int:
    """Build, and with `--publish` all that comes after it; stops at the first failure."""
    return build.run(arguments, QUICKSTART)


if __name__ == "__main__":
    sys.exit(run_command(run, sys.argv[1:]))
