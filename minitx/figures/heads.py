"""Figures of the unit `heads`, in the style of `minitx.figures`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minitx.figures.style import BAR, INK, KEY, LINE, OUTPUT, QUERY, SCORE, VALUE, plain, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DARK = "#a5420f"
TINTS = (QUERY, KEY, VALUE, OUTPUT, SCORE)


def split_of_heads(n: int = 3, n_heads: int = 3, head_dim: int = 2) -> Figure:
    """x (n, d) with numbered entries, tinted by head, and the heads (n, head_dim) that it is split into."""
    with pyplot() as plt:
        figure, ax = plt.subplots(figsize=(9.0, 0.55 * n + 1.6))
        wide = n_heads * head_dim
        numbers = np.arange(n * wide).reshape(n, wide)
        _numbered(ax, 0, numbers, [TINTS[j // head_dim % len(TINTS)] for j in range(wide)])
        ax.text(wide / 2, -0.35, f"x: {n} tokens, {wide} features", ha="center", fontweight="bold")
        x = wide + 2.6
        arrow: dict[str, Any] = {"arrowstyle": "-|>", "color": INK, "lw": 1.6}
        ax.annotate("", xy=(x - 0.5, n / 2), xytext=(wide + 0.5, n / 2), arrowprops=arrow)
        for head in range(n_heads):
            own = slice(head * head_dim, (head + 1) * head_dim)
            _numbered(ax, x, numbers[:, own], [TINTS[head % len(TINTS)]] * head_dim)
            ax.text(x + head_dim / 2, -0.35, f"head {head}", ha="center", fontweight="bold")
            x += head_dim + 1.0
        ax.set_xlim(-0.3, x)
        ax.set_ylim(n + 0.2, -1.0)
        ax.axis("off")
        figure.tight_layout()
    return figure


def grouped_queries(n_heads: int = 6, n_kv_heads: int = 2) -> Figure:
    """Which head of keys each head of queries reads: neighbours share one."""
    if n_kv_heads < 1 or n_heads % n_kv_heads:
        raise ValueError(f"n_heads must be a multiple of n_kv_heads, got {n_heads} and {n_kv_heads}.")
    group = n_heads // n_kv_heads
    box = {"boxstyle": "round,pad=0.4", "edgecolor": LINE}
    with pyplot() as plt:
        figure, ax = plt.subplots(figsize=(9.0, 2.4))
        for head in range(n_heads):
            below = (head // group + 0.5) * group - 0.5
            ax.plot([head, below], [0, 1], color=LINE, linewidth=1.5, zorder=0)
            words = f"queries {head}"
            ax.text(head, 0, words, ha="center", va="center", bbox={**box, "facecolor": QUERY})
        for kv in range(n_kv_heads):
            words = f"keys and values {kv}"
            place = (kv + 0.5) * group - 0.5
            ax.text(place, 1, words, ha="center", va="center", bbox={**box, "facecolor": KEY})
        ax.set_xlim(-0.7, n_heads - 0.3)
        ax.set_ylim(1.4, -0.4)
        ax.axis("off")
        figure.tight_layout()
    return figure


def two_blocks() -> Figure:
    """The order of norm, sublayer and addition: pre-norm on the left, post-norm on the right."""
    orders = {
        "pre-norm": ("norm", "attention", "+", "norm", "MLP", "+"),
        "post-norm": ("attention", "+", "norm", "MLP", "+", "norm"),
    }
    with pyplot() as plt:
        figure, panels = plt.subplots(2, 1, figsize=(9.0, 4.2))
        for ax, (name, parts) in zip(panels, orders.items(), strict=True):
            _stream(ax, parts)
            ax.set_title(name, loc="left")
        figure.tight_layout()
    return figure


def _stream(ax: Axes, parts: Sequence[str]) -> None:
    """One block from left to right: its parts in a row, and for each sublayer the way around it."""
    tints = {"norm": VALUE, "attention": QUERY, "MLP": KEY, "+": "white"}
    ax.annotate("", xy=(7.6, 0), xytext=(0, 0), arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 1.5})
    ax.text(-0.1, 0, "x", ha="right", va="center", fontsize=13)
    for place, part in enumerate(parts, start=1):
        shape = "circle,pad=0.25" if part == "+" else "round,pad=0.45"
        box = {"boxstyle": shape, "facecolor": tints[part], "edgecolor": INK}
        ax.text(1.15 * place, 0, part, ha="center", va="center", bbox=box, zorder=3)
    pluses = [place for place, part in enumerate(parts, start=1) if part == "+"]
    starts = (0.3, 1.15 * 3 + 0.55)  # in both orders the first half of the block has three parts
    for start, plus in zip(starts, pluses, strict=True):
        end = 1.15 * plus
        ax.plot([start, start, end], [0, 0.8, 0.8], color=DARK, linewidth=1.8)
        ax.annotate(
            "", xy=(end, 0.22), xytext=(end, 0.8), arrowprops={"arrowstyle": "-|>", "color": DARK, "lw": 1.8}
        )
    ax.set_xlim(-0.5, 8.0)
    ax.set_ylim(-0.6, 1.1)
    ax.axis("off")


def stream_sizes(curves: Mapping[str, Sequence[float]]) -> Figure:
    """How large the vectors of the tokens are after each block, on a logarithmic axis."""
    styles = ((BAR, "-", "o"), (DARK, "--", "s"), (INK, ":", "^"))
    if len(curves) > len(styles):
        raise ValueError(f"stream_sizes draws up to {len(styles)} curves, got {len(curves)}")
    with pyplot() as plt:
        figure, ax = plt.subplots(figsize=(8.0, 3.4))
        for (name, sizes), (colour, dashes, shape) in zip(curves.items(), styles, strict=False):
            ax.plot(range(len(sizes)), sizes, dashes, marker=shape, color=colour, label=name, markersize=5)
        ax.set_yscale("log")
        ax.set_xlabel("blocks passed")
        ax.set_ylabel("root mean square")
        ax.legend(frameon=False)
        ax.grid(axis="y", color=SCORE)
        plain(ax)
        figure.tight_layout()
    return figure


def _numbered(ax: Axes, x: float, numbers: np.ndarray, tints: Sequence[str]) -> None:
    """A table of numbers at x, a tint for each column."""
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    for (i, j), number in np.ndenumerate(numbers):
        ax.add_patch(Rectangle((x + j, i), 1, 1, facecolor=tints[j], edgecolor=LINE))
        ax.text(x + j + 0.5, i + 0.5, str(number), ha="center", va="center", color=INK)
