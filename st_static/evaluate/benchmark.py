"""Running models on MTEB tasks, from the Hub's datasets or from local copies of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mteb
import numpy as np
from mteb.abstasks import AbsTask
from mteb.cache import ResultCache
from mteb.models.abs_encoder import AbsEncoder
from mteb.models.model_meta import ModelMeta, ScoringFunction
from mteb.models.sentence_transformer_wrapper import SentenceTransformerEncoderWrapper
from numpy.typing import NDArray
from tqdm import tqdm

from st_static.evaluate.encoders import EvaluatedModel, local_name, revision_of
from st_static.evaluate.tasks import LOCAL_REVISION, use_local_copy


@dataclass(frozen=True)
class Outcome:
    """What became of the tasks.

    Attributes:
        folder: Where mteb's JSON of each task lies.
        scores: Main score x 100 of each finished task, mean over its splits and subsets.
        parts: How many splits and subsets that mean is over.
        failures: For each failed task, why.
    """

    folder: Path
    scores: dict[str, float]
    parts: dict[str, int]
    failures: dict[str, str]


def run_tasks(
    model: EvaluatedModel,
    tasks: Iterable[AbsTask],
    folder: Path,
    data: Path | None = None,
    batch_size: int = 1024,
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

    Raises:
        ValueError: There is no such folder of local copies.
    """
    tasks = list(tasks)
    if data is not None and not data.is_dir():
        raise ValueError(f"There is no folder {data} of local copies of datasets.")
    if data is not None:  # kept apart from results on the Hub's datasets
        model = replace(model, revision=f"{model.revision}-{LOCAL_REVISION}")
    cache = ResultCache(folder)
    wrapped = wrap(model)
    scores: dict[str, float] = {}
    parts: dict[str, int] = {}
    failures: dict[str, str] = {}
    with tqdm(tasks, unit="task") as progress:
        for task in progress:
            name = task.metadata.name
            progress.set_description(name)
            try:
                if data is not None:
                    task = use_local_copy(task, data)
                result = mteb.evaluate(
                    wrapped,
                    task,
                    cache=cache,
                    encode_kwargs={"batch_size": batch_size, "show_progress_bar": False},
                    show_progress_bar=False,
                    co2_tracker=False,
                )
            # Any error belongs to this task: a dataset that cannot be had, a model that fails.
            except Exception as error:
                failures[name] = f"{type(error).__name__}: {error}"
                continue
            [of_task] = result.task_results
            scores[name] = 100 * float(of_task.get_score())
            parts[name] = sum(map(len, of_task.scores.values()))
    path = cache.get_task_result_path("task", wrapped.mteb_model_meta)
    return Outcome(path.parent, scores, parts, failures)


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
            "languages": ["eng-Latn"],
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
            f"one row a text. The first text is {texts[0][:200]!r}."
        )
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise ValueError(
            f"The model gave NaN or infinity for {len(bad)} of {len(texts)} texts, the first of "
            f"which is {texts[bad[0]][:200]!r}."
        )
