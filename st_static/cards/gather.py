"""Gather a card's facts: from the model, its record, results and stages, and by measuring."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from importlib.util import find_spec
from operator import attrgetter
from typing import Any

import mteb
import numpy as np
from sentence_transformers.base.modules import Transformer

from st_static.cards.facts import (
    CardFacts,
    MeasuredLimit,
    ResultEntry,
    base_models,
    teacher_id,
)
from st_static.cards.plan_card import CardPlan
from st_static.dependencies import private_name
from st_static.distill.sentence_pca import SentencePCA
from st_static.distill.stages import digest
from st_static.distill.teacher import load_modules
from st_static.distill.teacher_config import TeacherConfig
from st_static.encode.encoder import EncodeTexts
from st_static.encode.fast_encoder import FastEncoder
from st_static.evaluate import scores, speed
from st_static.evaluate.built_model import BuiltModel, held_out_agreement
from st_static.evaluate.models import EvaluatedModel, as_evaluated, load_model
from st_static.evaluate.speed import (
    FAST,
    MODEL2VEC,
    SENTENCE_TRANSFORMERS,
    MeasuredSpeed,
    is_believable,
)
from st_static.evaluate.tasks import LOCAL_REVISION, language_tag
from st_static.examples import Limit, examples_for
from st_static.languages import languages_of_record
from st_static.model.model_name import locate, read_named
from st_static.model.modules import ONNX_FILE_OF_DTYPE, PCA_FILE
from st_static.model.records import teachers_of
from st_static.model.static_model import StaticModel
from st_static.model.vectors import unit_rows
from st_static.threads import n_processors
from st_static.yaml_text import dump_yaml

logger = logging.getLogger(__name__)


def gather(plan: CardPlan, results: list[ResultEntry]) -> CardFacts:
    """Gather the facts of a planned card beside its results; a ValueError if stages are missing."""
    folder, inputs, record = plan.folder, plan.inputs, plan.record
    facts = CardFacts(
        name=plan.name,
        record=record,
        hub_id=inputs.hub_id,
        fingerprint=folder.fingerprint,
        results=results,
        own_data=plan.own_data,
        benchmark=inputs.benchmark,
        **(_score_table(plan) if inputs.results else {}),
    )
    if facts.kind in ("recipe", "fine_tuning"):
        table, head = folder.model.table, folder.model.head
        units = head.units if head else 0
        facts = replace(facts, dimension=table.shape[1], tokens=len(table), head_units=units)
    if facts.kind != "recipe":
        return facts
    # All that is measured here, or read from the stages.
    languages, of_recipe = languages_of_record(record), teachers_of(record["recipe"])
    teachers = [loaded for teacher in of_recipe if (loaded := load_teacher(teacher))]
    built = BuiltModel(folder.path, inputs.work_dir) if inputs.work_dir else None
    held_out = built.held_out_texts if built else None
    texts_from, texts = speed.texts_in(languages, held_out)
    load = speed.machine_load()  # before speeds are measured
    pca, variances = folder.path / PCA_FILE, []
    if pca.is_file():
        variances = SentencePCA.load(pca).explained_variance_.tolist()
    onnx = [dtype for dtype, name in ONNX_FILE_OF_DTYPE.items() if (folder.path / name).is_file()]
    is_int8 = "I8" in {array.dtype for array in folder.arrays.values()}
    # As in sentence-transformers, where layers carry the vector past a head.
    layers = [layer.weight for layer in head.as_dense()] if head else []
    return replace(
        facts,
        dtype="int8" if is_int8 else str(table.dtype),
        bytes_on_disk=sum(file.stat().st_size for file in folder.own_files),
        bytes_in_memory=int(sum(weights.nbytes for weights in (table, *layers))),
        recipe_hash=digest(record["recipe"]),
        seconds={name: built.work.seconds(name) for name in record["stages"]} if built else {},
        speed=_measure_speeds(plan, teachers, texts),
        speed_texts=texts_from,
        processor=speed.processor_name(),
        threads=n_processors(),
        load=load,
        limits=measure_limits(
            *(examples_for(languages).limits, FastEncoder(folder.model), teachers),
            [teacher.get("weight", 1.0) for teacher in of_recipe],
        ),
        lengths=held_out_agreement(built).to_dicts() if built else [],
        variances=[float(f"{variance:.4g}") for variance in variances],
        onnx=onnx[-1] if onnx else "",
    )


# -- mteb's results --------------------------------------------------------------------


def read_entries(plan: CardPlan) -> tuple[list[ResultEntry], dict[str, str]]:
    """Read mteb's results of a model: an entry per task, split and subset; and by task the YAML for
    `.eval_results/`, but not of local copies, whose scores the Hub would show on the datasets'
    leaderboards."""
    folders, languages = plan.inputs.results, languages_of_record(plan.record)
    counted = scores.counted_parts(plan.inputs.benchmark, languages) if folders else {}
    entries, official = [], {}
    for file in (file for folder in folders for file in sorted(folder.glob("*.json"))):
        if not (result := scores.read_result(file)):
            continue
        name, is_local = result["task_name"], result["dataset_revision"] == LOCAL_REVISION
        splits, subsets = counted.get(name, ((), ()))
        about = mteb.get_task(name).metadata
        hub_task = private_name(about, "_hf_task_type", "mteb 2.26")()[0]
        for split, rows in result["scores"].items():
            entries += [
                ResultEntry(
                    task=name,
                    type=about.type,
                    hub_task=hub_task,
                    dataset=about.dataset["path"],
                    config=row["hf_subset"],
                    languages=list(dict.fromkeys(map(language_tag, row.get("languages", [])))),
                    split=split,
                    counts=split in splits and row["hf_subset"] in subsets,
                    revision=result["dataset_revision"],
                    metric=about.main_score,
                    value=row["main_score"],
                    mteb_version=result.get("mteb_version", ""),
                    is_local=is_local,
                )
                for row in rows
            ]
        if not is_local:
            read_by_mteb = mteb.results.TaskResult.from_disk(file)
            as_on_the_hub = private_name(read_by_mteb, "_to_hf_benchmark_result", "mteb 2.26")()
            official[name] = dump_yaml([entry.to_dict() for entry in as_on_the_hub.root])
    return entries, official


def _score_table(plan: CardPlan) -> dict[str, Any]:
    """Compare a model's scores with those of its teachers and of peers, for `CardFacts`."""
    name, inputs, languages = plan.name, plan.inputs, languages_of_record(plan.record)
    teachers = base_models(plan.record)
    read = functools.partial(scores.read_results, benchmark=inputs.benchmark, languages=languages)
    # Official scores before those on local copies.
    merged, *others = sorted(map(read, inputs.results), key=lambda part: part.is_local)
    for part in others:
        merged = scores.ModelScores(
            merged.name,
            part.scores | merged.scores,
            is_local=merged.is_local or part.is_local,
            other_splits=part.other_splits | merged.other_splits,
        )
    homes = {folder.resolve().parent for folder in inputs.results}
    peers = [read(folder) for folder in inputs.peers if folder.resolve().parent not in homes]
    models = [replace(merged, name=name, revision=""), *peers]
    # Published scores of the named models, and of the teachers if there are any.
    published = scores.read_published()
    of_teachers = {teacher: published.get((inputs.benchmark, teacher)) for teacher in teachers}
    by_task = [teacher for teacher, scored in of_teachers.items() if scored and not scored.means]
    wanted = dict.fromkeys(filter(None, [*by_task, *(inputs.published or ())]))
    measured = {model.name for model in models}
    missing = [teacher for teacher in wanted if teacher not in measured]
    # The teachers, which bound the others, come second.
    models += scores.find_published(missing, inputs.benchmark, by_task=True)
    models.sort(key=lambda model: (model.name != name, model.name not in teachers))
    left_out = sorted({task for model in models for task in model.other_splits})
    table = scores.compare([model.without(left_out) for model in models], inputs.benchmark)
    rows = [
        {
            key: round(value, 4) if isinstance(value, float) else str(value).removeprefix("local/")
            for key, value in row.items()
        }
        for row in table.to_dicts()
    ]
    return {
        "scores": {"columns": table.columns, "rows": rows},
        "left_out": left_out,
        "published_source": scores.sources_of(models),
    }


# -- what is measured here -------------------------------------------------------------


def load_teacher(config: dict[str, Any]) -> EvaluatedModel | None:
    """Load a teacher, to measure beside the student; None if it is not available, or has code of
    its own: a record is not consent to run it."""
    try:
        # The checksum identifies a folder among others of its name.
        keys = ("model", "sha256", "revision", "pooling")
        options: dict[str, Any] = {key: config.get(key) for key in keys}
        model = load_modules(TeacherConfig(**options))
    except ValueError as error:
        unknown = "the teacher's speed and cosines"
        if "weight" in config:  # one of several
            unknown = f"the speed of the teacher {config['model']}, nor of the teachers' cosines"
        logger.warning("The card says nothing of %s: %s", unknown, error)
        return None
    evaluated = as_evaluated(model, locate(config["model"]), config["revision"])
    return replace(evaluated, name=teacher_id(config) or evaluated.name)


def _measure_speeds(
    plan: CardPlan, teachers: Sequence[EvaluatedModel], texts: list[str]
) -> list[MeasuredSpeed]:
    """Measure the speed of a model with each installed library, of its teachers, and of peers."""
    if not texts:
        logger.warning(
            "The card says nothing of speeds, for there is no text in %s to measure them on. Give "
            "--work_dir, the work_dir of the model's recipe.",
            " or ".join(languages_of_record(plan.record)),
        )
        return []
    name, folder, model = plan.name, plan.folder.path, plan.folder.model

    def new_encoder(static: StaticModel) -> EncodeTexts:
        """Make an encoder without cached texts, as users have it."""
        encoder = FastEncoder(static)
        encoder.tokenize.prepare()  # a part of loading, which is not measured
        return encoder.encode

    # By model and library, as `MeasuredSpeed` names them.
    makers: dict[tuple[str, str], Callable[[], EncodeTexts]] = {}
    makers[name, FAST] = functools.partial(new_encoder, model)
    others = [(name, SENTENCE_TRANSFORMERS, load_model(str(folder)))]
    if find_spec("model2vec") and not (model.head or model.segments):
        others.append((name, MODEL2VEC, load_model(f"model2vec:{folder}")))
    for spec in plan.inputs.peer_models:
        peer = load_model(spec)
        who = peer.name.removeprefix("local/")
        if who == name:
            raise ValueError(f"The peer {spec} has the model's own name: rename its folder.")
        modules = peer.sentence_transformer
        if not isinstance(modules[0] if modules else None, Transformer):
            try:
                makers[who, FAST] = functools.partial(new_encoder, read_named(spec))
            except ValueError as error:
                logger.warning("%s is not measured by FastEncoder: %s", who, error)
        if spec.startswith("model2vec:"):
            others.append((who, MODEL2VEC, peer))
        elif peer.sentence_transformer is not None:
            others.append((who, SENTENCE_TRANSFORMERS, peer))
        elif (who, FAST) not in makers:
            others.append((who, "st_static", peer))
    others += [(teacher.name, SENTENCE_TRANSFORMERS, teacher) for teacher in teachers]
    for who, library, other in others:
        makers[who, library] = functools.partial(attrgetter("encode"), other)
    speeds: list[MeasuredSpeed] = []
    for _ in range(2):  # a second time if the machine was busy
        measured = speed.sentences_per_second(makers, texts)
        speeds = [MeasuredSpeed(*who, round(of_model)) for who, of_model in measured.items()]
        if is_believable(speeds, name):
            return speeds
    logger.warning(
        "FastEncoder came out slower than sentence-transformers, twice: this machine is too "
        "busy. Write the card again when it is idle; publish refuses this one."
    )
    return speeds


def measure_limits(
    limits: Sequence[Limit],
    encoder: FastEncoder,
    teachers: Sequence[EvaluatedModel],
    weights: Sequence[float],
) -> list[MeasuredLimit]:
    """Compute the cosines of the texts that show limits, by a model and its teachers: of several
    teachers, the mean by `weights`; None if a teacher is not available."""

    def cosines(encode: EncodeTexts) -> list[float]:
        """Compute the cosine of the two texts of each limit, with four digits."""
        first = unit_rows(encode([limit.first for limit in limits]))
        second = unit_rows(encode([limit.second for limit in limits]))
        return [float(np.round(float(cosine), 4)) for cosine in (first * second).sum(axis=1)]

    ours, theirs = cosines(encoder.encode), [None] * len(limits)
    if len(teachers) == len(weights):
        of_each = [cosines(teacher.encode) for teacher in teachers]
        theirs = np.average(of_each, axis=0, weights=weights).round(4).tolist()
    return [
        MeasuredLimit(**asdict(limit), cosine=cosine, teacher=other)
        for limit, cosine, other in zip(limits, ours, theirs, strict=True)
    ]
