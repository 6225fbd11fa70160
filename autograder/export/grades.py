"""One unit's final grades, as every exporter sends them: what nbgrader itself would export."""

from __future__ import annotations

from dataclasses import dataclass

from autograder.collecting.store import AttemptStore
from autograder.course import Course
from autograder.gradebook import GradebookWriter


@dataclass(frozen=True)
class Grade:
    """A student's grade after the late penalty, and the numbers by which an LMS knows the student."""

    student: str
    score: float
    max_score: float
    needs_person: bool  # a written answer, or a test that the grader could not finish, is not graded yet
    ids: dict[str, str]


def grades_of(course: Course, unit: str) -> list[Grade]:
    """Everyone's, by name. The score is never below 0, as in nbgrader's exporter."""
    store = AttemptStore(course, unit)
    with GradebookWriter(course) as gradebook:
        totals = gradebook.totals(unit)
    found = []
    for total in totals:
        attempts = store.attempts(total.student)
        found.append(
            Grade(
                student=total.student,
                score=max(0.0, total.score - total.late_penalty),
                max_score=total.max_score,
                needs_person=total.needs_manual_grade,
                ids=attempts[-1].ids if attempts else {},
            )
        )
    return found


@dataclass
class Filled:
    """What became of an LMS's table."""

    text: str
    written: list[str]  # students whose grade is in it
    waiting: list[str]  # left out: a person has to grade first
    unknown: list[str]  # graded here, but not in the table
    locked: list[str]  # in the table, but the LMS keeps their grade
    notes: list[str]
