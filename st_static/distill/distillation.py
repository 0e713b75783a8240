"""Train the word table to give the teacher's similarities (paper section 2.3)."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from datasets import Dataset
from numpy.typing import NDArray
from safetensors.numpy import load_file
from safetensors.torch import load_file as load_tensors
from safetensors.torch import save_file
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.base.evaluation import BaseEvaluator
from sentence_transformers.sentence_transformer.losses import EmbedDistillLoss, MatryoshkaLoss
from threadpoolctl import threadpool_limits
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm
from transformers import EarlyStoppingCallback, PrinterCallback, TrainerCallback, TrainerState
from transformers.trainer_utils import get_last_checkpoint

from st_static.arguments import check_type
from st_static.distill.adam import SparseAndDenseAdam
from st_static.distill.agreement import JointTarget, TableAgreement, Target
from st_static.distill.batches import batch_sampler
from st_static.distill.config import DistillationConfig
from st_static.distill.loss import SimilarityDistillationLoss
from st_static.distill.sources import check_device
from st_static.distill.stages import Figures, TeacherVectors, check_batch_size
from st_static.distill.static_word_embedding import (
    StaticWordEmbedding,
    TeacherEstimate,
    TrainableHead,
    features_of,
)
from st_static.files import atomic
from st_static.model.head import Head
from st_static.model.tokenizer import SPECIAL_TOKENS
from st_static.progress import bar
from st_static.tokens.fast_tokenizer import FastTokenizer
from st_static.tokens.ragged import Ragged

logger = logging.getLogger(__name__)

_HEAD_FOLDER = "1_TrainableHead"  # of the second module in a checkpoint
_LOSS_WEIGHTS = "loss.safetensors"
_TRAINER_STATE = "trainer_state.json"
_CHECKPOINT_FILES = ("model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth")
_LOG_STEPS = 100  # from one logged training loss to the next
_PATIENCE = 5  # held-out losses without an improvement, after which a training stops
_AGREEMENT = "teacher_agreement"
# Arguments of the loss by `distillation.terms`: three weights, and the target's share `words`.
_TERMS = {"paper": {}, "full": {"cosines": 50.0, "spread": 1.0, "estimate": 10.0, "words": 0.1}}


class _TrainerWithoutCard(SentenceTransformerTrainer):
    """A Trainer that leaves out the model card: it would encode the training data once more."""

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Add none."""


class SparseTrainer(SentenceTransformerTrainer):
    """A SentenceTransformerTrainer with sparse gradients: a step touches the rows of its batch.

    It turns on sparse gradients in the model's embeddings, and leaves them on. It trains all that a
    SentenceTransformerTrainer does: embeddings with `torch.optim.SparseAdam`, and what has dense
    gradients, such as a `Dense` module or the classifier in `SoftmaxLoss`, with `torch.optim.Adam`.
    The result is the same where each batch has all words; rows of words that a batch lacks do not
    change. Another optimizer, such as `optim="sgd"` in the arguments, must support sparse
    gradients. A checkpoint also holds the loss's own weights, in loss.safetensors.

    Raises:
        ValueError: `weight_decay` is not 0: it would change all rows.
        TypeError: The model is not a model.

    Example:
        ::

            arguments = SentenceTransformerTrainingArguments("checkpoints")
            SparseTrainer(model, arguments, train_dataset=dataset, loss=loss).train()

        `examples/fine_tune.py` and `examples/distill_by_hand.py` are whole programs.
    """

    def __init__(self, model: SentenceTransformer | None = None, *args: Any, **kwargs: Any) -> None:
        if "model_init" not in kwargs:
            check_type(
                model, nn.Module, "a SentenceTransformer", "Load it: SentenceTransformer(…)."
            )
        super().__init__(model, *args, **kwargs)
        if self.args.weight_decay:
            raise ValueError(
                "Weight decay would change all rows at each step: set weight_decay=0 in the "
                f"training arguments (it is {self.args.weight_decay})."
            )

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """Turn on sparse gradients, and make the optimizer."""
        modules: Iterable[Any] = self.model.modules()
        for module in modules:
            if hasattr(module, "sparse"):
                module.sparse = True
        optimizer: torch.optim.Optimizer = super().create_optimizer(model)
        return optimizer

    def get_optimizer_cls_and_kwargs(
        self, args: Any, model: Any = None
    ) -> tuple[type[torch.optim.Optimizer], dict[str, Any]]:
        """Choose the optimizer, and the groups of parameters, including the loss's own."""
        kind, options = super().get_optimizer_cls_and_kwargs(args, model)
        if kind is not torch.optim.AdamW:  # which is the default
            return kind, options
        groups = options["optimizer_dict"]
        held = {parameter for group in groups for parameter in group["params"]}
        # Of a loss that does not have its model as a module.
        of_loss = [p for p in self.model.parameters() if p.requires_grad and p not in held]
        groups = [group for group in [*groups, {"params": of_loss}] if group["params"]]
        settings = {name: options[name] for name in ("lr", "betas", "eps")}
        return SparseAndDenseAdam, {"optimizer_dict": groups, **settings}

    def create_accelerator_and_postprocess(self) -> None:
        """Make the accelerator, which also clips sparse gradients."""
        super().create_accelerator_and_postprocess()
        self.accelerator.clip_grad_norm_ = self._clip

    def _clip(self, parameters: Iterable[nn.Parameter], max_norm: float) -> Tensor | None:
        if math.isinf(max_norm):  # the norm would only be logged
            return None
        self.accelerator.unscale_gradients()
        gradients = []
        for parameter in parameters:
            if parameter.grad is not None and parameter.grad.is_sparse:
                parameter.grad = parameter.grad.coalesce()  # one row for each word
                gradients.append(parameter.grad.values())
            elif parameter.grad is not None:
                gradients.append(parameter.grad)
        norm = torch.nn.utils.get_total_norm(gradients)
        scale = torch.clamp(max_norm / (norm + 1e-6), max=1.0)  # torch's formula
        for gradient in gradients:
            gradient.mul_(scale)
        return norm

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        if weights := self._weights_of_loss():
            with atomic(Path(output_dir) / _LOSS_WEIGHTS) as partial:
                save_file(weights, partial)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        weights = self._weights_of_loss()
        if checkpoint and weights:
            saved = load_tensors(Path(checkpoint) / _LOSS_WEIGHTS)
            for name, weight in weights.items():
                weight.copy_(saved[name])

    def _weights_of_loss(self) -> dict[str, Tensor]:
        """Find the weights of the loss, or the losses, that belong to no model."""
        loss: nn.Module | dict[str, nn.Module] = self.loss
        loss = nn.ModuleDict(loss) if isinstance(loss, dict) else loss
        models = [m for m in loss.modules() if isinstance(m, SentenceTransformer)]
        held = {weight.data_ptr() for model in models for weight in model.state_dict().values()}
        weights = {}
        for name, weight in loss.state_dict().items():
            if weight.data_ptr() not in held:  # nor a second time, if losses share it
                held.add(weight.data_ptr())
                weights[name] = weight
        return weights


@dataclass
class TrainingData:
    """Collates batches: ids [S rows] and teacher vectors [S, d] of the numbers in a dataset."""

    ids: Ragged
    vectors: TeacherVectors
    target: Target | JointTarget = field(default_factory=Target)
    padding: int = 1  # columns of zeros behind the vectors

    valid_label_columns: ClassVar[Sequence[str]] = ("label",)

    def __call__(self, rows: list[dict[str, int]]) -> dict[str, Tensor]:
        index = np.array([row["sentence"] for row in rows])
        ids = self.ids.take(index)
        return bags("sentence", ids) | {
            # A column of zeros changes no cosine of two teacher vectors; without it MatryoshkaLoss
            # would cut those that have the student's dimension.
            "label": F.pad(torch.from_numpy(self.target(self.vectors[index])), (0, self.padding))
        }


def bags(name: str, ids: Ragged) -> dict[str, Tensor]:
    """Make a batch's column of texts [B rows], as a `StaticWordEmbedding` takes them."""
    return {f"{name}_{key}": value for key, value in features_of(ids).items()}


class Distilled(NamedTuple):
    """A trained table [V, D], its head if the recipe wants one, and the training's figures."""

    table: NDArray[np.float32]
    head: Head | None
    figures: Figures


def sentence_ids(tokenizer: Tokenizer, texts: Sequence[str] | pa.Array) -> Ragged:
    """Split texts [S] into token ids [S rows], without special tokens, whose rows stay zero."""
    ids = FastTokenizer(tokenizer)(texts)
    return ids.filter(ids.values >= len(SPECIAL_TOKENS))


def training_arguments(
    folder: Path, config: DistillationConfig, seed: int
) -> SentenceTransformerTrainingArguments:
    """Make the Trainer's arguments from a recipe."""
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder),
        max_steps=config.max_steps,
        per_device_train_batch_size=config.batch_size,
        per_device_eval_batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        lr_scheduler_type="linear" if config.is_sparse else "constant",
        max_grad_norm=0 if config.is_sparse else 1,  # 0 leaves gradients as they are
        optim="adamw_torch_fused",  # without weight decay, which is Adam; SparseTrainer has its own
        eval_strategy="steps",
        eval_steps=min(config.eval_steps, config.max_steps),
        save_strategy="steps",
        save_steps=min(config.eval_steps, config.max_steps),
        save_total_limit=2,
        load_best_model_at_end=True,
        metric_for_best_model="eval_loss",
        restore_callback_states_from_checkpoint=True,
        logging_steps=_LOG_STEPS,
        logging_nan_inf_filter=False,
        dataloader_drop_last=True,
        dataloader_pin_memory=False,
        use_cpu=training_device(config) == "cpu",
        report_to="none",
        disable_tqdm=True,
        seed=seed,
    )
    # On several GPUs the Trainer would cut batches of ids, whose rows have different lengths.
    arguments._n_gpu = min(arguments.n_gpu, 1)
    return arguments


def training_device(
    config: DistillationConfig, teacher: str = "cpu"
) -> Literal["cpu", "cuda", "mps"]:
    """Choose where to train: on the recipe's device, else as suits optimizer and teacher."""
    check_device("distillation.device", config.device)
    if config.device is not None:
        return config.device
    devices: dict[str, Literal["cuda", "mps"]] = {"cuda": "cuda", "mps": "mps"}
    return "cpu" if config.is_sparse else devices.get(teacher, "cpu")


class _SparseTrainerWithoutCard(_TrainerWithoutCard, SparseTrainer):
    """The same with sparse gradients."""


def trainer_for(config: DistillationConfig) -> type[Any]:
    """Choose the Trainer by a recipe's optimizer."""
    return _SparseTrainerWithoutCard if config.is_sparse else _TrainerWithoutCard


def make_loss(
    model: SentenceTransformer, config: DistillationConfig, without: Iterable[str] = ()
) -> nn.Module:
    """Make the recipe's distillation loss, without the terms that `without` names."""
    if config.target == "vectors":
        return EmbedDistillLoss(model, "cosine")
    weights = {name: w for name, w in _TERMS[config.terms].items() if name not in without}
    loss = SimilarityDistillationLoss(model, config.temperature, **weights)
    return at_all_dimensions(model, loss, config)


def at_all_dimensions(
    model: SentenceTransformer, loss: nn.Module, config: DistillationConfig
) -> nn.Module:
    """Compute a loss at several dimensions, if the recipe asks for it."""
    if config.matryoshka_dims:
        dims = {int(model.get_embedding_dimension() or 0), *config.matryoshka_dims}
        return MatryoshkaLoss(model, loss, sorted(dims, reverse=True))
    return loss


class _AgreementEvaluator(BaseEvaluator):
    """Measures the agreement at each held-out loss, so that the Trainer logs both."""

    def __init__(self, measure: TableAgreement) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.measure = measure

    def __call__(self, model: Any, *args: Any, **kwargs: Any) -> dict[str, float]:
        table = model[0].embedding.weight.detach().cpu().numpy()
        heads = [module.as_head() for module in model if isinstance(module, TrainableHead)]
        return {_AGREEMENT: self.measure(table, heads[0] if heads else None)}


def distill(
    table: NDArray[np.float32],
    tokenizer: Tokenizer,
    data: TrainingData,
    held_out: NDArray[np.int64],
    config: DistillationConfig,
    folder: Path,
    seed: int = 0,
    train: NDArray[np.int64] | None = None,
    measure: TableAgreement | None = None,
) -> Distilled:
    """Train a word table [V, D] on the teacher's cosines or vectors, from the last checkpoint in
    `folder` on; return the best by held-out loss. It takes the sentences numbered `train`,
    ascending, or all but those `held_out`; `measure` adds the teacher agreement at each held-out
    loss."""
    train = np.setdiff1d(np.arange(len(data.vectors)), held_out) if train is None else train
    check_sizes(train, held_out, config)
    dimension, sparse = table.shape[1], config.is_sparse
    words = StaticWordEmbedding(tokenizer, table, sparse=sparse)
    modules: list[nn.Module] = [words]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if config.head:
            modules.append(TrainableHead(dimension, config.head, sparse))
        if config.terms == "full":  # the target has the words' means, too
            followed = data.vectors.shape[1] + dimension
            modules.append(TeacherEstimate(dimension, followed, sparse))
    model = SentenceTransformer(modules=modules, device="cpu")  # the Trainer moves it
    arguments = training_arguments(folder, config, seed)
    arguments.batch_sampler = batch_sampler(data.vectors, train, config, seed)
    state = train_to_the_end(
        model,
        arguments,
        config,
        "distillation",
        train_dataset=Dataset.from_dict({"sentence": train}),
        eval_dataset=Dataset.from_dict({"sentence": held_out}),
        loss=make_loss(model, config),
        data_collator=data,
        evaluator=_AgreementEvaluator(measure) if measure else None,
        callbacks=[EarlyStoppingCallback(_PATIENCE)],
    )
    # Read from its file: a training that ended in an earlier run returns no model.
    best = folder / f"checkpoint-{state.best_global_step}"
    figures: Figures = {"steps": config.max_steps, "best_step": state.best_global_step}
    for name, key, digits in (("losses", "loss", 6), ("agreements", _AGREEMENT, 2)):
        log = [entry for entry in state.log_history if f"eval_{key}" in entry]
        if log:
            figures[name] = [[e["step"], round(e[f"eval_{key}"], digits)] for e in log]
    if _stopped_early(state, config):
        figures["steps"] = figures["losses"][-1][0]
    return Distilled(*read_checkpoint(best, bool(config.head)), figures)


class _ShownSteps(TrainerCallback):  # type: ignore[misc]  # untyped library
    """Advances a bar with each step, and shows the last losses behind it."""

    def __init__(self, progress: tqdm[Any]) -> None:
        self.progress = progress
        self.losses: dict[str, str] = {}

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Advance the bar."""
        self.progress.update(state.global_step - self.progress.n)

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Show the last losses behind the bar."""
        for key, name in (("loss", "loss"), ("eval_loss", "held-out")):
            if key in kwargs["logs"]:
                self.losses[name] = f"{kwargs['logs'][key]:.4f}"
        self.progress.set_postfix(self.losses)


def train_to_the_end(
    model: SentenceTransformer,
    arguments: SentenceTransformerTrainingArguments,
    config: DistillationConfig,
    stage: str,
    **options: Any,
) -> TrainerState:
    """Train from the last checkpoint on, with options of the Trainer, unless it has ended."""
    checkpoint, done = last_whole_checkpoint(Path(arguments.output_dir)), 0
    if checkpoint:
        state = TrainerState.load_from_json(f"{checkpoint}/{_TRAINER_STATE}")
        done = state.global_step
        if done >= config.max_steps or _stopped_early(state, config):
            return state
    # A step's operations are small: a second thread costs more in waiting than it computes. But
    # dense Adam goes through the whole table.
    threads = 1 if config.is_sparse else None
    trainer = trainer_for(config)(model=model, args=arguments, **options)
    trainer.remove_callback(PrinterCallback)
    with (
        threadpool_limits(limits=threads, user_api="openmp"),
        bar(stage, config.max_steps, "step", initial=done) as progress,
    ):
        trainer.add_callback(_ShownSteps(progress))
        trainer.train(resume_from_checkpoint=checkpoint)
    return trainer.state


def _stopped_early(state: TrainerState, config: DistillationConfig) -> bool:
    # By the steps alone, which a checkpoint tells before any Trainer runs.
    best = state.best_global_step
    return best is not None and (state.global_step - best) // config.eval_steps >= _PATIENCE


def last_whole_checkpoint(folder: Path) -> str | None:
    """Find the newest checkpoint that was written to its end, and remove newer, broken ones."""
    while folder.is_dir() and (checkpoint := get_last_checkpoint(str(folder))):
        files = Path(checkpoint)
        with contextlib.suppress(OSError, json.JSONDecodeError):
            json.loads((files / _TRAINER_STATE).read_text())  # the Trainer writes it last
            if all((files / name).is_file() for name in _CHECKPOINT_FILES):
                return str(checkpoint)
        logger.warning("%s is incomplete: going on from an older checkpoint", checkpoint)
        shutil.rmtree(checkpoint)
    return None


def read_checkpoint(folder: Path, has_head: bool) -> tuple[NDArray[np.float32], Head | None]:
    """Read the table of a checkpoint, and its head."""
    table = load_file(folder / "model.safetensors")["embedding.weight"]
    if not has_head:
        return table, None
    return table, TrainableHead.load(str(folder), subfolder=_HEAD_FOLDER).as_head()


def check_sizes(
    train: NDArray[np.int64], held_out: NDArray[np.int64], config: DistillationConfig
) -> None:
    """Check that the training and the held-out sentences each fill a batch: others are dropped."""
    for name, sentences in (("training", train), ("held-out", held_out)):
        check_batch_size(config.batch_size, len(sentences), f"{name} sentences")
