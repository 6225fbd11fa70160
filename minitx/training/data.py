"""Text as batches. Which windows a step sees is a function of seed and step: nothing need be remembered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import minitx.functional as F
from minitx.errors import DtypeError
from minitx.graph import no_grad
from minitx.nn.module import Module
from minitx.tensor import Tensor

Batch = tuple[np.ndarray, np.ndarray]  # ids (B, n), and the ids that follow each of them (B, n)


class TextData:
    """The ids of a text, its end held out: the last `held_out` of it is the validation split.

    Each window is `context` ids and the id after each of them. Raises ValueError where a split is too short
    for one window.
    """

    def __init__(self, ids: Any, context: int, held_out: float = 0.1):
        ids = np.asarray(ids)
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            if ids.size == 0:
                raise ValueError("The text is empty: there is nothing to train on.")
            raise DtypeError(
                f"ids must be integers of shape (length,), got {ids.dtype} of shape {ids.shape}."
            )
        if context < 1 or not 0 < held_out < 1:
            raise ValueError(f"Needs context >= 1 and 0 < held_out < 1, got {context} and {held_out}.")
        cut = ids.size - int(held_out * ids.size)
        self.context = context
        self.train, self.validation = ids[:cut].astype(np.int64), ids[cut:].astype(np.int64)
        for name, part in (("training", self.train), ("validation", self.validation)):
            if part.size < context + 1:
                raise ValueError(
                    f"The text is too short: {ids.size} tokens leave {part.size} for the {name} split, and a "
                    f"context of {context} needs at least {context + 1}. Take a longer text."
                )

    def batch(self, step: int, size: int, seed: int = 0) -> Batch:
        """Ids and targets (size, context) of step 1, 2, ...: random windows of the training split."""
        starts = np.random.default_rng([seed, step]).integers(0, self.train.size - self.context, size)
        return _windows(self.train, starts, self.context)

    def validation_batches(self, size: int, windows: int | None = None) -> Iterator[Batch]:
        """The validation split, window after window; or `windows` of them, spread evenly. Always the same."""
        starts = np.arange(0, self.validation.size - self.context, self.context)
        if windows is not None and windows < starts.size:
            starts = starts[np.linspace(0, starts.size - 1, windows).round().astype(np.int64)]
        for first in range(0, starts.size, size):
            yield _windows(self.validation, starts[first : first + size], self.context)


def _windows(ids: np.ndarray, starts: np.ndarray, context: int) -> Batch:
    places = starts[:, None] + np.arange(context)
    return ids[places], ids[places + 1]


def next_token_loss(model: Any, batch: Batch) -> Tensor:
    """Cross-entropy of each next id, in nats a token, averaged over the batch."""
    ids, targets = batch
    return F.cross_entropy(model(ids), targets)


def validation_loss(model: Module, data: TextData, size: int, windows: int | None = None) -> float:
    """The mean of `next_token_loss` over the validation split (all of it, or so many windows); no dropout."""
    was_training = model.training
    model.eval()
    total, count = 0.0, 0
    try:
        with no_grad():
            for ids, targets in data.validation_batches(size, windows):
                total += next_token_loss(model, (ids, targets)).item() * targets.size
                count += targets.size
    finally:
        model.train(was_training)
    return total / count
