"""Figures of the unit `cost`, in the style of `minitx.figures`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minitx.figures.style import BAR, INK, KEY, LINE, OUTPUT, QUERY, QUIET, SCORE, VALUE, plain, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DARK = "#a5420f"
DASHES = ("-", "--", ":", "-.")
MARKS = ("o", "s", "^", "D")


def score_tables(sizes: Sequence[int]) -> Figure:
    """The tables of scores of several numbers of tokens, to one scale, with how many scores each has."""
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    gap = 0.3 * max(sizes)
    with pyplot() as plt:
        figure, ax = plt.subplots(figsize=(9.0, 3.6))
        x = 0.0
        for n in sizes:
            ax.add_patch(Rectangle((x, 0), n, n, facecolor=SCORE, edgecolor=INK, linewidth=1.2))
            for line in range(1, n):
                ax.plot([x, x + n], [line, line], color=LINE, linewidth=0.4)
                ax.plot([x + line, x + line], [0, n], color=LINE, linewidth=0.4)
            ax.text(x + n / 2, -0.03 * max(sizes), f"{n} tokens\n{n * n:,} scores", ha="center", va="top")
            x += n + gap
        ax.set_xlim(-gap, x)
        ax.set_ylim(-0.32 * max(sizes), max(sizes) * 1.03)
        ax.set_aspect("equal")
        ax.axis("off")
        figure.tight_layout()
    return figure


def growth(
    lengths: Sequence[int],
    curves: Mapping[str, Sequence[float]],
    *,
    unit: str,
    points: Mapping[str, Sequence[float]] | None = None,
    mark: tuple[float, str] | None = None,
) -> Figure:
    """Curves over the number of tokens, both axes logarithmic, so that n is a slope and n squared twice that.

    points: measured values at the same lengths, drawn as marks without a line.
    mark: a length with its name, drawn as a vertical line.
    """
    points = points or {}
    for name, numbers in [*curves.items(), *points.items()]:
        if len(numbers) != len(lengths):
            raise ValueError(f"{name}: {len(numbers)} values were given for {len(lengths)} lengths.")
    if len(curves) > len(DASHES) or len(points) > len(MARKS):
        raise ValueError(f"growth draws up to {len(DASHES)} curves, got {len(curves)} and {len(points)}")
    colours = (BAR, DARK, INK, QUIET)
    with pyplot() as plt:
        figure, ax = plt.subplots(figsize=(8.0, 4.0))
        for (name, numbers), colour, dashes in zip(curves.items(), colours, DASHES, strict=False):
            ax.plot(lengths, numbers, color=colour, linestyle=dashes, linewidth=2, label=name)
        for (name, numbers), colour, shape in zip(points.items(), colours, MARKS, strict=False):
            ax.plot(lengths, numbers, shape, color=colour, markersize=8, label=name)
        if mark is not None:
            ax.axvline(mark[0], color=INK, linewidth=1)
            ax.text(mark[0], 0.03, f" {mark[1]}", transform=ax.get_xaxis_transform(), va="bottom")
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        ax.set_xlabel("tokens")
        ax.set_ylabel(unit)
        ax.legend(frameon=False, loc="upper left")
        plain(ax)
        figure.tight_layout()
    return figure


def blocks_of_keys(n: int = 4, m: int = 10, block: int = 4) -> Figure:
    """A table of scores of which one block of keys at a time is built, and the state carried along."""
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    with pyplot() as plt:
        figure, ax = plt.subplots(figsize=(9.0, 3.9))
        x, states = 2.0, []
        for first in range(0, m, block):
            wide = min(block, m - first)
            for i in range(n):
                for j in range(wide):
                    ax.add_patch(Rectangle((x + j, i), 1, 1, facecolor=SCORE, edgecolor=LINE))
            name = f"keys {first} to {first + wide - 1}"
            ax.text(x + wide / 2, -0.3, name, ha="center", va="bottom", fontweight="bold")
            states.append((x + wide / 2, first == 0))
            x += wide + 1.2
        ax.text(1.7, n / 2, f"{n} queries", rotation=90, ha="right", va="center", color=QUIET)
        _states(ax, states, n + 1.9, x)
        ax.set_xlim(-1.6, x + 4.6)
        ax.set_ylim(n + 4.2, -1.3)
        ax.set_aspect("equal")
        ax.axis("off")
        figure.tight_layout()
    return figure


def _states(ax: Axes, states: Sequence[tuple[float, bool]], y: float, end: float) -> None:
    """The running state below each block, with arrows from one to the next and to the output."""
    arrow: dict[str, Any] = {"arrowstyle": "-|>", "color": INK, "lw": 1.5}
    box = {"boxstyle": "round,pad=0.35", "facecolor": QUERY, "edgecolor": LINE}
    words = "top\ntotal\nmixed"
    middle = y + 0.9
    before = 0.2
    ax.text(before, middle, "-inf\n0\n0", ha="center", va="center", bbox=box)
    for x, _ in states:
        ax.annotate("", xy=(x - 1.0, middle), xytext=(before + 1.0, middle), arrowprops=arrow)
        ax.annotate("", xy=(x, y - 0.6), xytext=(x, y - 1.7), arrowprops=arrow)
        ax.text(x, middle, words, ha="center", va="center", bbox=box)
        before = x
    ax.annotate("", xy=(end + 0.9, middle), xytext=(before + 1.0, middle), arrowprops=arrow)
    ax.text(
        end + 2.6,
        middle,
        "output =\nmixed / total",
        ha="center",
        va="center",
        bbox={**box, "facecolor": OUTPUT},
    )


def merged_grid(rows: int = 4, columns: int = 6, merge: int = 2) -> Figure:
    """A grid of numbered patches, squares of merge times merge framed, and the tokens that they become."""
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    with pyplot() as plt:
        figure, ax = plt.subplots(figsize=(9.0, 3.4))
        for i in range(rows):
            for j in range(columns):
                ax.add_patch(Rectangle((j, i), 1, 1, facecolor=KEY, edgecolor=LINE))
                ax.text(j + 0.5, i + 0.5, str(i * columns + j), ha="center", va="center")
        right = columns + 3.0
        for token in range(rows // merge * (columns // merge)):
            i, j = divmod(token, columns // merge)
            frame = Rectangle((j * merge, i * merge), merge, merge, fill=False, edgecolor=INK, linewidth=2.4)
            ax.add_patch(frame)
            inside = [(i * merge + a) * columns + j * merge + b for a in range(merge) for b in range(merge)]
            y = token * rows / (rows // merge * (columns // merge))
            ax.text(right - 0.3, y + 0.3, f"token {token}", ha="right", va="center", color=QUIET)
            for place, patch in enumerate(inside):
                ax.add_patch(Rectangle((right + 1.1 * place, y), 1.1, 0.58, facecolor=VALUE, edgecolor=LINE))
                ax.text(right + 1.1 * place + 0.55, y + 0.29, str(patch), ha="center", va="center")
        ax.text(columns / 2, -0.25, f"{rows} x {columns} patches", ha="center", fontweight="bold")
        wide = 1.1 * merge * merge
        ax.text(right + wide / 2, -0.25, f"{merge * merge} times as wide", ha="center", fontweight="bold")
        ax.set_xlim(-0.3, right + wide + 0.3)
        ax.set_ylim(rows + 0.2, -0.9)
        ax.axis("off")
        figure.tight_layout()
    return figure


def before_and_after(names: Sequence[str], predicted: Sequence[float], measured: Sequence[float]) -> Figure:
    """Pairs of bars: how many times less was predicted, and how many times less was measured."""
    places = np.arange(len(names))
    with pyplot() as plt:
        figure, ax = plt.subplots(figsize=(7.5, 0.8 * len(names) + 1.3))
        for shift, numbers, colour, hatch, word in (
            (-0.2, predicted, QUERY, "", "predicted"),
            (0.2, measured, KEY, "///", "measured"),
        ):
            ax.barh(places + shift, numbers, 0.38, color=colour, edgecolor=INK, hatch=hatch, label=word)
            for place, number in zip(places, numbers, strict=True):
                ax.text(number, float(place + shift), f" {number:.1f}", va="center")
        ax.set_yticks(places, list(names))
        ax.set_ylim(len(names) - 0.4, -0.6)
        ax.set_xlim(0, 1.15 * max(*predicted, *measured))
        ax.set_xlabel("times less")
        ax.legend(frameon=False, loc="lower right")
        plain(ax)
        figure.tight_layout()
    return figure
