"""Gather a card's facts: from the model, its record, results and stages, and by measuring."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from st_static.card.facts import (
    FAST,
    MODEL2VEC,
    SENTENCE_TRANSFORMERS,
    CardFacts,
    MeasuredLimit,
    MeasuredSpeed,
    is_believable,
    teacher_id,
    teacher_of,
)
from st_static.cluster.processes import n_processors
from st_static.distill.config import TeacherConfig
from st_static.distill.sentence_pca import SentencePCA
from st_static.distill.stages import digest
from st_static.distill.teacher import load_modules
from st_static.encode.encoder import EncodeTexts
from st_static.encode.fast_encoder import FastEncoder
from st_static.evaluate.analysis.built_model import BuiltModel, held_out_agreement
from st_static.evaluate.models import EvaluatedModel, as_evaluated, load_model
from st_static.evaluate.speed import (
    fair_sample,
    machine_load,
    processor_name,
    sentences_per_second,
    speed_texts,
)
from st_static.examples import Limit, examples_for
from st_static.languages import is_english, languages_of_record
from st_static.model.model_name import locate
from st_static.model.modules import ONNX_FILE_OF_DTYPE, PCA_FILE
from st_static.model.static_model import StaticModel
from st_static.model.vectors import unit_rows
from st_static.publish.card.inputs import CardPlan
from st_static.publish.card.results import read_entries, score_table

logger = logging.getLogger(__name__)

# Texts at a time: small for a transformer, which pads them to the longest.
_STATIC_BATCH, _BATCH = 1024, 32


def gather(plan: CardPlan) -> CardFacts:
    """Gather the facts of a planned card.

    Raises:
        ValueError: Results are broken, or the stages are not in the work directory.
    """
    folder, inputs, record = plan.folder, plan.inputs, plan.record
    teacher_name, languages = teacher_of(record), languages_of_record(record)
    facts: dict[str, Any] = {
        "name": plan.name,
        "record": record,
        "hub_id": inputs.hub_id,
        "fingerprint": folder.fingerprint,
        "benchmark": inputs.benchmark,
    }
    if inputs.results:
        facts["results"] = read_entries(inputs.results, inputs.benchmark, languages)
        facts |= score_table(plan.name, teacher_name, inputs, languages)
    if "recipe" not in record:
        return CardFacts(**facts)
    model, teacher = folder.model, load_teacher(record["recipe"]["teacher"])
    built = BuiltModel(folder.path, inputs.work_dir) if inputs.work_dir else None
    texts_from, texts = find_speed_texts(languages, built)
    load = machine_load()  # before speeds are measured
    pca, variances = folder.path / PCA_FILE, []
    if pca.is_file():
        variances = SentencePCA.load(pca).explained_variance_.tolist()
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
        seconds={name: built.work.seconds(name) for name in record["stages"]} if built else {},
        speed=_measure_speeds(folder.path, model, plan.name, teacher, inputs.peer_models, texts),
        speed_texts=texts_from,
        processor=processor_name(),
        threads=n_processors(),
        load=load,
        limits=measure_limits(examples_for(languages).limits, FastEncoder(model), teacher),
        lengths=held_out_agreement(built).to_dicts() if built else [],
        variances=[float(f"{variance:.4g}") for variance in variances],
        head_units=model.head.units if model.head else 0,
        onnx=onnx[-1] if onnx else "",
    )


def load_teacher(config: dict[str, Any]) -> EvaluatedModel | None:
    """Load the teacher, to measure beside the student; None if it is not available.

    A record is not consent to run code: a teacher with its own code is left out.
    """
    try:
        # The checksum identifies a folder among others of its name.
        keys = ("model", "sha256", "revision", "pooling")
        known: dict[str, Any] = {key: config.get(key) for key in keys}
        model = load_modules(TeacherConfig(**known))
    except ValueError as error:
        logger.warning("The card says nothing of the teacher's speed and cosines: %s", error)
        return None
    evaluated = as_evaluated(model, locate(config["model"]), config["revision"])
    return replace(evaluated, name=teacher_id(config) or evaluated.name)


def find_speed_texts(languages: Sequence[str], built: BuiltModel | None) -> tuple[str, list[str]]:
    """Find sentences in a model's languages, none of which is English; see `speed_texts` of facts.

    English ones are from the standard library, others from the corpus if there are stages.
    """
    if not is_english(languages) and built is not None:
        return "corpus", fair_sample(built.held_out_texts)
    if is_english(languages) or {"en", "multilingual"} & set(languages):
        return "stdlib", speed_texts()
    logger.warning(
        "The card says nothing of speeds, for there is no text in %s to measure them on. Give "
        "--work_dir, the work_dir of the model's recipe.",
        " or ".join(languages),
    )
    return "", []


def _measure_speeds(
    folder: Path,
    model: StaticModel,
    name: str,
    teacher: EvaluatedModel | None,
    peers: Sequence[str],
    texts: list[str],
) -> list[MeasuredSpeed]:
    """Measure a model's speed with each installed library, beside its teacher and peers.

    Peers are named as for `load_model`; without texts, nothing is measured.
    """
    if not texts:
        return []

    def new_encoder() -> EncodeTexts:
        """Make an encoder without cached texts, as users have it."""
        encoder = FastEncoder(model)
        encoder.tokenize.prepare()  # a part of loading, which is not measured
        return encoder.encode

    # By model and library, as `MeasuredSpeed` names them.
    makers: dict[tuple[str, str], Callable[[], EncodeTexts]] = {(name, FAST): new_encoder}
    others = [(name, SENTENCE_TRANSFORMERS, load_model(str(folder)))]
    if find_spec("model2vec") and not (model.head or model.segments):
        others.append((name, MODEL2VEC, load_model(f"model2vec:{folder}")))
    for spec in peers:
        peer = load_model(spec)
        # Vectors from other sources are added up by st_static.
        library = MODEL2VEC if spec.startswith("model2vec:") else "st_static"
        library = SENTENCE_TRANSFORMERS if peer.sentence_transformer is not None else library
        others.append((peer.name.removeprefix("local/"), library, peer))
    if teacher is not None:
        others.append((teacher.name, SENTENCE_TRANSFORMERS, teacher))
    for who, library, other in others:
        makers[who, library] = functools.partial(_quiet, other)
    speeds: list[MeasuredSpeed] = []
    for _ in range(2):  # a second time if the machine was busy
        measured = sentences_per_second(makers, texts)
        speeds = [MeasuredSpeed(*who, round(speed)) for who, speed in measured.items()]
        if is_believable(speeds, name):
            return speeds
    logger.warning(
        "FastEncoder came out slower than sentence-transformers, twice: this machine is too "
        "busy for its speeds to be believed. Write the card again when it is idle; publish refuses "
        "this one."
    )
    return speeds


def _quiet(model: EvaluatedModel) -> EncodeTexts:
    """Make a model's encoder without a progress bar, with suitable batches."""
    transformer = model.sentence_transformer
    if transformer is None:
        return model.encode
    batch_size = _STATIC_BATCH if isinstance(transformer[0], StaticEmbedding) else _BATCH
    quiet: EncodeTexts = functools.partial(
        transformer.encode, batch_size=batch_size, show_progress_bar=False
    )
    return quiet


def measure_limits(
    limits: Sequence[Limit], encoder: FastEncoder, teacher: EvaluatedModel | None
) -> list[MeasuredLimit]:
    """Compute the cosines, of a model and its teacher, of the texts that show limits."""

    def cosines(encode: EncodeTexts) -> list[float]:
        """Compute the cosine of the two texts of each limit, with four digits."""
        first = unit_rows(encode([limit.first for limit in limits]))
        second = unit_rows(encode([limit.second for limit in limits]))
        return [float(np.round(float(cosine), 4)) for cosine in (first * second).sum(axis=1)]

    ours = cosines(encoder.encode)
    theirs = [None] * len(limits) if teacher is None else cosines(_quiet(teacher))
    return [
        MeasuredLimit(**asdict(limit), cosine=cosine, teacher=other)
        for limit, cosine, other in zip(limits, ours, theirs, strict=True)
    ]
