"""Scores into nbgrader's gradebook: one session for a batch, one transaction for a submission.

A submission is in the gradebook whole or not at all, and in the same transaction goes the key of the
judgement that its scores come from (table `autograder_record`, which nbgrader does not look at). So a run
that was killed knows what is in, also after the gradebook came back from a backup. What a person entered
(manual scores, comments, extra credit) is never touched.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from nbformat import NotebookNode
from nbgrader import api
from nbgrader.preprocessors import AssignLatePenalties
from nbgrader.utils import compute_checksum, determine_grade
from sqlalchemy import Column, MetaData, String, Table, delete, func, insert, select, text, update
from sqlalchemy.exc import DatabaseError, OperationalError

from autograder.course import Course
from autograder.errors import StoppedError, UsageError
from autograder.journal import Key
from autograder.verdict import Verdict

_TRIES = 5  # while another program (formgrader, nbgrader) is writing

# By the submitted notebook's own id: where nbgrader deletes a submission and makes it anew, it has no row.
_RECORD = Table(
    "autograder_record",
    MetaData(),
    Column("notebook_id", String(32), primary_key=True),
    Column("key", String(64), nullable=False),
    Column("submission", String(64), nullable=False),
)


@dataclass(frozen=True)
class Total:
    """One row of a unit's results. `score` is before the late penalty, as nbgrader's raw_score."""

    student: str
    score: float
    max_score: float
    code_score: float
    written_score: float
    late_penalty: float
    needs_manual_grade: bool
    timestamp: datetime | None


@dataclass(frozen=True)
class _Unit:
    """The ids of a released unit's rows. The rows themselves carry sums over the whole class, which
    SQLAlchemy would compute again at every look."""

    assignment_id: str
    notebook_id: str
    due: datetime | None
    grades: dict[str, tuple[str, float]]  # grade_id: the cell's row id and points
    comments: dict[str, str]  # grade_id: the cell's row id


class GradebookWriter:
    """Writes the results of a batch into a course's gradebook; use it in a `with` statement."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self._units: dict[str, _Unit] = {}
        self._penalties = AssignLatePenalties(config=course.nbgrader_config())
        self._penalties.init_plugin()

    def __enter__(self) -> GradebookWriter:
        with clear_errors(self.course):
            self.gradebook = api.Gradebook(self.course.database_url, self.course.directory.course_id)
            try:
                _RECORD.create(self.gradebook.engine, checkfirst=True)
                # Changes nothing, and fails at once, not after an hour of judging, where nothing may change.
                self.gradebook.db.execute(text("UPDATE autograder_record SET key = key WHERE key = ''"))
                self.gradebook.db.rollback()
            except BaseException:
                self.gradebook.close()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        self.gradebook.close()

    def record(
        self,
        unit: str,
        student: str,
        notebook: NotebookNode,
        verdict: Verdict,
        timestamp: datetime | None = None,
        key: Key | None = None,
    ) -> None:
        """Write one submission's scores, in one transaction, and with them the judgement's `key`.

        `notebook` is the repaired one: a written answer that is unchanged gets 0, any other waits for a
        person. A test that the grader itself could not finish waits for a person too, without a score.
        Without `timestamp`, that of nbgrader's timestamp.txt counts.
        Raises `UsageError` when the unit is not released or the gradebook cannot be written.
        """
        handed_in = self.course.timestamp(unit, student)
        self._retried(lambda: self._write(unit, student, notebook, verdict, timestamp or handed_in, key))

    def recorded(self, unit: str) -> dict[str, Key]:
        """By student, the key of the judgement that the gradebook's scores come from."""
        submitted, notebook = api.SubmittedAssignment, api.SubmittedNotebook
        with clear_errors(self.course):
            rows = self.gradebook.db.execute(
                select(submitted.student_id, _RECORD.c.submission, _RECORD.c.key)
                .join(notebook, notebook.assignment_id == submitted.id)
                .join(_RECORD, _RECORD.c.notebook_id == notebook.id)
                .where(submitted.assignment_id == self._unit(unit).assignment_id)
            ).all()
            self.gradebook.db.rollback()
        return {student: Key(submission, key) for student, submission, key in rows}

    def forget(self, unit: str, student: str) -> None:
        """Forget where a student's scores come from; the scores stay until others are recorded."""
        submitted, notebook = api.SubmittedAssignment, api.SubmittedNotebook
        of_student = (
            select(notebook.id)
            .join(submitted, notebook.assignment_id == submitted.id)
            .where(submitted.assignment_id == self._unit(unit).assignment_id)
            .where(submitted.student_id == student)
        )

        def drop() -> None:
            self.gradebook.db.execute(delete(_RECORD).where(_RECORD.c.notebook_id.in_(of_student)))
            self.gradebook.db.commit()

        self._retried(drop)

    def refresh(self, unit: str, student: str) -> tuple[float, float] | None:
        """Apply due date, hand-in time and late policy again to scores that are there already.

        Returns the penalty before and after where it changed: a due date was set or moved, the policy
        was changed, or a person's scores came in.
        """
        handed_in = self.course.timestamp(unit, student)
        found, changed = self._unit(unit), None

        def apply() -> None:
            nonlocal changed
            db, notebook = self.gradebook.db, api.SubmittedNotebook
            try:
                submission_id, notebook_id = self._rows(found, student, handed_in)
                asked = select(notebook.late_submission_penalty).where(notebook.id == notebook_id)
                before = db.execute(asked).scalar() or 0.0
                self._set_late_penalty(found, submission_id, notebook_id, student)
                after = db.execute(asked).scalar() or 0.0
                db.commit()
            finally:
                db.rollback()
                db.expunge_all()
            changed = (before, after) if abs(after - before) > 1e-9 else None

        self._retried(apply)
        return changed

    def effective(self, unit: str) -> dict[str, dict[str, tuple[float | None, float | None, float]]]:
        """By student and grade_id: the tests' score, the score that a person entered, and extra credit."""
        submitted, notebook = api.SubmittedAssignment, api.SubmittedNotebook
        with clear_errors(self.course):
            found = self._unit(unit)
            names = {cell_id: grade_id for grade_id, (cell_id, _) in found.grades.items()}
            grade = api.Grade
            rows = self.gradebook.db.execute(
                select(
                    submitted.student_id,
                    grade.cell_id,
                    grade.auto_score,
                    grade.manual_score,
                    grade.extra_credit,
                )
                .join(notebook, notebook.assignment_id == submitted.id)
                .join(grade, grade.notebook_id == notebook.id)
                .where(submitted.assignment_id == found.assignment_id)
            ).all()
            self.gradebook.db.rollback()
        scores: dict[str, dict[str, tuple[float | None, float | None, float]]] = {}
        for student, cell_id, auto, manual, extra in rows:
            scores.setdefault(student, {})[names[cell_id]] = (auto, manual, extra or 0.0)
        return scores

    def _retried(self, write: Callable[[], None]) -> None:
        """Write; wait and try again while another program is writing."""
        with clear_errors(self.course):
            for attempt in range(_TRIES):
                try:
                    write()
                    return
                except OperationalError as error:
                    if "locked" not in str(error) or attempt == _TRIES - 1:
                        raise
                    time.sleep(0.2 * 2**attempt)

    def totals(self, unit: str) -> list[Total]:
        """The results of everyone who has a submission for `unit`, by name."""
        with clear_errors(self.course):
            self._unit(unit)
            rows = self.gradebook.submission_dicts(unit)
            submitted, notebook = api.SubmittedAssignment, api.SubmittedNotebook
            penalties = dict(
                self.gradebook.db.execute(
                    select(submitted.student_id, func.sum(notebook.late_submission_penalty))
                    .join(notebook, notebook.assignment_id == submitted.id)
                    .where(submitted.assignment_id == self._unit(unit).assignment_id)
                    .group_by(submitted.student_id)
                ).all()
            )
            self.gradebook.db.rollback()
        totals = [
            Total(
                student=row["student"],
                score=row["score"],
                max_score=row["max_score"],
                code_score=row["code_score"],
                written_score=row["written_score"],
                late_penalty=penalties.get(row["student"]) or 0.0,
                needs_manual_grade=bool(row["needs_manual_grade"]),
                timestamp=row["timestamp"],
            )
            for row in rows
        ]
        return sorted(totals, key=lambda total: total.student)

    def _unit(self, unit: str) -> _Unit:
        """The row ids of a unit, read once."""
        if unit not in self._units:
            try:
                notebook: Any = self.gradebook.find_notebook(unit, unit)
            except api.MissingEntry:
                raise UsageError(
                    f"The unit {unit!r} is not in the gradebook of {self.course.root}. Release it first:"
                    f" autograder release {unit} --course {self.course.root}"
                ) from None
            self._units[unit] = _Unit(
                assignment_id=notebook.assignment_id,
                notebook_id=notebook.id,
                due=notebook.assignment.duedate,
                grades={cell.name: (cell.id, cell.max_score) for cell in notebook.grade_cells},
                comments={cell.name: cell.id for cell in notebook.solution_cells},
            )
            self.gradebook.db.rollback()  # end the read, or it would block other writers
        return self._units[unit]

    def _write(
        self,
        unit: str,
        student: str,
        notebook: NotebookNode,
        verdict: Verdict,
        timestamp: datetime | None,
        key: Key | None,
    ) -> None:
        found, db = self._unit(unit), self.gradebook.db
        try:
            submission_id, notebook_id = self._rows(found, student, timestamp)
            cells = {cell.metadata.nbgrader.grade_id: cell for cell in notebook.cells if cell.metadata}
            scores = select(api.Grade.cell_id, api.Grade.manual_score)
            scores = scores.where(api.Grade.notebook_id == notebook_id)
            manual = {row[0]: row[1] for row in db.execute(scores)}
            for grade_id, (cell_id, max_score) in found.grades.items():
                score = auto_score(cells[grade_id], max_score, verdict)
                review = score is None or manual.get(cell_id) is not None
                values = {"auto_score": score, "needs_manual_grade": review}
                self._update(api.Grade, notebook_id, cell_id, values)
            for grade_id, cell_id in found.comments.items():
                text = _auto_comment(cells[grade_id], verdict)
                self._update(api.Comment, notebook_id, cell_id, {"auto_comment": text})
            self._set_late_penalty(found, submission_id, notebook_id, student)
            db.execute(delete(_RECORD).where(_RECORD.c.notebook_id == notebook_id))
            if key is not None:
                row = {"notebook_id": notebook_id, "key": key.whole, "submission": key.submission}
                db.execute(insert(_RECORD).values(row))
            db.commit()
        except BaseException:
            db.rollback()
            raise
        finally:
            db.expunge_all()

    def _rows(self, unit: _Unit, student: str, timestamp: datetime | None) -> tuple[str, str]:
        """The ids of this student's submission and notebook; new rows where there are none, as
        `Gradebook.add_submission` makes them, but without its commits."""
        db, submitted = self.gradebook.db, api.SubmittedAssignment
        if db.execute(select(api.Student.id).where(api.Student.id == student)).first() is None:
            db.add(api.Student(id=student))
            db.flush()
        row = db.execute(
            select(submitted.id, api.SubmittedNotebook.id)
            .join(api.SubmittedNotebook, api.SubmittedNotebook.assignment_id == submitted.id)
            .where(submitted.assignment_id == unit.assignment_id, submitted.student_id == student)
            .where(api.SubmittedNotebook.notebook_id == unit.notebook_id)
        ).first()
        if row is not None:
            if timestamp is not None:
                db.execute(update(submitted).where(submitted.id == row[0]).values(timestamp=timestamp))
            return row[0], row[1]
        submission_id, notebook_id = api.new_uuid(), api.new_uuid()
        db.add(
            submitted(
                id=submission_id, assignment_id=unit.assignment_id, student_id=student, timestamp=timestamp
            )
        )
        db.flush()
        db.add(
            api.SubmittedNotebook(id=notebook_id, notebook_id=unit.notebook_id, assignment_id=submission_id)
        )
        db.flush()
        db.add_all(api.Grade(cell_id=cell_id, notebook_id=notebook_id) for cell_id, _ in unit.grades.values())
        db.add_all(
            api.Comment(cell_id=cell_id, notebook_id=notebook_id) for cell_id in unit.comments.values()
        )
        db.flush()
        return submission_id, notebook_id

    def _update(self, table: Any, notebook_id: str, cell_id: str, values: dict[str, Any]) -> None:
        """Change these columns of one grade or comment, and no others."""
        where = (table.notebook_id == notebook_id, table.cell_id == cell_id)
        self.gradebook.db.execute(
            update(table).where(*where).values(**values).execution_options(synchronize_session=False)
        )

    def _set_late_penalty(self, unit: _Unit, submission_id: str, notebook_id: str, student: str) -> None:
        """nbgrader's own rule, by the course's plugin; rows are only loaded where a unit has a due date."""
        penalty = None
        if unit.due is not None:
            submission: Any = self.gradebook.db.get(api.SubmittedAssignment, submission_id)
            notebook: Any = self.gradebook.db.get(api.SubmittedNotebook, notebook_id)
            plugin: Any = self._penalties.plugin_inst
            if submission.total_seconds_late > 0:
                given = plugin.late_submission_penalty(student, notebook.score, submission.total_seconds_late)
                penalty = None if given is None else min(max(given, 0.0), notebook.score)
        self.gradebook.db.execute(
            update(api.SubmittedNotebook)
            .where(api.SubmittedNotebook.id == notebook_id)
            .values(late_submission_penalty=penalty)
            .execution_options(synchronize_session=False)
        )


def auto_score(cell: NotebookNode, max_score: float, verdict: Verdict) -> float | None:
    """The points that no person has to decide on; None where one has to."""
    grade_id = cell.metadata.nbgrader.grade_id
    if verdict.needs_review:
        return None
    if cell.metadata.nbgrader.solution:
        return determine_grade(cell)[0]
    tests = verdict.tests.get(grade_id)
    if tests is None or any(test.outcome == "XX" for test in tests):
        return None
    points = verdict.points(grade_id)
    if not 0 <= points <= max_score + 1e-9:
        raise ValueError(f"the test cell {grade_id!r} was given {points} of {max_score} points")
    return min(points, max_score)


def _auto_comment(cell: NotebookNode, verdict: Verdict) -> str | None:
    """What nbgrader says of an answer that is still what was released."""
    unchanged = cell.metadata.nbgrader.checksum == compute_checksum(cell)
    return "No response." if unchanged and not verdict.needs_review else None


@contextmanager
def clear_errors(course: Course) -> Iterator[None]:
    """Say what is wrong with the gradebook, and what to do, in place of SQLAlchemy's own words."""
    try:
        yield
    except DatabaseError as error:
        raise StoppedError(
            f"The gradebook {course.database_url} cannot be used: {error.orig}. Nothing of this submission"
            " was written, and nothing that was there before is lost. Check that the file is nbgrader's"
            " gradebook, that it and its folder can be written, that the disk is not full, and that no other"
            " program holds it; then grade again: it goes on where it stopped."
        ) from None
