"""Run all analyses of a built model, or of transformers: tables and figures in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from st_static.evaluate.built_model import BuiltModel, Floats, held_out_agreement
from st_static.evaluate.models import EvaluatedModel, load_model, require_named
from st_static.evaluate.tables import write_table
from st_static.evaluate.tasks import check_data, check_names, choose_subsets, find_tasks

if TYPE_CHECKING:
    from st_static.lab.collapse import Collapse


@dataclass(frozen=True)
class Inputs:
    """The inputs of analyses beside the model; an analysis without its input is left out."""

    teacher: str | None = None  # a folder or Hub id, beside the model on texts, pairs and probes
    texts: Path | None = None  # one per line, for second-order collapse
    pairs: Path | None = None  # two paraphrases per line, a tab between them: `Sphere`
    peers: Sequence[str] = ()  # other models beside the model on pairs and probes
    tagged: Path | None = None  # `word/TAG` tokens, for parts of speech
    # Each a sentence per line, perhaps of `word/TAG` tokens, or a file of SentEval, for probing.
    probe: Sequence[Path] = ()
    tasks: Sequence[str] = ()  # of MTEB, for the ablation
    data: Path | None = None  # local copies of their datasets

    def __post_init__(self) -> None:
        for file in (self.texts, self.pairs, self.tagged, *self.probe):
            if file:
                _require(file)
        if self.teacher and not (self.texts or self.pairs or self.probe):
            raise ValueError("The teacher is measured on texts, pairs or probes: give one of them.")
        if self.peers and not (self.pairs or self.probe):
            raise ValueError("Peers are measured on pairs or probes: give one of them.")
        if self.data and not self.tasks:
            raise ValueError("Local copies of datasets are for tasks: name some.")
        check_names("task", self.tasks)
        if self.data:
            check_data(self.data, self.tasks)
        for name in filter(None, (self.teacher, *self.peers)):
            require_named(name)


def analyse(model: BuiltModel, output: Path, inputs: Inputs) -> list[Path]:
    """Write tables and figures about a model, or nothing if an input is unfit; return the files."""
    # torch and mteb take seconds to import: only after the inputs are checked.
    from st_static.evaluate.benchmark import require_any_dataset
    from st_static.evaluate.figures import draw_agreement
    from st_static.lab import collapse, norms, probing, sphere

    if inputs.tasks and inputs.data is None:
        require_any_dataset(find_tasks(tasks=inputs.tasks))
    texts = collapse.sample_lines(inputs.texts) if inputs.texts else None
    texts = collapse.texts_with_words(model, texts) if texts else None
    pairs = sphere.Sphere.read(inputs.pairs) if inputs.pairs else None
    words = norms.read_tagged(inputs.tagged) if inputs.tagged else None
    probes = probing.read_tasks(inputs.probe)
    teachers = {inputs.teacher: load_model(inputs.teacher)} if inputs.teacher else {}
    peers = {name: load_model(name) for name in inputs.peers}
    transformers = [(n, collapse.transformer_of(n, m)) for n, m in teachers.items() if texts]
    tables = {stage: model.rows_of_words(table) for stage, table in model.tables.items()}
    word_norms = norms.word_norms(model.words, tables)
    tagged = None if words is None else norms.tagged_norms(word_norms, words)
    files = norms.write_norms(word_norms, output)
    agreement = held_out_agreement(model)
    files += write_table(agreement, output / "agreement_by_length")
    files += draw_agreement(agreement, output / "agreement_by_length")
    if tagged:
        files += norms.write_parts_of_speech(*tagged, output)
    if probes:
        files += write_table(probing.probe(model, teachers | peers, probes), output / "probing")
    if texts:
        measured = collapse.collapse_of_transformers(transformers, texts)
        measured += collapse.collapse_of_stages(model, texts)
        files += _write_collapse(measured, texts, output)
    if pairs:
        table = sphere.measure_all(model, {"teacher": teachers, "peer": peers}, pairs)
        files += write_table(table, output / "alignment_uniformity")
        files += sphere.draw_sphere(table, output / "alignment_uniformity")
    if inputs.tasks:
        table = ablation(model, inputs.tasks, output, inputs.data)
        files += write_table(table, output / "ablation")
    return files


def analyse_transformers(models: Sequence[str], texts: Path, output: Path) -> list[Path]:
    """Write the second-order collapse of transformers on a file's lines; return the files."""
    _require(texts)
    for name in models:
        require_named(name)
    from st_static.lab import collapse

    lines = collapse.sample_lines(texts)
    # One at a time: several may not fit into memory.
    loaded = ((name, collapse.transformer_of(name, load_model(name))) for name in models)
    return _write_collapse(collapse.collapse_of_transformers(loaded, lines), lines, output)


def _write_collapse(measured: Sequence[Collapse], texts: Sequence[str], output: Path) -> list[Path]:
    """Write mean distances, the pairs that are lost most, and both figures."""
    from st_static.lab.collapse_figures import draw_clouds, draw_planes

    return [
        *write_table(pl.DataFrame([collapse.means() for collapse in measured]), output / "socm"),
        *write_table(pl.concat([c.worst_pairs(texts) for c in measured]), output / "socm_pairs"),
        *draw_planes(measured, output / "socm_planes"),
        *draw_clouds(measured, texts, output / "socm_clouds"),
    ]


def _require(file: Path) -> None:
    if not file.exists():
        raise ValueError(f"There is no {file}.")


def ablation(
    model: BuiltModel, tasks: Sequence[str], output: Path, data: Path | None
) -> pl.DataFrame:
    """Score the table on MTEB after each stage, and with the PCA changed (paper section 4)."""
    from st_static.encode.fast_encoder import FastEncoder
    from st_static.evaluate.benchmark import run_tasks
    from st_static.model.static_model import StaticModel

    rows = []
    for name, table in ablation_tables(model).items():
        head = model.head_of(name)
        static = StaticModel(model.tokenizer, table, model.normalize, head=head)
        encoder = EvaluatedModel(
            f"{model.name}/{name.replace(' ', '-').replace(',', '')}",
            static.digest()[:40],
            FastEncoder(static).encode,
            table.shape[1],
        )
        chosen = find_tasks(tasks=tasks)
        choose_subsets(chosen, model.languages)
        outcome = run_tasks(encoder, chosen, output, data)
        if outcome.failures:
            raise ValueError(f"The ablation's tasks failed: {outcome.failures}")
        mean = np.mean(list(outcome.scores.values()))
        rows.append({"table": name, **outcome.scores, "mean": mean})
    return pl.DataFrame(rows)


def ablation_tables(model: BuiltModel) -> dict[str, Floats]:
    """Get the word table after each stage, and after two other reductions if it is reduced."""
    from st_static.distill.sentence_pca import SentencePCA, reduce_words, sentence_sample
    from st_static.model.tokenizer import are_continuations
    from st_static.model.vectors import sentence_means

    if "pca" not in model.tables:
        return model.tables
    extracted, reduced = model.tables["extraction"], model.tables["pca"]
    dimension = reduced.shape[1]
    sample = sentence_sample(model.work.for_words, model.seed)
    sentences = sentence_means(extracted, model.tokenize(model.work.selected.texts.take(sample)))
    continues = are_continuations(model.tokenizer)
    nothing_dropped, of_words = (
        reduce_words(pca.fit(rows), extracted, continues, model.continuations)
        for pca, rows in (
            (SentencePCA(dimension, n_remove=0), sentences),
            (SentencePCA(dimension), model.rows_of_words(extracted)),
        )
    )
    trained = ("distillation", "pairs")
    return {
        "extraction": extracted,
        "sentence PCA": reduced,
        "sentence PCA, nothing dropped": nothing_dropped,
        "vocabulary PCA": of_words,
        **{stage: model.tables[stage] for stage in trained if stage in model.tables},
    }
