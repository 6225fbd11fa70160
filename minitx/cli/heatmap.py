"""Attention weights as shaded cells on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.cells import cell_len, set_cell_size

LEVELS = (0.02, 0.1, 0.25, 0.5)  # a cell's shade says how many of these its weight reaches
SHADES, ASCII_SHADES = "·░▒▓█", ".-+#@"
LABEL = 14  # columns of a token's name
EARLIER = "<"  # the column of all keys that are too early to be shown


def token_label(data: bytes) -> str:
    """The bytes of a token as a name in quotes, with spaces and line ends to be seen."""
    return repr(data.decode("utf-8", "backslashreplace")).replace("\\\\x", "\\x")


def heatmap_lines(weights: np.ndarray, labels: Sequence[str], width: int, *, ascii_only: bool) -> list[str]:
    """Causal weights (n, n) as lines of `width` columns: a row for each query, two columns for each key.

    Where the keys do not fit, the last ones are shown, and one cell has the sum of those before.
    """
    n = len(labels)
    names = [_name(label, ascii_only) for label in labels]
    number = len(str(n - 1))
    label = min(LABEL, max(map(cell_len, names)))
    fitting = (width - number - label - 2) // 2
    first = 0 if n <= fitting else n - max(1, fitting - 1)
    lines = _headings(first, n, " " * (number + label + 2))
    for query in range(first, n):
        row = weights[query]
        cells = [shade(row[:first].sum(), ascii_only)] if first else []
        cells += [shade(row[key], ascii_only) for key in range(first, query + 1)]
        name = set_cell_size(names[query], label)
        lines.append(f"{query:>{number}} {name} " + "".join(cell * 2 for cell in cells))
    earlier = [f"{EARLIER}  all tokens before {first}"] if first else []
    return [*lines, *earlier, legend(ascii_only)]


def shade(weight: float, ascii_only: bool) -> str:
    """The character for a weight in 0 ... 1."""
    return (ASCII_SHADES if ascii_only else SHADES)[int(np.searchsorted(LEVELS, weight, side="right"))]


def legend(ascii_only: bool) -> str:
    shades = ASCII_SHADES if ascii_only else SHADES
    steps = "  ".join(f"{one * 2} from {level:g}" for one, level in zip(shades[1:], LEVELS, strict=True))
    return f"{shades[0] * 2} below {LEVELS[0]:g}  {steps}"


def _headings(first: int, n: int, margin: str) -> list[str]:
    """The keys' numbers from above to below, a line for each digit."""
    digits = [f"{key:>{len(str(n - 1))}}" for key in range(first, n)]
    before = f"{EARLIER} " if first else ""
    return [
        (margin + before + "".join(f"{one[line]} " for one in digits)).rstrip()
        for line in range(len(digits[0]))
    ]


def _name(label: str, ascii_only: bool) -> str:
    return label.encode("ascii", "backslashreplace").decode() if ascii_only else label
