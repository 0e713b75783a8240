"""Distillation through the Trainer: it learns, stops, resumes to the same bytes."""

import gc
import io
import itertools
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from st_static import SimilarityDistillationLoss, StaticWordEmbedding
from st_static.distill import distillation
from st_static.distill.adam import SparseAndDenseAdam
from st_static.distill.agreement import TableAgreement, teacher_agreement
from st_static.distill.batches import RandomBatches
from st_static.distill.config import DistillationConfig
from st_static.distill.distillation import (
    SparseTrainer,
    TrainingData,
    distill,
    last_whole_checkpoint,
    training_arguments,
)
from st_static.distill.loss import cosines_with_others, similarity_cross_entropy
from st_static.distill.static_word_embedding import TrainableHead
from st_static.model.tokenizer import build_tokenizer
from st_static.model.vectors import sentence_means, unit_rows
from st_static.tokens.ragged import Ragged, offsets_of

WORDS = ["".join(letters) for letters in itertools.product("bdfgk", "aeiou", "lmnrst")][:80]
N_SENTENCES, N_HELD_OUT = 384, 64
CONFIG = DistillationConfig(
    max_steps=35,
    batch_size=16,
    groups_per_batch=4,
    learning_rate=0.1,
    eval_steps=10,
)
# From the best start there is: the held-out loss never falls, and training stops early.
HOPELESS = replace(CONFIG, max_steps=200, eval_steps=5)


class Problem:
    """A word table to be found, sentences of it, and the teacher's vectors: their means."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.tokenizer = build_tokenizer([*WORDS, "unseen"])
        target = rng.normal(size=(len(WORDS) + 3, 12)).astype(np.float32)
        target[:2] = 0
        rows = [rng.integers(2, len(WORDS) + 2, rng.integers(3, 8)) for _ in range(N_SENTENCES)]
        ids = Ragged(
            np.concatenate(rows).astype(np.int32), offsets_of(np.array([len(r) for r in rows]))
        )
        self.data = TrainingData(ids, sentence_means(target, ids).astype(np.float16))
        self.held_out = np.arange(5, N_SENTENCES, N_SENTENCES // N_HELD_OUT)
        self.target = target
        # Where training starts: eight of the twelve dimensions, noisy; zero rows of specials.
        self.start = (target[:, :8] + rng.normal(size=(len(target), 8))).astype(np.float32)
        self.start[:2] = 0
        rows = self.held_out
        self.measure = TableAgreement(self.data.ids.take(rows), self.data.vectors[rows])

    def distill(self, folder, config=CONFIG, seed=0):
        # A hopeless run starts from what is to be found, and can only get worse.
        start = self.target if config.eval_steps == HOPELESS.eval_steps else self.start
        table, _, figures = self.distill_all(folder, config, seed, start)
        return table, figures

    def distill_all(self, folder, config, seed=0, start=None):
        start = self.start if start is None else start
        arguments = start, self.tokenizer, self.data, self.held_out, config, folder, seed
        return distill(*arguments, measure=self.measure)

    def held_out_loss(self, table, dimension=12, head=None):
        """The held-out loss, computed without the Trainer."""
        student = student_of(self, table[:, :dimension], head)
        losses = []
        for batch in RandomBatches(len(self.held_out), CONFIG.batch_size, 0):
            rows = self.held_out[batch]
            teacher = torch.from_numpy(self.data.vectors[rows].astype(np.float32))
            cosines = map(cosines_with_others, (torch.from_numpy(student[rows]), teacher))
            losses.append(similarity_cross_entropy(*cosines, 0.05))
        return float(torch.stack(losses).mean())


def student_of(problem, table, head):
    """The vectors of a table, computed without the Trainer."""
    means = sentence_means(table, problem.data.ids)
    return means + np.maximum(means @ head.first.T, 0) @ head.second.T if head else means


@pytest.fixture(scope="module", autouse=True)
def quick_trainer():
    """Leave out what makes short runs long: model cards in checkpoints, collecting old garbage."""
    gc.freeze()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distillation, "_LOG_STEPS", 5)
        patch.setattr(SentenceTransformer, "_create_model_card", lambda *_, **__: None)
        yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def problem():
    return Problem()


@pytest.fixture(scope="module")
def uninterrupted(problem, tmp_path_factory):
    """The clustered run that others are compared with: table, figures, folder."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    table, figures = problem.distill(folder)
    return table, figures, folder


def kill_at_step(monkeypatch, step):
    """Let training break off in the given step, counted from here."""
    steps = itertools.count(1)
    training_step = SentenceTransformerTrainer.training_step

    def breaking(self, *args, **kwargs):
        if next(steps) == step:
            raise KeyboardInterrupt
        return training_step(self, *args, **kwargs)

    monkeypatch.setattr(SparseTrainer, "training_step", breaking)


def distill_killed(problem, folder, monkeypatch, step, config=CONFIG):
    """Distil until training breaks off in the given step."""
    with monkeypatch.context() as patch:
        kill_at_step(patch, step)
        with pytest.raises(KeyboardInterrupt):
            problem.distill(folder, config)


def checkpoints(folder):
    return sorted(path.name for path in folder.glob("checkpoint-*"))


# -- a head -----------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["sparse_adam", "adam"])
def test_a_head_is_trained_with_the_table(problem, tmp_path, optimizer):
    config = replace(CONFIG, head=16, optimizer=optimizer, learning_rate=0.03, max_steps=60)
    table, head, figures = problem.distill_all(tmp_path, config)
    assert head.units == 16
    loss = problem.held_out_loss(table, head=head)
    assert loss == pytest.approx(figures["losses"][-1][1], rel=1e-4)
    assert loss < problem.held_out_loss(problem.start) - 1

    rows, student = problem.held_out, student_of(problem, table, head)
    agreement = teacher_agreement(student[rows], problem.data.vectors[rows])
    assert figures["agreements"][-1] == [60, pytest.approx(agreement, abs=0.02)]
    assert np.abs(head.second).max() > 0.01
    assert not table[:2].any()


def test_a_head_gets_the_same_bytes_after_a_kill(problem, tmp_path, monkeypatch):
    config = replace(CONFIG, head=4, terms="full")
    whole = problem.distill_all(tmp_path / "whole", config)
    distill_killed(problem, tmp_path / "resumed", monkeypatch, 25, config)
    resumed = problem.distill_all(tmp_path / "resumed", config)
    np.testing.assert_array_equal(whole.table, resumed.table)
    np.testing.assert_array_equal(whole.head.first, resumed.head.first)
    np.testing.assert_array_equal(whole.head.second, resumed.head.second)
    assert whole.figures == resumed.figures


def test_sparse_gradients_train_a_head_as_dense_ones_do():
    """SparseAdam on gradients that hold all rows is Adam."""
    sparse = TrainableHead(6, 4)
    torch.nn.init.normal_(sparse.second.weight)
    dense = TrainableHead(6, 4, sparse=False)
    dense.load_state_dict(sparse.state_dict())
    texts = torch.randn(8, 6)
    optimizers = (
        (sparse, torch.optim.SparseAdam(list(sparse.parameters()), lr=0.01)),
        (dense, torch.optim.Adam(dense.parameters(), lr=0.01)),
    )
    for _ in range(20):
        for head, optimizer in optimizers:
            optimizer.zero_grad()
            (head({"sentence_embedding": texts})["sentence_embedding"] ** 3).sum().backward()
            optimizer.step()
    assert sparse.first.weight.grad.is_sparse
    for one, other in zip(sparse.parameters(), dense.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        unit_rows(sparse.as_head()(texts.numpy())),
        unit_rows(sparse({"sentence_embedding": texts})["sentence_embedding"].detach().numpy()),
        atol=1e-6,
    )


@pytest.mark.parametrize("optimizer", ["sparse_adam", "adam"])
def test_texts_without_a_known_word_leave_a_head_finite(problem, tmp_path, optimizer):
    """Each scaling of zeros multiplies gradients by 1e12; Matryoshka has one for each dimension."""
    rows = problem.data.ids.lengths.copy()
    rows[::8] = 0  # some in every batch
    kept = np.repeat(rows > 0, problem.data.ids.lengths)
    ids = Ragged(problem.data.ids.values[kept], offsets_of(rows))
    config = replace(
        CONFIG, head=4, matryoshka_dims=[4, 2], terms="full", optimizer=optimizer, max_steps=10
    )
    data = TrainingData(ids, problem.data.vectors)
    found = distill(problem.start, problem.tokenizer, data, problem.held_out, config, tmp_path)
    assert found.head.second.any()
    for array in (found.table, found.head.first, found.head.second):
        assert np.isfinite(array).all()


def test_a_head_needs_units():
    with pytest.raises(ValueError, match="positive size of a head, but got 6, 0"):
        TrainableHead(6, 0)
    with pytest.raises(ValueError, match="head: expected a whole number of at least 0, but got -1"):
        DistillationConfig(head=-1)
    with pytest.raises(ValueError, match=r"head is 8, but distillation\.max_steps is 0"):
        DistillationConfig(head=8, max_steps=0)


# -- it learns -------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [0, 4])
def test_training_lowers_the_held_out_loss(problem, tmp_path, groups):
    table, figures = problem.distill(tmp_path, replace(CONFIG, groups_per_batch=groups))
    assert problem.held_out_loss(table) < problem.held_out_loss(problem.start) - 1
    losses = [loss for _, loss in figures["losses"]]
    assert losses == sorted(losses, reverse=True)
    assert figures["steps"] == 35
    assert [step for step, _ in figures["losses"]] == [10, 20, 30, 35]


def test_the_table_is_the_one_with_the_smallest_held_out_loss(problem, uninterrupted):
    table, figures, _ = uninterrupted
    best = min(figures["losses"], key=lambda pair: pair[1])
    assert best[0] == figures["best_step"]
    assert problem.held_out_loss(table) == pytest.approx(best[1], rel=1e-4)


def test_the_agreement_is_recorded_wherever_the_held_out_loss_is(problem, uninterrupted):
    table, figures, _ = uninterrupted
    by_step, rows = dict(figures["agreements"]), problem.held_out
    assert list(by_step) == [step for step, _ in figures["losses"]]
    vectors = problem.data.vectors[rows]
    before, after = (
        teacher_agreement(sentence_means(a, problem.data.ids)[rows], vectors)
        for a in (problem.start, table)
    )
    assert by_step[figures["best_step"]] == pytest.approx(after, abs=0.01)
    assert before < by_step[10] < after


def test_the_best_table_is_taken_when_later_ones_are_worse(problem, tmp_path):
    table, figures = problem.distill(tmp_path, HOPELESS)
    losses = [loss for _, loss in figures["losses"]]
    assert losses == sorted(losses)
    assert figures["best_step"] == 5
    assert problem.held_out_loss(table) == pytest.approx(losses[0], rel=1e-4)


def test_rows_that_no_sentence_uses_stay_as_they_are(problem, uninterrupted):
    table, _, _ = uninterrupted
    unseen = problem.tokenizer.token_to_id("unseen")
    assert not table[:2].any()
    np.testing.assert_array_equal(table[unseen], problem.start[unseen])
    used = np.unique(problem.data.ids.values)
    assert (table[used] != problem.start[used]).any(axis=1).all()


def test_the_given_table_is_not_changed(problem, tmp_path):
    before = problem.start.copy()
    problem.distill(tmp_path, replace(CONFIG, max_steps=10))
    np.testing.assert_array_equal(problem.start, before)


def test_held_out_sentences_are_not_trained_on(problem, tmp_path, monkeypatch):
    seen: set[int] = set()
    collate = TrainingData.__call__

    def watch(self, rows):
        seen.update(row["sentence"] for row in rows)
        return collate(self, rows)

    monkeypatch.setattr(TrainingData, "__call__", watch)
    monkeypatch.setattr(SparseTrainer, "evaluate", lambda self, **_: {"eval_loss": 1.0})
    problem.distill(tmp_path)
    # An epoch has 20 steps and goes through all others.
    assert sorted(seen) == np.setdiff1d(np.arange(N_SENTENCES), problem.held_out).tolist()


def test_matryoshka_dimensions_keep_more_quality_when_truncated(problem, uninterrupted, tmp_path):
    config = replace(CONFIG, matryoshka_dims=[4, 2])
    table, figures = problem.distill(tmp_path, config)
    for dimension in (2, 4):
        plain = problem.held_out_loss(uninterrupted[0], dimension=dimension)
        assert problem.held_out_loss(table, dimension=dimension) < plain
    losses = [problem.held_out_loss(table, dimension=dimension) for dimension in (8, 4, 2)]
    assert figures["losses"][-1][1] == pytest.approx(sum(losses), rel=1e-3)


def test_matryoshka_leaves_teacher_vectors_of_the_students_dimension_whole(problem, tmp_path):
    config = replace(HOPELESS, matryoshka_dims=[12, 3], max_steps=5)
    table, figures = problem.distill(tmp_path, config)
    assert table.shape[1] == problem.data.vectors.shape[1] == 12
    losses = [problem.held_out_loss(table, dimension=dimension) for dimension in (12, 3)]
    assert figures["losses"] == [[5, pytest.approx(sum(losses), rel=1e-3)]]


def test_another_seed_gives_another_table(problem, uninterrupted, tmp_path):
    table, _ = problem.distill(tmp_path, seed=1)
    assert not np.array_equal(table, uninterrupted[0])


# -- it stops --------------------------------------------------------------------------


def test_patience_stops_early(problem, tmp_path):
    _, figures = problem.distill(tmp_path, HOPELESS)
    # The best is the first of six.
    assert [step for step, _ in figures["losses"]] == [5, 10, 15, 20, 25, 30]
    assert (figures["steps"], figures["best_step"]) == (30, 5)


def test_training_logs_its_loss(uninterrupted):
    _, _, folder = uninterrupted
    state = json.loads((folder / checkpoints(folder)[-1] / "trainer_state.json").read_text())
    logged = {e["step"]: e["loss"] for e in state["log_history"] if "loss" in e}
    assert list(logged) == [5, 10, 15, 20, 25, 30, 35]
    losses = list(logged.values())
    assert sum(losses[-3:]) < sum(losses[:3])
    rates = [e["learning_rate"] for e in state["log_history"] if "loss" in e]
    assert rates == pytest.approx([0.1 * (1 - (step - 1) / 35) for step in logged])


# -- it resumes ------------------------------------------------------------------------


# An epoch has 20 steps: in the first one, at its end, in the second one.
@pytest.mark.parametrize("step", [4, 15, 21, 33])
def test_an_interrupted_run_gives_the_same_bytes(
    problem, uninterrupted, tmp_path, monkeypatch, step
):
    distill_killed(problem, tmp_path, monkeypatch, step)
    assert checkpoints(tmp_path)[-1:] == ([f"checkpoint-{step // 10 * 10}"] if step > 10 else [])
    table, figures = problem.distill(tmp_path)
    assert table.tobytes() == uninterrupted[0].tobytes()
    assert figures == uninterrupted[1]


def test_a_resumed_run_does_not_repeat_what_is_done(problem, tmp_path, monkeypatch):
    distill_killed(problem, tmp_path, monkeypatch, 25)
    steps = []
    training_step = SentenceTransformerTrainer.training_step
    monkeypatch.setattr(
        SparseTrainer,
        "training_step",
        lambda self, *args, **kwargs: steps.append(1) or training_step(self, *args, **kwargs),
    )
    problem.distill(tmp_path)
    assert len(steps) == 15


@pytest.mark.parametrize(
    ("config", "step"),
    [
        (replace(CONFIG, max_steps=30), 12),
        (HOPELESS, 18),
    ],
)
def test_a_schedule_and_patience_go_on_where_they_were(
    problem, tmp_path, monkeypatch, config, step
):
    whole, whole_figures = problem.distill(tmp_path / "whole", config)
    distill_killed(problem, tmp_path / "resumed", monkeypatch, step, config)
    table, figures = problem.distill(tmp_path / "resumed", config)
    assert table.tobytes() == whole.tobytes()
    assert figures == whole_figures


@pytest.mark.parametrize("config", [CONFIG, HOPELESS, replace(CONFIG, max_steps=30)])
def test_a_run_killed_at_its_end_gives_the_same_result(problem, tmp_path, config, monkeypatch):
    expected, expected_figures = problem.distill(tmp_path / "whole", config)
    # Killed after the last checkpoint, before the Trainer cleans up …
    with monkeypatch.context() as patch:
        patch.setattr(SparseTrainer, "_load_best_model", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            problem.distill(tmp_path / "killed", config)
    # … and once more after it, before the stage was complete.
    for _ in range(2):
        table, figures = problem.distill(tmp_path / "killed", config)
        assert table.tobytes() == expected.tobytes()
        assert figures == expected_figures


def test_where_there_is_no_terminal_training_prints_nothing(problem, tmp_path, capfd):
    problem.distill(tmp_path)
    assert capfd.readouterr() == ("", "")


def test_training_has_one_bar_with_its_losses(problem, tmp_path, monkeypatch):
    """Also after an interrupt, from which it goes on."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    distill_killed(problem, tmp_path, monkeypatch, 22)
    screen.truncate(screen.seek(0))
    problem.distill(tmp_path)
    drawn = [line for line in re.split(r"[\r\n]+", screen.getvalue()) if line.strip()]
    assert {line.partition(":")[0] for line in drawn} == {"distillation", "clusters"}
    steps = [re.search(r"(\d+)/(\d+) steps", line) for line in drawn if "steps" in line]
    assert int(steps[0][1]) == 20
    assert {step[2] for step in steps} == {str(CONFIG.max_steps)}
    assert re.search(r"loss=\d+\.\d{4}, held-out=\d+\.\d{4}", drawn[-1])


class Terminal(io.StringIO):
    def isatty(self):
        return True


def break_newest(folder, damage):
    newest = Path(last_whole_checkpoint(folder))
    state = newest / "trainer_state.json"
    if damage == "no state":
        state.unlink()
    elif damage == "half a state":
        state.write_text(state.read_text()[:100])
    elif damage == "no weights":
        (newest / "model.safetensors").unlink()
    elif damage == "no optimizer":
        (newest / "optimizer.pt").unlink()


@pytest.mark.parametrize("damage", ["no state", "half a state", "no weights", "no optimizer"])
def test_a_broken_last_checkpoint_is_skipped(problem, uninterrupted, tmp_path, monkeypatch, damage):
    distill_killed(problem, tmp_path, monkeypatch, 22)
    break_newest(tmp_path, damage)
    table, figures = problem.distill(tmp_path)
    assert table.tobytes() == uninterrupted[0].tobytes()
    assert figures == uninterrupted[1]


def make_checkpoint(folder, step, state="{}"):
    checkpoint = folder / f"checkpoint-{step}"
    checkpoint.mkdir(parents=True)
    for name in ("model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth"):
        (checkpoint / name).write_bytes(b"")
    if state is not None:
        (checkpoint / "trainer_state.json").write_text(state)
    return checkpoint


def test_the_newest_whole_checkpoint_is_the_one_with_most_steps(tmp_path):
    for step in (9, 100, 20):
        make_checkpoint(tmp_path, step)
    assert Path(last_whole_checkpoint(tmp_path)) == tmp_path / "checkpoint-100"


@pytest.mark.parametrize("state", [None, "", '{"global_step": 3'])
def test_broken_checkpoints_give_way_to_older_ones(tmp_path, caplog, state):
    make_checkpoint(tmp_path, 10)
    make_checkpoint(tmp_path, 20, state)
    make_checkpoint(tmp_path, 30, state)
    assert Path(last_whole_checkpoint(tmp_path)) == tmp_path / "checkpoint-10"
    assert checkpoints(tmp_path) == ["checkpoint-10"]
    assert "checkpoint-30 is incomplete" in caplog.text
    assert "checkpoint-20 is incomplete" in caplog.text


def test_no_whole_checkpoint_means_a_new_start(tmp_path):
    assert last_whole_checkpoint(tmp_path) is None
    for _ in range(2):  # the same one may break twice
        make_checkpoint(tmp_path, 10, state=None)
        assert last_whole_checkpoint(tmp_path) is None


# -- bad input -------------------------------------------------------------------------


def test_fewer_sentences_than_a_batch_are_refused(problem, tmp_path):
    with pytest.raises(ValueError, match="batch_size is 65, but there are only 64 held-out"):
        problem.distill(tmp_path, replace(CONFIG, batch_size=65, groups_per_batch=0))
    with pytest.raises(ValueError, match="only 10 training sentences"):
        distill(
            problem.start,
            problem.tokenizer,
            problem.data,
            np.arange(N_SENTENCES - 10),
            CONFIG,
            tmp_path,
        )


def trainer(problem, folder, trainer_class, module_class=StaticWordEmbedding, **arguments):
    """A Trainer as a user sets it up by hand: texts, the teacher's vectors, the loss."""
    texts = [
        " ".join(problem.tokenizer.id_to_token(int(i)) for i in row)
        for row in np.split(problem.data.ids.values, problem.data.ids.offsets[1:-1])
    ]
    labels = problem.data.vectors.astype(np.float32)
    dataset = Dataset.from_dict({"text": texts, "label": labels.tolist()})
    module = module_class(problem.tokenizer, problem.start.copy())
    model = SentenceTransformer(modules=[module], device="cpu")
    training = SentenceTransformerTrainingArguments(
        output_dir=str(folder),
        max_steps=20,
        per_device_train_batch_size=16,
        learning_rate=0.02,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        **arguments,
    )
    return trainer_class(
        model=model, args=training, train_dataset=dataset, loss=SimilarityDistillationLoss(model)
    )


@pytest.mark.parametrize("module_class", [StaticWordEmbedding, StaticEmbedding])
def test_sparse_trainer_takes_texts_and_labels(problem, tmp_path, module_class):
    by_hand = trainer(problem, tmp_path, SparseTrainer, module_class)
    by_hand.train()
    assert isinstance(by_hand.optimizer.optimizer, SparseAndDenseAdam)
    assert by_hand.model[0].embedding.sparse
    table = by_hand.model[0].embedding.weight.detach().numpy()
    assert problem.held_out_loss(table) < problem.held_out_loss(problem.start) - 0.1


def test_a_given_optimizer_is_kept(problem, tmp_path):
    by_hand = trainer(problem, tmp_path, SparseTrainer)
    own = torch.optim.SGD(by_hand.model.parameters(), lr=0.1)
    by_hand.optimizer = own
    assert by_hand.create_optimizer() is own


# -- pieces of it ----------------------------------------------------------------------


def test_a_batch_is_gathered_from_sentence_numbers():
    ids = Ragged(np.array([5, 6, 7, 8, 9], dtype=np.int32), np.array([0, 2, 2, 5]))
    vectors = np.array([[1, 2], [3, 4], [5, 6]], dtype=np.float16)
    data = TrainingData(ids, vectors)
    batch = data([{"sentence": 2}, {"sentence": 1}, {"sentence": 0}])
    assert batch["sentence_input_ids"].tolist() == [7, 8, 9, 5, 6]
    assert batch["sentence_offsets"].tolist() == [0, 3, 3]
    # A column of zeros changes no cosine, and tells MatryoshkaLoss not to cut the labels.
    assert batch["label"].tolist() == [[5, 6, 0], [3, 4, 0], [1, 2, 0]]
    assert batch["label"].dtype == torch.float32


@pytest.mark.parametrize(
    ("optimizer", "schedule", "norm"), [("sparse_adam", "linear", 0), ("adam", "constant", 1)]
)
def test_arguments_follow_the_recipe(tmp_path, optimizer, schedule, norm):
    config = replace(CONFIG, optimizer=optimizer, learning_rate=0.003)
    arguments = training_arguments(tmp_path, config, seed=9)
    assert arguments.lr_scheduler_type == schedule
    assert (arguments.learning_rate, arguments.seed) == (0.003, 9)
    assert (arguments.max_steps, arguments.eval_steps, arguments.save_steps) == (35, 10, 10)
    assert arguments.per_device_train_batch_size == arguments.per_device_eval_batch_size == 16
    assert arguments.max_grad_norm == norm
    assert arguments.load_best_model_at_end
