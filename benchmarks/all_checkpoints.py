"""A build that keeps all checkpoints of its distillation, for `st-static analyse`.

    python benchmarks/all_checkpoints.py RECIPE.yaml [--SECTION.KEY VALUE ...]

is `st-static build` with the same arguments, which keeps the best and the last. `st-static analyse
MODEL --work_dir WORK --pairs PAIRS` then draws the way of the whole training.
"""

import sys
from typing import Any
from unittest.mock import patch

from st_static.commands.build import run
from st_static.distill import distillation

arguments_of_trainer = distillation.training_arguments


def without_limit(*arguments: Any) -> Any:
    """The Trainer's arguments from a recipe, but for the number of checkpoints."""
    made = arguments_of_trainer(*arguments)
    made.save_total_limit = None
    return made


if __name__ == "__main__":
    with patch.object(distillation, "training_arguments", without_limit):
        sys.exit(run(sys.argv[1:]))
