"""What all figures share: a white card with dark text, which reads the same on a light and on a dark page.

Colour is never the only sign: cells carry their numbers, hidden cells are hatched. matplotlib is imported
only when a figure is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#1b1f24"
QUIET = "#57606a"
LINE = "#8c959f"
QUERY, KEY, VALUE, SCORE, OUTPUT = "#cfe3ff", "#ffe0b8", "#d3f0d3", "#e6e6ea", "#f3d3ea"
BAR = "#2f6db5"
STYLE = {
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "axes.facecolor": "white",
    "figure.dpi": 100,
    "font.size": 11,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": LINE,
    "axes.titlecolor": INK,
    "axes.titlesize": 12,
    "xtick.color": INK,
    "ytick.color": INK,
    "hatch.linewidth": 0.8,
    "hatch.color": LINE,
}


@contextmanager
def pyplot() -> Iterator[Any]:
    """matplotlib.pyplot with this style.

    Only these settings are put back afterwards. `rc_context` puts all of them back, "interactive" too,
    and a notebook that draws its first figure inside it shows no other figure from then on.
    """
    import matplotlib.pyplot as plt  # noqa: PLC0415 - `import minitx` must not pay for it

    settings: Any = plt.rcParams
    before = {key: settings[key] for key in STYLE}
    settings.update(STYLE)
    try:
        yield plt
    finally:
        settings.update(before)


def plain(ax: Axes) -> None:
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
