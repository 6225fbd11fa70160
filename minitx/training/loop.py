"""The loop: forward, backward, clip, AdamW, under a learning rate that warms up and falls as a cosine."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from minitx import optim
from minitx.nn.module import Module
from minitx.tensor import Tensor
from minitx.training.data import next_token_loss


class Diverged(ArithmeticError):
    """The loss or the gradient of a step is not a finite number; parameters are those before that step."""


@dataclass(frozen=True)
class Recipe:
    """How a model is trained: everything that, beside model and data, decides the result.

    The learning rate rises to `peak` in `warmup` steps and falls to `floor` at the last step
    (`optim.warmup_cosine`). AdamW takes `weight_decay` of matrices only. Gradients are scaled down to a norm
    of at most `clip`. Every `evaluate_every` steps the model is evaluated and saved.
    """

    steps: int
    batch: int
    peak: float = 1e-3
    floor: float = 1e-4
    warmup: int = 100
    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.1
    clip: float = 1.0
    evaluate_every: int = 250
    seed: int = 0

    def __post_init__(self) -> None:
        for name, lowest in (("steps", 1), ("batch", 1), ("evaluate_every", 1), ("warmup", 0), ("seed", 0)):
            if getattr(self, name) < lowest:
                raise ValueError(f"{name} must be at least {lowest}, got {getattr(self, name)}.")
        if not 0 <= self.floor <= self.peak:
            raise ValueError(f"Needs 0 <= floor <= peak, got floor {self.floor} and peak {self.peak}.")
        if not (math.isfinite(self.peak) and self.clip > 0):
            raise ValueError(f"Needs a finite peak and clip > 0, got {self.peak} and {self.clip}.")

    def rate(self, step: int) -> float:
        """The learning rate of step 1, 2, ..."""
        return optim.warmup_cosine(
            step, peak=self.peak, warmup=self.warmup, total=self.steps, floor=self.floor
        )

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON can hold them."""
        return {**asdict(self), "betas": list(self.betas)}


class Trainer:
    """A model on its way through a recipe: what `fit` moves forward and `save_state` keeps.

    loss: a function of (model, batch) to a scalar tensor.
    Attributes: `step`, the steps done; `train_losses`, one number a step; `validation_losses`, {step: loss}.
    """

    def __init__(self, model: Module, recipe: Recipe, loss: Callable[[Any, Any], Tensor] = next_token_loss):
        self.model, self.recipe, self.loss = model, recipe, loss
        groups = optim.decay_groups(model, recipe.weight_decay)
        self.optimizer = optim.AdamW(groups, lr=recipe.peak, betas=recipe.betas)
        self.parameters = model.parameters()
        self.step = 0
        self.train_losses: list[float] = []
        self.validation_losses: dict[int, float] = {}

    @property
    def done(self) -> bool:
        return self.step >= self.recipe.steps

    def advance(self, batch: Any) -> float:
        """One step on a batch; returns its loss. Raises Diverged before anything is changed."""
        step = self.step + 1
        if not self.model.training:
            self.model.train()
        self.optimizer.zero_grad()
        loss = self.loss(self.model, batch)
        value = float(loss.item())
        if not math.isfinite(value):
            raise Diverged(f"The loss of step {step} is {value}.")
        loss.backward()
        norm = optim.clip_grad_norm(self.parameters, self.recipe.clip)
        if not math.isfinite(norm):
            raise Diverged(f"The gradient of step {step} has the norm {norm} (the loss is {value:.4g}).")
        self.optimizer.lr = self.recipe.rate(step)
        self.optimizer.step()
        self.step = step
        self.train_losses.append(value)
        return value

    def evaluate(self, evaluation: Callable[[Any], float]) -> float:
        """The loss that `evaluation` finds for the model, noted under the steps done."""
        value = float(evaluation(self.model))
        if not math.isfinite(value):
            raise Diverged(f"The validation loss after step {self.step} is {value}.")
        self.validation_losses[self.step] = value
        return value


def fit(
    trainer: Trainer,
    batches: Callable[[int], Any],
    *,
    evaluation: Callable[[Any], float] | None = None,
    save: Callable[[Trainer], None] | None = None,
    on_step: Callable[[Trainer], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> bool:
    """Go on from the trainer's step to its recipe's last; returns whether it came that far.

    Args:
        batches: the batch of step 1, 2, ...; a function of the step alone makes a resumed run the same run.
        evaluation: a function of the model to its validation loss, asked every `evaluate_every` steps and
            after the last.
        save: called after each evaluation, and when it stops early.
        on_step: called after every step (and after its evaluation): to show progress.
        stop: asked before each step; true ends the loop with the state saved.

    Raises Diverged where a number is not finite; what was saved before stays.
    """
    while not trainer.done:
        if stop is not None and stop():
            if save is not None:
                save(trainer)
            return False
        trainer.advance(batches(trainer.step + 1))
        if trainer.step % trainer.recipe.evaluate_every == 0 or trainer.done:
            if evaluation is not None:
                trainer.evaluate(evaluation)
            if save is not None:
                save(trainer)
        if on_step is not None:
            on_step(trainer)
    return True
