"""All analyses of one built model, and of transformers alone: tables and figures in a folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import polars as pl

from st_static.evaluate.analysis.ablation import ablation
from st_static.evaluate.analysis.built_model import BuiltModel
from st_static.evaluate.analysis.collapse import (
    collapse,
    collapse_of_transformers,
    sample_texts,
)
from st_static.evaluate.analysis.geometry import read_pairs, sphere
from st_static.evaluate.analysis.inputs import Inputs, check_transformers
from st_static.evaluate.analysis.lengths import draw_agreement, held_out_agreement
from st_static.evaluate.analysis.norms import (
    draw_norms,
    extremes,
    frequency_correlation,
    norm_changes,
    word_norms,
)
from st_static.evaluate.analysis.parts_of_speech import (
    TaggedNorms,
    draw_parts_of_speech,
    extreme_words,
    parts_of_speech,
    read_tagged,
    tagged_norms,
)
from st_static.evaluate.benchmark import require_any_dataset
from st_static.evaluate.tables import write_table
from st_static.evaluate.tasks import find_tasks
from st_static.files import reading_text

T = TypeVar("T")
_CHANGED = 20  # words at each end, without parts of speech


def analyse(model: BuiltModel, output: Path, inputs: Inputs) -> list[Path]:
    """Write tables (Markdown, CSV, JSON) and figures (SVG, PNG) about a model.

    Args:
        model: The model.
        output: Where to.
        inputs: What the analyses read.

    Returns:
        The files written.

    Raises:
        ValueError: A file holds something else, or the Hub gives no dataset of the tasks. Nothing
            is written.
    """
    if inputs.tasks and inputs.data is None:
        require_any_dataset(find_tasks(tasks=inputs.tasks))
    texts, pairs = _read(sample_texts, inputs.texts), _read(read_pairs, inputs.pairs)
    words = _read(read_tagged, inputs.tagged)
    norms = word_norms(
        model.words, {stage: model.rows_of_words(t) for stage, t in model.tables.items()}
    )
    tagged = None if words is None else tagged_norms(norms, words)
    lengths = held_out_agreement(model)
    files = [
        *_write_norms(norms, list(model.tables), output),
        *write_table(lengths, output / "agreement_by_length"),
        *draw_agreement(lengths, output / "agreement_by_length"),
    ]
    if tagged:
        files += _write_parts_of_speech(tagged, output)
    if texts:
        table = collapse(model, texts, inputs.teacher)
        files += write_table(table, output / "socm")
    if pairs:
        table = sphere(model, pairs)
        files += write_table(table, output / "alignment_uniformity")
    if inputs.tasks:
        table = ablation(model, inputs.tasks, output, inputs.data)
        files += write_table(table, output / "ablation")
    return files


def _write_norms(norms: pl.DataFrame, stages: list[str], output: Path) -> list[Path]:
    """Norms after each stage, by frequency, and the words that change most."""
    files = [
        *write_table(norms, output / "norms"),
        *write_table(frequency_correlation(norms, stages), output / "norms_and_frequency"),
        *draw_norms(norms, output / "norms"),
    ]
    changes = norm_changes(norms, stages)
    for step in changes.columns:
        words = norms.select("word", "rank", change=changes[step])
        stem = output / f"norms_{step.replace(' ', '_')}"
        files += write_table(extremes(words, "change", _CHANGED), stem)
    return files


def _write_parts_of_speech(norms: TaggedNorms, output: Path) -> list[Path]:
    """Norms of a tagged text's most frequent words, and the parts of speech at their ends."""
    words = extreme_words(norms)
    counts = parts_of_speech(words, norms.words)
    correlation = frequency_correlation(norms.words, [*norms.stages, *norms.steps])
    return [
        *write_table(norms.words, output / "tagged_norms"),
        *write_table(correlation, output / "tagged_norms_and_frequency"),
        *write_table(words, output / "tagged_extremes"),
        *write_table(counts, output / "parts_of_speech"),
        *draw_parts_of_speech(counts, norms.steps, output / "parts_of_speech"),
    ]


def analyse_transformers(models: Sequence[str], texts: Path, output: Path) -> list[Path]:
    """Write the second-order collapse of transformers: a base and a fine-tuned one, say.

    Args:
        models: Folders or Hub ids.
        texts: A file of texts, one per line.
        output: Where to.

    Returns:
        The files written.

    Raises:
        ValueError: There is no such file or model, the file holds something else, or a model is no
            transformer. Nothing is written.
    """
    check_transformers(models, texts)
    with reading_text(texts):
        sample = sample_texts(texts)
    return write_table(collapse_of_transformers(models, sample), output / "socm")


def _read(read: Callable[[Path], T], file: Path | None) -> T | None:
    """Read an input if there is one; an error names the file."""
    if file is None:
        return None
    with reading_text(file):
        return read(file)
