"""The development build: all-MiniLM-L6-v2 on a folder of text files, measured stage by stage.

    python benchmarks/development_build.py --corpus DIR --data DIR --output DIR [--OPTION VALUE ...]

builds `benchmarks/development.yaml` (60k words, 10 sentences a word, 256 dimensions) from the
`*.txt*` files of the corpus, leaves the exported model in the output folder, and prints for each
stage the scores on STS12, STS13 and STSBenchmark's validation split, teacher agreement and
seconds; then the ratios that the build is judged by. Any value of the recipe can be overridden,
for example `--distillation.matryoshka_dims=[256,128,64]`. Stages that are complete in the work
directory are not run again, and their seconds are those of the run that made them.
"""

import argparse
import logging
import resource
from pathlib import Path

import numpy as np
from extraction_speed import bare_seconds
from rich.console import Console
from rich.table import Table
from sentence_transformers import SentenceTransformer
from sts import DEV_MEAN, sts_scores
from tokenizers import Tokenizer

from st_static.build.recipe import BuildResult, build
from st_static.build.teacher import Teacher
from st_static.cli import parse_build
from st_static.model.chunks import ChunkTokenizer
from st_static.model.files import read_arrays
from st_static.model.vectors import sentence_means

CORPUS_STAGES = ("sentences", "vocabulary", "selection")


class TableEncoder:
    """A word table as something that encodes."""

    def __init__(self, table: np.ndarray, tokenizer: Tokenizer) -> None:
        self.table = table
        self.tokenize = ChunkTokenizer(tokenizer)

    def encode(self, sentences: list[str], /) -> np.ndarray:
        """The mean of each text's word vectors, [B, D]."""
        return sentence_means(self.table, self.tokenize(sentences))


def stage_table(result: BuildResult, teacher: Teacher, data: Path) -> Table:
    """Scores, teacher agreement and seconds by stage."""
    tokenizer = Tokenizer.from_file(str(result.output / "tokenizer.json"))
    table = Table(title="Spearman x 100", caption=f"model: {result.output}")
    for column in ("stage", "STS12", "STS13", "STSb validation", DEV_MEAN, "agreement", "seconds"):
        table.add_column(column, justify="left" if column == "stage" else "right")

    def add(name: str, scores: dict[str, float], agreement: float | None, seconds: str) -> None:
        cells = [f"{scores[key]:.2f}" for key in ("STS12", "STS13", "STSBenchmark", DEV_MEAN)]
        table.add_row(name, *cells, "" if agreement is None else f"{agreement:.2f}", seconds)

    add("teacher", sts_scores(teacher.model, data), None, "")
    for stage in result.stages:
        seconds = f"{stage.seconds:.1f}"
        if stage.name in CORPUS_STAGES:
            table.add_row(stage.name, "", "", "", "", "", seconds)
            continue
        vectors = read_arrays(stage.folder / "table.safetensors")["table"]
        scores = sts_scores(TableEncoder(vectors, tokenizer), data)
        add(stage.name, scores, stage.figures["teacher_agreement"], seconds)
    exported = SentenceTransformer(str(result.output), device="cpu")
    dimension = int(exported.get_embedding_dimension() or 0)
    for size in sorted({s for s in (dimension, 128, 64) if s <= dimension}, reverse=True):
        scores = sts_scores(exported, data, truncate_dim=size)
        add(f"exported, first {size} dimensions", scores, None, "")
    return table


def print_ratios(result: BuildResult, teacher: Teacher) -> None:
    """Print the figures that do not depend on how fast the machine is."""
    figures = {stage.name: stage.figures for stage in result.stages}
    seconds = {stage.name: stage.seconds for stage in result.stages}
    total = sum(seconds.values())
    bare = bare_seconds(teacher, result.stage("selection").folder)
    corpus_seconds = sum(seconds[name] for name in CORPUS_STAGES)
    megabytes = figures["sentences"]["bytes"] / 1e6
    selection = figures["selection"]
    peak = max(
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    print(f"distinct sentences per pair served: {selection['sentences_per_pair']:.3f}")
    print(f"corpus stages: {megabytes / corpus_seconds:.1f} MB of raw text a second")
    print(f"bare teacher on the same batches: {bare:.0f} s (extrapolated from 5 % of them)")
    print(f"whole build: {total:.0f} s = 1.25 x bare + {total - 1.25 * bare:.0f} s")
    print(f"peak memory of the largest process: {peak / 1e6:.2f} GB")


def main() -> None:
    """Build, and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=Path, required=True, help="folder of .txt[.gz|.xz] files")
    parser.add_argument("--data", type=Path, required=True, help="folder of the STS tasks")
    parser.add_argument("--output", required=True, help="folder for the exported model")
    arguments, overrides = parser.parse_known_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    recipe = Path(__file__).with_name("development.yaml")
    config = parse_build(
        [
            str(recipe),
            f"--corpus.files={arguments.corpus}/*.txt*",
            f"--output={arguments.output}",
            "--work_dir=work/development",
            *overrides,
        ]
    )
    result = build(config)
    teacher = Teacher.load(config.teacher)
    Console(width=120).print(stage_table(result, teacher, arguments.data))
    print_ratios(result, teacher)


if __name__ == "__main__":
    main()
