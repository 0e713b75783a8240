"""How alignment and uniformity move while a table is distilled.

    python benchmarks/trajectory.py MODEL WORK_DIR --pairs FILE --figure FIGURE [--peers MODEL ...]

trains the table that sentence PCA left of a built model, with the default settings, and measures
it at every held-out loss, of which a build keeps but two checkpoints. FILE has two paraphrases per
line, with a tab between them. The teacher and other models come beside it in table and figure.
"""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from measuring import parser_of
from numpy.typing import NDArray

from st_static.distill.agreement import Target
from st_static.distill.config import DistillationConfig
from st_static.distill.distillation import TrainingData, distill, sentence_ids
from st_static.evaluate.analysis.built_model import BuiltModel
from st_static.evaluate.analysis.sphere import Sphere, draw_sphere, measure_others
from st_static.evaluate.tables import as_markdown
from st_static.model.vectors import sentence_means


class Way:
    """The measured tables of a build: what `distill` calls at every held-out loss."""

    def __init__(self, model: BuiltModel, sphere: Sphere, every: int) -> None:
        self.model, self.sphere, self.every = model, sphere, every
        self.rows: list[dict[str, object]] = []

    def add(self, name: str, kind: str, table: NDArray[np.float32]) -> float:
        """Measure a table, and return its uniformity."""
        measured = self.sphere.measure(
            lambda texts: sentence_means(table, self.model.tokenize(texts))
        )
        self.rows.append({"model": name, "kind": kind, **measured})
        return measured["uniformity"]

    def __call__(self, table: NDArray[np.float32], head: None = None) -> float:
        """Measure the table at a held-out loss."""
        step = self.every * (1 + sum(row["kind"] == "checkpoint" for row in self.rows))
        return self.add(f"step {step:,}", "checkpoint", table)


def train(way: Way, config: DistillationConfig) -> pl.DataFrame:
    """Measure the stages and the steps of a training."""
    model = way.model
    for stage in ("extraction", "pca"):
        way.add(stage, "stage", model.tables[stage])
    work = model.work
    data = TrainingData(
        sentence_ids(model.tokenizer, work.selected.texts),
        work.sentence_vectors,
        Target.fit(work.sentence_vectors, work.for_words),
    )
    held_out = np.flatnonzero(work.is_held_out)
    with tempfile.TemporaryDirectory() as folder:
        distilled = distill(
            model.tables["pca"],
            *(model.tokenizer, data, held_out, config, Path(folder)),
            measure=way,
        )
    way.add("distillation", "stage", distilled.table)
    return pl.DataFrame(way.rows)


def main() -> None:
    """Train, measure, print and draw."""
    parser = parser_of(__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("work_dir", type=Path)
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--figure", type=Path, required=True, help="without its suffix")
    parser.add_argument("--teacher", nargs="*", default=[])
    parser.add_argument("--peers", nargs="*", default=[])
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--every", type=int, default=100)
    options = parser.parse_args()
    sphere = Sphere.read(options.pairs)
    way = Way(BuiltModel(options.model, options.work_dir), sphere, options.every)
    steps = {"max_steps": options.steps, "eval_steps": options.every}
    others = [
        measure_others(options.teacher, "teacher", sphere),
        measure_others(options.peers, "peer", sphere),
    ]
    rows = pl.concat([train(way, replace(DistillationConfig(), **steps)), *filter(len, others)])
    print(as_markdown(rows))
    draw_sphere(rows, options.figure)


if __name__ == "__main__":
    main()
