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
            + ". Compare them on the benchmark of their language: --benchmark 'JMTEB(v2)', say."
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
    return pl.DataFrame(
        {
            "model": _row_name(model, names[model.name] > 1),
            "origin": model.origin,
            **{headings[kind]: _mean(model.scores, by_type[kind]) for kind in headings},
            **{heading: _mean_of_means(model.scores, g) for heading, g in averages.items()},
        }
        for model in models
    )


def _row_name(model: ModelScores, is_ambiguous: bool) -> str:
    """A model's name, with its revision where another has the same name."""
    return f"{model.name} {model.revision[:7]}".strip() if is_ambiguous else model.name


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


def _mean_of_means(scores: Mapping[str, float], groups: Sequence[Sequence[str]]) -> float:
    """The mean of the means over groups of tasks."""
    return sum(_mean(scores, tasks) for tasks in groups) / len(groups)


def _mean(scores: Mapping[str, float], tasks: Sequence[str]) -> float:
    return sum(scores[task] for task in tasks) / len(tasks)
