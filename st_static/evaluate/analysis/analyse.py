"""All analyses of one built model, one after the other: tables and figures in a folder."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from st_static.distill.config import TeacherConfig
from st_static.distill.sources import require_teacher
from st_static.evaluate.analysis.ablation import ablation
from st_static.evaluate.analysis.built_model import BuiltModel
from st_static.evaluate.analysis.collapse import collapse, sample_texts
from st_static.evaluate.analysis.geometry import read_pairs, sphere
from st_static.evaluate.analysis.lengths import draw_agreement, held_out_agreement
from st_static.evaluate.analysis.norms import (
    draw_norms,
    frequency_correlation,
    most_changed,
    parts_of_speech,
    read_tags,
    word_norms,
)
from st_static.evaluate.benchmark import require_any_dataset
from st_static.evaluate.tables import write_table
from st_static.evaluate.tasks import find_tasks

_SOCM_TEXTS = 1000


@dataclass(frozen=True)
class Inputs:
    """What the analyses read beside the model; one that lacks its input is left out.

    Attributes:
        teacher: The teacher, for its second-order collapse; as in a recipe.
        texts: A file of texts, one per line, for second-order collapse.
        pairs: A file of two paraphrases per line, with a tab between them, for alignment and
            uniformity.
        tagged: A file of `word/TAG` tokens, for parts of speech.
        tasks: MTEB tasks for the ablation.
        data: Local copies of their datasets.
    """

    teacher: str | None = None
    texts: Path | None = None
    pairs: Path | None = None
    tagged: Path | None = None
    tasks: Sequence[str] = ()
    data: Path | None = None


def analyse(model: BuiltModel, output: Path, inputs: Inputs) -> list[Path]:
    """Write tables (Markdown, CSV, JSON) and figures (SVG, PNG) about a model.

    Args:
        model: The model.
        output: Where to.
        inputs: What the analyses read.

    Returns:
        The files written.

    Raises:
        ValueError: A file or a task is not there, a teacher comes without texts, or the Hub gives
            no dataset of the tasks.
    """
    _check_inputs(inputs)

    def write(name: str, table: pl.DataFrame) -> list[Path]:
        """Write one table in its formats."""
        return write_table(table, output / name)

    norms = word_norms(
        model.words, {stage: model.rows_of_words(t) for stage, t in model.tables.items()}
    )
    lengths = held_out_agreement(model)
    files = [
        *write("norms", norms),
        *write("norms_and_frequency", frequency_correlation(norms)),
        *write("agreement_by_length", lengths),
        *draw_norms(norms, output / "norms"),
        *draw_agreement(lengths, output / "agreement_by_length"),
    ]
    stages = list(model.tables)
    for before, after in itertools.pairwise(stages):
        files += write(f"norms_{before}_to_{after}", most_changed(norms, before, after))
    if inputs.tagged:
        files += write("norms_parts_of_speech", parts_of_speech(norms, read_tags(inputs.tagged)))
    if inputs.texts:
        texts = sample_texts(inputs.texts, _SOCM_TEXTS)
        files += write("socm", collapse(model, texts, inputs.teacher))
    if inputs.pairs:
        files += write("alignment_uniformity", sphere(model, read_pairs(inputs.pairs)))
    if inputs.tasks:
        files += write("ablation", ablation(model, inputs.tasks, output, inputs.data))
    return files


def _check_inputs(inputs: Inputs) -> None:
    """Check, before anything is written, that all inputs can be had."""
    for path in (inputs.texts, inputs.pairs, inputs.tagged, inputs.data):
        if path and not path.exists():
            raise ValueError(f"There is no {path}.")
    if inputs.teacher and not inputs.texts:
        raise ValueError("The teacher's second-order collapse needs texts to measure it on.")
    if inputs.teacher:
        require_teacher(TeacherConfig(model=inputs.teacher))
    if inputs.tasks:
        tasks = find_tasks(tasks=inputs.tasks)
        if inputs.data is None:
            require_any_dataset(tasks)
