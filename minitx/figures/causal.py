"""Figures of the unit `causal`, in the style of `minitx.figures`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from minitx.figures.style import BAR, INK, KEY, LINE, QUIET, SCORE, plain, pyplot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DARK = "#a5420f"


def predictions_at_once(tokens: Sequence[str]) -> Figure:
    """A sentence of n tokens as n - 1 exercises, one a row: what is read, what is asked for, what is hidden.

    Read tokens are plain boxes, the target has a thick frame and a question mark, later tokens are hatched.
    """
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    n = len(tokens)
    if n < 2:
        raise ValueError(f"predictions_at_once needs at least 2 tokens, got {n}")
    wide = max(1.0, max(len(token) for token in tokens) * 0.13 + 0.35)
    with pyplot() as plt:
        figure, ax = plt.subplots(figsize=(wide * n + 1.9, 0.5 * (n - 1) + 0.9))
        for row in range(n - 1):
            ax.text(-0.15, row, f"position {row}", ha="right", va="center", color=QUIET)
            for column, token in enumerate(tokens):
                corner = (column * wide, row - 0.5)
                if column > row + 1:
                    hidden = Rectangle(
                        corner, wide, 1, facecolor="#f2f2f4", hatch="////", edgecolor=LINE, lw=0
                    )
                    ax.add_patch(hidden)
                    continue
                asked = column == row + 1
                box = Rectangle(
                    corner, wide, 1, facecolor=KEY if asked else SCORE, edgecolor=INK if asked else LINE
                )
                box.set(linewidth=2.2 if asked else 1.0, zorder=3 if asked else 2)
                ax.add_patch(box)
                middle = ((column + 0.5) * wide, row)
                ax.text(*middle, f"{token}?" if asked else token, ha="center", va="center", zorder=4)
        ax.set_xlim(-1.6, n * wide + 0.1)
        ax.set_ylim(n - 1.4, -0.6)
        ax.axis("off")
        figure.tight_layout()
    return figure


def loss_curves(curves: Mapping[str, Sequence[float]], floor: float, floor_label: str) -> Figure:
    """Losses over training steps, on a logarithmic axis, and the floor that an honest model cannot pass."""
    styles = ((BAR, "-"), (DARK, "--"), (INK, ":"), (QUIET, "-."))
    if len(curves) > len(styles):
        raise ValueError(f"loss_curves draws up to {len(styles)} curves, got {len(curves)}")
    with pyplot() as plt:
        figure, ax = plt.subplots(figsize=(8.0, 3.6))
        for (name, losses), (colour, dashes) in zip(curves.items(), styles, strict=False):
            steps = np.arange(1, len(losses) + 1)
            ax.plot(steps, losses, color=colour, linestyle=dashes, linewidth=2, label=name)
        ax.axhline(floor, color=INK, linewidth=1)
        longest = max(len(losses) for losses in curves.values())
        ax.text(longest, floor * 1.25, f"{floor_label} {floor:.3f}", ha="right", va="bottom")
        ax.set_yscale("log")
        ax.set_xlabel("training step")
        ax.set_ylabel("training loss")
        ax.legend(frameon=False, loc="lower left")
        plain(ax)
        figure.tight_layout()
    return figure
