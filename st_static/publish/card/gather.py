"""Gathering what a card says: from the model and its record, mteb's results, the recipe's stages,
and from measuring here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from st_static.cluster.processes import n_processors
from st_static.distill.sentence_pca import SentencePCA
from st_static.distill.stages import digest
from st_static.distill.work_directory import WorkDirectory
from st_static.encode.fast_encoder import FastEncoder
from st_static.evaluate.analysis.built_model import BuiltModel
from st_static.evaluate.analysis.lengths import held_out_agreement
from st_static.evaluate.speed import machine_load, processor_name
from st_static.examples import examples_for
from st_static.languages import recorded_languages
from st_static.model.export import PCA_FILE, own_files
from st_static.model.onnx_files import FILE_OF_DTYPE
from st_static.model.static_model import StaticModel, read_static_model
from st_static.publish.card.facts import CardFacts
from st_static.publish.card.inputs import CardInputs, name_of
from st_static.publish.card.measurements import (
    find_speed_texts,
    load_teacher,
    measure_limits,
    measure_speeds,
)
from st_static.publish.card.results import read_entries, score_table
from st_static.publish.checks.fingerprint import fingerprint
from st_static.publish.checks.record import teacher_id as find_teacher_id


def gather(folder: Path, record: dict[str, Any], inputs: CardInputs) -> CardFacts:
    """Gather what a card says of a model.

    Args:
        folder: The model.
        record: Of its build, see `read_record`.
        inputs: Where the rest comes from; results are those of this very model.

    Raises:
        ValueError: Results are broken, or the stages are not in the work directory.
    """
    model = read_static_model(folder)
    name = name_of(folder, inputs.hub_id)
    teacher_id = find_teacher_id(record["recipe"]["teacher"])
    languages = recorded_languages(record["recipe"])
    entries = read_entries(inputs.results, inputs.benchmark, languages)
    scores = score_table(name, teacher_id, inputs, languages)
    teacher = load_teacher(record["recipe"]["teacher"])
    built = BuiltModel(folder, inputs.work_dir) if inputs.work_dir else None
    texts = find_speed_texts(languages, built)
    mteb_versions = sorted({entry.mteb_version for entry in entries})
    return CardFacts(
        name=name,
        hub_id=inputs.hub_id,
        fingerprint=fingerprint(folder),
        license=record["recipe"]["export"].get("license") or "unknown",
        dimension=model.table.shape[1],
        tokens=len(model.table),
        dtype=str(model.table.dtype),
        bytes_on_disk=sum(file.stat().st_size for file in own_files(folder)),
        bytes_in_memory=_bytes_in_memory(model),
        recipe=record["recipe"],
        recipe_hash=digest(record["recipe"]),
        stages=record["stages"],
        seconds=_build_seconds(record["stages"], inputs.work_dir),
        versions=record["versions"] | {"mteb": ", ".join(mteb_versions)},
        teacher_id=teacher_id,
        results=entries,
        n_tasks=len({entry.task for entry in entries}),
        scores=scores.table,
        left_out=scores.left_out,
        benchmark=inputs.benchmark,
        published_source=scores.published_source,
        load=machine_load(),  # before speeds are measured
        processor=processor_name(),
        threads=n_processors(),
        speed=measure_speeds(folder, model, name, teacher, inputs.peer_models, texts.texts),
        speed_texts=texts.source,
        **_parts(folder, model),
        limits=measure_limits(examples_for(languages).limits, FastEncoder(model), teacher),
        lengths=held_out_agreement(built).to_dicts() if built else [],
        variances=_variances(folder),
    )


def _bytes_in_memory(model: StaticModel) -> int:
    """Of the modules in sentence-transformers, which carry the vector past a head in its layers."""
    layers = model.head.as_dense() if model.head else []
    return int(model.table.nbytes + sum(layer.weight.nbytes for layer in layers))


def _parts(folder: Path, model: StaticModel) -> dict[str, Any]:
    """What a model has beside its table."""
    onnx = ""
    for dtype, name in FILE_OF_DTYPE.items():
        onnx = dtype if (folder / name).is_file() else onnx
    return {"head_units": model.head.units if model.head else 0, "onnx": onnx}


def _build_seconds(stages: dict[str, Any], work_dir: Path | None) -> dict[str, float]:
    if work_dir is None:
        return {}
    work = WorkDirectory.of_record(work_dir, stages)
    return {name: work.seconds(name) for name in stages}


def _variances(folder: Path) -> list[float]:
    if not (folder / PCA_FILE).is_file():
        return []
    variances = SentencePCA.load(folder / PCA_FILE).explained_variance_
    return [float(f"{variance:.4g}") for variance in variances]
