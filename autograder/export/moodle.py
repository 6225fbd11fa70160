"""Moodle: the downloaded grading worksheet is filled, to be uploaded again.

Its columns are `Identifier, Full name, [ID number, Email address,] Status, [Group,] Grade, Maximum Grade,
Grade can be changed, [Last modified (submission),] Last modified (grade), [Feedback comments]`, in the
language of whoever downloads it. A student's line is known by the number at the end of its identifier
("Participant 123"). "Last modified (grade)" stays as it is, since Moodle compares it. An empty grade
changes nothing. (docs.moodle.org, "Assignment offline grading worksheet"; mod/assign/feedback/offline)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from autograder.errors import UsageError
from autograder.export.grades import Filled, Grade
from autograder.export.tables import LmsTable, read_table, the_column

_GRADE = ("grade", "bewertung", "note", "calificación", "valutazione", "cijfer", "nota", "ocena", "betyg")
_COMMENTS = ("feedback comments", "feedback als kommentar", "commentaires", "comentarios")
_NO = ("no", "nein", "non", "nee", "não", "nie", "nej")
_IDENTIFIER = re.compile(r"\D+?(\d+)$")
_NUMBER = re.compile(r"\d+([.,]\d+)?$")
_WHAT = "Moodle's grading worksheet (the assignment's submissions, Download grading worksheet)"


def fill(
    path: Path,
    grades: Sequence[Grade],
    *,
    column: str | None = None,
    unfinished: bool = False,
    scale: bool = False,
    comments: Mapping[str, str] | None = None,
) -> Filled:
    """The worksheet to upload. `comments`: by student, for the feedback comments that are empty.

    Raises `UsageError` for a file that is no worksheet, or points that do not agree.
    """
    table = read_table(path, _WHAT)
    if not all(_IDENTIFIER.match(row[0].strip()) for row in table.rows[1:]):
        raise UsageError(
            f"The first column of {path} should hold identifiers like 'Participant 123'. Expected {_WHAT}."
        )
    target = _grade_column(table, column, path)
    factor, comma, notes = _factor(table, target, grades, scale)
    commented = _named(table.header, _COMMENTS)
    by_name = {grade.student.casefold(): grade for grade in grades}
    by_number = {grade.ids["moodle"]: grade for grade in grades if "moodle" in grade.ids}
    filled = Filled("", [], [], [], [], notes)
    for row in table.rows[1:]:
        number = _IDENTIFIER.match(row[0].strip())
        grade = by_number.get(number[1]) if number else None
        grade = grade or _by_other_columns(row[1:target], by_name)
        if grade is None:
            continue
        if target + 2 < len(row) and row[target + 2].strip().casefold() in _NO:
            filled.locked.append(grade.student)
        elif grade.needs_person and not unfinished:
            filled.waiting.append(grade.student)
        else:
            text = f"{grade.score * factor:.2f}"
            row[target] = text.replace(".", ",") if comma else text
            filled.written.append(grade.student)
            if commented is not None and comments and not row[commented].strip():
                row[commented] = comments.get(grade.student, "")
    found = {*filled.written, *filled.waiting, *filled.locked}
    filled.unknown = [grade.student for grade in grades if grade.student not in found]
    filled.text = table.text(table.rows)
    return filled


def _by_other_columns(values: Sequence[str], by_name: Mapping[str, Grade]) -> Grade | None:
    """By ID number or email address."""
    for value in values:
        for form in (value.strip().casefold(), value.strip().casefold().split("@")[0]):
            if form in by_name:
                return by_name[form]
    return None


def _grade_column(table: LmsTable, column: str | None, path: Path) -> int:
    """The column of grades: by the name given, by a known one, or as the one before the maximum, which is
    the same number in every line."""
    if column is not None:
        return the_column(table.header, column, path)
    named = _named(table.header, _GRADE)
    if named is not None:
        return named
    for index in range(3, len(table.header)):
        values = {row[index].strip() for row in table.rows[1:]}
        if len(values) == 1 and _NUMBER.match(values.pop()):
            return index - 1
    raise UsageError(
        f"Which column of {path} holds the grades? Say it with --column. The columns are:"
        f" {', '.join(repr(name) for name in table.header)}."
    )


def _named(header: Sequence[str], names: Sequence[str]) -> int | None:
    found = [index for index, name in enumerate(header) if name.strip().casefold() in names]
    return found[0] if len(found) == 1 else None


def _factor(
    table: LmsTable, target: int, grades: Sequence[Grade], scale: bool
) -> tuple[float, bool, list[str]]:
    """What to multiply scores by, and whether this Moodle writes a comma."""
    said = table.rows[1][target + 1].strip() if target + 1 < len(table.header) else ""
    most = max((grade.max_score for grade in grades), default=0.0)
    if not _NUMBER.match(said):
        raise UsageError(
            f"Beside the grades stands {said!r}, not a number of points: is the assignment graded by a scale?"
            " Set it to points in Moodle, and download the worksheet again."
        )
    possible = float(said.replace(",", "."))
    if abs(possible - most) < 0.005:
        return 1.0, "," in said, []
    if not scale:
        raise UsageError(
            f"In Moodle the maximum grade is {possible:g}, here it is {most:g}. Change it in Moodle, or give"
            " --scale to multiply the scores."
        )
    note = f"the scores were scaled from {most:g} to {possible:g} points"
    return (possible / most if most else 1.0), "," in said, [note]
