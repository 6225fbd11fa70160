"""Figures of the unit `autograd`, in the style of `minitx.figures`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minitx.figures.style import INK, KEY, LINE, OUTPUT, QUERY, VALUE, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DARK = "#a5420f"
WIDE = 2.3  # from one column of nodes to the next

Box = tuple[str, float, float, str, str]


def computation_graph(nodes: Sequence[Box], edges: Sequence[tuple[int, int]]) -> Figure:
    """Operations as boxes, values above, what comes back below; an edge that is there twice is drawn twice.

    nodes: (label, column, height, text above, text below). edges: (from, to), as numbers of nodes.

    Raises ValueError for an edge whose node is not there.
    """
    for edge in edges:
        if not all(0 <= end < len(nodes) for end in edge):
            raise ValueError(f"edges must name nodes from 0 to {len(nodes) - 1}, got {edge}.")
    heights = [height for _, _, height, _, _ in nodes]
    columns = [column for _, column, _, _, _ in nodes]
    with pyplot() as plt:
        size = (WIDE * (max(columns) + 1) + 0.6, 1.35 * (max(heights) - min(heights)) + 1.4)
        figure, ax = plt.subplots(figsize=size)
        for place, (start, end) in enumerate(edges):
            twins = [other for other, edge in enumerate(edges) if edge == (start, end)]
            bend = 0.0 if len(twins) == 1 else 0.25 - 0.5 * twins.index(place) / (len(twins) - 1)
            _arrow(ax, nodes[start], nodes[end], bend)
        for label, column, height, above, below in nodes:
            box = {"boxstyle": "round,pad=0.35", "facecolor": QUERY, "edgecolor": INK}
            x = WIDE * column
            ax.text(x, height, label, ha="center", va="center", bbox=box, fontsize=13, zorder=3)
            ax.text(x, height + 0.2, above, ha="center", va="bottom", zorder=3)
            ax.text(x, height - 0.2, below, ha="center", va="top", color=DARK, fontweight="bold", zorder=3)
        ax.set_xlim(WIDE * min(columns) - 1.2, WIDE * max(columns) + 1.2)
        ax.set_ylim(min(heights) - 0.55, max(heights) + 0.55)
        ax.axis("off")
        figure.tight_layout()
    return figure


def _arrow(ax: Axes, start: Box, end: Box, bend: float) -> None:
    ax.annotate(
        "",
        xy=(WIDE * end[1], end[2]),
        xytext=(WIDE * start[1], start[2]),
        arrowprops={
            "arrowstyle": "-|>",
            "color": LINE,
            "lw": 1.5,
            "shrinkA": 20,
            "shrinkB": 22,
            "connectionstyle": f"arc3,rad={bend}",
        },
    )


def broadcast_and_back() -> Figure:
    """b (3,) is copied into two rows in the forward pass; in the backward pass the two rows are summed."""
    b, grad = np.array([10, 20, 30]), np.array([[1, 2, 3], [4, 5, 6]])
    with pyplot() as plt:
        figure, ax = plt.subplots(figsize=(9.0, 3.6))
        _numbered(ax, 0.0, 0.5, b[None], KEY)
        _numbered(ax, 6.0, 0.0, np.stack([b, b]), KEY)
        _numbered(ax, 6.0, 3.6, grad, OUTPUT)
        _numbered(ax, 0.0, 4.1, grad.sum(axis=0)[None], VALUE)
        _labelled(ax, (3.3, 1.0), (5.7, 1.0), "copied")
        _labelled(ax, (5.7, 4.6), (3.3, 4.6), "summed")
        for x, y, words in (
            (1.5, -0.2, "b: (3,)"),
            (7.5, -0.2, "as x + b sees it: (2, 3)"),
            (1.5, 3.4, "gradient of b: (3,)"),
            (7.5, 3.4, "gradient of x + b: (2, 3)"),
        ):
            ax.text(x, y, words, ha="center", va="bottom", fontweight="bold")
        ax.text(-0.4, 1.0, "forward", ha="right", va="center")
        ax.text(-0.4, 4.6, "backward", ha="right", va="center")
        ax.set_xlim(-2.4, 9.6)
        ax.set_ylim(5.8, -1.0)
        ax.axis("off")
        figure.tight_layout()
    return figure


def _labelled(ax: Axes, start: tuple[float, float], end: tuple[float, float], words: str) -> None:
    arrow: dict[str, Any] = {"arrowstyle": "-|>", "color": INK, "lw": 1.6}
    ax.annotate("", xy=end, xytext=start, arrowprops=arrow)
    ax.text((start[0] + end[0]) / 2, start[1] - 0.15, words, ha="center", va="bottom")


def _numbered(ax: Axes, x: float, y: float, numbers: np.ndarray, tint: str) -> None:
    """A table of numbers whose upper left corner is at (x, y), a cell 1 wide and 1 high."""
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    for row, column in np.ndindex(numbers.shape):
        corner = (x + column, y + row)
        ax.add_patch(Rectangle(corner, 1, 1, facecolor=tint, edgecolor=LINE))
        middle = (corner[0] + 0.5, corner[1] + 0.5)
        ax.text(*middle, str(numbers[row, column]), ha="center", va="center")
