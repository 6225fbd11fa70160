"""Figures of the unit `gpt`, in the style of `minitx.figures`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minitx.figures.attention import attention_heatmap
from minitx.figures.style import BAR, INK, KEY, LINE, OUTPUT, QUERY, QUIET, SCORE, VALUE, plain, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DARK = "#a5420f"
CURVES = ((BAR, "-", "o"), (DARK, "--", "s"), (INK, ":", "^"))


def parts_of_a_gpt() -> Figure:
    """From ids to logits, left to right; the table of words stands at both ends."""
    boxes = (
        (0.0, "ids\n(batch, n)", "white"),
        (1.9, "table of\nwords", KEY),
        (3.5, "+ table of\npositions", QUERY),
        (5.2, "block 1", SCORE),
        (6.4, "...", "white"),
        (7.6, "block N", SCORE),
        (9.1, "last\nnorm", VALUE),
        (10.6, "table of\nwords", KEY),
        (12.5, "logits\n(batch, n, V)", OUTPUT),
    )
    with pyplot() as plt:
        figure, ax = plt.subplots(figsize=(11.0, 2.3))
        arrow: dict[str, Any] = {"arrowstyle": "-|>", "color": INK, "lw": 1.5}
        ax.annotate("", xy=(11.7, 0), xytext=(0.4, 0), arrowprops=arrow)
        for x, words, tint in boxes:
            shape = {"boxstyle": "round,pad=0.4", "facecolor": tint, "edgecolor": INK}
            ax.text(x, 0, words, ha="center", va="center", bbox=shape, zorder=3)
        ax.plot([1.9, 1.9, 10.6, 10.6], [0.42, 0.85, 0.85, 0.42], color=DARK, linewidth=1.6, linestyle="--")
        ax.text(6.25, 0.93, "the same numbers, used twice", ha="center", va="bottom", color=DARK)
        ax.text(6.4, -0.75, "the stream: (batch, n, d)", ha="center", va="top", color=QUIET)
        ax.set_xlim(-0.9, 13.5)
        ax.set_ylim(-1.05, 1.3)
        ax.axis("off")
        figure.tight_layout()
    return figure


def learning_rates(steps: Sequence[int], curves: Mapping[str, Sequence[float]]) -> Figure:
    """Learning rates against steps, one line for each schedule."""
    _check_number("learning_rates", curves)
    with pyplot() as plt:
        figure, ax = plt.subplots(figsize=(8.0, 3.2))
        for (name, rates), (colour, dashes, _) in zip(curves.items(), CURVES, strict=False):
            ax.plot(steps, rates, dashes, color=colour, linewidth=2, label=name)
        ax.set_ylim(bottom=0)
        ax.set_xlabel("step")
        ax.set_ylabel("learning rate")
        _finish(ax)
        figure.tight_layout()
    return figure


def training_curves(
    curves: Mapping[str, tuple[Sequence[int], Sequence[float]]], levels: Mapping[str, float]
) -> Figure:
    """Losses {name: (steps, losses)}, and levels to compare with: horizontal lines with their values."""
    _check_number("training_curves", curves)
    with pyplot() as plt:
        figure, ax = plt.subplots(figsize=(8.0, 3.8))
        for (name, (steps, losses)), (colour, dashes, shape) in zip(curves.items(), CURVES, strict=False):
            marker = shape if len(losses) < 30 else ""
            ax.plot(steps, losses, dashes, marker=marker, color=colour, linewidth=1.8, label=name)
        last = max(max(steps) for steps, _ in curves.values())
        for name, level in levels.items():
            ax.axhline(level, color=LINE, linewidth=1)
            ax.text(last, level, f"{name} {level:.2f}", ha="right", va="bottom", color=QUIET)
        ax.set_ylim(bottom=0)
        ax.set_xlabel("step")
        ax.set_ylabel("loss for each word")
        _finish(ax)
        figure.tight_layout()
    return figure


def attention_rows(
    weights: Any, query_labels: Sequence[str], key_labels: Sequence[str], title: str | None = None
) -> Figure:
    """A few rows of attention weights (n, m) over many keys, in a figure that is no wider than a page."""
    with pyplot() as plt:
        figure, ax = plt.subplots(figsize=(11.0, 0.36 * len(query_labels) + 1.9))
        attention_heatmap(weights, query_labels, key_labels, title, ax)
        ax.set_xticks(ax.get_xticks(), key_labels, rotation=90, ha="center", rotation_mode="default")
        figure.tight_layout()
    return figure


def chances_side_by_side(words: Sequence[str], settings: Mapping[str, Any]) -> Figure:
    """The probabilities of some next words (V,) under each setting; a word that was cut shows no number."""
    with pyplot() as plt:
        size = (2.1 * len(settings) + 0.8, 0.42 * len(words) + 1.3)
        figure, panels = plt.subplots(1, len(settings), figsize=size, sharey=True, squeeze=False)
        for ax, (title, given) in zip(panels[0], settings.items(), strict=True):
            chances = np.asarray(given, float)
            if chances.shape != (len(words),):
                raise ValueError(f"{title!r}: expected {len(words)} probabilities, got shape {chances.shape}")
            ax.barh(np.arange(len(words)), chances, color=BAR, edgecolor=INK, linewidth=0.6)
            for place, chance in enumerate(chances):
                label = f"{chance:.2f}" if chance > 0 else "cut"
                ax.text(chance + 0.03, place, label, va="center", color=INK if chance > 0 else QUIET)
            ax.set_yticks(np.arange(len(words)), words)
            ax.set_xlim(0, 1.25)
            ax.set_xticks([0, 0.5, 1])
            ax.set_title(title)
            plain(ax)
        panels[0, 0].invert_yaxis()
        figure.tight_layout()
    return figure


def _check_number(name: str, curves: Mapping[str, Any]) -> None:
    if not 1 <= len(curves) <= len(CURVES):
        raise ValueError(f"{name} draws 1 to {len(CURVES)} curves, got {len(curves)}")


def _finish(ax: Axes) -> None:
    ax.legend(frameon=False)
    ax.grid(axis="y", color=SCORE)
    plain(ax)
