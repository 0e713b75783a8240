"""Scores of several models side by side: Table 1 of the paper for any set of models."""

from __future__ import annotations

import csv
import difflib
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import polars as pl
from mteb.abstasks import AbsTask

from st_static.evaluate.tasks import LOCAL_REVISION, benchmark_tasks
from st_static.files import atomic

PUBLISHED_FILE = Path(str(resources.files("st_static.evaluate") / "published.csv"))
PUBLISHED_SOURCE = "embeddings-benchmark/results on GitHub, commit f4cc6c8b of 20 August 2026"

# Headings of the paper's Table 1, by MTEB's task types.
TYPES = {
    "Classification": "Class.",
    "Clustering": "Clust.",
    "PairClassification": "PairClass.",
    "Reranking": "Rerank.",
    "Retrieval": "Retr.",
    "STS": "STS",
    "Summarization": "Summ.",
}
# Tasks of MTEB(eng, v1) whose texts are sentences on both sides (MTEB's category s2s).
_S2S_BY_TYPE = {
    "Classification": "AmazonCounterfactual AmazonReviews Banking77 Emotion MassiveIntent "
    "MassiveScenario MTOPDomain MTOPIntent ToxicConversations TweetSentimentExtraction",
    "Clustering": "Reddit StackExchange TwentyNewsgroups",
}
_S2S_OTHER = (
    "ArxivClusteringS2S BiorxivClusteringS2S MedrxivClusteringS2S "
    "SprintDuplicateQuestions TwitterSemEval2015 TwitterURLCorpus AskUbuntuDupQuestions "
    "MindSmallReranking SciDocsRR StackOverflowDupQuestions QuoraRetrieval BIOSSES SICK-R STS12 "
    "STS13 STS14 STS15 STS16 STS17 STSBenchmark"
)
S2S_TASKS = frozenset(
    [f"{name}Classification" for name in _S2S_BY_TYPE["Classification"].split()]
    + [f"{name}Clustering" for name in _S2S_BY_TYPE["Clustering"].split()]
    + _S2S_OTHER.split()
)


@dataclass
class ModelScores:
    """A model's main scores x 100.

    Attributes:
        name: The model.
        origin: "measured", "measured, local data" or "published"; after it the tasks that were
            scored on another split than the benchmark's.
        scores: By task; the mean over the task's splits and subsets.
        revision: Of a measured model.
        is_local: Whether scores come from local copies of the datasets.
    """

    name: str
    origin: str
    scores: dict[str, float] = field(default_factory=dict)
    revision: str = ""
    is_local: bool = False


def read_results(folder: Path, benchmark: str) -> ModelScores:
    """Read mteb's JSON files of one model.

    Args:
        folder: `results/<org__name>/<revision>`.
        benchmark: Its splits and subsets count; other splits only where a task has none of these,
            and other subsets, which may be in other languages, never.

    Raises:
        ValueError: The folder holds no results.
    """
    tasks = {task.metadata.name: task for task in benchmark_tasks(benchmark)}
    name = folder.resolve().parent.name.replace("__", "/")
    model = ModelScores(name, "measured", revision=folder.resolve().name)
    other_splits, n_files = [], 0
    for file in sorted(folder.glob("*.json")):
        try:
            result = json.loads(file.read_text("utf-8"))
            if "scores" not in result:
                continue
            score = _main_score(result["scores"], tasks.get(result["task_name"]))
            n_files += 1
        except (ValueError, TypeError, KeyError, ZeroDivisionError) as error:
            raise ValueError(f"{file} is not a complete result file of mteb: {error!r}.") from error
        if score is None:
            continue
        task = tasks.get(result["task_name"])
        if task is not None and not set(result["scores"]) & set(task.eval_splits):
            other_splits.append(f"{result['task_name']} on {'/'.join(result['scores'])}")
        model.scores[result["task_name"]] = score
        model.is_local |= result["dataset_revision"] == LOCAL_REVISION
    model.origin = ", ".join(["measured", *["local data"] * model.is_local, *other_splits])
    if not n_files:
        raise ValueError(
            f"{folder} holds no result files of mteb. Expected results/<org__name>/<revision>."
        )
    return model


def is_counted(task: AbsTask | None, split: str, subset: str) -> bool:
    """Whether a benchmark's task is scored on a split and subset; None is no task of it."""
    return task is not None and split in task.eval_splits and subset in task.hf_subsets


def _main_score(
    scores: Mapping[str, Sequence[Mapping[str, Any]]], task: AbsTask | None
) -> float | None:
    """The mean over splits and subsets; None if the benchmark has none of the subsets."""
    rows = [
        (split, row["hf_subset"], row["main_score"]) for split in scores for row in scores[split]
    ]
    if not rows:
        raise ValueError("it has no scores")
    if task is not None:  # other subsets are mostly in other languages
        official = [r for r in rows if is_counted(task, r[0], r[1])]
        rows = official or [r for r in rows if r[1] in task.hf_subsets]
        if not rows:
            return None
    return 100 * float(sum(score for _, _, score in rows)) / len(rows)


def read_published(file: Path = PUBLISHED_FILE) -> dict[tuple[str, str], ModelScores]:
    """Published scores by (benchmark, model)."""
    models: dict[tuple[str, str], ModelScores] = {}
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            key = (row["benchmark"], row["model"])
            model = models.setdefault(key, ModelScores(row["model"], "published"))
            model.scores[row["task"]] = float(row["main_score_x100"])
    return models


def find_published(names: Sequence[str], benchmark: str) -> list[ModelScores]:
    """Published scores of the named models.

    Raises:
        ValueError: There is no such benchmark, or there are none of a model; the message lists
            those that there are.
    """
    benchmark_tasks(benchmark)
    published = read_published()
    missing = [name for name in names if (benchmark, name) not in published]
    if missing:
        known = [name for b, name in published if b == benchmark]
        near = difflib.get_close_matches(missing[0], known, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(known)}."
        raise ValueError(f"No published scores of {', '.join(missing)} on {benchmark}. {hint}")
    return [published[benchmark, name] for name in names]


def compare(models: Sequence[ModelScores], benchmark: str) -> pl.DataFrame:
    """Put models side by side, over the tasks that all of them have.

    A mean carries the benchmark's or the type's name alone only if every model has every task of
    it; otherwise its heading says how many of the tasks it is over.

    Args:
        models: The models.
        benchmark: Which tasks count.

    Returns:
        One row per model: means by task type, then the averages of the benchmark.

    Raises:
        ValueError: The models have no task of the benchmark in common.
    """
    types = {t.metadata.name: t.metadata.type for t in benchmark_tasks(benchmark)}
    common = sorted(set(types).intersection(*(model.scores for model in models)))
    if not common:
        raise ValueError(
            f"The models have no task of {benchmark} in common: "
            + "; ".join(f"{model.name} has {len(model.scores)}" for model in models)
        )
    by_type: dict[str, list[str]] = defaultdict(list)
    for task in common:
        by_type[types[task]].append(task)
    averages = _averages(benchmark, common, by_type, len(types))
    n_of_type = Counter(types.values())
    headings = {
        kind: TYPES.get(kind, kind) + _share(len(by_type[kind]), n_of_type[kind])
        for kind in [*TYPES, *sorted(set(by_type) - set(TYPES))]
        if kind in by_type
    }
    names = Counter(model.name for model in models)
    rows = []
    for model in models:
        name = f"{model.name} {model.revision[:7]}" if names[model.name] > 1 else model.name
        row: dict[str, str | float] = {"model": name.strip(), "origin": model.origin}
        for kind, heading in headings.items():
            row[heading] = _mean(model.scores, by_type[kind])
        for heading, groups in averages.items():
            row[heading] = sum(_mean(model.scores, g) for g in groups) / len(groups)
        rows.append(row)
    return pl.DataFrame(rows)


def _averages(
    benchmark: str, common: list[str], by_type: Mapping[str, list[str]], n_tasks: int
) -> dict[str, list[list[str]]]:
    """The headings of averages, with the groups of tasks whose means are averaged."""
    partly = _share(len(common), n_tasks)
    if benchmark != "MTEB(eng, v1)":
        return {
            f"Mean(Task){partly}": [common],
            f"Mean(TaskType){partly}": list(by_type.values()),
        }
    s2s = [task for task in common if task in S2S_TASKS]
    averages = {f"Avg{partly or f' ({n_tasks})'}": [common]}
    if s2s:
        some = _share(len(s2s), len(S2S_TASKS))
        averages = {f"Avg-s2s{some}": [s2s], **averages}
    return averages


def _share(n: int, of: int) -> str:
    """What a heading says of a mean over part of the tasks."""
    return "" if n == of else f" ({n}/{of})"


def _mean(scores: Mapping[str, float], tasks: Sequence[str]) -> float:
    return sum(scores[task] for task in tasks) / len(tasks)


def as_markdown(table: pl.DataFrame) -> str:
    """A table as Markdown, scores with two digits."""
    with pl.Config(
        tbl_formatting="MARKDOWN",
        tbl_hide_column_data_types=True,
        tbl_hide_dataframe_shape=True,
        tbl_rows=-1,
        tbl_cols=-1,
        tbl_width_chars=-1,
        fmt_str_lengths=200,
        float_precision=2,
    ):
        return str(table)


TABLE_SUFFIXES = (".md", ".csv", ".json")


def check_place(stem: Path) -> None:
    """Check that a table would overwrite nothing but a table.

    Raises:
        ValueError: There is a file of one of the names, but not all three that a table has.
    """
    files = [stem.with_name(stem.name + suffix) for suffix in TABLE_SUFFIXES]
    there = [str(file) for file in files if file.exists()]
    if 0 < len(there) < len(files):
        raise ValueError(
            f"{' and '.join(there)} would be overwritten, and may not be a table of this command. "
            "Give another --output, or move it away."
        )


def write_table(table: pl.DataFrame, stem: Path) -> list[Path]:
    """Write a table as Markdown, CSV and JSON: `stem` with `.md`, `.csv` and `.json`."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    texts = {
        ".md": as_markdown(table) + "\n",
        ".csv": table.write_csv(float_precision=2),
        ".json": json.dumps(table.to_dicts(), indent=2) + "\n",
    }
    files = []
    for suffix, text in texts.items():
        files.append(stem.with_name(stem.name + suffix))
        with atomic(files[-1]) as partial:
            partial.write_text(text, "utf-8")
    return files
