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
import contextlib
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import psutil
from extraction_speed import bare_seconds
from measuring import log_to_terminal, parser_of
from rich.console import Console
from rich.table import Table
from sentence_transformers import SentenceTransformer
from sts import DEV_MEAN, sts_scores
from tokenizers import Tokenizer

from st_static.commands.build import parse_build
from st_static.commands.options import options_in, with_underscores
from st_static.distill.config import BuildConfig
from st_static.distill.pipeline import build
from st_static.distill.stages import BuildResult
from st_static.distill.teacher import Teacher
from st_static.model.head import Head
from st_static.model.vectors import sentence_means
from st_static.tokens.fast_tokenizer import FastTokenizer

CORPUS_STAGES = ("sentences", "vocabulary", "selection")


class TableEncoder:
    """A word table, with a head or without, as something that encodes."""

    def __init__(self, table: np.ndarray, tokenizer: Tokenizer, head: Head | None = None) -> None:
        self.table, self.head = table, head
        self.tokenize = FastTokenizer(tokenizer)

    def encode(self, sentences: list[str], /) -> np.ndarray:
        """The mean of each text's word vectors, and what the head makes of it, [B, D]."""
        means = sentence_means(self.table, self.tokenize(sentences))
        return self.head(means) if self.head else means


class PeakMemory:
    """The most memory that this process and its children hold together, looked at every second.

    Pages that several of them share count once (Linux's proportional set size). `bytes` is the peak
    so far.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        process = psutil.Process()
        while not self._done.wait(1):
            with contextlib.suppress(psutil.Error):  # a child that ends meanwhile
                family = [process, *process.children(recursive=True)]
                self.bytes = max(self.bytes, sum(p.memory_full_info().pss for p in family))


def development_config(
    corpus: Path, output: str, overrides: Sequence[str], values: Mapping[str, str] | None = None
) -> BuildConfig:
    """The development recipe on the text files of a folder.

    Overrides are options of `st-static build`; values, by option, are taken where there are none.
    """
    overrides = with_underscores(overrides)
    usual = {
        "--corpus.files": f"{corpus}/*.txt*",
        "--output": output,
        "--work_dir": "work/development",
        **(values or {}),
    }
    given = set(options_in(overrides))
    options = [f"{name}={value}" for name, value in usual.items() if name not in given]
    recipe = str(Path(__file__).with_name("development.yaml"))
    config = parse_build([recipe, *options, *overrides])
    if config.teachers:
        raise SystemExit("This measures by one teacher: give --teacher.model, not --teachers.")
    return config


def variant_config(
    variants: Mapping[str, Mapping[str, str]],
    name: str,
    folder: str,
    corpus: Path,
    overrides: Sequence[str] = (),
) -> BuildConfig:
    """The development recipe in one of several variants, whose values are given by option.

    Models go to `FOLDER-0` and so on. Overrides take the place of a variant's own values.
    """
    output = f"{folder}-{list(variants).index(name)}"
    return development_config(corpus, output, overrides, variants[name])


def development_parser(docstring: str | None) -> argparse.ArgumentParser:
    """A parser of a program that builds the recipe: its corpus, and the tasks."""
    parser = parser_of(docstring)
    parser.add_argument("--corpus", type=Path, required=True, help="folder of .txt[.gz|.xz] files")
    parser.add_argument("--data", type=Path, required=True, help="folder of the tasks")
    return parser


def parse_variants(parser: argparse.ArgumentParser) -> tuple[argparse.Namespace, list[str]]:
    """The arguments of a program that builds variants, and its overrides."""
    arguments, overrides = parser.parse_known_args()
    if any(option.partition("=")[0] == "--output" for option in overrides):
        parser.error("--output cannot be given: each build has an output of its own in models/")
    return arguments, overrides


def stage_table(result: BuildResult, teacher: Teacher, data: Path) -> Table:
    """Scores, teacher agreement and seconds by stage."""
    tokenizer = result.work.tokenizer
    table = Table(title="Spearman x 100", caption=f"model: {result.output}")
    for column in ("stage", "STS12", "STS13", "STSb validation", DEV_MEAN, "agreement", "seconds"):
        table.add_column(column, justify="left" if column == "stage" else "right")

    def add(name: str, scores: dict[str, float], agreement: float | None, seconds: str) -> None:
        """Add a row."""
        cells = [f"{scores[key]:.2f}" for key in ("STS12", "STS13", "STSBenchmark", DEV_MEAN)]
        table.add_row(name, *cells, "" if agreement is None else f"{agreement:.2f}", seconds)

    add("teacher", sts_scores(teacher.model, data), None, "")
    for stage in result.stages:
        seconds = f"{stage.seconds:.1f}"
        if stage.name in CORPUS_STAGES:
            table.add_row(stage.name, "", "", "", "", "", seconds)
            continue
        encoder = TableEncoder(
            result.work.table(stage.name), tokenizer, result.work.head(stage.name)
        )
        scores = sts_scores(encoder, data)
        add(stage.name, scores, stage.figures["teacher_agreement"], seconds)
    exported = SentenceTransformer(str(result.output), device="cpu")
    dimension = int(exported.get_embedding_dimension() or 0)
    for size in sorted({s for s in (dimension, 128, 64) if s <= dimension}, reverse=True):
        scores = sts_scores(exported, data, truncate_dim=size)
        add(f"exported, first {size} dimensions", scores, None, "")
    return table


def print_ratios(result: BuildResult, teacher: Teacher) -> None:
    """Print how the build compares with the bare teacher, and what it needs."""
    figures = {stage.name: stage.figures for stage in result.stages}
    seconds = {stage.name: stage.seconds for stage in result.stages}
    total = sum(seconds.values())
    bare = bare_seconds(teacher, result.work.selected)
    corpus_seconds = sum(seconds[name] for name in CORPUS_STAGES)
    megabytes = figures["sentences"]["bytes"] / 1e6
    selection = figures["selection"]
    print(f"distinct sentences per pair served: {selection['sentences_per_pair']:.3f}")
    print(f"corpus stages: {megabytes / corpus_seconds:.1f} MB of raw text a second")
    print(f"bare teacher on the same batches: {bare:.0f} s (extrapolated from 5 % of them)")
    print(f"whole build: {total:.0f} s = 1.25 x bare + {total - 1.25 * bare:.0f} s")


def main() -> None:
    """Build, and print."""
    parser = development_parser(__doc__)
    parser.add_argument("--output", required=True, help="folder for the exported model")
    arguments, overrides = parser.parse_known_args()
    log_to_terminal()
    config = development_config(arguments.corpus, arguments.output, overrides)
    with PeakMemory() as peak:
        result = build(config)
    teacher = Teacher.load(config.teacher)
    Console(width=120).print(stage_table(result, teacher, arguments.data))
    print_ratios(result, teacher)
    print(f"peak memory, all processes together: {peak.bytes / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
