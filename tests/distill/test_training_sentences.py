"""Which sentences are trained on, which are development sentences; and the optimisers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from st_static.distill.batches import RandomBatches, training_sentences
from st_static.distill.config import DistillationConfig
from st_static.distill.distillation import TrainingData, distill
from st_static.distill.loss import similarity_cross_entropy
from st_static.model.tokenizer import build_tokenizer
from st_static.model.vectors import sentence_means
from st_static.tokens.ragged import Ragged, offsets_of

N = 400
CONFIG = DistillationConfig(
    max_steps=12,
    batch_size=16,
    batches="random",
    learning_rate=0.01,
    schedule="constant",
    eval_steps=12,
)


def ragged(rows: list[list[int]]) -> Ragged:
    values = np.array([word for row in rows for word in row], dtype=np.int32)
    return Ragged(values, offsets_of(np.array([len(row) for row in rows], dtype=np.int64)))


WORDS_OF = st.lists(st.lists(st.integers(2, 9), max_size=4, unique=True), min_size=20, max_size=80)


@given(WORDS_OF, st.integers(1, 4), st.integers(0, 3))
def test_of_each_word_as_many_sentences_are_trained_on_as_it_may_have(rows, n, seed):
    """At least, for words share sentences; and a sentence is there only if some word chose it."""
    config = replace(CONFIG, sentences_per_word=n)
    is_held_out = np.arange(len(rows)) % 5 == 0
    train, development = training_sentences(ragged(rows), is_held_out, config, seed)
    assert development.tolist() == np.flatnonzero(is_held_out).tolist()
    assert train.tolist() == sorted({int(i) for i in train if not is_held_out[i]})
    # Spans and passages, selected for no word, are all trained on.
    of_no_word = {i for i, row in enumerate(rows) if not row and not is_held_out[i]}
    assert of_no_word <= set(train.tolist())
    # A matching of sentences to words: greedy counts, from an order of their own.
    for word in {word for row in rows for word in row}:
        of_word = [i for i, row in enumerate(rows) if word in row and not is_held_out[i]]
        assert len(set(of_word) & set(train.tolist())) >= min(n, len(of_word))
    most = sum(
        min(n, sum(word in row for row, held in zip(rows, is_held_out, strict=True) if not held))
        for word in {word for row in rows for word in row}
    )
    assert len(train) - len(of_no_word) <= most


def test_all_sentences_are_trained_on_by_default():
    is_held_out = np.arange(40) % 4 == 0
    train, development = training_sentences(ragged([[2]] * 40), is_held_out, CONFIG, 0)
    assert train.tolist() == np.flatnonzero(~is_held_out).tolist()
    assert development.tolist() == np.flatnonzero(is_held_out).tolist()


def test_development_sentences_of_the_selection_are_others_than_those_trained_on():
    is_held_out = np.arange(100) % 10 == 0
    config = replace(CONFIG, development="selection", sentences_per_word=2)
    words = ragged([[2 + i % 7] for i in range(100)])
    splits = [training_sentences(words, is_held_out, config, seed) for seed in (0, 0, 1)]
    train, development = splits[0]
    assert len(development) == 10
    assert not is_held_out[development].any()
    assert set(train.tolist()).isdisjoint(development.tolist())
    assert np.bincount(2 + train % 7).max() == 2
    assert splits[1].development.tolist() == development.tolist()
    assert splits[2].development.tolist() != development.tolist()


def test_too_few_sentences_for_that_are_refused():
    is_held_out = np.arange(30) < 11
    config = replace(CONFIG, development="selection")
    with pytest.raises(ValueError, match=r"takes 11 of the selected .* there are only 19\. Lower"):
        training_sentences(ragged([[2]] * 30), is_held_out, config, 0)


class Problem:
    """Sentences of thirty words, of which a batch has some only."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        words = [f"w{i}" for i in range(30)]
        self.tokenizer = build_tokenizer(words)
        self.ids = ragged([rng.integers(2, 32, 4).tolist() for _ in range(N)])
        target = rng.normal(size=(32, 12)).astype(np.float32)
        self.vectors = sentence_means(target, self.ids).astype(np.float16)
        self.start = rng.normal(size=(32, 8)).astype(np.float32)
        self.start[:2] = 0
        self.held_out = np.arange(0, N, 10)
        self.train = np.setdiff1d(np.arange(N), self.held_out)

    def distill(self, folder: Path, config: DistillationConfig) -> np.ndarray:
        data = TrainingData(self.ids, self.vectors)
        return distill(self.start, self.tokenizer, data, self.held_out, config, folder)[0]

    def by_a_bare_loop(self, config: DistillationConfig) -> np.ndarray:
        """The same training with torch's own Adam."""
        table = torch.from_numpy(self.start.copy()).requires_grad_()
        optimizer = torch.optim.Adam([table], lr=config.learning_rate)
        batches = iter(RandomBatches(len(self.train), config.batch_size, 0))
        for _ in range(config.max_steps):
            rows = self.train[next(batches)]
            ids = self.ids.take(rows)
            student = F.embedding_bag(
                torch.from_numpy(ids.values).long(), table, torch.from_numpy(ids.offsets[:-1])
            )
            teacher = torch.from_numpy(self.vectors[rows].astype(np.float32))
            optimizer.zero_grad()
            similarity_cross_entropy(student, teacher, config.temperature).backward()
            if config.max_grad_norm:
                torch.nn.utils.clip_grad_norm_([table], config.max_grad_norm)
            optimizer.step()
        return table.detach().numpy()


@pytest.fixture(scope="module")
def problem() -> Problem:
    return Problem()


@pytest.mark.parametrize("max_grad_norm", [0.0, 0.01])
def test_adam_is_torchs_own(problem, tmp_path, max_grad_norm):
    config = replace(CONFIG, optimizer="adam", max_grad_norm=max_grad_norm, device="cpu")
    expected = problem.by_a_bare_loop(config)
    np.testing.assert_allclose(problem.distill(tmp_path, config), expected, rtol=1e-3, atol=2e-4)
    assert np.abs(expected - problem.start).max() > 0.05


def test_adam_moves_rows_that_sparse_adam_leaves(problem, tmp_path):
    """Those of words that are not in the batch, once they have been in one."""
    few = replace(CONFIG, batch_size=4, max_steps=8, eval_steps=8)
    tables = {
        name: problem.distill(tmp_path / name, replace(few, optimizer=name))
        for name in ("sparse_adam", "adam")
    }
    moved = {name: np.abs(table - problem.start).sum() for name, table in tables.items()}
    assert moved["adam"] > 1.3 * moved["sparse_adam"] > 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_refused(problem, tmp_path):
    with pytest.raises(ValueError, match=r"distillation\.device is cuda, but PyTorch finds only"):
        problem.distill(tmp_path, replace(CONFIG, device="cuda"))


def test_sparse_gradients_cannot_be_clipped():
    with pytest.raises(ValueError, match=r"max_grad_norm must be 0 with .*sparse_adam"):
        replace(CONFIG, max_grad_norm=1.0)
