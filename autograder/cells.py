"""The cells of one submission as the test runner gets them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from autograder.spec import Spec
from minitx.course.definitions import defined_names, imported_names, words


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
            found.append(Cell(cell.id, "test", "") if is_test else Cell(cell.id, "student", cell.source))
    return found


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
    """The cells without those of the author's that only show something.

    Such a cell defines names (a figure, a table) that no test, no student and no other kept cell uses.
    Drawing it takes longer than all the tests together.
    """
    provided = {cell.grade_id for cell in spec.cells if cell.kind == "provided"}
    sources = [cell.source for cell in spec.cells if cell.kind == "test"]
    sources += [cell.source for cell in cells if cell.id not in provided]
    used = words("\n".join(sources))
    kept = []
    for cell in reversed(cells):
        if cell.id in provided:
            names = (defined_names(cell.source) | imported_names(cell.source)) - {"_"}
            if names and not names & used:
                continue
            used |= words(cell.source) - names
        kept.append(cell)
    return kept[::-1]
