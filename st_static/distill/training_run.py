"""Running a Trainer to its end: with one bar, and on from the last checkpoint."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformerTrainer
from threadpoolctl import threadpool_limits
from tqdm import tqdm
from transformers import (
    PrinterCallback,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.trainer_utils import get_last_checkpoint

from st_static.distill.config import DistillationConfig
from st_static.distill.progress import bar
from st_static.distill.stages import Figures

logger = logging.getLogger(__name__)

AGREEMENT = "teacher_agreement"
"""The metric of the Trainer's evaluator, if there is one."""
PATIENCE = 5
"""A training stops after this many held-out losses without an improvement."""

_TRAINER_STATE = "trainer_state.json"
_CHECKPOINT_FILES = ("model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth")


class ProgressBar(TrainerCallback):  # type: ignore[misc]  # untyped library
    """One bar for the whole training, with the losses; the Trainer's own lines are left out."""

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self._bar: tqdm[Any] | None = None
        self._losses: dict[str, str] = {}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Draw it, from the step on that is done."""
        self._bar = bar(self.stage, state.max_steps, "step", initial=state.global_step)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Move it on."""
        if self._bar is not None:
            self._bar.update(state.global_step - self._bar.n)

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Show the last losses."""
        for key, name in (("loss", "loss"), ("eval_loss", "held-out")):
            if key in kwargs["logs"]:
                self._losses[name] = f"{kwargs['logs'][key]:.4f}"
        if self._bar is not None:
            self._bar.set_postfix(self._losses)

    def close(self) -> None:
        """Take it away, also where the training was interrupted."""
        if self._bar is not None:
            self._bar.close()


def train_to_the_end(
    trainer: SentenceTransformerTrainer,
    config: DistillationConfig,
    folder: Path,
    stage: str = "distillation",
) -> TrainerState:
    """Train to the end, from the last checkpoint if there is one; the stage is for the bar."""
    checkpoint = last_whole_checkpoint(folder)
    if checkpoint:
        state = TrainerState.load_from_json(f"{checkpoint}/{_TRAINER_STATE}")
        if _is_finished(state, config):
            return state
    progress = ProgressBar(stage)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(progress)
    # A step's operations are small: a second thread costs more in waiting than it computes. But
    # dense Adam goes through the whole table.
    threads = 1 if config.optimizer == "sparse_adam" else None
    with threadpool_limits(limits=threads, user_api="openmp"), contextlib.closing(progress):
        trainer.train(resume_from_checkpoint=checkpoint)
    return trainer.state


def training_figures(state: TrainerState, config: DistillationConfig) -> Figures:
    """Steps of a training, its best step, and measurements on held-out sentences."""
    losses = _logged(state, "eval_loss", 6)
    agreements = _logged(state, f"eval_{AGREEMENT}", 2)
    return {
        "steps": losses[-1][0] if _stopped_early(state, config) else config.max_steps,
        "best_step": state.best_global_step,
        "losses": losses,
    } | ({"agreements": agreements} if agreements else {})


def _logged(state: TrainerState, key: str, digits: int) -> list[list[float]]:
    """Steps of a training with the values that were logged."""
    return [[e["step"], round(e[key], digits)] for e in state.log_history if key in e]


def _is_finished(state: TrainerState, config: DistillationConfig) -> bool:
    """Tell whether the training that left a state had come to its end."""
    return bool(state.global_step >= config.max_steps or _stopped_early(state, config))


def _stopped_early(state: TrainerState, config: DistillationConfig) -> bool:
    """Whether the last held-out losses, if there are any, brought no improvement."""
    # From the steps alone, so that it can be told of a checkpoint before any Trainer runs.
    best = state.best_global_step
    return best is not None and (state.global_step - best) // config.eval_steps >= PATIENCE


def last_whole_checkpoint(folder: Path) -> str | None:
    """The newest checkpoint that was written to its end; newer, broken ones are removed."""
    while folder.is_dir() and (checkpoint := get_last_checkpoint(str(folder))):
        if _is_whole(Path(checkpoint)):
            return str(checkpoint)
        logger.warning("%s is incomplete: going on from an older checkpoint", checkpoint)
        shutil.rmtree(checkpoint)
    return None


def _is_whole(checkpoint: Path) -> bool:
    try:
        json.loads((checkpoint / _TRAINER_STATE).read_text())  # the Trainer writes it last
    except (OSError, json.JSONDecodeError):
        return False
    return all((checkpoint / name).is_file() for name in _CHECKPOINT_FILES)
