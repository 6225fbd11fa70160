"""Canvas: one column of the instructor's own exported gradebook is filled.

The file has `Student, ID, [SIS User ID, SIS Login ID, Root Account,] Section, Title (id), ...`; then, perhaps
after other lines without an ID, `    Points Possible`; then the students. On import, a column that is not
in the file and an empty cell change nothing, and `EX` stands for excused. So what is written has the
identifying columns and this one, and leaves `EX` alone.
(https://community.canvaslms.com, "How do I import grades in the Gradebook?")
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from autograder.errors import UsageError
from autograder.export.grades import Filled, Grade
from autograder.export.tables import LmsTable, read_table, the_column

_IDENTITY = ("Student", "ID", "SIS User ID", "SIS Login ID", "Integration ID", "Root Account", "Section")
_WHAT = "Canvas's gradebook (Grades, Export Entire Gradebook), with the columns Student and ID"


def fill(
    path: Path,
    unit: str,
    grades: Sequence[Grade],
    *,
    column: str | None = None,
    unfinished: bool = False,
    scale: bool = False,
) -> Filled:
    """The table to import. `unfinished`: also grades that wait for a person. `scale`: to Canvas's points.

    Raises `UsageError` for a file that is not Canvas's, no such column, or points that do not agree.
    """
    table = read_table(path, _WHAT)
    header = [name.strip() for name in table.header]
    if not {"Student", "ID"} <= set(header):
        raise UsageError(f"{path} has no columns Student and ID. Expected {_WHAT}.")
    target = the_column(header, column or unit, path)
    if header[target] in _IDENTITY:
        raise UsageError(f"{header[target]!r} is no assignment's column. Name one with --column.")
    factor, notes = _factor(table, header, target, grades, scale)
    kept = [index for index, name in enumerate(header) if name in _IDENTITY]
    filled = Filled("", [], [], [], [], notes)
    by_name, rows = _by_name(grades), []
    for row in table.rows:
        out = [*(row[index] for index in kept), row[target]]
        if row is not table.header and row[header.index("ID")].strip():
            grade = _grade_of(row, header, by_name)
            out[-1] = _cell(row[target], grade, factor, unfinished, filled)
        rows.append(out)
    found = {*filled.written, *filled.waiting, *filled.locked}
    filled.unknown = [grade.student for grade in grades if grade.student not in found]
    filled.text = table.text(rows)
    return filled


def _cell(before: str, grade: Grade | None, factor: float, unfinished: bool, filled: Filled) -> str:
    if grade is None:
        return ""  # changes nothing
    if before.strip().upper() == "EX":
        filled.locked.append(grade.student)
        return before
    if grade.needs_person and not unfinished:
        filled.waiting.append(grade.student)
        return ""
    filled.written.append(grade.student)
    return f"{grade.score * factor:.2f}"


def _by_name(grades: Sequence[Grade]) -> dict[str, Grade]:
    """Grades by every name that Canvas may know the student by."""
    found = {f"name {grade.student.casefold()}": grade for grade in grades}
    found |= {f"id {grade.ids['canvas']}": grade for grade in grades if "canvas" in grade.ids}
    return found


def _grade_of(row: list[str], header: list[str], by_name: dict[str, Grade]) -> Grade | None:
    number = row[header.index("ID")].strip()
    if grade := by_name.get(f"id {number}"):
        return grade
    for name in ("SIS Login ID", "SIS User ID", "ID"):
        value = row[header.index(name)].strip() if name in header else ""
        for form in (value, value.split("@")[0]):
            if form and (grade := by_name.get(f"name {form.casefold()}")):
                return grade
    return None


def _factor(
    table: LmsTable, header: list[str], target: int, grades: Sequence[Grade], scale: bool
) -> tuple[float, list[str]]:
    """What to multiply scores by, so that they are of Canvas's points possible."""
    line = next((row for row in table.rows if row[0].strip() == "Points Possible"), None)
    said = re.sub(r"[^\d.]", "", line[target].replace(",", ".")) if line else ""
    most = max((grade.max_score for grade in grades), default=0.0)
    if not said:
        return 1.0, ["Canvas's file does not say how many points are possible; the scores are as they are"]
    possible = float(said)
    if abs(possible - most) < 0.005:
        return 1.0, []
    if not scale:
        raise UsageError(
            f"In Canvas {header[target]!r} has {possible:g} points possible, here it has {most:g}. Change the"
            " points in Canvas, or give --scale to multiply the scores."
        )
    note = f"the scores were scaled from {most:g} to {possible:g} points"
    return (possible / most if most else 1.0), [note]
