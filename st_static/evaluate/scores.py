"""A model's scores, read from the result files that mteb writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NotRequired, TypedDict

from msgspec import Meta

from st_static.evaluate.task_languages import subsets_in
from st_static.evaluate.tasks import LOCAL_REVISION, benchmark_tasks
from st_static.foreign_files import read_object

# Of a task with forty thousand pairs of languages.
_MOST_BYTES = 100_000_000


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
    """A model's main scores x 100.

    Attributes:
        name: The model.
        scores: By task; the mean over the task's splits and subsets.
        revision: Of a measured model.
        is_published: Whether others published the scores; they were measured here otherwise.
        published_by: The paper that did; empty for mteb's own collection of results.
        means: Means over a benchmark that were published without the scores of its tasks, by
            heading: `Avg (56)`.
        is_local: Whether scores come from local copies of the datasets.
        other_splits: The splits of each task that was scored on none of the benchmark's splits.
    """

    name: str
    scores: dict[str, float]
    revision: str = ""
    is_published: bool = False
    published_by: str = ""
    means: dict[str, float] = field(default_factory=dict)
    is_local: bool = False
    other_splits: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        """Where the scores come from, in words: `measured, local data, STS12 on validation`."""
        if self.is_published:
            return f"published by {self.published_by}" if self.published_by else "published"
        other_splits = [f"{task} on {'/'.join(on)}" for task, on in self.other_splits.items()]
        return ", ".join(["measured", *["local data"] * self.is_local, *other_splits])

    def without(self, tasks: Collection[str]) -> ModelScores:
        """The same without the scores of some tasks."""
        return replace(
            self,
            scores={task: s for task, s in self.scores.items() if task not in tasks},
            other_splits={task: on for task, on in self.other_splits.items() if task not in tasks},
        )


class CountedParts(NamedTuple):
    """What a benchmark counts of a task.

    Attributes:
        splits: The splits.
        subsets: The subsets.
    """

    splits: frozenset[str]
    subsets: frozenset[str]

    def has(self, split: str, subset: str) -> bool:
        """Whether a split of a subset counts."""
        return split in self.splits and subset in self.subsets


def counted_parts(benchmark: str, languages: Sequence[str] = ()) -> dict[str, CountedParts]:
    """What a benchmark counts, by task.

    Args:
        benchmark: The benchmark.
        languages: Of a task with subsets in these languages, no other subsets count.
    """
    return {
        task.metadata.name: CountedParts(
            frozenset(task.eval_splits), frozenset(subsets_in(task, languages) or task.hf_subsets)
        )
        for task in benchmark_tasks(benchmark)
    }


def read_results(folder: Path, benchmark: str, languages: Sequence[str] = ()) -> ModelScores:
    """Read mteb's JSON files of one model.

    Args:
        folder: `results/<org__name>/<revision>`.
        benchmark: Its splits and subsets count; other splits only where a task has none of these,
            and other subsets, which may be in other languages, never.
        languages: See `counted_parts`.

    Raises:
        ValueError: The folder holds no results.
    """
    check_results(folder)
    counted = counted_parts(benchmark, languages)
    results = [result for file in sorted(folder.glob("*.json")) if (result := _read(file, counted))]
    if not results:
        raise _no_results(folder)
    scored = [result for result in results if result.score is not None]
    return ModelScores(
        folder.resolve().parent.name.replace("__", "/"),
        {result.task: result.score for result in scored if result.score is not None},
        revision=folder.resolve().name,
        is_local=any(result.is_local for result in scored),
        other_splits={result.task: result.other_splits for result in scored if result.other_splits},
    )


def check_results(folder: Path) -> None:
    """Check, without mteb, that a folder may hold results.

    Raises:
        ValueError: It is not there, or has no JSON file.
    """
    if not any(folder.glob("*.json")):
        raise _no_results(folder)


def _no_results(folder: Path) -> ValueError:
    return ValueError(
        f"{folder} holds no result files of mteb. Expected results/<org__name>/<revision>."
    )


def read_result(file: Path) -> dict[str, Any] | None:
    """What a JSON file of mteb's holds; None if it holds no scores.

    Raises:
        ValueError: It is not a complete result file.
    """
    try:
        if "scores" not in read_object(file, dict, _MOST_BYTES):
            return None
        return read_object(file, _Result, _MOST_BYTES)
    except ValueError as error:
        raise ValueError(f"{file.name} is not a complete result file of mteb. {error}") from error


class _TaskResult(NamedTuple):
    """What a result file of mteb holds of its task.

    Attributes:
        task: Its name.
        score: Main score x 100; None if the benchmark has none of the subsets.
        is_local: Whether the dataset was a local copy.
        other_splits: The splits of the score, if none of them is the benchmark's.
    """

    task: str
    score: float | None
    is_local: bool
    other_splits: tuple[str, ...]


def _read(file: Path, counted: Mapping[str, CountedParts]) -> _TaskResult | None:
    """Read a JSON file of mteb's; None if it holds no scores."""
    result = read_result(file)
    if result is None:
        return None
    scores, parts = result["scores"], counted.get(result["task_name"])
    is_other = parts is not None and parts.splits.isdisjoint(scores)
    return _TaskResult(
        result["task_name"],
        _main_score(scores, parts),
        result["dataset_revision"] == LOCAL_REVISION,
        tuple(scores) if is_other else (),
    )


def _main_score(
    scores: Mapping[str, Sequence[Mapping[str, Any]]], counted: CountedParts | None
) -> float | None:
    """The mean over splits and subsets; None if the benchmark has none of the subsets."""
    rows = [
        (split, row["hf_subset"], row["main_score"]) for split in scores for row in scores[split]
    ]
    if counted is not None:  # other subsets are mostly in other languages
        official = [r for r in rows if counted.has(r[0], r[1])]
        rows = official or [r for r in rows if r[1] in counted.subsets]
        if not rows:
            return None
    return 100 * float(sum(score for _, _, score in rows)) / len(rows)
