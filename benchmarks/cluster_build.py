"""A build on a Ray cluster of two nodes with a processor each, against two processes.

Run:
    python benchmarks/cluster_build.py recipes/quickstart.yaml [--turns 3] [--OPTION VALUE ...]

Builds a recipe in turns with `engine: processes`, two workers and two threads, and with
`engine: ray`, each in a new work directory and both on the same two processors; options go to both
builds. Printed are the seconds of the whole commands, start and checks of the nodes included, and
of each stage, the median of the ratios, and whether all files of the models are equal byte for
byte; if not, the exit status is 1. A cluster runs already. Both commands have the same
OMP_NUM_THREADS, for the PCA and the training, which the driver does, round by it.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from local_cluster import (
    build_command,
    differing,
    driver_environment,
    keep_to_processors,
    model_files,
    seconds_by_stage,
    two_nodes,
)
from measuring import parser_of

PROCESSORS = 2
GOAL = 1.25


class Run(NamedTuple):
    """One build."""

    seconds: float  # of the whole command
    stages: dict[str, float]  # seconds of each
    files: dict[str, bytes]  # of the model


def run(recipe: str, folder: Path, options: Sequence[str]) -> Run:
    """Build in a new folder, which is removed again."""
    start = time.perf_counter()
    command = build_command(recipe, folder, options)
    done = subprocess.run(
        command,
        check=False,
        env=driver_environment(PROCESSORS),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with an error:\n{done.stderr[-2000:]}")
    seconds = time.perf_counter() - start
    result = Run(seconds, seconds_by_stage(folder / "work"), model_files(folder))
    shutil.rmtree(folder)
    return result


def describe(name: str, result: Run) -> str:
    """A run in a line."""
    stages = ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in result.stages.items())
    return f"{name}: {result.seconds:.1f} s ({stages})"


def main() -> int:
    """Measure, and print the ratio."""
    parser = parser_of(__doc__)
    parser.add_argument("recipe")
    parser.add_argument("--turns", type=int, default=3)
    arguments, options = parser.parse_known_args()
    keep_to_processors(PROCESSORS)
    ratios, unequal = [], set[str]()
    with tempfile.TemporaryDirectory() as folder, two_nodes():
        new = Path(folder, "build")
        engines = {
            "processes": ["--engine", "processes", "--workers", str(PROCESSORS)],
            "ray": ["--engine", "ray"],
        }
        for _ in range(arguments.turns):
            here, there = (
                run(arguments.recipe, new, [*options, *engine]) for engine in engines.values()
            )
            ratios.append(there.seconds / here.seconds)
            differ = differing(here.files, there.files)
            unequal.update(differ)
            print(describe("processes", here), describe("ray", there), sep="\n", flush=True)
            print(f"ratio {ratios[-1]:.2f}, {len(differ)} files differ", flush=True)
    print(f"the cluster takes {statistics.median(ratios):.2f} times as long (goal {GOAL})")
    print(f"files that differ: {', '.join(sorted(unequal)) or 'none'}")
    return 1 if unequal else 0


if __name__ == "__main__":
    sys.exit(main())
