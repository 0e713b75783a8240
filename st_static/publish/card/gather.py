"""Gathering what a card says: from the model and its record, mteb's results, the recipe's stages,
and from measuring here."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import mteb
import numpy as np
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from st_static.distill.sentence_pca import SentencePCA
from st_static.distill.stages import digest, stage_seconds
from st_static.distill.teacher import check_weights
from st_static.encode.fast_encoder import FastEncoder
from st_static.evaluate.analysis.analyse import BuiltModel, held_out_agreement
from st_static.evaluate.compare import (
    PUBLISHED_SOURCE,
    ModelScores,
    compare,
    find_published,
    is_counted,
    read_published,
    read_results,
)
from st_static.evaluate.evaluated_model import EvaluatedModel
from st_static.evaluate.load_model import load_model
from st_static.evaluate.speed import (
    MODEL2VEC,
    NEW,
    SENTENCE_TRANSFORMERS,
    WARM,
    Encode,
    is_believable,
    machine_load,
    processor_name,
    sentences_per_second,
    speed_texts,
)
from st_static.evaluate.tasks import LOCAL_REVISION, benchmark_tasks
from st_static.files import read_json
from st_static.model.export import PCA_FILE
from st_static.model.model_name import locate
from st_static.model.static_model import StaticModel, read_static_model
from st_static.processors import n_processors
from st_static.publish.card.examples import LIMITS, cosines
from st_static.publish.card.facts import CardFacts
from st_static.publish.card.inputs import CardInputs, name_of
from st_static.publish.checks.fingerprint import fingerprint
from st_static.publish.checks.record import teacher_id as find_teacher_id

logger = logging.getLogger(__name__)

# Texts at a time: a transformer pads them to the longest.
_STATIC_BATCH, _BATCH = 1024, 32
_LOADED_FILES = ("*.safetensors", "*.json", "1_Normalize/*")


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
    entries = [
        entry for results in inputs.results for entry in read_entries(results, inputs.benchmark)
    ]
    scores, left_out = score_table(name, teacher_id, inputs)
    teacher = _load_teacher(record["recipe"]["teacher"])
    built = BuiltModel(folder, inputs.work_dir) if inputs.work_dir else None
    return CardFacts(
        name=name,
        hub_id=inputs.hub_id,
        fingerprint=fingerprint(folder),
        license=record["recipe"]["export"].get("license") or "unknown",
        dimension=model.table.shape[1],
        tokens=len(model.table),
        dtype=str(model.table.dtype),
        bytes_on_disk=sum(f.stat().st_size for kind in _LOADED_FILES for f in folder.glob(kind)),
        bytes_in_memory=model.table.nbytes,
        recipe=record["recipe"],
        recipe_hash=digest(record["recipe"]),
        stages=record["stages"],
        seconds=_build_seconds(record["stages"], inputs.work_dir),
        versions=record["versions"] | {"mteb": _mteb_versions(entries)},
        teacher_id=teacher_id,
        results=entries,
        n_tasks=len({entry["task"] for entry in entries}),
        scores=scores,
        left_out=left_out,
        benchmark=inputs.benchmark,
        published_source=PUBLISHED_SOURCE,
        load=machine_load(),
        speed=_speed(folder, name, model, teacher, teacher_id, inputs.peer_models),
        processor=processor_name(),
        threads=n_processors(),
        limits=_limits(FastEncoder(model), teacher),
        lengths=held_out_agreement(built).to_dicts() if built else [],
        variances=_variances(folder),
    )


def read_entries(folder: Path, benchmark: str) -> list[dict[str, Any]]:
    """What mteb wrote of a model, one entry per task, split and subset.

    Args:
        folder: The results.
        benchmark: Its own splits and subsets count in a card's means, others do not.

    Returns:
        Entries of `task`, `type` (mteb's), `hub_task` (the Hub's), `dataset`, `config`,
        `languages` (codes of ISO 639-3), `split`, `counts`, `revision`, `metric`, `value` (as mteb
        wrote it), `mteb_version` and `is_local`.
    """
    entries = []
    tasks = {task.metadata.name: task for task in benchmark_tasks(benchmark)}
    for file in sorted(folder.glob("*.json")):
        result = read_json(file)
        if "scores" not in result:
            continue
        about = mteb.get_task(result["task_name"]).metadata
        for split, rows in result["scores"].items():
            entries += [
                {
                    "task": result["task_name"],
                    "type": about.type,
                    "hub_task": about._hf_task_type()[0],
                    "dataset": about.dataset["path"],
                    "config": row["hf_subset"],
                    "languages": [code.partition("-")[0] for code in row["languages"]],
                    "split": split,
                    "counts": is_counted(tasks.get(result["task_name"]), split, row["hf_subset"]),
                    "revision": result["dataset_revision"],
                    "metric": about.main_score,
                    "value": row["main_score"],
                    "mteb_version": result["mteb_version"],
                    "is_local": result["dataset_revision"] == LOCAL_REVISION,
                }
                for row in rows
            ]
    return entries


def official_results(folder: Path) -> dict[str, str]:
    """mteb's own YAML of each result on the Hub's datasets, for `.eval_results/`.

    Results on local copies are left out: the Hub would show them on the datasets' leaderboards.
    """
    texts = {}
    for file in sorted(folder.glob("*.json")):
        content = read_json(file)
        if "scores" in content and content["dataset_revision"] != LOCAL_REVISION:
            result = mteb.results.TaskResult.from_disk(file)
            texts[f"{result.task_name}.yaml"] = str(result._to_hf_benchmark_result().to_yaml())
    return texts


def _mteb_versions(entries: Sequence[dict[str, Any]]) -> str:
    return ", ".join(sorted({entry["mteb_version"] for entry in entries}))


def _build_seconds(stages: dict[str, Any], work_dir: Path | None) -> dict[str, float]:
    if work_dir is None:
        return {}
    return {name: stage_seconds(work_dir / f"{name}-{s['hash']}") for name, s in stages.items()}


def _variances(folder: Path) -> list[float]:
    if not (folder / PCA_FILE).is_file():
        return []
    variances = SentencePCA.load(folder / PCA_FILE).explained_variance_
    return [float(f"{variance:.4g}") for variance in variances]


def score_table(
    name: str, teacher_id: str | None, inputs: CardInputs
) -> tuple[dict[str, Any], list[str]]:
    """The scores beside the teacher's and peers', over tasks on the benchmark's own splits."""
    models = [replace(_merged(inputs.results, inputs.benchmark), name=name)]
    own = {folder.resolve().parent for folder in inputs.results}
    peers = [folder for folder in inputs.peers if folder.resolve().parent not in own]
    models += [read_results(folder, inputs.benchmark) for folder in peers]
    published = [] if teacher_id is None else [teacher_id]
    published += [peer for peer in inputs.published if peer != teacher_id]
    measured = {model.name for model in models}
    available = {model for benchmark, model in read_published() if benchmark == inputs.benchmark}
    wanted = [n for n in published if n not in measured and n in {*available, *inputs.published}]
    models += find_published(wanted, inputs.benchmark)
    # Not in the order of the arguments: the teacher, which bounds the others, comes second.
    models.sort(key=lambda model: (model.name != name, model.name != teacher_id))
    left_out = sorted({task for model in models for task in _on_other_splits(model)})
    models = [_without(model, left_out) for model in models]
    table = compare(models, inputs.benchmark)
    rows = [{k: _short(v) for k, v in row.items()} for row in table.to_dicts()]
    return {"columns": table.columns, "rows": rows}, left_out


def _short(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else str(value).removeprefix("local/")


def _merged(folders: Sequence[Path], benchmark: str) -> ModelScores:
    """A model's scores from several folders, official ones before those on local copies."""
    parts = sorted((read_results(f, benchmark) for f in folders), key=lambda part: part.is_local)
    scores: dict[str, float] = {}
    for part in parts:
        scores = part.scores | scores
    notes = [note for part in parts for note in part.origin.split(", ")]
    return ModelScores(parts[0].name, ", ".join(dict.fromkeys(notes)), scores)


def _on_other_splits(model: ModelScores) -> list[str]:
    """The tasks that the origin of a model's scores says were scored on other splits."""
    notes = [part.partition(" on ") for part in model.origin.split(", ")]
    return [task for task, on, _ in notes if on]


def _without(model: ModelScores, tasks: Sequence[str]) -> ModelScores:
    """The same without some tasks, also in what is said of their origin."""
    origin = ", ".join(p for p in model.origin.split(", ") if p.partition(" on ")[0] not in tasks)
    scores = {task: score for task, score in model.scores.items() if task not in tasks}
    return replace(model, origin=origin, scores=scores)


def _load_teacher(config: dict[str, Any]) -> EvaluatedModel | None:
    """The teacher, to measure beside the student; None where it cannot be had.

    A record is not a consent to run code: a teacher that brings its own is left out.
    """
    try:
        if config["sha256"]:  # a folder, whose name others may have
            check_weights(locate(config["model"]), config["sha256"])
        return load_model(config["model"], revision=config["revision"])
    except ValueError as error:
        logger.warning("The card says nothing of the teacher's speed and cosines: %s", error)
        return None


def _speed(
    folder: Path,
    name: str,
    model: StaticModel,
    teacher: EvaluatedModel | None,
    teacher_id: str | None,
    peers: Sequence[str],
) -> list[dict[str, Any]]:
    warm = FastEncoder(model)
    texts = speed_texts()
    warm.encode(texts)
    makers: dict[tuple[str, str], Callable[[], Encode]] = {
        (name, WARM): lambda: warm.encode,
        (name, NEW): lambda: FastEncoder(model).encode,
        (name, SENTENCE_TRANSFORMERS): _always(load_model(str(folder))),
    }
    if _has_package("model2vec"):
        makers[name, MODEL2VEC] = _always(load_model(f"model2vec:{folder}"))
    for spec in peers:
        peer = load_model(spec)
        makers[peer.name.removeprefix("local/"), _encoder_of(spec, peer)] = _always(peer)
    if teacher is not None:
        makers[teacher_id or teacher.name, SENTENCE_TRANSFORMERS] = _always(teacher)
    labels = {"\t".join(key): make for key, make in makers.items()}
    rows: list[dict[str, Any]] = []
    for _ in range(2):  # once more if something else kept the machine busy
        speeds = sentences_per_second(labels, texts)
        rows = [
            {"model": label.split("\t")[0], "encoder": label.split("\t")[1], "speed": round(speed)}
            for label, speed in speeds.items()
        ]
        if is_believable(rows, name):
            return rows
    logger.warning(
        "FastEncoder came out slower than an encoder that does more, twice: this machine is too "
        "busy for its speeds to be believed. Write the card again when it is idle; publish refuses "
        "this one."
    )
    return rows


def _encoder_of(spec: str, model: EvaluatedModel) -> str:
    """What encodes a peer; the vectors of others than these two are read and added up here."""
    if model.sentence_transformer is not None:
        return SENTENCE_TRANSFORMERS
    return MODEL2VEC if spec.startswith("model2vec:") else "st_static"


def _always(model: EvaluatedModel) -> Callable[[], Encode]:
    encode = _quiet(model)
    return lambda: encode


def _quiet(model: EvaluatedModel) -> Encode:
    """A model's encoder without a progress bar, with batches that suit it."""
    transformer = model.sentence_transformer
    if transformer is None:
        return model.encode
    batch_size = _STATIC_BATCH if isinstance(transformer[0], StaticEmbedding) else _BATCH
    quiet: Encode = functools.partial(
        transformer.encode, batch_size=batch_size, show_progress_bar=False
    )
    return quiet


def _has_package(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _limits(encoder: FastEncoder, teacher: EvaluatedModel | None) -> list[dict[str, Any]]:
    pairs = [(limit.first, limit.second) for limit in LIMITS]
    ours = cosines(encoder.encode, pairs)
    theirs = [None] * len(pairs) if teacher is None else cosines(_quiet(teacher), pairs)
    return [
        {
            "limit": limit.limit,
            "should": limit.should,
            "first": limit.first,
            "second": limit.second,
            "cosine": _rounded(cosine),
            "teacher": None if other is None else _rounded(other),
        }
        for limit, cosine, other in zip(LIMITS, ours, theirs, strict=True)
    ]


def _rounded(value: float) -> float:
    return float(np.round(value, 4))
