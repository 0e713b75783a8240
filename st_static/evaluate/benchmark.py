"""Running models on MTEB tasks, from the Hub's datasets or from local copies of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import mteb
import numpy as np
from mteb.abstasks import AbsTask
from mteb.abstasks.aggregated_task import AbsTaskAggregate
from mteb.cache import ResultCache
from mteb.models.abs_encoder import AbsEncoder
from mteb.models.model_meta import ModelMeta, ScoringFunction
from mteb.models.sentence_transformer_wrapper import SentenceTransformerEncoderWrapper
from mteb.results import TaskResult
from numpy.typing import NDArray
from tqdm import tqdm

from st_static.evaluate.evaluated_model import EvaluatedModel, local_name, revision_of
from st_static.evaluate.tasks import LOCAL_REVISION, check_data, use_local_copy
from st_static.hub import HubUnavailableError, offline, require_dataset
from st_static.tokens.panics import TellingPanics


class TaskOutcome(NamedTuple):
    """What became of a task.

    Attributes:
        task: Its name.
        score: Main score x 100, mean over its splits and subsets; None if it failed.
        parts: How many splits and subsets that mean is over.
        failure: Why it failed, if it did.
        is_new: Whether it was run; its results may have been there.
    """

    task: str
    score: float | None = None
    parts: int = 0
    failure: str | None = None
    is_new: bool = True


@dataclass(frozen=True)
class Outcome:
    """What became of the tasks.

    Attributes:
        folder: Where mteb's JSON of each task lies.
        tasks: What became of each.
    """

    folder: Path
    tasks: list[TaskOutcome]

    @property
    def scores(self) -> dict[str, float]:
        """Main score x 100 of each finished task, mean over its splits and subsets."""
        return {task.task: task.score for task in self.tasks if task.score is not None}

    @property
    def failures(self) -> dict[str, str]:
        """For each failed task, why."""
        return {task.task: task.failure for task in self.tasks if task.failure is not None}


def run_tasks(
    model: EvaluatedModel,
    tasks: Iterable[AbsTask],
    folder: Path,
    data: Path | None = None,
    batch_size: int = 1024,
    on_task: Callable[[TaskOutcome], None] = lambda outcome: None,
) -> Outcome:
    """Evaluate a model task by task; tasks whose results are there are not run again.

    A task that fails does not stop the others.

    Args:
        model: The model.
        tasks: The tasks.
        folder: Results go to `results/<org__name>/<revision>/` inside it, as mteb writes them.
        data: Local copies of the datasets, see `use_local_copy`; `-local` is then added to the
            revision.
        batch_size: Texts that a transformer reads at a time.
        on_task: Is told of each task when it is over.

    Raises:
        ValueError: There is no such folder of local copies.
        HubUnavailableError: The Hub cannot be asked, and no task can do without it.
    """
    tasks = list(tasks)
    if data is not None:
        check_data(data)
        # Kept apart from results on the Hub's datasets
        model = replace(model, revision=f"{model.revision}-{LOCAL_REVISION}")
    run = _Run(wrap(model), ResultCache(folder), data, batch_size)
    if data is None and not any(run.read(task) for task in tasks):
        require_any_dataset(tasks)
    outcomes: list[TaskOutcome] = []
    with tqdm(tasks, unit="task", disable=None) as progress:
        for task in progress:
            progress.set_description(task.metadata.name)
            outcomes.append(run.outcome(task))
            on_task(outcomes[-1])
    return Outcome(run.folder, outcomes)


@dataclass(frozen=True)
class _Run:
    """One model on one task after the other."""

    model: AbsEncoder
    cache: ResultCache
    data: Path | None
    batch_size: int

    @property
    def folder(self) -> Path:
        """Where mteb's JSON of each task lies."""
        return Path(self.cache.get_task_result_path("task", self.model.mteb_model_meta)).parent

    def outcome(self, task: AbsTask) -> TaskOutcome:
        """Run a task, or read its results if they are there."""
        name = task.metadata.name
        try:
            if self.data is not None:
                task = use_local_copy(task, self.data)
            before = self.read(task)
            # Without the subsets of earlier runs that this one does not ask for.
            result = (before or self._run(task)).validate_and_filter_scores(task)
        except HubUnavailableError as error:
            return TaskOutcome(name, failure=error.cause)
        # Any error belongs to this task: a dataset that cannot be had, a model that fails.
        except Exception as error:
            return TaskOutcome(name, failure=f"{type(error).__name__}: {error}")
        parts = sum(map(len, result.scores.values()))
        score = 100 * float(result.get_score())
        return TaskOutcome(name, score, parts, is_new=before is None)

    def read(self, task: AbsTask) -> TaskResult | None:
        """The results of a task that is finished."""
        if self.cache.load_task_result(task.metadata.name, self.model.mteb_model_meta) is None:
            return None
        try:
            return self._evaluate(task, "only-cache")
        except ValueError:  # some splits or subsets are missing
            return None

    def _run(self, task: AbsTask) -> TaskResult:
        is_cached = self.data is None and _require_dataset(task) is not None
        with (
            offline() if is_cached else contextlib.nullcontext(),
            TellingPanics(self.model.mteb_model_meta.name),
        ):
            return self._evaluate(task)

    def _evaluate(self, task: AbsTask, overwrite_strategy: str = "only-missing") -> TaskResult:
        result = mteb.evaluate(
            self.model,
            task,
            cache=self.cache,
            overwrite_strategy=overwrite_strategy,
            encode_kwargs={"batch_size": self.batch_size, "show_progress_bar": False},
            show_progress_bar=False,
            co2_tracker=False,
        )
        [of_task] = result.task_results
        return of_task


def require_any_dataset(tasks: Sequence[AbsTask]) -> None:
    """Make sure that the Hub, or else its cache, has the dataset of one task at least.

    Raises:
        HubUnavailableError: It has none.
    """
    unavailable = None
    for task in tasks:
        try:
            _require_dataset(task)
            return
        except HubUnavailableError as error:
            unavailable = unavailable or error
        except ValueError:  # the Hub has answered; what it says is of this task
            return
    if unavailable:
        raise unavailable


def _require_dataset(task: AbsTask) -> Path | None:
    """The cached copies of a task's datasets, if the Hub is not to be asked for them."""
    parts = task.metadata.tasks if isinstance(task, AbsTaskAggregate) else [task]
    copies = [
        require_dataset(
            part.metadata.dataset["path"],
            part.metadata.dataset.get("revision"),
            "give local copies of the datasets with --data",
        )
        for part in parts
    ]
    return next((copy for copy in copies if copy), None)


def results_folder(model: str, is_local: bool, folder: Path = Path()) -> Path:
    """Where `run_tasks` leaves the results of a folder or Hub id."""
    revision = revision_of(model) + (f"-{LOCAL_REVISION}" if is_local else "")
    return folder / "results" / local_name(model).replace("/", "__") / revision


def wrap(model: EvaluatedModel) -> AbsEncoder:
    """A model as mteb calls it, under its own name; its vectors are checked."""
    meta = ModelMeta.create_empty(
        {
            "name": model.name,
            "revision": model.revision,
            "embed_dim": model.dimension,
            "similarity_fn_name": ScoringFunction.COSINE,
        }
    )
    if model.sentence_transformer is None:
        return _TextEncoder(model, meta)
    wrapped = _CheckedSentenceTransformer(model.sentence_transformer)
    wrapped.mteb_model_meta = meta
    return wrapped


class _TextEncoder(AbsEncoder):  # type: ignore[misc]  # untyped library
    """A function from texts to vectors as an mteb model."""

    def __init__(self, model: EvaluatedModel, meta: ModelMeta) -> None:
        self.model = model
        self.mteb_model_meta = meta

    def encode(self, inputs: Any, **options: Any) -> NDArray[np.floating]:
        """Vectors [B, D] of mteb's batches of texts, B in all."""
        texts = _texts_of(inputs)
        vectors = self.model.encode(texts)
        check_vectors(vectors, texts)
        return vectors


class _CheckedSentenceTransformer(SentenceTransformerEncoderWrapper):  # type: ignore[misc]
    """mteb's own wrapper, which chooses prompts; its vectors are checked."""

    def encode(self, inputs: Any, **options: Any) -> Any:
        """The same, with prompts."""
        vectors = super().encode(inputs, **options)
        check_vectors(np.asarray(vectors), _texts_of(inputs))
        return vectors


def _texts_of(inputs: Any) -> list[str]:
    return [text for batch in inputs for text in batch["text"]]


def check_vectors(vectors: NDArray[np.floating], texts: Sequence[str]) -> None:
    """Check that each text has a finite vector.

    Raises:
        ValueError: The shape is wrong, or a value is not finite; names the first such text.
    """
    if not len(texts):
        return
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise ValueError(
            f"The model gave vectors of the shape {vectors.shape} for {len(texts)} texts; expected "
            f"one row per text. The first text is {texts[0][:200]!r}."
        )
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise ValueError(
            f"The model gave NaN or infinity for {len(bad)} of {len(texts)} texts, the first of "
            f"which is {texts[bad[0]][:200]!r}."
        )
