"""Fine-tune a distilled table on pairs of texts, in turns with its distillation."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from datasets import Dataset, DatasetDict
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.sampler import DefaultBatchSampler, MultiDatasetDefaultBatchSampler
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.util import cos_sim
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.utils.data import ConcatDataset
from transformers.trainer_utils import IntervalStrategy

from st_static.distill.batches import RandomBatches, batch_sampler
from st_static.distill.config import DistillationConfig, PairsConfig
from st_static.distill.distillation import (
    Distilled,
    TrainingData,
    at_all_dimensions,
    bags,
    make_loss,
    read_checkpoint,
    train_to_the_end,
    training_arguments,
)
from st_static.distill.pairs import COLUMNS
from st_static.distill.stages import check_batch_size
from st_static.distill.static_word_embedding import StaticWordEmbedding, TrainableHead
from st_static.model.head import Head
from st_static.tokens.ragged import Ragged

_PAIRS, _SENTENCES = "pairs", "sentences"  # the datasets of the Trainer
_TEMPERATURE = 0.05  # of the softmax over the positives and negatives of a batch
_LEARNING_RATE = 1e-3  # of Adam at its highest


class PairIds(NamedTuple):
    """Pairs as token ids."""

    texts: Ragged  # token ids of the different texts, [T rows]
    sides: NDArray[np.int64]  # the numbers of each pair's texts: `COLUMNS`, [P, 2 or 3]

    @classmethod
    def of(cls, pairs: pa.Table, tokenize: Callable[[pa.Array], Ragged]) -> PairIds:
        """Keep the pairs whose sides all have a known word; a text without one has no vector."""
        columns = [column.combine_chunks() for column in pairs.columns]
        texts = pc.unique(pa.concat_arrays(columns))
        ids = tokenize(texts)
        numbers = [pc.index_in(column, texts).to_numpy() for column in columns]
        sides = np.stack(numbers, axis=1).astype(np.int64)
        return cls(ids, sides[(ids.lengths[sides] > 0).all(axis=1)])


class PairBatches(RandomBatches):
    """Batches of pairs in random order, without a text twice in one: it would be a negative."""

    def __init__(self, sides: NDArray[np.int64], batch_size: int, seed: int = 0) -> None:
        super().__init__(len(sides), batch_size, seed)
        self.sides = sides

    def __iter__(self) -> Iterator[list[int]]:
        order = self.order(np.random.default_rng([self.seed, self.epoch]))
        batch: list[int] = []
        texts: set[int] = set()
        for pair, sides in zip(order.tolist(), self.sides[order].tolist(), strict=True):
            if texts.isdisjoint(sides):
                batch.append(pair)
                texts.update(sides)
            if len(batch) == self.batch_size:
                yield batch
                batch, texts = [], set()


class Turns(MultiDatasetDefaultBatchSampler):
    """A batch of each dataset in turn, for `steps` batches: to the Trainer one epoch, as that of
    pairs tells its number of batches only at its end."""

    def __init__(
        self,
        dataset: ConcatDataset[Any],
        batch_samplers: Sequence[DefaultBatchSampler],
        steps: int,
        **_: object,
    ) -> None:
        super().__init__(dataset, list(batch_samplers))
        self.samplers = batch_samplers
        self.firsts = [0, *dataset.cumulative_sizes[:-1]]
        self.steps = steps

    def __iter__(self) -> Iterator[list[int]]:
        turns = map(_endless, self.samplers, self.firsts)
        rounds = itertools.chain.from_iterable(zip(*turns, strict=True))
        return itertools.islice(rounds, self.steps)

    def __len__(self) -> int:
        return self.steps


def _endless(sampler: DefaultBatchSampler, first: int) -> Iterator[list[int]]:
    for epoch in itertools.count():
        sampler.set_epoch(epoch)
        for batch in sampler:
            yield [first + row for row in batch]


class _Collator:
    """Makes batches of pairs or of sentences, from rows of either dataset."""

    valid_label_columns: Sequence[str] = ("label",)

    def __init__(self, pairs: PairIds, sentences: TrainingData) -> None:
        self.pairs, self.sentences = pairs, sentences

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Tensor | str]:
        batch: dict[str, Tensor | str] = {"dataset_name": rows[0]["dataset_name"]}
        if batch["dataset_name"] == _SENTENCES:
            return batch | self.sentences(rows)
        sides = self.pairs.sides[[row["pair"] for row in rows]].T
        for name, side in zip(COLUMNS, sides, strict=False):
            batch |= bags(name, self.pairs.texts.take(side))
        return batch


def check_batches(pairs: PairIds, n_sentences: int, batch_size: int) -> None:
    """Check that pairs and sentences each fill a batch; smaller batches are dropped."""
    n_pairs = len(pairs.sides)
    check_batch_size(batch_size, n_pairs, "pairs of texts with words that the model knows")
    check_batch_size(batch_size, n_sentences, "training sentences")
    if next(iter(PairBatches(pairs.sides, batch_size)), None) is None:
        raise ValueError(
            f"No {batch_size} of {n_pairs:,} pairs (distillation.batch_size) have all texts "
            "different, as a batch needs. Lower it, or give pairs of more texts."
        )


def pairs_loss(model: SentenceTransformer, config: PairsConfig) -> MultipleNegativesRankingLoss:
    """Make the loss of pairs: of the cosines of a first side with all second sides in a batch, that
    of its pair, less the margin, must be the largest (Feng et al., 2022, in one direction)."""
    return MultipleNegativesRankingLoss(
        model,
        scale=1 / _TEMPERATURE,
        similarity_fct=functools.partial(_cosines, margin=config.margin),
    )


def _cosines(first: Tensor, second: Tensor, margin: float) -> Tensor:
    """Compute cosines [B, n]; subtract the margin from those of pairs, on the diagonal."""
    cosines = cos_sim(first, second)
    return cosines - margin * torch.eye(*cosines.shape, device=cosines.device)


def fine_tune(
    tokenizer: Tokenizer,
    table: NDArray[np.float32],
    head: Head | None,
    pairs: PairIds,
    *,
    sentences: TrainingData,
    train: NDArray[np.int64],
    training: DistillationConfig,
    config: PairsConfig,
    folder: Path,
    seed: int = 0,
) -> Distilled:
    """Train a table [V, D], and a head if any, on pairs and the teacher's similarities, from the
    last checkpoint in `folder` on; `train` numbers the sentences, ascending."""
    training = replace(training, max_steps=config.max_steps, learning_rate=_LEARNING_RATE)
    sparse = training.is_sparse
    words = StaticWordEmbedding(tokenizer, table, sparse=sparse)
    modules: list[nn.Module] = [words]
    if head:
        modules.append(TrainableHead.of(head, sparse))
    model = SentenceTransformer(modules=modules, device="cpu")  # the Trainer moves it
    # To the last step, without a held-out loss.
    arguments = training_arguments(folder, training, seed)
    arguments.eval_strategy, arguments.load_best_model_at_end = IntervalStrategy.NO, False
    arguments.multi_dataset_batch_sampler = functools.partial(Turns, steps=training.max_steps)
    arguments.batch_sampler = functools.partial(
        _sampler,
        of_pairs=PairBatches(pairs.sides, training.batch_size, seed),
        of_sentences=batch_sampler(sentences.vectors, train, training, seed),
    )
    state = train_to_the_end(
        model,
        arguments,
        training,
        "pairs",
        train_dataset=DatasetDict(
            {
                _PAIRS: Dataset.from_dict({"pair": np.arange(len(pairs.sides))}),
                _SENTENCES: Dataset.from_dict({"sentence": train}),
            }
        ),
        loss={
            _PAIRS: at_all_dimensions(model, pairs_loss(model, config), training),
            # The linear map of the estimate is not kept.
            _SENTENCES: make_loss(model, training, without=["estimate"]),
        },
        data_collator=_Collator(pairs, sentences),
    )
    last = folder / f"checkpoint-{state.global_step}"
    figures = {"steps": state.global_step, "pairs": len(pairs.sides)}
    return Distilled(*read_checkpoint(last, head is not None), figures)


def _sampler(
    dataset: Dataset,
    batch_size: int,
    of_pairs: PairBatches,
    of_sentences: Callable[..., DefaultBatchSampler],
    **options: Any,
) -> DefaultBatchSampler:
    is_of_sentences = "sentence" in dataset.column_names
    return of_sentences(dataset, batch_size, **options) if is_of_sentences else of_pairs
