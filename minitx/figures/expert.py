"""Figures of the unit `expert`, in the style of `minitx.figures`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from minitx.figures.style import BAR, INK, KEY, LINE, OUTPUT, QUERY, QUIET, SCORE, VALUE, plain, pyplot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DARK = "#a5420f"


def two_towers(layers: int = 3) -> Figure:
    """A language model, its cache, and an expert whose layer l reads what layer l has kept."""
    box: dict[str, Any] = {"boxstyle": "round,pad=0.5", "edgecolor": LINE}
    arrow: dict[str, Any] = {"arrowstyle": "-|>", "color": INK, "lw": 1.5}
    columns = (("language model", 0.0, QUERY), ("cache", 3.2, KEY), ("expert", 6.4, OUTPUT))
    with pyplot() as plt:
        figure, ax = plt.subplots(figsize=(9.0, 0.85 * layers + 2.0))
        for name, x, tint in columns:
            ax.text(x, layers + 0.75, name, ha="center", va="center", fontweight="bold")
            for layer in range(layers):
                words = f"keys, values {layer}" if name == "cache" else f"layer {layer}"
                ax.text(x, layer, words, ha="center", va="center", bbox={**box, "facecolor": tint}, zorder=3)
                if name != "cache":
                    ax.annotate("", xy=(x, layer + 0.68), xytext=(x, layer + 0.3), arrowprops=arrow)
        for layer in range(layers):
            for start, end in ((0.75, 1.95), (4.4, 5.65)):
                ax.annotate("", xy=(end, layer), xytext=(start, layer), arrowprops=arrow)
        for x, words, tint in ((0.0, "images, prompt, reasoning", SCORE), (6.4, "noisy waypoints", VALUE)):
            ax.text(x, -1.0, words, ha="center", va="center", bbox={**box, "facecolor": tint})
            ax.annotate("", xy=(x, -0.32), xytext=(x, -0.68), arrowprops=arrow)
        ax.text(6.4, layers + 0.25, "velocities", ha="center", va="top", color=QUIET)
        ax.text(0.0, layers + 0.25, "next word", ha="center", va="top", color=QUIET)
        ax.set_xlim(-1.9, 8.0)
        ax.set_ylim(-1.5, layers + 1.1)
        ax.axis("off")
        figure.tight_layout()
    return figure


def ways_around(panels: Mapping[str, Any], mean: Any, mean_label: str) -> Figure:
    """Paths (sample, waypoint) in metres to the left, a panel a title, around a cone halfway.

    `mean`, dashed, is drawn in the last panel.
    """
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    with pyplot() as plt:
        figure, axes = plt.subplots(
            1, len(panels), figsize=(3.3 * len(panels), 3.4), sharey=True, squeeze=False
        )
        for ax, (title, paths) in zip(axes[0], panels.items(), strict=True):
            lines = np.asarray(paths)
            if lines.ndim != 2 or lines.shape[1] != len(mean):
                raise ValueError(f"ways_around needs paths (sample, {len(mean)}), got {lines.shape}")
            places = np.arange(1, len(mean) + 1)
            ax.plot(places, lines.T, color=BAR, linewidth=1, alpha=0.6)
            middle = (len(mean) + 1) / 2
            cone = Rectangle(
                (middle - 0.5, -0.5), 1, 1, facecolor=SCORE, hatch="////", edgecolor=INK, zorder=3
            )
            ax.add_patch(cone)
            ax.set_title(title.replace(". ", ".\n"), fontsize=11)
            ax.set_xlabel("waypoint")
            ax.set_xticks(places[::3])
            plain(ax)
        axes[0][0].set_ylabel("metres to the left")
        places = np.arange(1, len(mean) + 1)
        axes[0][-1].plot(places, mean, color=DARK, linestyle="--", linewidth=2, label=mean_label, zorder=4)
        low, high = axes[0][-1].get_ylim()
        axes[0][-1].set_ylim(low - 0.2 * (high - low), high)  # room for the legend
        axes[0][-1].legend(frameon=False, loc="lower center", fontsize=10)
        figure.tight_layout()
    return figure


def paths_from_above(paths: Mapping[str, Any]) -> Figure:
    """Paths (waypoint, 2), x ahead and y to the left in metres. Dashes and markers tell them apart."""
    with pyplot() as plt:
        figure, ax = plt.subplots(figsize=(9.0, 3.8))
        styles = ("-", "--", "-.", ":")
        for number, (name, path) in enumerate(paths.items()):
            xy = np.asarray(path)
            if xy.ndim != 2 or xy.shape[1] != 2:
                raise ValueError(f"paths_from_above needs paths (waypoint, 2), got {xy.shape} for {name!r}")
            late = number >= len(paths) - 2
            ax.plot(
                xy[:, 0],
                xy[:, 1],
                color=(BAR, DARK)[number == len(paths) - 1] if late else QUIET,
                linestyle=styles[number % len(styles)],
                marker="osD^vX"[number % 6],
                markevery=(4 + 2 * number, 16),
                linewidth=2 if late else 1.2,
                markersize=5,
                label=name,
            )
        ax.set_xlabel("metres ahead")
        ax.set_ylabel("metres to the left")
        ax.legend(frameon=False, fontsize=10)
        plain(ax)
        figure.tight_layout()
    return figure
