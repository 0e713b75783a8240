"""What distillation should aim at: the teacher's cosines as they are, sharpened, or centred.

    python benchmarks/distillation_targets.py MODEL WORK_DIR [--steps 3000] [--data DIR --tasks ...]

trains the table that sentence PCA left of a built model, with the default settings, towards

- the teacher's cosines as they are, as the paper does,
- the same with a lower temperature of their own, 0.01,
- the cosines of the teacher's vectors without their mean,

and prints the agreement with the teacher on held-out sentences for each (with the teacher's
vectors as they are and without their mean), and the scores on tasks whose data lie in DIR.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from local_tasks import evaluate
from measuring import print_heading, print_row
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from st_static.distill import distillation
from st_static.distill.agreement import TableAgreement, Target
from st_static.distill.config import DistillationConfig
from st_static.distill.distillation import TrainingData, distill, sentence_ids
from st_static.evaluate.built_model import BuiltModel
from st_static.evaluate.models import load_model
from st_static.evaluate.tasks import languages_of_model
from st_static.model.export import export_model

SHARP = 0.01
TARGETS = {
    "as they are": (False, None),
    "temperature 0.01": (False, SHARP),
    "centred": (True, None),
}


class TwoTemperatures(nn.Module):
    """The distillation's loss with a temperature for the teacher alone."""

    def __init__(self, model: nn.Module, student: float, teacher: float) -> None:
        super().__init__()
        self.model, self.student, self.teacher = model, student, teacher

    def forward(self, sentence_features: list[dict[str, Tensor]], labels: Tensor) -> Tensor:
        """The loss of a batch."""
        vectors = self.model(sentence_features[0])["sentence_embedding"]
        own = torch.eye(len(labels), dtype=torch.bool)
        log_p, q = (
            (F.normalize(v) @ F.normalize(v).T / temperature).masked_fill(own, -1e9).log_softmax(1)
            for v, temperature in ((vectors, self.student), (labels.float(), self.teacher))
        )
        return -(q.exp() * log_p).sum(1).mean()


def train(
    model: BuiltModel, center: bool, sharp: float | None, config: DistillationConfig
) -> NDArray[np.float32]:
    """The table after training towards one target."""
    held_out = np.flatnonzero(model.work.is_held_out)
    target = Target.fit(model.work.sentence_vectors, model.work.for_words, center)
    data = TrainingData(
        sentence_ids(model.tokenizer, model.work.selected.texts),
        model.work.sentence_vectors,
        target,
    )
    table = model.tables["pca"]
    with tempfile.TemporaryDirectory() as folder:
        arguments = (table, model.tokenizer, data, held_out, config, Path(folder))
        if sharp is None:
            return distill(*arguments).table
        make = lambda student, config: TwoTemperatures(student, config.temperature, sharp)  # noqa: E731
        with mock.patch.object(distillation, "make_loss", make):
            return distill(*arguments).table


def agreements(model: BuiltModel, table: NDArray[np.float32]) -> list[float]:
    """Agreement with the teacher's vectors as they are, and without their mean."""
    held_out, train = np.flatnonzero(model.work.is_held_out), model.work.for_words
    ids = sentence_ids(model.tokenizer, model.work.selected.texts).take(held_out)
    vectors = model.work.sentence_vectors
    return [
        TableAgreement(ids, Target.fit(vectors, train, center)(vectors[held_out]))(table)
        for center in (False, True)
    ]


def scores(
    model: BuiltModel, table: NDArray[np.float32], name: str, tasks: list[str], data: Path
) -> list[float]:
    """Scores on tasks, in the languages of the built model."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "model"
        export_model(output, table, model.tokenizer, {})
        languages = languages_of_model(name)
        outcome = evaluate(load_model(str(output)), tasks, languages, data, Path(folder))
    return [outcome.scores[task] for task in tasks]


def main() -> None:
    """Train, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("work_dir", type=Path)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--tasks", nargs="+", default=[])
    arguments = parser.parse_args()
    model = BuiltModel(arguments.model, arguments.work_dir)
    steps = {"max_steps": arguments.steps, "eval_steps": arguments.steps}
    config = replace(DistillationConfig(), **steps)
    columns = ["target", "agreement", "agreement, centred", *arguments.tasks]
    print_heading(columns)
    for name, (center, sharp) in TARGETS.items():
        table = train(model, center, sharp, config)
        values = agreements(model, table)
        if arguments.tasks:
            values += scores(model, table, str(arguments.model), arguments.tasks, arguments.data)
        print_row(name, *values)


if __name__ == "__main__":
    main()
