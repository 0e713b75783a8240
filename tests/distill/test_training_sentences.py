"""Which sentences are trained on, which are development sentences; and the optimisers."""

from dataclasses import replace

import numpy as np
import pytest
import test_distillation
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from st_static.distill.batches import RandomBatches, training_sentences
from st_static.distill.config import DistillationConfig
from st_static.distill.loss import cosines_with_others, similarity_cross_entropy
from st_static.tokens.ragged import ragged_of

CONFIG = DistillationConfig(
    max_steps=12,
    batch_size=16,
    groups_per_batch=0,
    learning_rate=0.01,
    eval_steps=12,
)


WORDS_OF = st.lists(st.lists(st.integers(2, 9), max_size=4, unique=True), min_size=20, max_size=80)


@given(WORDS_OF, st.integers(1, 4), st.integers(0, 3))
def test_of_each_word_as_many_sentences_are_trained_on_as_it_may_have(rows, n, seed):
    """At least, for words share sentences; and a sentence is there only if some word chose it."""
    config = replace(CONFIG, sentences_per_word=n)
    rows = [*rows, *[[2]] * 20]  # so that there are enough for the held-out loss
    is_held_out = np.arange(len(rows)) % 5 == 0
    train, development = training_sentences(ragged_of(rows), is_held_out, config, seed)
    assert len(development) == np.count_nonzero(is_held_out)
    is_held_out[development] = True
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
    train, development = training_sentences(ragged_of([[2]] * 40), is_held_out, CONFIG, 0)
    assert train.tolist() == np.flatnonzero(~is_held_out).tolist()
    assert development.tolist() == np.flatnonzero(is_held_out).tolist()


def test_development_sentences_of_the_selection_are_others_than_those_trained_on():
    is_held_out = np.arange(100) % 10 == 0
    config = replace(CONFIG, sentences_per_word=2)
    words = ragged_of([[2 + i % 7] for i in range(100)])
    splits = [training_sentences(words, is_held_out, config, seed) for seed in (0, 0, 1)]
    train, development = splits[0]
    assert len(development) == 10
    assert not is_held_out[development].any()
    assert set(train.tolist()).isdisjoint(development.tolist())
    assert np.bincount(2 + train % 7).max() == 2
    assert splits[1].development.tolist() == development.tolist()
    assert splits[2].development.tolist() != development.tolist()


class Problem(test_distillation.Problem):
    """Sentences of eighty words, of which a batch has some only."""

    def by_a_bare_loop(self, config: DistillationConfig) -> np.ndarray:
        """The same training with torch's own Adam."""
        train = np.setdiff1d(np.arange(test_distillation.N_SENTENCES), self.held_out)
        table = torch.from_numpy(self.start.copy()).requires_grad_()
        optimizer = torch.optim.Adam([table], lr=config.learning_rate)
        batches = iter(RandomBatches(len(train), config.batch_size, 0))
        for _ in range(config.max_steps):
            rows = train[next(batches)]
            ids = self.data.ids.take(rows)
            student = F.embedding_bag(
                torch.from_numpy(ids.values).long(), table, torch.from_numpy(ids.offsets[:-1])
            )
            teacher = torch.from_numpy(self.data.vectors[rows].astype(np.float32))
            optimizer.zero_grad()
            cosines = map(cosines_with_others, (student, teacher))
            similarity_cross_entropy(*cosines, config.temperature).backward()
            torch.nn.utils.clip_grad_norm_([table], 1)
            optimizer.step()
        return table.detach().numpy()


@pytest.fixture(scope="module")
def problem() -> Problem:
    return Problem()


def test_adam_is_torchs_own(problem, tmp_path):
    config = replace(CONFIG, optimizer="adam", device="cpu")
    expected = problem.by_a_bare_loop(config)
    np.testing.assert_allclose(
        problem.distill_all(tmp_path, config).table, expected, rtol=1e-3, atol=2e-4
    )
    assert np.abs(expected - problem.start).max() > 0.05


def test_adam_moves_rows_that_sparse_adam_leaves(problem, tmp_path):
    """Those of words that are not in the batch, once they have been in one."""
    few = replace(CONFIG, batch_size=4, max_steps=8, eval_steps=8)
    tables = {
        name: problem.distill_all(tmp_path / name, replace(few, optimizer=name)).table
        for name in ("sparse_adam", "adam")
    }
    moved = {name: np.abs(table - problem.start).sum() for name, table in tables.items()}
    assert moved["adam"] > 1.3 * moved["sparse_adam"] > 0
