"""Read scores from mteb's result files and from publications, and compare models."""

from __future__ import annotations

import csv
import difflib
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NotRequired, TypedDict

import polars as pl
from msgspec import Meta

from st_static.arguments import require
from st_static.evaluate.jmteb import FURTHER_METRICS, JMTEB_V1, MAIN_METRICS
from st_static.evaluate.tasks import (
    LOCAL_REVISION,
    OTHER_DOCUMENTS,
    benchmark_tasks,
    check_names,
    subsets_in,
)
from st_static.foreign_files import read_object

# More than the result file of a task with forty thousand pairs of languages.
_MOST_BYTES = 100_000_000

PUBLISHED_FILE = Path(str(resources.files("st_static.evaluate") / "published.csv"))
_RESULTS = "embeddings-benchmark/results on GitHub"
_COMMIT = "commit f4cc6c8b of 20 August 2026"
# Names of the models that were read from other commits, and those commits.
_LATER_COMMITS = {
    "intfloat/multilingual-e5-small": "of multilingual-e5-small, commits af6430ee, c4eaddfd, "
    "cb55c33d and d146b760, read on 22 November 2026",
    "McGill-NLP/LLM2Vec-Meta-Llama-3-8B-Instruct-mntp-unsup-simcse": "of LLM2Vec, commits "
    "186d69a7, 29546d77, 31ac2606, 389f9dce and d5e47f87, read on 23 November 2026",
}
_PUBLICATIONS = {
    "Muennighoff et al. 2022": "Muennighoff et al. 2022 (arXiv 2210.07316), by task in "
    "plotstables/all_en.txt of embeddings-benchmark/mtebpaper on GitHub, commit 75bf809a",
    "Wada et al. 2025": "Wada et al. 2025 (arXiv 2506.04624), table 1",
    "Li et al. 2024": "Li et al. 2024 (JMTEB), means of 15 data sets by the authors' own program, "
    "whose protocol is not mteb's",
}

_NO_RESULTS = "{} holds no result files of mteb. Expected results/<org__name>/<revision>."
# Headings of the paper's Table 1, by MTEB's task types.
_TYPES = {
    "Classification": "Class.",
    "Clustering": "Clust.",
    "PairClassification": "PairClass.",
    "Reranking": "Rerank.",
    "Retrieval": "Retr.",
    "STS": "STS",
    "Summarization": "Summ.",
}
# The metrics worth reading beside the main score, by the task's type, as mteb names them.
METRICS = {
    "BitextMining": ("f1", "precision", "recall"),
    "Classification": ("accuracy", "f1", "ap"),
    "PairClassification": ("max_ap", "max_f1", "max_accuracy"),
    "Reranking": ("map_at_1000", "ndcg_at_10", "mrr_at_10"),
    "Retrieval": ("ndcg_at_10", "map_at_10", "recall_at_100", "mrr_at_10"),
    "STS": ("cosine_spearman", "cosine_pearson"),
    "Summarization": ("cosine_spearman", "cosine_pearson"),
}
# All metrics that are read beside the main score.
_READ = {
    *itertools.chain(*METRICS.values()),
    *MAIN_METRICS.values(),
    *(metric for _, metric in FURTHER_METRICS.values()),
}
# Tasks of MTEB(eng, v1) whose texts are sentences on both sides (MTEB's category s2s).
_S2S_CLASSIFICATION = (
    "AmazonCounterfactual AmazonReviews Banking77 Emotion MassiveIntent MassiveScenario MTOPDomain "
    "MTOPIntent ToxicConversations TweetSentimentExtraction"
)
_S2S_OTHER = (
    "RedditClustering StackExchangeClustering TwentyNewsgroupsClustering "
    "ArxivClusteringS2S BiorxivClusteringS2S MedrxivClusteringS2S "
    "SprintDuplicateQuestions TwitterSemEval2015 TwitterURLCorpus AskUbuntuDupQuestions "
    "MindSmallReranking SciDocsRR StackOverflowDupQuestions QuoraRetrieval BIOSSES SICK-R STS12 "
    "STS13 STS14 STS15 STS16 STS17 STSBenchmark"
)
S2S_TASKS = frozenset(
    [*_S2S_OTHER.split(), *(f"{name}Classification" for name in _S2S_CLASSIFICATION.split())]
)


class _Row(TypedDict):
    hf_subset: str
    main_score: float
    languages: NotRequired[list[str]]


class _Result(TypedDict):
    task_name: str
    dataset_revision: str
    scores: Annotated[dict[str, Annotated[list[_Row], Meta(min_length=1)]], Meta(min_length=1)]
    mteb_version: NotRequired[str]


@dataclass(frozen=True)
class ModelScores:
    """A model's main scores x 100, by task: means over the task's splits and subsets. On JMTEB(v1),
    the authors' metrics are the main ones."""

    name: str
    scores: dict[str, float]
    revision: str = ""  # of a measured model
    published_by: str | None = None  # a paper; empty: mteb's own collection; None: measured here
    # All that mteb measured: task -> mteb's name of a metric -> score x 100.
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)
    # Means over a benchmark that were published without the scores of its tasks, by heading.
    means: dict[str, float] = field(default_factory=dict)
    is_local: bool = False  # on local copies of the datasets
    # The splits of each task that was scored on none of the benchmark's splits.
    other_splits: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        """The origin of the scores in words: `measured, local data, STS12 on validation`."""
        if self.published_by is not None:
            return f"published by {self.published_by}" if self.published_by else "published"
        other_splits = [f"{task} on {'/'.join(on)}" for task, on in self.other_splits.items()]
        return ", ".join(["measured", *["local data"] * self.is_local, *other_splits])

    def without(self, tasks: Collection[str]) -> ModelScores:
        """Drop the scores of some tasks."""
        return replace(
            self,
            scores={task: s for task, s in self.scores.items() if task not in tasks},
            other_splits={task: on for task, on in self.other_splits.items() if task not in tasks},
        )


class CountedParts(NamedTuple):
    """The splits and subsets of a task that a benchmark counts."""

    splits: frozenset[str]
    subsets: frozenset[str]


def counted_parts(benchmark: str, languages: Sequence[str] = ()) -> dict[str, CountedParts]:
    """Find the parts that a benchmark counts, by task; only in these languages, if any."""
    return {
        task.metadata.name: CountedParts(
            frozenset(task.eval_splits), frozenset(subsets_in(task, languages) or task.hf_subsets)
        )
        for task in benchmark_tasks(benchmark)
    }


def read_results(folder: Path, benchmark: str, languages: Sequence[str] = ()) -> ModelScores:
    """Read mteb's files of a model, `results/<org__name>/<revision>`: the benchmark's splits and
    subsets. Other splits count only if a task has none of the benchmark's; other subsets never."""
    counted = counted_parts(benchmark, languages)
    types = _types_of(benchmark)
    main_metrics = MAIN_METRICS if benchmark == JMTEB_V1 else {}
    results = [result for file in sorted(folder.glob("*.json")) if (result := read_result(file))]
    if not results:
        raise ValueError(_NO_RESULTS.format(folder))
    model = ModelScores(folder.resolve().parent.name.replace("__", "/"), {})
    is_local = False
    for result in results:
        name, splits = result["task_name"], result["scores"]
        rows = [(split, row) for split in splits for row in splits[split]]
        if parts := counted.get(name):
            rows = [row for row in rows if row[1]["hf_subset"] in parts.subsets]
            rows = [row for row in rows if row[0] in parts.splits] or rows
        if not rows:
            continue
        metrics = _metrics_of([row for _, row in rows])
        main = main_metrics.get(types.get(name, ""), "main_score")
        if main not in metrics:
            raise ValueError(
                f"{name}.json has no {main}, which JMTEB's authors report, but only other metrics. "
                "Run the task again, in another --folder."
            )
        _require_score(metrics[main] / 100, f"{folder / name}.json: {main}")
        model.scores[name] = metrics[main]
        model.metrics[name] = metrics
        is_local |= result["dataset_revision"] == LOCAL_REVISION
        if parts and parts.splits.isdisjoint(splits):
            model.other_splits[name] = tuple(splits)
    return replace(model, revision=folder.resolve().name, is_local=is_local)


def check_results(folder: Path) -> None:
    """Raise a ValueError, without importing mteb, if a folder cannot hold results."""
    if not any(folder.glob("*.json")):
        raise ValueError(_NO_RESULTS.format(folder))


def read_result(file: Path) -> dict[str, Any] | None:
    """Read a JSON file of mteb; None if it holds no scores."""
    try:
        if "scores" not in read_object(file, dict, _MOST_BYTES):
            return None
        result = read_object(file, _Result, _MOST_BYTES)
    except ValueError as error:
        raise ValueError(f"{file.name} is not a complete result file of mteb. {error}") from error
    for split, rows in result["scores"].items():
        for row in rows:
            where = f"{file}, {result['task_name']} on {split}, {row['hf_subset']}"
            _require_score(row["main_score"], f"{where}: main_score")
            for metric in _READ & row.keys():
                value = row[metric]
                # mteb writes NaN for what is not defined: the average precision of many labels.
                if isinstance(value, (int, float)) and not math.isnan(value):
                    _require_score(value, f"{where}: {metric}")
    return result


def _require_score(value: float, what: str) -> None:
    """Raise a ValueError unless a value is from -1 to 1, but for rounding."""
    require(
        abs(value) <= 1 + 1e-6,
        f"{what} is {value!r}, but expected a score from -1 to 1. Move the file away, and run the "
        "task again.",
    )


def read_published(file: Path = PUBLISHED_FILE) -> dict[tuple[str, str], ModelScores]:
    """Read published scores by (benchmark, model)."""
    models: dict[tuple[str, str], ModelScores] = {}
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            key = (row["benchmark"], row["model"])
            new = ModelScores(row["model"], {}, published_by=row["published_by"])
            model = models.setdefault(key, new)
            # A mean over the benchmark has its heading in place of a task.
            scores = model.means if row["type"] == "mean" else model.scores
            scores[row["task"]] = float(row["main_score_x100"])
    return models


def sources_of(models: Sequence[ModelScores]) -> str:
    """Name the sources of the published scores of some models; empty without any."""
    of_results = [model.name for model in models if model.published_by == ""]
    commits = dict.fromkeys(_LATER_COMMITS.get(name, _COMMIT) for name in of_results)
    # The commit of most models is given without their names, so it comes first.
    ordered = sorted(commits, key=lambda commit: commit != _COMMIT)
    sources = [f"{_RESULTS}, {'; '.join(ordered)}"] if ordered else []
    publishers = dict.fromkeys(model.published_by for model in models if model.published_by)
    return "; ".join([*sources, *(_PUBLICATIONS[publisher] for publisher in publishers)])


def find_published(
    names: Sequence[str], benchmark: str, by_task: bool = False
) -> list[ModelScores]:
    """Find the published scores of models by name; a ValueError lists the known names, or models
    without the scores by task that are wanted."""
    check_names("benchmark", [benchmark])
    published = read_published()
    missing = [name for name in names if (benchmark, name) not in published]
    if missing:
        available = [name for b, name in published if b == benchmark]
        near = difflib.get_close_matches(missing[0], available, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(available)}."
        raise ValueError(f"No published scores of {', '.join(missing)} on {benchmark}. {hint}")
    models = [published[benchmark, name] for name in names]
    if by_task and (means := [model.name for model in models if model.means]):
        raise ValueError(
            f"Of {', '.join(means)}, only means over the whole benchmark were published, not the "
            "scores by task. Leave them out: only st-static compare without --by_task shows them."
        )
    return models


def compare(models: Sequence[ModelScores], benchmark: str) -> pl.DataFrame:
    """Compare models on a benchmark's tasks that all of them have, as in the paper's Table 1: a row
    has means by task type, then averages. If models lack tasks, a mean's heading says how many it
    covers, and means that were published alone stand under the whole benchmark's headings."""
    types = _types_of(benchmark)
    common = _common_tasks(models, types)
    if scored := [model for model in models if not model.means]:
        _require_tasks(common, scored, benchmark)
    columns = _columns(benchmark, common, types)
    if stated := {heading for model in models for heading in model.means}:
        whole = _columns(benchmark, sorted(types), types)
        columns |= {heading: whole[heading] for heading in whole if heading in stated}
    rows = []
    for model, label in zip(models, _labels(models), strict=True):
        row: dict[str, object] = {"model": label, "origin": model.origin}
        for heading, groups in columns.items():
            row[heading] = model.means.get(heading)
            if all(task in model.scores for tasks in groups for task in tasks):
                row[heading] = _mean([_mean([model.scores[t] for t in ts]) for ts in groups])
        rows.append(row)
    return pl.DataFrame(rows)


def compare_by_task(
    models: Sequence[ModelScores], benchmark: str, with_metrics: bool = False
) -> pl.DataFrame:
    """Compare models task by task, in the order of the tasks' types; if some models were measured,
    the tasks are theirs. The columns are `type`, `task`, `metric`, scores x 100 of each model, null
    where it has none, and `minus MODEL`, by which the first model lies above each other. Scores on
    splits that are not the benchmark's have rows of their own. `with_metrics` adds those of
    `METRICS`, which published scores lack."""
    labels = _labels(models)
    if repeated := [label for label, n in Counter(labels).items() if n > 1]:
        raise ValueError(f"Two folders hold results of {repeated[0]}. Leave one of them out.")
    about = {task.metadata.name: task.metadata for task in benchmark_tasks(benchmark)}
    shown = {
        (task, model.other_splits.get(task, ()))
        for model in [model for model in models if model.published_by is None] or models
        for task in model.scores.keys() & about.keys()
    }
    _require_tasks(shown, models, benchmark)
    kinds = _in_order(about[task].type for task, _ in shown)
    authors = MAIN_METRICS if benchmark == JMTEB_V1 else {}
    rows: list[list[str | float | None]] = []
    for task, splits in sorted(shown, key=lambda row: (kinds.index(about[row[0]].type), row)):
        kind, name = about[task].type, f"{task} on {'/'.join(splits)}" if splits else task
        main = authors.get(kind, about[task].main_score)
        metrics = [
            {**model.metrics.get(task, {}), main: model.scores[task]}
            if task in model.scores and model.other_splits.get(task, ()) == splits
            else {}
            for model in models
        ]
        for metric in dict.fromkeys([main, *METRICS.get(kind, ())] if with_metrics else [main]):
            first, *others = scores = [by_metric.get(metric) for by_metric in metrics]
            minus = [None if first is None or o is None else first - o for o in others]
            rows.append([kind, name, metric, *scores, *minus])
    headings = [
        f"{label} ({replace(model, other_splits={}).origin})"
        for label, model in zip(labels, models, strict=True)
    ]
    columns = [*headings, *(f"minus {label}" for label in labels[1:])]
    texts = dict.fromkeys(["type", "task", "metric"], pl.String)
    table = pl.DataFrame(rows, texts | dict.fromkeys(columns, pl.Float64), orient="row")
    # mteb writes NaN for what is not defined, such as the average precision of many labels.
    table = table.fill_nan(None)
    return table.filter(pl.any_horizontal(pl.col(headings).is_not_null()))


def compare_further(models: Sequence[ModelScores], benchmark: str) -> pl.DataFrame:
    """Compare models by further metrics on the tasks that all of them have: a row for each model,
    without empty columns."""
    types = _types_of(benchmark)
    columns: dict[str, list[float | None]] = {}
    for heading, (kind, metric) in (FURTHER_METRICS if benchmark == JMTEB_V1 else {}).items():
        tasks = [task for task in _common_tasks(models, types) if types[task] == kind]
        by_model = [
            [by_task[task][metric] for task in tasks if metric in by_task.get(task, {})]
            for by_task in (model.metrics for model in models)
        ]
        means = [_mean(values) if 0 < len(values) == len(tasks) else None for values in by_model]
        if any(mean is not None for mean in means):
            share = _share(len(tasks), Counter(types.values())[kind])
            columns[heading + share] = means
    return pl.DataFrame(columns)


def _types_of(benchmark: str) -> dict[str, str]:
    """Get the types of a benchmark's tasks, by task."""
    return {task.metadata.name: task.metadata.type for task in benchmark_tasks(benchmark)}


def _labels(models: Sequence[ModelScores]) -> list[str]:
    """Name models, with their revisions where two have one name."""
    names = Counter(model.name for model in models)
    labels = []
    for model in models:
        label = model.name
        if names[label] > 1 and model.revision:
            revision = model.revision.removesuffix(f"-{LOCAL_REVISION}")
            label += f" {revision[:7]}" + f"-{LOCAL_REVISION}" * model.is_local
        if OTHER_DOCUMENTS in model.revision:
            label += " with another's documents"
        labels.append(label)
    return labels


def _require_tasks(tasks: Collection[Any], models: Sequence[ModelScores], benchmark: str) -> None:
    """Raise a ValueError unless there are tasks to compare models on."""
    if not tasks:
        counts = "; ".join(f"{model.name} has {len(model.scores)}" for model in models)
        raise ValueError(
            f"There is no task of {benchmark} to compare on: {counts}. Name the benchmark of their "
            "language with --benchmark, and models with tasks in common."
        )


def _in_order(kinds: Iterable[str]) -> list[str]:
    """Order task types as in the paper's Table 1, others last."""
    present = set(kinds)
    return [kind for kind in [*_TYPES, *sorted(present - _TYPES.keys())] if kind in present]


def _common_tasks(models: Sequence[ModelScores], types: dict[str, str]) -> list[str]:
    """List the tasks that all models with scores by task have."""
    scored = [model.scores for model in models if not model.means]
    return sorted(set(types).intersection(*scored)) if scored else []


def _columns(benchmark: str, tasks: list[str], types: dict[str, str]) -> dict[str, list[list[str]]]:
    """Make the headings of means over some tasks, with the groups whose means are averaged."""
    if not tasks:
        return {}
    by_type: dict[str, list[str]] = defaultdict(list)
    for task in tasks:
        by_type[types[task]].append(task)
    n_of_type = Counter(types.values())
    columns = {
        _TYPES.get(kind, kind) + _share(len(by_type[kind]), n_of_type[kind]): [by_type[kind]]
        for kind in _in_order(by_type)
    }
    partly = _share(len(tasks), len(types))
    if benchmark != "MTEB(eng, v1)":
        by_types = list(by_type.values())
        return columns | {f"Mean(Task){partly}": [tasks], f"Mean(TaskType){partly}": by_types}
    if s2s := [task for task in tasks if task in S2S_TASKS]:
        columns[f"Avg-s2s{_share(len(s2s), len(S2S_TASKS))}"] = [s2s]
    return columns | {f"Avg{partly or f' ({len(types)})'}": [tasks]}


def _share(n: int, of: int) -> str:
    """Make the suffix of a heading for a mean over part of the tasks."""
    return "" if n == of else f" ({n}/{of})"


def _metrics_of(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Average the metrics that all rows of a result file have, x 100."""
    return {
        metric: 100 * _mean([row[metric] for row in rows])
        for metric in rows[0]
        if all(isinstance(row.get(metric), (int, float)) for row in rows)
    }


def _mean(scores: Sequence[float]) -> float:
    return sum(scores) / len(scores)
