"""Build a model from a recipe: `python recipes/build.py [RECIPE] [--option value ...]`.

Without a recipe it builds `quickstart.yaml`. `--help` lists every option, `--print_config` prints
the whole recipe.
"""

import functools
import sys
from pathlib import Path

from st_static.cli import run_build, run_command

if __name__ == "__main__":
    quickstart = Path(__file__).with_name("quickstart.yaml")
    build = functools.partial(run_build, default_recipe=str(quickstart))
    sys.exit(run_command(build, sys.argv[1:]))
