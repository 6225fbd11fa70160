"""The cells of one submission as the test runner gets them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from autograder.spec import Spec
from minitx.course.definitions import only_shown

_ERRAND = re.compile(
    r"\s*(!|%(pip|conda|mamba|uv|cd|matplotlib|pylab|load_ext|reload_ext|autoreload|config|env|set_env)\b)"
)
_TRIPLE = re.compile(r"\"{3}|'{3}")


@dataclass(frozen=True)
class Cell:
    """One code cell. The source of a test cell is left empty: the runner takes it from its spec."""

    id: str
    kind: Literal["student", "test"]
    source: str


def cells_of(notebook: Any, spec: Spec) -> list[Cell]:
    """The code cells of a repaired notebook, in order."""
    tests = {cell.grade_id for cell in spec.cells if cell.kind == "test"}
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            is_test = cell.metadata.get("nbgrader", {}).get("grade_id") in tests
            source = "" if is_test else without_errands(cell.source)
            found.append(Cell(cell.id, "test" if is_test else "student", source))
    return found


def without_errands(source: str) -> str:
    """The cell without the lines that ask something of the notebook's server: to install, to change folder,
    to draw another way. In a sandbox they can only fail, and would take the rest of the cell with them.
    """
    lines, quote, goes_on = [], "", False
    for line in source.split("\n"):
        begins = not goes_on and not quote and _ERRAND.match(line)
        if begins or goes_on:
            blanks = line[: len(line) - len(line.lstrip())]
            lines.append(f"{blanks}{'pass  ' if begins else ''}# not in a sandbox: {line.strip()}")
            goes_on = line.endswith("\\")
            continue
        lines.append(line)
        for mark in _TRIPLE.findall(line):
            quote = "" if quote == mark else quote or mark
    return "\n".join(lines)


def cells_from_spec(spec: Spec, reference: bool) -> list[Cell]:
    """The reference solution's cells, or those of the untouched release."""
    return [
        Cell(cell.grade_id, "test", "")
        if cell.kind == "test"
        else Cell(cell.grade_id, "student", cell.source if reference else cell.released)
        for cell in spec.cells
        if cell.cell_type == "code"
    ]


def without_shows(cells: list[Cell], spec: Spec) -> list[Cell]:
    """The cells without those of the author's that only show something."""
    provided = {cell.grade_id for cell in spec.cells if cell.kind == "provided"}
    tests = [cell.source for cell in spec.cells if cell.kind == "test"]
    sources = [*(cell.source for cell in cells), *tests]
    given = [*(cell.id in provided for cell in cells), *(False for _ in tests)]
    shown = only_shown(sources, given)
    return [cell for place, cell in enumerate(cells) if place not in shown]
