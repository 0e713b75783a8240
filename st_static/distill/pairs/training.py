"""Fine-tuning a distilled table on pairs, in turns with the distillation that it comes from."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset, DatasetDict
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from sentence_transformers.base.sampler import DefaultBatchSampler
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers.trainer_utils import IntervalStrategy

from st_static.distill.batches import batch_sampler
from st_static.distill.config import DistillationConfig, PairsConfig
from st_static.distill.distillation import (
    Distilled,
    TrainingData,
    at_all_dimensions,
    bags,
    check_size,
    make_loss,
    read_checkpoint,
    sentence_numbers,
    trainer_for,
    training_arguments,
)
from st_static.distill.pairs.batches import PairBatches, Turns
from st_static.distill.pairs.reading import check_number
from st_static.distill.training_run import train_to_the_end
from st_static.model.head import Head
from st_static.model.static_word_embedding import StaticWordEmbedding, TrainableHead
from st_static.tokens.ragged import Ragged

MakeSampler = Callable[..., DefaultBatchSampler]

_PAIRS, _SENTENCES = "pairs", "sentences"
_TEMPERATURE = 0.05  # of the softmax over the positives and negatives of a batch
_LEARNING_RATE = 1e-3  # of Adam at its highest


class PairIds(NamedTuple):
    """Pairs as token ids.

    Attributes:
        texts: Token ids of the different texts, [T rows].
        sides: Of each side by its name, the numbers of the texts, [P] each.
    """

    texts: Ragged
    sides: dict[str, NDArray[np.int64]]

    @classmethod
    def of(cls, pairs: pa.Table, tokenize: Callable[[pa.Array], Ragged]) -> PairIds:
        """Keep the pairs whose sides all have a known word; a text with none has no vector."""
        columns = [column.combine_chunks() for column in pairs.columns]
        texts = pc.unique(pa.concat_arrays(columns))
        ids = tokenize(texts)
        numbers = [pc.index_in(column, texts).to_numpy().astype(np.int64) for column in columns]
        is_known = np.all([ids.lengths[side] > 0 for side in numbers], axis=0)
        known = [side[is_known] for side in numbers]
        return cls(ids, dict(zip(pairs.column_names, known, strict=True)))

    @property
    def n_pairs(self) -> int:
        """Their number P."""
        return len(next(iter(self.sides.values())))

    def batches(self, batch_size: int, seed: int = 0) -> PairBatches:
        """Batches of them."""
        return PairBatches(np.stack(list(self.sides.values()), axis=1), batch_size, seed)


class _Collator:
    """Makes batches of pairs and of sentences, from rows of the one dataset or of the other."""

    valid_label_columns: Sequence[str] = ("label",)

    def __init__(self, pairs: PairIds, sentences: TrainingData) -> None:
        self.pairs, self.sentences = pairs, sentences

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Tensor | str]:
        name = rows[0]["dataset_name"]
        columns = self.sentences(rows) if name == _SENTENCES else self._pairs(rows)
        return {**columns, "dataset_name": name}

    def _pairs(self, rows: list[dict[str, Any]]) -> dict[str, Tensor]:
        columns: dict[str, Tensor] = {}
        for side in self.pairs.sides:
            ids = self.pairs.texts.take(np.array([row[side] for row in rows]))
            columns |= bags(side, ids)
        return columns


class Start(NamedTuple):
    """The start of a fine-tuning.

    Attributes:
        tokenizer: The student's tokenizer.
        table: Its table, [V, D].
        head: The head behind the table, if there is one.
    """

    tokenizer: Tokenizer
    table: NDArray[np.float32]
    head: Head | None

    def as_model(self, sparse: bool) -> SentenceTransformer:
        """The student, to be trained."""
        modules: list[nn.Module] = [StaticWordEmbedding(self.tokenizer, self.table, sparse=sparse)]
        if self.head:
            modules.append(TrainableHead.of(self.head, sparse))
        return SentenceTransformer(modules=modules, device="cpu")  # the Trainer moves it


def fine_tune(
    start: Start,
    pairs: PairIds,
    sentences: TrainingData,
    train: NDArray[np.int64],
    config: PairsConfig,
    distillation: DistillationConfig,
    folder: Path,
    seed: int = 0,
) -> Distilled:
    """Train a table, and a head if there is one, on pairs and on the teacher's similarities.

    Args:
        start: The student so far.
        pairs: The pairs.
        sentences: The sentences that the teacher has read.
        train: Numbers of those to train on, ascending.
        config: The steps.
        distillation: How sentences are trained on.
        folder: Where checkpoints go; from one that is there, training goes on.
        seed: Seed of order.

    Raises:
        ValueError: There are fewer sentences, or pairs without a common text, than in one batch.
    """
    training = as_training(config, distillation)
    check_batches(pairs, len(train), training.batch_size)
    model = start.as_model(training.optimizer == "sparse_adam")
    samplers = (
        pairs.batches(training.batch_size, seed),
        batch_sampler(sentences.vectors, train, training, seed),
    )
    ranking = MultipleNegativesRankingLoss(model, scale=1 / _TEMPERATURE)
    trainer = trainer_for(training)(
        model=model,
        args=_arguments(folder, training, *samplers, seed),
        train_dataset=DatasetDict(
            {_PAIRS: Dataset.from_dict(pairs.sides), _SENTENCES: sentence_numbers(train)}
        ),
        loss={
            _PAIRS: at_all_dimensions(model, ranking, training),
            # The linear map of the estimate is not kept.
            _SENTENCES: make_loss(model, training, without=["estimate"]),
        },
        data_collator=_Collator(pairs, sentences),
    )
    state = train_to_the_end(trainer, training, folder, "pairs")
    last = folder / f"checkpoint-{state.global_step}"
    figures = {"steps": state.global_step, "pairs": pairs.n_pairs}
    return Distilled(*read_checkpoint(last, start.head is not None), figures)


def _arguments(
    folder: Path,
    training: DistillationConfig,
    of_pairs: PairBatches,
    of_sentences: MakeSampler,
    seed: int,
) -> SentenceTransformerTrainingArguments:
    """The Trainer's arguments: to the last step, without a held-out loss."""
    arguments = training_arguments(folder, training, seed)
    arguments.eval_strategy, arguments.load_best_model_at_end = IntervalStrategy.NO, False
    arguments.multi_dataset_batch_sampler = functools.partial(Turns, steps=training.max_steps)
    arguments.batch_sampler = functools.partial(
        _sampler, of_pairs=of_pairs, of_sentences=of_sentences
    )
    return arguments


def check_batches(pairs: PairIds, n_sentences: int, batch_size: int) -> None:
    """Check that pairs, and sentences, fill a batch; smaller ones are dropped.

    Raises:
        ValueError: They do not.
    """
    check_number(pairs.n_pairs, batch_size, " of texts with words that the model knows")
    check_size("training sentences", n_sentences, batch_size)
    if next(iter(pairs.batches(batch_size)), None) is None:
        raise ValueError(
            f"No {batch_size} of {pairs.n_pairs:,} pairs (distillation.batch_size) have all texts "
            "different, as in a batch each is a negative of the others. Lower it, or give pairs of "
            "more texts."
        )


def as_training(config: PairsConfig, distillation: DistillationConfig) -> DistillationConfig:
    """The training of a fine-tuning: a distillation's, with steps of its own."""
    return replace(distillation, max_steps=config.max_steps, learning_rate=_LEARNING_RATE)


def _sampler(
    dataset: Dataset,
    batch_size: int,
    of_pairs: PairBatches,
    of_sentences: MakeSampler,
    **options: Any,
) -> DefaultBatchSampler:
    """The batches of one of the two datasets."""
    is_of_sentences = "sentence" in dataset.column_names
    return of_sentences(dataset, batch_size, **options) if is_of_sentences else of_pairs
