"""The picture of a training: losses against steps."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from minitx.training.loop import Trainer


def loss_figure(trainer: Trainer) -> Figure:
    """Training loss of each step, its running mean, and the validation losses."""
    from matplotlib.figure import Figure  # noqa: PLC0415 (a picture is drawn seldom, and Matplotlib loads slowly)

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    losses = np.array(trainer.train_losses)
    steps = np.arange(1, losses.size + 1)
    axes.plot(steps, losses, color="#9db7d5", linewidth=0.6, label="training, each step")
    width = max(1, losses.size // 40)
    if width > 1:
        smooth = np.convolve(losses, np.full(width, 1 / width), mode="valid")
        axes.plot(steps[width - 1 :], smooth, color="#1f4e8c", label=f"training, mean of {width} steps")
    if trainer.validation_losses:
        places, values = zip(*sorted(trainer.validation_losses.items()), strict=True)
        axes.plot(places, values, "o-", color="#c2410c", markersize=3.5, label="validation")
    axes.set_xlabel("step")
    axes.set_ylabel("loss")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return figure


def draw_losses(trainer: Trainer, path: str | Path) -> None:
    """Write the picture as PNG; the one that was there stays until the new one is whole."""
    path = Path(path)
    partial = path.with_name(f".{path.name}.partial")
    try:
        loss_figure(trainer).savefig(partial, format="png", dpi=150)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
