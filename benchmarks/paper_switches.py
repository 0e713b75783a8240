"""What the paper, or else ours, could do otherwise, one switch at a time, on the development build.

    python benchmarks/paper_switches.py --corpus DIR --data DIR [--switches NAME ...] [--OPTION ...]

builds `benchmarks/development.yaml` into `work/development`, then again with each switch alone, and
prints the scores on STS12, STS13 and STSBenchmark's validation split, teacher agreement, the steps
that were trained, and the sentences that the teacher read. The last is all of them at once, as in
the paper. Stages that are complete in the work directory are not run again. Any value can be
overridden, in all builds: a switch then keeps its other values.
"""

from collections.abc import Sequence
from pathlib import Path

from development_build import development_parser, parse_variants, variant_config
from measuring import log_to_terminal, print_heading, print_row
from sentence_transformers import SentenceTransformer
from sts import DEV_MEAN, SPLITS, sts_scores

from st_static.distill.config import BuildConfig
from st_static.distill.pipeline import build
from st_static.distill.stages import BuildResult

SHORTEST = {"--selection.reuse_length": "1"}
NO_MINIMUM = {"--selection.min_words": "1", "--sentences.min_words": "1"}
NO_LETTERS = {"--sentences.min_letters": "0"}
ADAM = {"--distillation.optimizer": "adam"}
TWO_SENTENCES = {"--distillation.sentences_per_word": "2"}
NO_CENTRING = {"--distillation.center": "false"}
NO_PIECES = {"--vocabulary.pieces": "none"}
PREFIX = {"--pca.continuations": "0"}
BATCHES = {
    "--distillation.groups_per_batch": "0",
    "--distillation.batch_size": "128",
    "--distillation.learning_rate": "0.001",
    "--distillation.max_steps": "30000",
}
SWITCHES: dict[str, dict[str, str]] = {
    "default": {},
    "N shortest, shared only among equals": SHORTEST,
    "no minimum of words": NO_MINIMUM,
    "no filter of letters": NO_LETTERS,
    "unknown words by their longest prefix": PREFIX,
    "the teacher's own cosines": NO_CENTRING,
    "dense Adam": ADAM,
    "two training sentences a word, development of the selection": TWO_SENTENCES,
    "batches and steps of the paper": BATCHES,
    "all, and no pieces": {
        **(SHORTEST | NO_MINIMUM | NO_LETTERS | NO_PIECES | PREFIX | ADAM),
        **(TWO_SENTENCES | BATCHES | NO_CENTRING),
    },
}


def config_of(name: str, corpus: Path, overrides: Sequence[str]) -> BuildConfig:
    """The development build with a switch."""
    return variant_config(SWITCHES, name, "models/switch", corpus, overrides)


def cells_of(result: BuildResult, data: Path) -> list[float | str]:
    """The cells of a build."""
    model = SentenceTransformer(str(result.output.resolve()), device="cpu")
    scores = sts_scores(model, data)
    figures = result.stage("distillation").figures
    n_sentences = result.stage("selection").figures["sentences"]
    found = (*(scores[column] for column in (*SPLITS, DEV_MEAN)), figures["teacher_agreement"])
    return [*found, f"{figures['steps']:,}", f"{n_sentences:,}"]


def main() -> None:
    """Build with each switch, and print."""
    parser = development_parser(__doc__)
    parser.add_argument("--switches", nargs="+", choices=SWITCHES, default=list(SWITCHES))
    arguments, overrides = parse_variants(parser)
    # All of them, so that what is wrong with an option is told before the first build.
    configs = {name: config_of(name, arguments.corpus, overrides) for name in arguments.switches}
    log_to_terminal()
    columns = ["switch", *SPLITS, DEV_MEAN, "agreement", "steps", "sentences read"]
    print_heading(columns)
    for name, config in configs.items():
        print_row(name, *cells_of(build(config), arguments.data))


if __name__ == "__main__":
    main()
