"""Does a release hold a line that students must not see? A check of its own, not nbgrader's.

It reads the regions once more from the author's text, and looks for their lines in what is given out.
"""

from __future__ import annotations

from collections.abc import Mapping

from autograder.spec import Spec, SpecCell
from minitx.course.subtests import BEGIN_HIDDEN, END_HIDDEN

BEGIN_SOLUTION, END_SOLUTION = "BEGIN SOLUTION", "END SOLUTION"
_TELLING = 12  # characters: shorter lines, like `return x`, say nothing


def find_leaks(spec: Spec, released: Mapping[str, str]) -> list[str]:
    """One sentence for each line that is in a solution or a hidden test and in `released`: text by cell id.

    Left out are lines that say nothing: very short ones, imports, and nbgrader's stub. A line of a hidden
    test may also stand in open code (the same random generator, say); a line of a solution may not.
    """
    found = []
    openly = {line for cell in spec.cells if cell.kind in ("test", "provided") for line in _open_lines(cell)}
    for cell in spec.cells:
        for what, line in _secret_lines(cell):
            if not _is_telling(line) or (what == "hidden test" and line in openly):
                continue
            for name, text in released.items():
                if line in text:
                    found.append(
                        f"A line of the {what} {cell.grade_id!r} is in the released cell {name!r}: {line!r}."
                    )
    for marker in (BEGIN_SOLUTION, END_SOLUTION, BEGIN_HIDDEN, END_HIDDEN):
        if any(marker in text for text in released.values()):
            found.append(f"The marker '### {marker}' is in the release.")
    return found


def _secret_lines(cell: SpecCell) -> list[tuple[str, str]]:
    """The stripped lines of a cell that are to be hidden, each with what it is."""
    if cell.kind == "test":
        return [("hidden test", line) for line in _region(cell.source, BEGIN_HIDDEN, END_HIDDEN)]
    if cell.kind in ("solution", "written"):
        inside = _region(cell.source, BEGIN_SOLUTION, END_SOLUTION)
        if BEGIN_SOLUTION not in cell.source:
            inside = [line.strip() for line in cell.source.split("\n")]  # the whole cell becomes the stub
        return [("solution", line) for line in inside]
    return []


def _open_lines(cell: SpecCell) -> list[str]:
    hidden = _region(cell.source, BEGIN_HIDDEN, END_HIDDEN)
    lines = [line.strip() for line in cell.source.split("\n")]
    for line in hidden:
        lines.remove(line)
    return lines


def _region(source: str, begin: str, end: str) -> list[str]:
    """The stripped lines between the markers."""
    found, inside = [], False
    for line in source.split("\n"):
        if begin in line or end in line:
            inside = begin in line
        elif inside:
            found.append(line.strip())
    return found


def _is_telling(line: str) -> bool:
    return len(line) >= _TELLING and not line.startswith(("import ", "from ", "raise NotImplementedError"))
