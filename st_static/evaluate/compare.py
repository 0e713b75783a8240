"""Scores of several models side by side, as in Table 1 of the paper."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import polars as pl

from st_static.evaluate.scores import ModelScores
from st_static.evaluate.tasks import benchmark_tasks

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


# A mean of means over groups of tasks, under its heading.
_Columns = dict[str, list[list[str]]]


def compare(models: Sequence[ModelScores], benchmark: str) -> pl.DataFrame:
    """Put models side by side, over the tasks that all of them have.

    A mean carries the benchmark's or the type's name alone only if every model has every task of
    it; otherwise its heading says how many of the tasks it is over. Of models with published means
    alone, those stand under the headings of the whole benchmark, where models that lack some of its
    tasks have null.

    Args:
        models: The models.
        benchmark: Which tasks count.

    Returns:
        One row per model: means by task type, then the averages of the benchmark.

    Raises:
        ValueError: The models have no task of the benchmark in common.
    """
    types = {t.metadata.name: t.metadata.type for t in benchmark_tasks(benchmark)}
    columns = _columns(benchmark, _common(models, types, benchmark), types)
    if stated := {heading for model in models for heading in model.means}:
        whole = _columns(benchmark, sorted(types), types)
        columns |= {heading: whole[heading] for heading in whole if heading in stated}
    names = Counter(model.name for model in models)
    return pl.DataFrame(_row(model, names[model.name] > 1, columns) for model in models)


def _row(model: ModelScores, is_ambiguous: bool, columns: _Columns) -> dict[str, object]:
    """A model's name, with its revision where another has the same name, and means."""
    name = f"{model.name} {model.revision[:7]}".strip() if is_ambiguous else model.name
    means = {heading: _value(model, heading, groups) for heading, groups in columns.items()}
    return {"model": name, "origin": model.origin, **means}


def _common(models: Sequence[ModelScores], types: Mapping[str, str], benchmark: str) -> list[str]:
    """The benchmark's tasks that all models with scores of tasks have."""
    scored = [model for model in models if not model.means]
    common = sorted(set(types).intersection(*(model.scores for model in scored))) if scored else []
    if scored and not common:
        raise _nothing_in_common(scored, benchmark)
    return common


def _nothing_in_common(models: Sequence[ModelScores], benchmark: str) -> ValueError:
    return ValueError(
        f"The models have no task of {benchmark} in common: "
        + "; ".join(f"{model.name} has {len(model.scores)}" for model in models)
        + ". Compare them on the benchmark of their language: --benchmark 'JMTEB(v2)', say."
    )


def _columns(benchmark: str, tasks: list[str], types: Mapping[str, str]) -> _Columns:
    """The means over some tasks: one per type, then the averages of the benchmark."""
    by_type: dict[str, list[str]] = defaultdict(list)
    for task in tasks:
        by_type[types[task]].append(task)
    n_of_type = Counter(types.values())
    of_types = {
        TYPES.get(kind, kind) + _share(len(by_type[kind]), n_of_type[kind]): [by_type[kind]]
        for kind in [*TYPES, *sorted(set(by_type) - set(TYPES))]
        if kind in by_type
    }
    return of_types | _averages(benchmark, tasks, by_type, len(types)) if tasks else {}


def _value(model: ModelScores, heading: str, groups: Sequence[Sequence[str]]) -> float | None:
    """A model's mean over tasks; the published one if it has none of them; else null."""
    has_all = all(task in model.scores for tasks in groups for task in tasks)
    return _mean_of_means(model.scores, groups) if has_all else model.means.get(heading)


def _averages(
    benchmark: str, common: list[str], by_type: Mapping[str, list[str]], n_tasks: int
) -> _Columns:
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


def _mean_of_means(scores: Mapping[str, float], groups: Sequence[Sequence[str]]) -> float:
    """The mean of the means over groups of tasks."""
    means = [sum(scores[task] for task in tasks) / len(tasks) for tasks in groups]
    return sum(means) / len(means)
