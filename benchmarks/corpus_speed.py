"""Corpus stages: megabytes of raw text a second, from files to the teacher's sentences.

    python benchmarks/corpus_speed.py --corpus DIR [--OPTION VALUE ...]

runs sentences, vocabulary and selection of `benchmarks/development.yaml` in a new work directory
and prints each stage's seconds.
"""

import argparse
import tempfile
from pathlib import Path

from st_static.commands.build import parse_build
from st_static.distill.pipeline import select_sentences


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=Path, required=True, help="folder of .txt[.gz|.xz] files")
    arguments, overrides = parser.parse_known_args()
    recipe = str(Path(__file__).with_name("development.yaml"))
    files = f"--corpus.files={arguments.corpus}/*.txt*"
    with tempfile.TemporaryDirectory() as folder:
        config = parse_build([recipe, files, f"--work_dir={folder}", *overrides])
        stages = select_sentences(config).stages
    for stage in stages:
        print(f"{stage.name}: {stage.seconds:.1f} s, {stage.figures}")
    megabytes = stages[0].figures["bytes"] / 1e6
    seconds = sum(stage.seconds for stage in stages)
    print(
        f"{megabytes:.0f} MB in {seconds:.0f} s: {megabytes / seconds:.1f} MB of raw text a second"
    )


if __name__ == "__main__":
    main()
