"""Which of a word's sentences the teacher reads: the shortest, random ones, or the longest.

    python benchmarks/selection_order.py --corpus DIR --data DIR [--orders ORDER ...] [--OPTION ...]

builds `benchmarks/development.yaml` with each order, in a work directory of its own, and prints the
dev mean of STS12, STS13 and STSBenchmark's validation split and the teacher agreement, after
extraction and after distillation, and what the teacher read. Stages that are complete are not run
again, and any value can be overridden, in all builds.

`shared` is st_static's own order: a word prefers sentences that other words chosen before it have,
up to three times as long as its N-th shortest. In the others each word takes its N `shortest`
sentences, N at `random`, or its N `longest`, of a sample of at most 2,000.
"""

from collections.abc import Collection
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import numpy as np
from development_build import TableEncoder, development_parser, parse_variants, variant_config
from measuring import log_to_terminal, print_heading, print_row
from numpy.typing import NDArray
from sts import DEV_MEAN, sts_scores

from st_static.distill.config import SelectionConfig
from st_static.distill.corpus import selection
from st_static.distill.pipeline import build
from st_static.distill.stages import BuildResult

ORDERS = {
    order: {"--work_dir": f"work/{order}"} for order in ("shared", "shortest", "random", "longest")
}


class Order:
    """What stands for the selection's choice among a word's candidates, [C], short ones first."""

    def __init__(self, name: str) -> None:
        self.name, self._rng = name, np.random.default_rng(0)

    def __call__(
        self,
        sentences: NDArray[np.int64],
        lengths: NDArray[np.int32],
        chosen: Collection[int],
        config: SelectionConfig,
    ) -> NDArray[np.int64]:
        """Pick N rows."""
        rows = np.arange(len(lengths))
        n = min(config.sentences_per_word, len(rows))
        if self.name == "random":
            return np.sort(self._rng.choice(rows, n, replace=False))
        return rows[:n] if self.name == "shortest" else rows[len(rows) - n :]


def cells_of(result: BuildResult, data: Path) -> list[float | str]:
    """The cells of a build."""
    work, cells = result.work, list[float | str]()
    for stage in ("extraction", "distillation"):
        encoder = TableEncoder(work.table(stage), work.tokenizer, work.head(stage))
        agreement = result.stage(stage).figures["teacher_agreement"]
        cells.append(f"{sts_scores(encoder, data)[DEV_MEAN]:.2f} / {agreement:.2f}")
    read = work.selected.lengths[~work.is_held_out]
    return [*cells, f"{len(read):,}", f"{read.mean():.1f}", f"{read.sum() / 1e6:.2f}"]


def main() -> None:
    """Build in each order, and print."""
    parser = development_parser(__doc__)
    parser.add_argument("--orders", nargs="+", choices=ORDERS, default=list(ORDERS))
    arguments, overrides = parse_variants(parser)
    configs = {
        order: variant_config(ORDERS, order, "models/order", arguments.corpus, overrides)
        for order in arguments.orders
    }
    if any(configs[order].work_dir != f"work/{order}" for order in configs):
        parser.error("--work_dir cannot be given: each order has one of its own in work/")
    log_to_terminal()
    columns = [
        "order",
        "extraction",
        "distilled",
        "sentences read",
        "tokens each",
        "million tokens",
    ]
    print_heading(columns)
    for order, config in configs.items():
        with nullcontext() if order == "shared" else patch.object(selection, "_pick", Order(order)):
            result = build(config)
        print_row(order, *cells_of(result, arguments.data))


if __name__ == "__main__":
    main()
