"""SparseTrainer trains all that sentence-transformers' own Trainer does, and to the same values."""

import copy
import itertools

import numpy as np
import pytest
import torch
from datasets import Dataset
from safetensors.torch import load_file
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import (
    CoSENTLoss,
    MatryoshkaLoss,
    MultipleNegativesRankingLoss,
    SoftmaxLoss,
)
from sentence_transformers.sentence_transformer.modules import Dense, StaticEmbedding

from st_static import SparseTrainer, StaticWordEmbedding
from st_static.distill.adam import SparseAndDenseAdam
from st_static.model.tokenizer import build_tokenizer

WORDS = ["red", "blue", "boat", "car", "sea", "road"]
# All are a batch, which has every word: rows of words that it lacked would keep their moments.
PAIRS = {
    "first": ["red boat", "blue car sea", "road", "sea red"],
    "second": ["boat sea", "car", "road blue", "boat car"],
}
CLASSES = Dataset.from_dict({**PAIRS, "label": [0, 1, 2, 0]})
SCORES = Dataset.from_dict({**PAIRS, "label": [0.9, 0.5, 0.1, 0.4]})
DIMENSION = 4


def make_model(module_class=StaticWordEmbedding, dense=False, seed=0):
    """A model of random words, perhaps with a dense layer behind their mean."""
    torch.manual_seed(seed)
    tokenizer = build_tokenizer(WORDS)
    table = torch.randn(tokenizer.get_vocab_size(), DIMENSION)
    table[:2] = 0
    modules = [module_class(tokenizer, table.numpy())]
    if dense:
        modules.append(Dense(DIMENSION, 3))
    return SentenceTransformer(modules=modules, device="cpu")


def softmax(model):
    return SoftmaxLoss(model, model.get_embedding_dimension(), num_labels=3)


def trainer(kind, folder, model, loss, dataset=CLASSES, **arguments):
    """A Trainer of some steps on the whole of a dataset."""
    options = {
        "max_steps": 12,
        "per_device_train_batch_size": 4,
        "learning_rate": 0.05,
        "adam_epsilon": 1e-12,  # SparseAdam adds it at another place
        "save_strategy": "no",
        "report_to": "none",
        "use_cpu": True,
        "disable_tqdm": True,
        **arguments,
    }
    arguments = SentenceTransformerTrainingArguments(str(folder), **options)
    return kind(model=model, args=arguments, train_dataset=dataset, loss=loss)


def parameters_of(loss):
    """The parameters of a loss, and of the model in it."""
    losses = loss if isinstance(loss, dict) else {"": loss}
    return {
        f"{name} {key}": value.detach().clone()
        for name, module in losses.items()
        for key, value in module.state_dict().items()
    }


def train_with_both(folder, model, loss, dataset=CLASSES, **arguments):
    """What a loss has before, and after training with each of the Trainers."""
    before, after = parameters_of(loss), []
    for kind in (SentenceTransformerTrainer, SparseTrainer):
        again_model, again_loss = copy.deepcopy((model, loss))
        trainer(kind, folder, again_model, again_loss, dataset, **arguments).train()
        after.append(parameters_of(again_loss))
    return before, *after


def assert_equal(expected, found):
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize(
    "arguments",
    [
        {"lr_scheduler_type": "constant"},
        {"max_grad_norm": 0.01},
        {"max_grad_norm": 0.0, "warmup_steps": 4},
        {"learning_rate_mapping": {"classifier": 0.2, r"linear\.bias": 0.01}},
        {"adam_beta1": 0.5, "adam_beta2": 0.9},
        {"gradient_accumulation_steps": 2},
        {"optim": "sgd", "max_grad_norm": 0.1, "learning_rate": 1.0},
    ],
    ids=lambda arguments: "-".join(arguments),
)
@pytest.mark.parametrize("module_class", [StaticWordEmbedding, StaticEmbedding])
def test_the_parameters_are_those_of_sentence_transformers_trainer(
    tmp_path, module_class, arguments
):
    model = make_model(module_class, dense=True)
    before, expected, found = train_with_both(tmp_path, model, softmax(model), **arguments)
    assert_equal(expected, found)
    for name, value in before.items():  # the table, the dense layer, and the classifier
        assert (found[name] - value).abs().max() > 0.01, name


def test_each_of_several_losses_is_trained(tmp_path):
    model = make_model(dense=True)
    losses = {"classes": softmax(model), "scores": CoSENTLoss(model)}
    data = {"classes": CLASSES, "scores": SCORES}
    before, expected, found = train_with_both(tmp_path, model, losses, data)
    assert_equal(expected, found)
    moved = (found["classes classifier.weight"] - before["classes classifier.weight"]).abs()
    assert moved.max() > 0.01


@pytest.mark.parametrize("frozen", ["embedding", "linear", "classifier"])
def test_frozen_parameters_stay(tmp_path, frozen):
    model = make_model(dense=True)
    loss = softmax(model)
    for name, parameter in loss.named_parameters():
        parameter.requires_grad_(frozen not in name)
    before, expected, found = train_with_both(tmp_path, model, loss)
    assert_equal(expected, found)
    for name, value in before.items():
        assert torch.equal(value, found[name]) == (frozen in name), name


def test_a_loss_around_another_and_one_without_weights(tmp_path):
    model = make_model()
    loss = MatryoshkaLoss(model, MultipleNegativesRankingLoss(model, scale=1), [4, 2])
    dataset = Dataset.from_dict(PAIRS)
    assert_equal(*train_with_both(tmp_path, model, loss, dataset)[1:])


def test_a_model_is_trained_that_its_loss_keeps_to_itself(tmp_path):
    class Loss(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.embed = lambda part: model(part)["sentence_embedding"]

        def forward(self, parts, labels):
            first, second = map(self.embed, parts)
            return (first - second).square().mean()

    model = make_model()
    before = model[0].embedding.weight.detach().clone()
    trainer(SparseTrainer, tmp_path, model, Loss(model)).train()
    assert (model[0].embedding.weight - before).abs().max() > 0.1


def test_the_table_alone_has_sparse_gradients(tmp_path):
    """The row of a word that no text has keeps its bytes; Adam itself trains the rest."""
    model = make_model(dense=True)
    row = model[0].tokenizer.token_to_id("road")
    before = model[0].embedding.weight[row].detach().clone()
    dataset = CLASSES.filter(lambda pair: "road" not in pair["first"] + pair["second"])
    by_hand = trainer(SparseTrainer, tmp_path, model, softmax(model), dataset)
    by_hand.train()
    assert torch.equal(model[0].embedding.weight[row], before)
    steps = {type(state["step"]) for state in by_hand.optimizer.state.values()}
    assert steps == {int, torch.Tensor}  # of SparseAdam and Adam


# -- checkpoints -----------------------------------------------------------------------


@pytest.mark.parametrize("several", [False, True])
def test_a_resumed_training_ends_with_the_same_bytes(tmp_path, monkeypatch, several):
    """In another process, where the loss begins with other weights."""

    def begin(folder, seed):
        model = make_model(dense=True, seed=seed)
        loss, data = softmax(model), CLASSES
        if several:
            loss = {"classes": loss, "again": loss, "scores": CoSENTLoss(model)}
            data = {"classes": CLASSES, "again": CLASSES, "scores": SCORES}
        return trainer(
            SparseTrainer,
            folder,
            model,
            loss,
            data,
            save_strategy="steps",
            save_steps=4,
            learning_rate_mapping={"classifier": 0.2},
        )

    whole = begin(tmp_path / "whole", 0)
    whole.train()
    steps, training_step = itertools.count(1), SparseTrainer.training_step

    def breaking(self, *args, **kwargs):
        if next(steps) == 7:
            raise KeyboardInterrupt
        return training_step(self, *args, **kwargs)

    killed = begin(tmp_path / "killed", 0)
    with monkeypatch.context() as fault:
        fault.setattr(SparseTrainer, "training_step", breaking)
        with pytest.raises(KeyboardInterrupt):
            killed.train()
    resumed = begin(tmp_path / "killed", 1)
    resumed.train(resume_from_checkpoint=True)
    expected, found = (parameters_of(t.loss) for t in (whole, resumed))
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        assert torch.equal(value, found[name]), name


def test_a_checkpoint_has_the_loss_s_own_weights_alone(tmp_path):
    model = make_model()
    guide = make_model()
    loss = softmax(model)
    loss.guide = guide  # as GISTEmbedLoss has another model
    saving = {"save_strategy": "steps", "save_steps": 12}
    trainer(SparseTrainer, tmp_path / "softmax", model, loss, **saving).train()
    file = tmp_path / "softmax" / "checkpoint-12" / "loss.safetensors"
    assert file.stat().st_mode == file.with_name("trainer_state.json").stat().st_mode
    weights = load_file(file)
    assert set(weights) == {"classifier.weight", "classifier.bias"}
    np.testing.assert_array_equal(weights["classifier.bias"], loss.classifier.bias.detach())
    without = trainer(SparseTrainer, tmp_path / "none", model, CoSENTLoss(model), SCORES, **saving)
    without.train()
    assert not (tmp_path / "none" / "checkpoint-12" / "loss.safetensors").exists()


# -- what it refuses -------------------------------------------------------------------


def test_weight_decay_is_refused_before_training(tmp_path):
    model = make_model()
    with pytest.raises(ValueError, match=r"weight_decay=0 .*it is 0\.01"):
        trainer(SparseTrainer, tmp_path, model, softmax(model), weight_decay=0.01)


def test_an_optimizer_without_sparse_gradients_says_so(tmp_path):
    model = make_model()
    by_hand = trainer(SparseTrainer, tmp_path, model, softmax(model), optim="rmsprop")
    with pytest.raises(RuntimeError, match="RMSprop does not support sparse gradients"):
        by_hand.train()


def test_a_table_may_have_sparse_and_dense_gradients_in_turn():
    """As where one of several losses reads the whole table."""
    tables = [torch.nn.Embedding.from_pretrained(torch.ones(3, 2), freeze=False) for _ in range(2)]
    tables[0].sparse = True
    options = {"lr": 0.1, "eps": 1e-12}
    optimizers = [
        SparseAndDenseAdam(tables[0].parameters(), **options),
        torch.optim.Adam(tables[1].parameters(), **options),
    ]
    for step in range(6):
        for table, optimizer in zip(tables, optimizers, strict=True):
            rows = table(torch.arange(3)) if step % 2 == 0 else table.weight
            (rows**3 * torch.tensor([[1], [2], [-step]])).sum().backward()
            assert (table.weight.grad.is_sparse) == (table is tables[0] and step % 2 == 0)
            optimizer.step()
            optimizer.zero_grad()
    torch.testing.assert_close(tables[0].weight, tables[1].weight)


def test_an_optimizer_of_both_kinds_takes_a_closure():
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = SparseAndDenseAdam([weight], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = weight.square().sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 2
    torch.testing.assert_close(weight.detach(), torch.full([2], 0.9))
