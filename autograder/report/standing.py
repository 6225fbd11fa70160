"""What is graded and written down at this moment, read from the journal."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.assessing import Judged, Result, result_of
from autograder.course import Course
from autograder.journal import stored
from autograder.spec import Spec


def judged_in(course: Course, spec: Spec) -> Iterator[Judged]:
    """Every graded submission of the unit, by student."""
    for judged, _ in stored(course.private, spec.unit):
        yield judged


def results_in(course: Course, spec: Spec) -> list[Result]:
    """The rows of the table for all of them; those of other tests are marked as outdated."""
    return [
        result_of(judged, spec, "unchanged" if digest == spec.digest else "outdated")
        for judged, digest in stored(course.private, spec.unit)
    ]


def own_code(judged: Judged, spec: Spec) -> str:
    """A student's own code: solution cells and cells of their own, one below the other."""
    kinds = {cell.grade_id: cell.kind for cell in spec.cells}
    return "\n\n".join(
        cell.source
        for cell in judged.notebook.cells
        if cell.cell_type == "code" and kinds.get(cell.id, "solution") == "solution"
    )


def known_code(spec: Spec) -> list[str]:
    """What anyone may have: released cells, reference solutions, the bank of misconceptions."""
    cells = [text for cell in spec.cells if cell.cell_type == "code" for text in (cell.released, cell.source)]
    return cells + [item.code for item in spec.misconceptions]
