"""Figures of the tutorial page: from tokens to one head's output, and the cache against recomputing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from minitx.figures.style import BAR, INK, KEY, LINE, OUTPUT, QUERY, QUIET, SCORE, VALUE, plain, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def shapes_from_tokens(n: int = 6, d_model: int = 512, d_k: int = 64) -> Figure:
    """The arrays of one head from the tokens X (n, d_model) to the output (n, d_k), with their sizes.

    Widths follow the logarithm of the sizes: 512 columns beside 6 rows could not be seen.
    """
    wide, narrow, square = 3.4, 1.5, 1.5
    with pyplot() as plt:
        figure, ax = plt.subplots(figsize=(10, 5.2))
        _box(ax, (0.0, 2.2), wide, square, "#eeeeee", "X", f"n x {d_model}", "the tokens")
        parts = (("Q", QUERY, 4.4), ("K", KEY, 2.2), ("V", VALUE, 0.0))
        for name, colour, y in parts:
            _box(ax, (4.4, y), narrow, square, "white", f"W_{name}", f"{d_model} x {d_k}")
            _box(ax, (7.0, y), narrow, square, colour, name, f"n x {d_k}")
            _arrow(ax, (wide, 2.2 + square / 2), (4.4, y + square / 2))
            _arrow(ax, (4.4 + narrow, y + square / 2), (7.0, y + square / 2))
        _box(ax, (10.0, 3.3), square, square, SCORE, "Q K'", "n x n", "scores")
        _box(ax, (12.6, 3.3), square, square, SCORE, "weights", "n x n", "rows sum to 1")
        _box(ax, (15.2, 1.4), narrow, square, OUTPUT, "Z", f"n x {d_k}", "the output")
        _arrow(ax, (8.5, 5.15), (10.0, 4.4))
        _arrow(ax, (8.5, 2.95), (10.0, 3.8))
        _arrow(ax, (11.5, 4.05), (12.6, 4.05))
        ax.text(12.05, 5.0, f"/ {d_k**0.5:g},\nsoftmax", ha="center", fontsize=9, color=QUIET)
        _arrow(ax, (14.1, 3.9), (15.2, 2.5))
        _arrow(ax, (8.5, 0.75), (15.2, 1.9))
        ax.set_xlim(-0.3, 17.2)
        ax.set_ylim(-0.9, 6.7)
        ax.axis("off")
        figure.tight_layout()
    return figure


def cache_against_recomputing(tokens: int = 100, prompt: int = 1, shown: int = 7) -> Figure:
    """The cache as rows, and the rows through one key projection while `tokens` are generated.

    With a prompt of p tokens and g generated: recomputing g p + g (g - 1) / 2, cached p + g - 1.
    """
    g = np.arange(1, tokens + 1)
    again, cached = g * prompt + g * (g - 1) // 2, prompt + g - 1
    with pyplot() as plt:
        figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), gridspec_kw={"width_ratios": [1, 1.25]})
        for x, colour, name in ((0.0, KEY, "keys"), (3.2, VALUE, "values")):
            for i in range(shown):
                new = i == shown - 1
                style: dict[str, Any] = {"hatch": "//"} if new else {}
                edge = INK if new else LINE
                left.add_patch(
                    plt.Rectangle((x, shown - i), 2.4, 0.8, facecolor=colour, edgecolor=edge, **style)
                )
            left.text(x + 1.2, shown + 1.15, name, ha="center")
        left.text(6.0, (shown + 2) / 2, "kept from\nearlier steps", va="center", color=QUIET)
        left.text(6.0, 1.4, "new: one query,\nkey and value", va="center")
        left.set_xlim(-0.2, 9.2)
        left.set_ylim(0.6, shown + 1.9)
        left.axis("off")
        right.plot(g, again, color=INK, label="computed again at every step")
        right.plot(g, cached, color=BAR, linestyle="--", linewidth=2.2, label="with the cache")
        right.annotate(
            f"{again[-1]:,}",
            (g[-1], again[-1]),
            ha="right",
            va="bottom",
            xytext=(-4, 2),
            textcoords="offset points",
        )
        right.annotate(
            f"{cached[-1]:,}",
            (g[-1], cached[-1]),
            ha="right",
            va="bottom",
            xytext=(-4, 4),
            textcoords="offset points",
        )
        right.set_xlabel("tokens generated")
        right.set_ylabel("rows through one key projection")
        right.legend(frameon=False, loc="upper left")
        plain(right)
        figure.tight_layout(w_pad=2)
    return figure


def _box(
    ax: Axes,
    corner: tuple[float, float],
    wide: float,
    tall: float,
    colour: str,
    name: str,
    size: str,
    note: str = "",
) -> None:
    from matplotlib.patches import Rectangle  # noqa: PLC0415 - `import minitx` must not pay for it

    x, y = corner
    ax.add_patch(Rectangle(corner, wide, tall, facecolor=colour, edgecolor=INK))
    ax.text(x + wide / 2, y + tall / 2 + 0.14, name, ha="center", va="center", fontsize=13)
    ax.text(x + wide / 2, y + tall / 2 - 0.38, size, ha="center", va="center", fontsize=9)
    if note:
        ax.text(x + wide / 2, y - 0.35, note, ha="center", color=QUIET, fontsize=9)


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    ax.annotate("", xy=end, xytext=start, arrowprops={"arrowstyle": "-|>", "color": LINE, "lw": 1.2})
