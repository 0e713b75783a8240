"""Gather a card's facts: from the model, its record, results and stages, and by measuring."""

from __future__ import annotations

from typing import Any

from st_static.card.facts import CardFacts, teacher_of
from st_static.cluster.processes import n_processors
from st_static.distill.sentence_pca import SentencePCA
from st_static.distill.stages import WorkDirectory, digest
from st_static.encode.fast_encoder import FastEncoder
from st_static.evaluate.analysis.built_model import BuiltModel
from st_static.evaluate.analysis.lengths import held_out_agreement
from st_static.evaluate.speed import machine_load, processor_name
from st_static.examples import examples_for
from st_static.languages import languages_of_record
from st_static.model.model_folder import ModelFolder
from st_static.model.modules import ONNX_FILE_OF_DTYPE, PCA_FILE
from st_static.publish.card.inputs import CardPlan
from st_static.publish.card.measurements import (
    find_speed_texts,
    load_teacher,
    measure_limits,
    measure_speeds,
)
from st_static.publish.card.results import read_entries, score_table


def gather(folder: ModelFolder, plan: CardPlan) -> CardFacts:
    """Gather a card's facts about a model.

    Args:
        folder: The model.
        plan: The plan of the card.

    Raises:
        ValueError: Results are broken, or the stages are not in the work directory.
    """
    model, inputs, record = folder.model, plan.inputs, plan.record
    teacher_id, languages = teacher_of(record), languages_of_record(record)
    facts: dict[str, Any] = {
        "name": plan.name,
        "record": record,
        "hub_id": inputs.hub_id,
        "fingerprint": folder.fingerprint,
        "benchmark": inputs.benchmark,
    }
    if inputs.results:
        facts["results"] = read_entries(inputs.results, inputs.benchmark, languages)
        facts |= score_table(plan.name, teacher_id, inputs, languages)
    if "recipe" not in record:
        return CardFacts(**facts)
    teacher = load_teacher(record["recipe"]["teacher"])
    built = BuiltModel(folder.path, inputs.work_dir) if inputs.work_dir else None
    speed_texts, texts = find_speed_texts(languages, built)
    load = machine_load()  # before speeds are measured
    seconds, variances = {}, []
    if inputs.work_dir:
        work = WorkDirectory.of_record(inputs.work_dir, record["stages"])
        seconds = {name: work.seconds(name) for name in record["stages"]}
    if (folder.path / PCA_FILE).is_file():
        variances = SentencePCA.load(folder.path / PCA_FILE).explained_variance_.tolist()
    onnx = [dtype for dtype, name in ONNX_FILE_OF_DTYPE.items() if (folder.path / name).is_file()]
    # As in sentence-transformers, where layers carry the vector past a head.
    layers = [layer.weight for layer in model.head.as_dense()] if model.head else []
    return CardFacts(
        **facts,
        dimension=model.table.shape[1],
        tokens=len(model.table),
        dtype=str(model.table.dtype),
        bytes_on_disk=sum(file.stat().st_size for file in folder.own_files),
        bytes_in_memory=int(sum(weights.nbytes for weights in (model.table, *layers))),
        recipe_hash=digest(record["recipe"]),
        seconds=seconds,
        speed=measure_speeds(folder.path, model, plan.name, teacher, inputs.peer_models, texts),
        speed_texts=speed_texts,
        processor=processor_name(),
        threads=n_processors(),
        load=load,
        limits=measure_limits(examples_for(languages).limits, FastEncoder(model), teacher),
        lengths=held_out_agreement(built).to_dicts() if built else [],
        variances=[float(f"{variance:.4g}") for variance in variances],
        head_units=model.head.units if model.head else 0,
        onnx=onnx[-1] if onnx else "",
    )
