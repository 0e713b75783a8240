"""Run models on MTEB tasks, from the Hub's datasets or from local copies of them."""

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
from mteb.types import PromptType
from numpy.typing import NDArray
from tqdm import tqdm

from st_static.encode.encoder import check_vectors
from st_static.evaluate.models import BATCH, EvaluatedModel, batch_size_of, local_name, revision_of
from st_static.evaluate.tasks import (
    LOCAL_REVISION,
    OTHER_DOCUMENTS,
    check_data,
    local_copies,
    use_local_copy,
)
from st_static.hub import HubUnavailableError, offline, require_dataset
from st_static.tokens.panics import TellingPanics


class TaskOutcome(NamedTuple):
    """The outcome of a task: its main score x 100, or why it failed."""

    task: str
    score: float | None = None  # mean over its splits and subsets
    parts: int = 0  # splits and subsets in that mean
    failure: str | None = None
    is_new: bool = True  # otherwise its results existed


@dataclass(frozen=True)
class Outcome:
    """The outcomes of all tasks, and the folder of mteb's JSON files, one for each task."""

    folder: Path
    tasks: list[TaskOutcome]

    @property
    def scores(self) -> dict[str, float]:
        """Main score x 100 of each finished task, mean over its splits and subsets."""
        return {task.task: task.score for task in self.tasks if task.score is not None}

    @property
    def failures(self) -> dict[str, str]:
        """The reason of each failed task."""
        return {task.task: task.failure for task in self.tasks if task.failure is not None}


def run_tasks(
    model: EvaluatedModel,
    tasks: Iterable[AbsTask],
    folder: Path,
    data: Path | None = None,
    on_task: Callable[[TaskOutcome], None] = lambda outcome: None,
) -> Outcome:
    """Evaluate a model on the tasks without results in `results/<org__name>/<revision>/`, one by
    one; a failure does not stop the others. HubUnavailableError if all tasks need the Hub."""
    tasks = list(tasks)
    # Keep results apart from those with other documents, and on the Hub's datasets.
    if model.documents:
        model = replace(
            model, revision=f"{model.revision}{OTHER_DOCUMENTS}{model.documents.revision}"
        )
    if data is not None:
        check_data(data)
        model = replace(model, revision=f"{model.revision}-{LOCAL_REVISION}")
    wrapped, cache = _wrap(model), ResultCache(folder)
    results = Path(cache.get_task_result_path("task", wrapped.mteb_model_meta)).parent

    bars = {"show_progress_bar": False}
    options = {"encode_kwargs": {"batch_size": BATCH, **bars}, "co2_tracker": False, **bars}

    def run(task: AbsTask, overwrite: str = "only-missing") -> TaskResult:
        """Score a task, or read its results."""
        result = mteb.evaluate(wrapped, task, cache=cache, overwrite_strategy=overwrite, **options)
        return result.task_results[0]

    def read(task: AbsTask) -> TaskResult | None:
        """Read the results of a task if it is finished."""
        if cache.load_task_result(task.metadata.name, wrapped.mteb_model_meta) is not None:
            with contextlib.suppress(ValueError):  # some splits or subsets are missing
                return run(task, "only-cache")
        return None

    if data is None and not any(read(task) for task in tasks):
        require_any_dataset(tasks)
    outcomes: list[TaskOutcome] = []
    datasets = contextlib.nullcontext() if data is None else local_copies()
    with datasets, tqdm(tasks, unit="task", disable=None) as progress:
        for task in progress:
            name = task.metadata.name
            progress.set_description(name)
            try:
                local_task = task if data is None else use_local_copy(task, data)
                earlier = result = read(local_task)
                if result is None:
                    is_cached = data is None and _require_dataset(local_task) is not None
                    network = offline() if is_cached else contextlib.nullcontext()
                    with network, TellingPanics(model.name):
                        result = run(local_task)
                # Drop the subsets of earlier runs that this one does not ask for.
                result = result.validate_and_filter_scores(local_task)
                parts, score = sum(map(len, result.scores.values())), float(result.get_score())
                outcome = TaskOutcome(name, 100 * score, parts, is_new=earlier is None)
            except HubUnavailableError as error:
                outcome = TaskOutcome(name, failure=error.cause)
            # Any error is the task's: a dataset that is not available, a model that fails.
            except Exception as error:
                outcome = TaskOutcome(name, failure=f"{type(error).__name__}: {error}")
            outcomes.append(outcome)
            on_task(outcome)
    return Outcome(results, outcomes)


def require_any_dataset(tasks: Sequence[AbsTask]) -> None:
    """Raise a HubUnavailableError if neither the Hub nor its cache has the dataset of any task."""
    unavailable = []
    for task in tasks:
        try:
            _require_dataset(task)
        except HubUnavailableError as error:
            unavailable.append(error)
        except ValueError:  # the Hub has answered; the error is this task's
            return
        else:
            return
    if unavailable:
        raise unavailable[0]


def _require_dataset(task: AbsTask) -> Path | None:
    """Find the cached copy of a task's dataset, if that is used in place of the Hub."""
    parts = task.metadata.tasks if isinstance(task, AbsTaskAggregate) else [task]
    datasets = [part.metadata.dataset for part in parts]
    otherwise = "give local copies of the datasets with --data"
    copies = [require_dataset(data["path"], data.get("revision"), otherwise) for data in datasets]
    return next((copy for copy in copies if copy), None)


def results_folder(model: str, is_local: bool) -> Path:
    """Return where `run_tasks` writes the results of a folder or Hub id, here."""
    revision = revision_of(model) + (f"-{LOCAL_REVISION}" if is_local else "")
    return Path("results") / local_name(model).replace("/", "__") / revision


def _wrap(model: EvaluatedModel) -> AbsEncoder:
    """Wrap a model for mteb, under its own name."""
    if model.documents:
        wrapped = _TwoEncoders(_wrap(replace(model, documents=None)), _wrap(model.documents))
    elif model.sentence_transformer is not None:
        wrapped = _CheckedSentenceTransformer(model.sentence_transformer)
    else:
        wrapped = _TextEncoder(model)
    meta = {"name": model.name, "revision": model.revision, "embed_dim": model.dimension}
    meta |= {"similarity_fn_name": ScoringFunction.COSINE}
    wrapped.mteb_model_meta = ModelMeta.create_empty(meta)
    return wrapped


class _TextEncoder(AbsEncoder):  # type: ignore[misc]  # untyped library
    """A function from texts to vectors as an mteb model."""

    def __init__(self, model: EvaluatedModel) -> None:
        self.model = model

    def encode(self, inputs: Any, **options: Any) -> NDArray[np.floating]:
        """Encode mteb's batches of texts, B in all, into vectors [B, D]."""
        texts = [text for batch in inputs for text in batch["text"]]
        vectors = self.model.encode(texts)
        return check_vectors(vectors, texts, "The model") if texts else vectors


class _TwoEncoders(AbsEncoder):  # type: ignore[misc]  # untyped library
    """Two mteb models: one encodes the documents, the other everything else."""

    def __init__(self, queries: AbsEncoder, documents: AbsEncoder) -> None:
        self.queries, self.documents = queries, documents

    def encode(self, inputs: Any, **options: Any) -> NDArray[np.floating]:
        """Encode mteb's batches of texts, by what they are."""
        is_documents = options.get("prompt_type") == PromptType.document
        encoder = self.documents if is_documents else self.queries
        return np.asarray(encoder.encode(inputs, **options))


class _CheckedSentenceTransformer(SentenceTransformerEncoderWrapper):  # type: ignore[misc]
    """mteb's own wrapper, which chooses prompts."""

    def encode(self, inputs: Any, **options: Any) -> NDArray[np.floating]:
        """Encode mteb's batches of texts, with prompts."""
        texts = [text for batch in inputs for text in batch["text"]]
        options["batch_size"] = batch_size_of(self.model)  # mteb gives that of its loader
        vectors = np.asarray(super().encode(inputs, **options))
        return check_vectors(vectors, texts, "The model") if texts else vectors
