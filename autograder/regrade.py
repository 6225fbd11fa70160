"""Whose grade changes when what was judged anew is written: the list to look at before it is."""

from __future__ import annotations

from dataclasses import dataclass

from autograder.assessing import Judged
from autograder.engine import Grading
from autograder.gradebook import auto_score
from autograder.remarks import STATUS


@dataclass(frozen=True)
class Change:
    """One student's score in the gradebook, before and after (scores that a person entered count in both)."""

    student: str
    before: float | None  # None: not in the gradebook yet
    after: float
    tests: tuple[str, ...]  # "title: wrong answer, now passed"

    @property
    def moved(self) -> bool:
        return self.before is None or abs(self.after - self.before) > 1e-9


def changes(grading: Grading, students: list[str]) -> list[Change]:
    """For each of these students, whose new judgement is in the journal and not yet written."""
    unit, scores = grading.spec.unit, grading.gradebook.effective(grading.spec.unit)
    recorded = grading.gradebook.recorded(unit)
    found = []
    for student in students:
        new = grading.journal.judgement(grading.key(student).whole)
        if new is None:
            continue
        key = recorded.get(student)
        old = grading.journal.judgement(key.whole) if key else None
        rows = scores.get(student)
        before = None if rows is None else sum(_counts(*row) for row in rows.values())
        found.append(Change(student, before, _after(grading, new, rows or {}), tests_that_changed(old, new)))
    return found


def tests_that_changed(old: Judged | None, new: Judged) -> tuple[str, ...]:
    """One phrase for each test that ends otherwise or counts otherwise."""
    before = _by_title(old)
    phrases = []
    for title, (outcome, points) in _by_title(new).items():
        was = before.get(title)
        if was is None:
            phrases += [f"{title}: new, {STATUS[outcome]}"] if old is not None else []
        elif was[0] != outcome:
            phrases.append(f"{title}: {STATUS[was[0]]}, now {STATUS[outcome]}")
        elif was[1] != points:
            phrases.append(f"{title}: {was[1]:g} points, now {points:g}")
    if old is not None:
        phrases += [f"{title}: no longer there" for title in before if title not in _by_title(new)]
    return tuple(phrases)


def _by_title(judged: Judged | None) -> dict[str, tuple]:
    if judged is None:
        return {}
    return {t.title: (t.outcome, t.points) for tests in judged.verdict.tests.values() for t in tests}


def _after(grading: Grading, new: Judged, rows: dict[str, tuple[float | None, float | None, float]]) -> float:
    """The score as the gradebook will have it."""
    total = 0.0
    for cell in new.notebook.cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        if grade_id is None or not cell.metadata.nbgrader.grade:
            continue
        most = grading.spec.cell(grade_id).points
        _, manual, extra = rows.get(grade_id, (None, None, 0.0))
        total += _counts(auto_score(cell, most, new.verdict), manual, extra)
    return total


def _counts(auto: float | None, manual: float | None, extra: float) -> float:
    """What nbgrader counts: a person's score before the tests'."""
    score = manual if manual is not None else auto
    return (score or 0.0) + (extra or 0.0)
