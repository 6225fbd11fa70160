"""One head's lookup, shapes, scale and weights, and masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minitx.figures.style import BAR, INK, KEY, LINE, OUTPUT, QUERY, QUIET, SCORE, VALUE, plain, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def hard_and_soft_lookup(scores: Any, values: Any, labels: Sequence[str], unit: str = "") -> Figure:
    """One query against a few keys: all the weight on the best match, or shared among the keys.

    scores (m,): how well each key matches; values (m,): one number for each key.
    """
    scores, values = np.asarray(scores, float), np.asarray(values, float)
    hard = np.zeros_like(scores)
    hard[scores.argmax()] = 1.0
    lines = [f"{label}  ({value:g}{unit})" for label, value in zip(labels, values, strict=True)]
    with pyplot() as plt:
        figure, panels = plt.subplots(1, 2, figsize=(9.5, 0.5 * len(scores) + 1.9), sharey=True)
        kinds = (("Hard lookup: one key wins", hard), ("Soft lookup: every key has a say", _softmax(scores)))
        for ax, (title, weights) in zip(panels, kinds, strict=True):
            _bars(ax, weights, lines)
            ax.set_title(title, loc="left")
            ax.set_xlabel(f"weight\nreturns {weights @ values:.1f}{unit}")
        figure.tight_layout(w_pad=2)
    return figure


def shapes_in_one_head(n: int = 3, m: int = 5, d_k: int = 4, d_v: int = 2) -> Figure:
    """The arrays of one attention head, drawn to scale: one square for each number.

    n queries read m keys and values. The first row of boxes makes the weights, the second the output.
    """
    scores = ("q", QUERY, ("n", n), ("d_k", d_k)), ("k transposed", KEY, ("d_k", d_k), ("m", m))
    scores = (*scores, ("scores", SCORE, ("n", n), ("m", m)))
    output = ("weights", SCORE, ("n", n), ("m", m)), ("v", VALUE, ("m", m), ("d_v", d_v))
    output = (*output, ("output", OUTPUT, ("n", n), ("d_v", d_v)))
    first, second = max(n, d_k), max(n, m)
    below = first + 4.6  # where the second row of boxes starts
    with pyplot() as plt:
        figure, ax = plt.subplots(figsize=(9.5, 4.9))
        end = _product(ax, (0.0, 0.0), first, scores)
        far = _product(ax, (end - m, below), second, output)
        middle = end - m / 2
        ax.annotate(
            "",
            xy=(middle, below + (second - n) / 2 - 1.2),
            xytext=(middle, (first + n) / 2 + 1.2),
            arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 1.6},
        )
        note = "divide by sqrt(d_k), hide what is masked,\nthen softmax: each row sums to one"
        ax.text(middle + 0.5, (first + n) / 2 + 2.1, note, va="center")
        note = "Row i of the weights says how much\nquery i reads from each of the m values."
        ax.text(-0.9, below + second / 2, note, va="center", color=QUIET)
        ax.set_xlim(-1.4, max(far, middle + 9.5) + 0.4)
        ax.set_ylim(below + second + 1.1, -1.2)
        ax.set_aspect("equal")
        ax.axis("off")
        figure.tight_layout()
    return figure


def scale_and_saturation(d_ks: Sequence[int] = (4, 64, 1024), n_keys: int = 8, seed: int = 3) -> Figure:
    """Weights of one random query over random keys, for several sizes d_k, without and with the scale."""
    with pyplot() as plt:
        figure, panels = plt.subplots(2, len(d_ks), figsize=(9.5, 4.6), sharex=True, sharey=True)
        for column, d_k in enumerate(d_ks):
            rng = np.random.default_rng(seed)
            scores = rng.normal(size=(n_keys, d_k)) @ rng.normal(size=d_k)
            for line, (scale, word) in enumerate(((1.0, "not scaled"), (d_k**0.5, "scaled"))):
                weights = _softmax(scores / scale)
                ax = panels[line, column]
                ax.bar(np.arange(n_keys), weights, color=BAR, edgecolor=INK, linewidth=0.6)
                ax.set_title(f"d_k = {d_k}, {word}\nlargest weight {weights.max():.2f}", fontsize=11)
                ax.set_ylim(0, 1.05)
                ax.set_xticks(range(n_keys))
                plain(ax)
        for ax in panels[-1]:
            ax.set_xlabel("key")
        for ax in panels[:, 0]:
            ax.set_ylabel("weight")
        figure.tight_layout()
    return figure


def attention_heatmap(
    weights: Any,
    query_labels: Sequence[str] | None = None,
    key_labels: Sequence[str] | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Weights (n, m) as a table of shaded cells: a row for each query, a column for each key.

    Up to 12 keys the cells show their numbers. A weight of exactly 0 is hatched and shows no number.
    """
    weights = np.asarray(weights, float)
    if weights.ndim != 2:
        raise ValueError(
            f"weights must have the axes (query, key), got an array of shape {weights.shape}; "
            "pick one batch element and one head: weights[0, 0]"
        )
    n, m = weights.shape
    for axis, labels, size in (("query", query_labels, n), ("key", key_labels, m)):
        if labels is not None and len(labels) != size:
            raise ValueError(
                f"{len(labels)} {axis} labels were given for weights of shape (query {n}, key {m}); "
                "are the two axes swapped?"
            )
    with pyplot() as plt:
        if ax is not None:
            _heatmap(ax, weights, query_labels, key_labels, title)
            return ax
        figure, panel = plt.subplots(figsize=(0.75 * m + 2.4, 0.55 * n + 2.0))
        _heatmap(panel, weights, query_labels, key_labels, title)
        figure.tight_layout()
    return panel


def heatmaps_side_by_side(
    weights: Sequence[Any],
    titles: Sequence[str],
    query_labels: Sequence[str] | None = None,
    key_labels: Sequence[str] | None = None,
) -> Figure:
    """Several arrays of weights (n, m), each drawn by `attention_heatmap`, in one row."""
    n, m = np.asarray(weights[0]).shape
    with pyplot() as plt:
        size = (len(weights) * (0.66 * m + 1.0), 0.5 * n + 1.9)
        figure, panels = plt.subplots(1, len(weights), figsize=size, squeeze=False)
        for ax, one, title in zip(panels[0], weights, titles, strict=True):
            attention_heatmap(one, query_labels, key_labels, title, ax)
        for ax in panels[0][1:]:
            ax.set_ylabel("")
        figure.tight_layout(w_pad=2)
    return figure


def masks_side_by_side(masks: Sequence[Any], titles: Sequence[str]) -> Figure:
    """Boolean masks (n, m), True = may attend: a dot where a query may look, hatching where it may not."""
    shapes = [np.asarray(mask).shape for mask in masks]
    with pyplot() as plt:
        size = (sum(0.45 * m + 1.6 for _, m in shapes), 0.45 * max(n for n, _ in shapes) + 1.7)
        ratios = {"width_ratios": [m for _, m in shapes]}
        figure, panels = plt.subplots(1, len(masks), figsize=size, squeeze=False, gridspec_kw=ratios)
        for ax, mask, title in zip(panels[0], masks, titles, strict=True):
            allowed = np.asarray(mask, bool)
            ax.imshow(np.where(allowed, 0.25, 0.0), cmap="Blues", vmin=0, vmax=1)
            for (i, j), may in np.ndenumerate(allowed):
                if may:
                    ax.plot(j, i, marker="o", color=BAR, markersize=8)
                else:
                    _hatch(ax, i, j)
            _table(ax, len(allowed), allowed.shape[1], None, None)
            ax.set_title(title, fontsize=11, pad=8)
        figure.tight_layout(w_pad=2)
    return figure


def _softmax(scores: np.ndarray) -> np.ndarray:
    raised = np.exp(scores - scores.max())
    return raised / raised.sum()


def _bars(ax: Axes, weights: np.ndarray, lines: Sequence[str]) -> None:
    """Weights as bars, the first at the top, each with its number."""
    places = np.arange(len(weights))
    ax.barh(places, weights, color=BAR, edgecolor=INK, linewidth=0.6)
    for place, weight in zip(places, weights, strict=True):
        ax.text(weight + 0.02, float(place), f"{weight:.2f}", va="center")
    ax.set_yticks(places, lines)
    ax.set_ylim(len(weights) - 0.4, -0.6)
    ax.set_xlim(0, 1.18)
    ax.set_xticks([0, 0.5, 1])
    plain(ax)


def _product(ax: Axes, corner: tuple[float, float], tall: float, boxes: Sequence[Any]) -> float:
    """Three matrices in a row, a @ b = c, centred on one height. Returns where the last one ends."""
    gap = 3.2
    x, y = corner
    for (name, colour, rows, columns), sign in zip(boxes, ("@", "=", ""), strict=True):
        _grid(ax, (x, y + (tall - rows[1]) / 2), rows, columns, colour=colour, name=name)
        x += columns[1] + gap
        ax.text(x - gap + 0.9, y + tall / 2, sign, ha="center", va="center", fontsize=16)
    return x - gap


def _grid(
    ax: Axes,
    corner: tuple[float, float],
    rows: tuple[str, int],
    columns: tuple[str, int],
    *,
    colour: str,
    name: str,
) -> None:
    """A matrix of squares, its name above it, and the names and sizes of its sides."""
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    x, y = corner
    wide, high = columns[1], rows[1]
    for i in range(high):
        for j in range(wide):
            ax.add_patch(Rectangle((x + j, y + i), 1, 1, facecolor=colour, edgecolor=LINE, linewidth=1.0))
    ax.text(x + wide / 2, y - 0.35, name, ha="center", va="bottom", fontsize=12, fontweight="bold")
    side = f"{rows[0]} = {high}"
    ax.text(x - 0.25, y + high / 2, side, rotation=90, ha="right", va="center", color=QUIET)
    ax.text(x + wide / 2, y + high + 0.25, f"{columns[0]} = {wide}", ha="center", va="top", color=QUIET)


def _heatmap(
    ax: Axes,
    weights: np.ndarray,
    query_labels: Sequence[str] | None,
    key_labels: Sequence[str] | None,
    title: str | None,
) -> None:
    n, m = weights.shape
    ax.imshow(weights, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    for (i, j), weight in np.ndenumerate(weights):
        if weight == 0:
            _hatch(ax, i, j)
        elif m <= 12:
            ax.text(j, i, f"{weight:.2f}", ha="center", va="center", color="white" if weight > 0.6 else INK)
    _table(ax, n, m, query_labels, key_labels)
    if title:
        ax.set_title(title, pad=10)


def _hatch(ax: Axes, i: int, j: int) -> None:
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    ax.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor="#f2f2f4", hatch="////", edgecolor=LINE, lw=0))


def _table(
    ax: Axes, n: int, m: int, query_labels: Sequence[str] | None, key_labels: Sequence[str] | None
) -> None:
    """Ticks and names of a table of queries and keys, with thin lines between the cells."""
    ax.set_xticks(range(m), list(key_labels) if key_labels else [str(j) for j in range(m)])
    ax.set_yticks(range(n), list(query_labels) if query_labels else [str(i) for i in range(n)])
    if key_labels and max(len(label) for label in key_labels) > 5:
        ax.tick_params(axis="x", labelrotation=35)
        for label in ax.get_xticklabels():
            label.set_horizontalalignment("right")
            label.set_rotation_mode("anchor")
    ax.set_xticks(np.arange(m + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(n + 1) - 0.5, minor=True)
    ax.grid(which="minor", color=LINE, linewidth=0.8)
    ax.tick_params(which="both", length=0)
    ax.set_xlabel("key")
    ax.set_ylabel("query")
