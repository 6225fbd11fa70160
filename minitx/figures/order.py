"""Figures of the unit `order`, in the style of `minitx.figures`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minitx.figures.style import BAR, INK, LINE, QUIET, plain, pyplot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DARK = "#a5420f"


def tables_side_by_side(
    tables: Sequence[Any], titles: Sequence[str], row_labels: Sequence[Sequence[str]]
) -> Figure:
    """Arrays (n, e) as tables of shaded cells with their numbers; each table has labels for its own rows."""
    arrays = [np.asarray(table, float) for table in tables]
    for array, labels in zip(arrays, row_labels, strict=True):
        if array.ndim != 2 or len(labels) != len(array):
            raise ValueError(
                f"expected a table with {len(labels)} labelled rows, got the shape {array.shape}"
            )
    top = max(float(np.abs(array).max()) for array in arrays)
    with pyplot() as plt:
        rows, columns = arrays[0].shape
        size = (len(arrays) * (0.75 * columns + 1.6), 0.5 * rows + 1.0)
        figure, panels = plt.subplots(1, len(arrays), figsize=size, squeeze=False)
        for ax, array, title, labels in zip(panels[0], arrays, titles, row_labels, strict=True):
            ax.imshow(array, cmap="PuOr", vmin=-1.6 * top, vmax=1.6 * top, aspect="auto")
            for (i, j), number in np.ndenumerate(array):
                ax.text(j, i, f"{number:.2f}", ha="center", va="center")
            ax.set_yticks(range(len(labels)), list(labels))
            ax.set_xticks([])
            ax.set_yticks(np.arange(len(labels) + 1) - 0.5, minor=True)
            ax.grid(which="minor", axis="y", color=LINE, linewidth=0.8)
            ax.tick_params(which="both", length=0)
            ax.set_title(title, fontsize=11, pad=8)
        figure.tight_layout(w_pad=2)
    return figure


def position_code(table: Any, starts: Mapping[int, Any]) -> Figure:
    """Position codes (places, d) as a picture; dot products of one code with those that follow it.

    starts: for each first place, its code and the codes after it, (places, d).
    """
    table = np.asarray(table, float)
    dashes = ("-", "--", ":")
    if len(starts) > len(dashes):
        raise ValueError(f"position_code draws up to {len(dashes)} curves, got {len(starts)}")
    with pyplot() as plt:
        figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8))
        picture = left.imshow(table, cmap="PuOr", vmin=-1, vmax=1, aspect="auto")
        left.set_xlabel("feature")
        left.set_ylabel("place")
        figure.colorbar(picture, ax=left, ticks=[-1, 0, 1])
        for (start, codes), dash, colour in zip(starts.items(), dashes, (BAR, DARK, INK), strict=False):
            products = np.asarray(codes, float) @ np.asarray(codes[0], float)
            right.plot(products, color=colour, linestyle=dash, linewidth=2, label=f"from place {start}")
        right.set_xlabel("distance in places")
        right.set_ylabel("dot product of two codes")
        right.legend(frameon=False)
        plain(right)
        figure.tight_layout(w_pad=2)
    return figure


def map_with_weights(
    polylines: Sequence[Sequence[tuple[float, float]]], weights: Any, titles: Sequence[str]
) -> Figure:
    """Polylines on the ground, once for each reader: the wider a line, the larger the weight beside it.

    weights: (readers, polylines).
    """
    weights = np.asarray(weights, float)
    if weights.shape != (len(titles), len(polylines)):
        wanted = f"(reader {len(titles)}, polyline {len(polylines)})"
        raise ValueError(f"weights must have the shape {wanted}, got {weights.shape}")
    with pyplot() as plt:
        figure, panels = plt.subplots(1, len(titles), figsize=(3.5 * len(titles), 3.9), squeeze=False)
        for ax, shares, title in zip(panels[0], weights, titles, strict=True):
            for line, share in zip(polylines, shares, strict=True):
                x, y = np.array(line, float).T
                ax.plot(x, y, color=LINE, linewidth=1, marker="o", markersize=3)
                if share >= 0.005:
                    ax.plot(x, y, color=BAR, linewidth=1 + 11 * share, solid_capstyle="round", alpha=0.75)
                end = int(np.argmax(x**2 + y**2))  # the end that lies farther out, where there is room
                ax.annotate(f"{share:.2f}", (x[end], y[end]), xytext=(5, 5), textcoords="offset points")
            ax.plot(0, 0, marker="s", markersize=9, color=INK)
            ax.set_title(title, pad=8)
            ax.set_xlim(-11, 13)
            ax.set_ylim(-11, 12)
            ax.set_aspect("equal")
            ax.set_xticks([-10, 0, 10])
            ax.set_yticks([-10, 0, 10])
            ax.tick_params(colors=QUIET)
            plain(ax)
            ax.set_xlabel("metres to the east")
        panels[0][0].set_ylabel("metres to the north")
        figure.tight_layout()
    return figure
