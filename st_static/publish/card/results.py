"""Read mteb's results for a card: one by one, and in a table beside other models."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import mteb

from st_static.card.facts import ResultEntry
from st_static.dependencies import private_name
from st_static.evaluate.scores import (
    ModelScores,
    compare,
    counted_parts,
    find_published,
    read_published,
    read_result,
    read_results,
    sources_of,
)
from st_static.evaluate.tasks import LOCAL_REVISION, language_tag
from st_static.publish.card.inputs import CardInputs


def read_entries(
    folders: Sequence[Path], benchmark: str, languages: Sequence[str]
) -> list[ResultEntry]:
    """Read mteb's results of a model, one entry per task, split and subset.

    Only the benchmark's splits and subsets count in a card's means, see `counted_parts`.
    """
    counted = counted_parts(benchmark, languages)
    entries = []
    for file in (file for folder in folders for file in sorted(folder.glob("*.json"))):
        if not (result := read_result(file)):
            continue
        name = result["task_name"]
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
                    counts=name in counted and counted[name].has(split, row["hf_subset"]),
                    revision=result["dataset_revision"],
                    metric=about.main_score,
                    value=row["main_score"],
                    mteb_version=result.get("mteb_version", ""),
                    is_local=result["dataset_revision"] == LOCAL_REVISION,
                )
                for row in rows
            ]
    return entries


def official_results(folder: Path) -> dict[str, str]:
    """Make mteb's own YAML of each result on the Hub's datasets, for `.eval_results/`.

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


def score_table(
    name: str, teacher_id: str | None, inputs: CardInputs, languages: Sequence[str]
) -> dict[str, Any]:
    """Compare a model's scores with those of its teacher and of peers, as `CardFacts` has them.

    Raises:
        ValueError: A model has published means only.
    """
    read = functools.partial(read_results, benchmark=inputs.benchmark, languages=languages)
    # Official scores before those on local copies.
    own, *others = sorted(map(read, inputs.results), key=lambda part: part.is_local)
    for part in others:
        own = ModelScores(
            own.name,
            part.scores | own.scores,
            is_local=own.is_local or part.is_local,
            other_splits=part.other_splits | own.other_splits,
        )
    homes = {folder.resolve().parent for folder in inputs.results}
    peers = [read(folder) for folder in inputs.peers if folder.resolve().parent not in homes]
    models = [replace(own, name=name, revision=""), *peers]
    # Published scores of the named models, and of the teacher if there are any.
    known = [teacher_id] if (inputs.benchmark, teacher_id) in read_published() else []
    wanted = dict.fromkeys(filter(None, [*known, *(inputs.published or ())]))
    measured = {model.name for model in models}
    published = find_published([one for one in wanted if one not in measured], inputs.benchmark)
    if means := [model.name for model in published if model.means]:
        raise ValueError(
            f"Of {', '.join(means)}, only means over the whole benchmark were published, but a "
            "card compares by task. Leave them out; st-static compare shows them."
        )
    # The teacher, which bounds the others, comes second.
    models = sorted(
        [*models, *published], key=lambda model: (model.name != name, model.name != teacher_id)
    )
    left_out = sorted({task for model in models for task in model.other_splits})
    table = compare([model.without(left_out) for model in models], inputs.benchmark)
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
        "published_source": sources_of(models),
    }
