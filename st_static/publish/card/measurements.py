"""Measure for a card: speed, and cosines that show a model's limits."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from st_static.card.facts import (
    FAST,
    MODEL2VEC,
    SENTENCE_TRANSFORMERS,
    MeasuredLimit,
    MeasuredSpeed,
    is_believable,
    teacher_id,
)
from st_static.distill.config import TeacherConfig
from st_static.distill.teacher import load_modules
from st_static.encode.encoder import EncodeTexts
from st_static.encode.fast_encoder import FastEncoder
from st_static.evaluate.analysis.built_model import BuiltModel
from st_static.evaluate.models import EvaluatedModel, as_evaluated, load_model
from st_static.evaluate.speed import fair_sample, sentences_per_second, speed_texts
from st_static.examples import Limit
from st_static.languages import is_english
from st_static.model.model_name import locate
from st_static.model.static_model import StaticModel
from st_static.model.vectors import unit_rows

logger = logging.getLogger(__name__)

# Texts at a time: small for a transformer, which pads them to the longest.
_STATIC_BATCH, _BATCH = 1024, 32


class _Contender(NamedTuple):
    """A model with one of the libraries that can load it, as `MeasuredSpeed` names them."""

    model: str
    encoder: str


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
    """Find text in a model's languages: for English the standard library's, else the corpus.

    Args:
        languages: The model's; none is English.
        built: The model with its stages, if they exist.

    Returns:
        The source, `stdlib`, `corpus`, or empty without text in the languages; and sentences.
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


def measure_speeds(
    folder: Path,
    model: StaticModel,
    name: str,
    teacher: EvaluatedModel | None,
    peers: Sequence[str],
    texts: list[str],
) -> list[MeasuredSpeed]:
    """Measure a model's speed with each installed library, beside its teacher and peers.

    Args:
        folder: The model's folder.
        model: The model.
        name: Its name.
        teacher: Its teacher, if it is available.
        peers: Names of other models, as for `load_model`.
        texts: The texts; without any, nothing is measured.
    """
    if not texts:
        return []

    def new_encoder() -> EncodeTexts:
        """Make an encoder without cached texts, as users have it."""
        encoder = FastEncoder(model)
        encoder.tokenize.prepare()  # a part of loading, which is not measured
        return encoder.encode

    makers: dict[_Contender, Callable[[], EncodeTexts]] = {_Contender(name, FAST): new_encoder}
    others = [(name, SENTENCE_TRANSFORMERS, load_model(str(folder)))]
    if _has_package("model2vec") and not (model.head or model.segments):
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
        makers[_Contender(who, library)] = functools.partial(_quiet, other)
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


def _has_package(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def measure_limits(
    limits: Sequence[Limit], encoder: FastEncoder, teacher: EvaluatedModel | None
) -> list[MeasuredLimit]:
    """Compute the cosines of the sentences that show a model's limits.

    Args:
        limits: The sentences.
        encoder: The model.
        teacher: Its teacher, if it is available.
    """
    ours = _cosines(limits, encoder.encode)
    theirs = [None] * len(limits) if teacher is None else _cosines(limits, _quiet(teacher))
    return [
        MeasuredLimit(**asdict(limit), cosine=cosine, teacher=other)
        for limit, cosine, other in zip(limits, ours, theirs, strict=True)
    ]


def _cosines(limits: Sequence[Limit], encode: EncodeTexts) -> list[float]:
    """Compute the cosine of the two texts of each limit, with four digits."""
    first = unit_rows(encode([limit.first for limit in limits]))
    second = unit_rows(encode([limit.second for limit in limits]))
    return [float(np.round(float(cosine), 4)) for cosine in (first * second).sum(axis=1)]
