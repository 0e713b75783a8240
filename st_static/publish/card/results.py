"""mteb's results of a model as a card has them: one by one, and in a table beside other models."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import mteb

from st_static.dependencies import private_name
from st_static.evaluate.scores import (
    CountedParts,
    ModelScores,
    compare,
    counted_parts,
    find_published,
    read_published,
    read_result,
    read_results,
    sources_of,
)
from st_static.evaluate.tasks import LOCAL_REVISION
from st_static.publish.card.facts import ResultEntry
from st_static.publish.card.inputs import CardInputs


def read_entries(
    folders: Sequence[Path], benchmark: str, languages: Sequence[str]
) -> list[ResultEntry]:
    """What mteb wrote of a model, one entry per task, split and subset.

    Args:
        folders: The results.
        benchmark: Its own splits and subsets count in a card's means, others do not.
        languages: The model's, see `counted_parts`.
    """
    counted = counted_parts(benchmark, languages)
    files = [file for folder in folders for file in sorted(folder.glob("*.json"))]
    results = [result for file in files if (result := read_result(file))]
    return [entry for result in results for entry in _entries(result, counted)]


def _entries(result: dict[str, Any], counted: dict[str, CountedParts]) -> Iterator[ResultEntry]:
    """The entries of what a JSON file of mteb's holds."""
    name = result["task_name"]
    about = mteb.get_task(name).metadata
    for split, rows in result["scores"].items():
        for row in rows:
            yield ResultEntry(
                task=name,
                type=about.type,
                hub_task=private_name(about, "_hf_task_type", "mteb 2.26")()[0],
                dataset=about.dataset["path"],
                config=row["hf_subset"],
                languages=[_language(code) for code in row.get("languages", [])],
                split=split,
                counts=name in counted and counted[name].has(split, row["hf_subset"]),
                revision=result["dataset_revision"],
                metric=about.main_score,
                value=row["main_score"],
                mteb_version=result.get("mteb_version", ""),
                is_local=result["dataset_revision"] == LOCAL_REVISION,
            )


def _language(code: str) -> str:
    """A language as mteb writes it, without its script; programming languages are one."""
    language, _, script = code.partition("-")
    return "code" if script == "Code" else language


def official_results(folder: Path) -> dict[str, str]:
    """mteb's own YAML of each result on the Hub's datasets, for `.eval_results/`.

    Results on local copies are left out: the Hub would show them on the datasets' leaderboards.
    """
    texts = {}
    for file in sorted(folder.glob("*.json")):
        content = read_result(file)
        if content and content["dataset_revision"] != LOCAL_REVISION:
            result = mteb.results.TaskResult.from_disk(file)
            as_on_the_hub = private_name(result, "_to_hf_benchmark_result", "mteb 2.26")()
            texts[f"{result.task_name}.yaml"] = str(as_on_the_hub.to_yaml())
    return texts


class ScoreTable(NamedTuple):
    """A model's scores beside those of others.

    Attributes:
        table: `columns`, and `rows` from columns to values.
        left_out: Tasks that were left out, because one of the models was scored on other splits
            than the benchmark's.
        published_source: Where published scores come from; empty without any.
    """

    table: dict[str, Any]
    left_out: list[str]
    published_source: str


def score_table(
    name: str, teacher_id: str | None, inputs: CardInputs, languages: Sequence[str]
) -> ScoreTable:
    """A model's scores beside those of its teacher and of peers.

    Args:
        name: The model.
        teacher_id: Its teacher; what was published of it is in the table.
        inputs: Names the results of the model and of peers, and the benchmark.
        languages: The model's, see `counted_parts`.

    Raises:
        ValueError: A model has published means only.
    """
    own, *peers = _measured(inputs, languages)
    models = [replace(own, name=name), *peers]
    models += _published({model.name for model in models}, teacher_id, inputs)
    # Not in the order of the arguments: the teacher, which bounds the others, comes second.
    models.sort(key=lambda model: (model.name != name, model.name != teacher_id))
    left_out = sorted({task for model in models for task in model.other_splits})
    table = compare([model.without(left_out) for model in models], inputs.benchmark)
    rows = [{k: _short(v) for k, v in row.items()} for row in table.to_dicts()]
    return ScoreTable({"columns": table.columns, "rows": rows}, left_out, sources_of(models))


def _measured(inputs: CardInputs, languages: Sequence[str]) -> list[ModelScores]:
    """The scores of the model and of its peers; its own results among theirs are left out."""
    own = {folder.resolve().parent for folder in inputs.results}
    folders = [folder for folder in inputs.peers if folder.resolve().parent not in own]
    read = functools.partial(read_results, benchmark=inputs.benchmark, languages=languages)
    return [_merged([read(folder) for folder in inputs.results]), *map(read, folders)]


def _merged(parts: Sequence[ModelScores]) -> ModelScores:
    """A model's scores from several folders, official ones before those on local copies."""
    merged, *others = sorted(parts, key=lambda part: part.is_local)
    for part in others:
        merged = ModelScores(
            merged.name,
            part.scores | merged.scores,
            is_local=merged.is_local or part.is_local,
            other_splits=part.other_splits | merged.other_splits,
        )
    return replace(merged, revision="")


def _published(measured: set[str], teacher_id: str | None, inputs: CardInputs) -> list[ModelScores]:
    """Published scores of the models named, and of the teacher if there are any."""
    available = {model for benchmark, model in read_published() if benchmark == inputs.benchmark}
    asked = inputs.published or ()
    is_known = teacher_id in available or teacher_id in asked
    names = [teacher_id] if teacher_id is not None and is_known else []
    names += [peer for peer in asked if peer != teacher_id]
    found = find_published([n for n in names if n not in measured], inputs.benchmark)
    _require_scores(found)
    return found


def _require_scores(models: Sequence[ModelScores]) -> None:
    """Refuse models of which only means were published."""
    if means := [model.name for model in models if model.means]:
        raise ValueError(
            f"Of {', '.join(means)}, only means over the whole benchmark were published, but a "
            "card compares by task. Leave them out; st-static compare shows them."
        )


def _short(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else str(value).removeprefix("local/")
