"""Scores reach nbgrader's gradebook as nbgrader itself would have written them, whole or not at all."""

from __future__ import annotations

import csv
import shutil
import sqlite3
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.apps.api import NbGraderAPI
from nbgrader.preprocessors import AssignLatePenalties, SaveAutoGrades
from sqlalchemy import event

from autograder import gradebook as module
from autograder.course import Course
from autograder.errors import UsageError
from autograder.export.nbgrader_csv import export_csv
from autograder.feedback import write_autograded
from autograder.gradebook import GradebookWriter
from autograder.release import Built
from autograder.repair import repair
from autograder.verdict import Outcome, Subtest, Verdict


def verdict(open_: float = 1, hidden: float = 2, spread: float = 2.5, outcome: Outcome = "WA") -> Verdict:
    """A verdict with these points; a test without points has `outcome`."""

    def test(title: str, points: float, most: float, is_hidden: bool) -> Subtest:
        return Subtest(title, "OK" if points else outcome, points, most, is_hidden)

    return Verdict(
        tests={
            "test-halve": [
                test("half of an even number", open_, 1, False),
                test("half of an odd number", hidden, 2, True),
            ],
            "test-spread": [test("test-spread", spread, 2.5, True)],
        }
    )


@pytest.fixture
def solved(right: NotebookNode, tiny: Built) -> NotebookNode:
    return repair(right, tiny.spec).notebook


@pytest.fixture
def untouched(tiny: Built) -> NotebookNode:
    return repair(tiny.released_notebook, tiny.spec).notebook


def rows(course: Course, student: str = "ada") -> dict[str, Any]:
    """What the gradebook says of one submission, by grade_id."""
    with Gradebook(course.database_url, "course") as gradebook:
        notebook = gradebook.find_submission_notebook("tiny", "tiny", student)
        found: dict[str, Any] = {
            f"{grade.name} grade": (
                grade.auto_score,
                grade.manual_score,
                grade.extra_credit,
                grade.needs_manual_grade,
            )
            for grade in notebook.grades
        }
        found |= {f"{c.name} comment": (c.auto_comment, c.manual_comment) for c in notebook.comments}
        return found | {"score": notebook.score, "penalty": notebook.late_submission_penalty}


def record(course: Course, notebook: NotebookNode, result: Verdict, student: str = "ada") -> None:
    with GradebookWriter(course) as writer:
        writer.record("tiny", student, notebook, result)


def test_points_written_answers_and_comments_are_recorded(course: Course, solved: NotebookNode):
    record(course, solved, verdict(hidden=0))
    assert rows(course) == {
        "test-halve grade": (1, None, None, False),
        "test-spread grade": (2.5, None, None, False),
        "why grade": (None, None, None, True),
        "halve comment": (None, None),
        "spread comment": (None, None),
        "why comment": (None, None),
        "score": 3.5,
        "penalty": None,
    }


def test_an_untouched_release_gets_nothing_and_needs_no_one(course: Course, untouched: NotebookNode):
    record(course, untouched, verdict(0, 0, 0))
    found = rows(course)
    assert found["why grade"] == (0, None, None, False)
    assert found["test-halve grade"] == (0, None, None, False)
    assert found["halve comment"] == ("No response.", None)
    assert found["score"] == 0


@pytest.mark.parametrize("points", [(1, 2, 2.5), (0, 0, 0), (1, 0, 0.1 + 0.2), (0.5, 2, 1 / 3)])
@pytest.mark.parametrize("answered", [True, False])
def test_nbgraders_own_preprocessor_writes_the_same(
    course: Course, tmp_path: Path, solved: NotebookNode, untouched: NotebookNode, points: Any, answered: bool
):
    """SaveAutoGrades reads the scores out of the autograded notebook's outputs."""
    notebook = solved if answered else untouched
    path = write_autograded(course, "tiny", "ada", notebook, verdict(*points))
    shutil.copytree(course.root, tmp_path / "theirs")
    theirs = Course.open(tmp_path / "theirs")
    with Gradebook(theirs.database_url, "course") as gradebook:
        gradebook.add_student("ada")
        gradebook.add_submission("tiny", "ada")
    told = {"notebook": "tiny", "assignment": "tiny", "student": "ada", "db_url": theirs.database_url}
    SaveAutoGrades().preprocess(nbformat.read(path, as_version=4), {"nbgrader": told})
    record(course, notebook, verdict(*points))
    assert rows(course) == rows(theirs)


def test_what_a_person_entered_is_left_alone(course: Course, solved: NotebookNode):
    record(course, solved, verdict())
    with Gradebook(course.database_url, "course") as gradebook:
        grade = gradebook.find_grade("why", "tiny", "tiny", "ada")
        grade.manual_score, grade.extra_credit, grade.needs_manual_grade = 3.0, 0.5, False
        gradebook.find_grade("test-halve", "tiny", "tiny", "ada").manual_score = 1.5
        gradebook.find_comment("halve", "tiny", "tiny", "ada").manual_comment = "Well done."
        gradebook.find_student("ada").last_name = "Lovelace"
        gradebook.db.commit()
    record(course, solved, verdict(hidden=0))
    found = rows(course)
    # nbgrader too asks for another look when it grades again what a person has graded.
    assert found["why grade"] == (None, 3.0, 0.5, True)
    assert found["test-halve grade"] == (1, 1.5, None, True)
    assert found["halve comment"] == (None, "Well done.")
    assert found["score"] == 3.5 + 1.5 + 2.5
    with Gradebook(course.database_url, "course") as gradebook:
        assert gradebook.find_student("ada").last_name == "Lovelace"


def test_a_fault_of_the_grader_waits_for_a_person_and_is_no_zero(course: Course, untouched: NotebookNode):
    failed = verdict()
    failed.needs_review = "the runner died"
    record(course, untouched, failed)
    found = rows(course)
    for name in ("test-halve grade", "test-spread grade", "why grade"):
        assert found[name] == (None, None, None, True)
    assert found["halve comment"] == (None, None)
    record(course, untouched, verdict())
    assert rows(course)["test-halve grade"] == (3, None, None, False)


def test_one_test_that_the_grader_could_not_finish_holds_back_its_cell_only(
    course: Course, solved: NotebookNode
):
    record(course, solved, verdict(hidden=0, outcome="XX"))
    assert rows(course)["test-halve grade"] == (None, None, None, True)
    assert rows(course)["test-spread grade"] == (2.5, None, None, False)
    record(course, solved, Verdict(tests={"test-halve": verdict().tests["test-halve"]}), "bob")
    assert rows(course, "bob")["test-spread grade"] == (None, None, None, True)


@pytest.mark.parametrize("points", [3, -1, float("nan")])
def test_points_that_cannot_be_are_refused_and_nothing_is_written(
    course: Course, solved: NotebookNode, points: float
):
    with pytest.raises(ValueError, match="test-spread"):
        record(course, solved, verdict(spread=points))
    with Gradebook(course.database_url, "course") as gradebook:
        assert gradebook.students == []
        assert gradebook.assignment_submissions("tiny") == []


def test_a_submission_is_one_transaction(course: Course, solved: NotebookNode):
    commits: list[object] = []
    with GradebookWriter(course) as writer:
        event.listen(writer.gradebook.engine, "commit", commits.append)
        for number in range(3):
            writer.record("tiny", f"student-{number}", solved, verdict())
            assert len(commits) == number + 1
        writer.record("tiny", "student-0", solved, verdict(hidden=0))
        assert len(commits) == 4


def test_a_failure_midway_leaves_the_earlier_result(
    course: Course, solved: NotebookNode, monkeypatch: pytest.MonkeyPatch
):
    record(course, solved, verdict())
    before = rows(course)

    def fail(*_: object) -> None:
        raise RuntimeError("killed here")

    monkeypatch.setattr(module, "_auto_comment", fail)
    with pytest.raises(RuntimeError):
        record(course, solved, verdict(0, 0, 0))
    assert rows(course) == before


def test_another_program_that_holds_the_gradebook_for_a_moment_is_waited_for(
    course: Course, solved: NotebookNode
):
    other = sqlite3.connect(course.gradebook, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    threading.Timer(0.5, other.rollback).start()
    record(course, solved, verdict())
    assert rows(course)["score"] == 5.5


def test_a_unit_that_was_not_released_or_a_file_that_is_no_gradebook_is_a_clear_error(
    course: Course, solved: NotebookNode
):
    with GradebookWriter(course) as writer:
        for call in (
            lambda: writer.record("other", "ada", solved, verdict()),
            lambda: writer.totals("other"),
        ):
            with pytest.raises(UsageError, match="'other' is not in the gradebook"):
                call()
    course.gradebook.write_bytes(b"no database at all" * 100)
    with pytest.raises(
        UsageError, match=r"gradebook.db cannot be used.*Nothing of this submission was written"
    ):
        record(course, solved, verdict())


def test_a_gradebook_that_cannot_be_written_is_a_clear_error(course: Course, solved: NotebookNode):
    with GradebookWriter(course) as writer:
        event.listen(writer.gradebook.engine, "connect", lambda raw, _: raw.execute("PRAGMA query_only = 1"))
        writer.gradebook.engine.dispose()
        with pytest.raises(UsageError, match="cannot be used: attempt to write a readonly database"):
            writer.record("tiny", "ada", solved, verdict())


def test_the_time_of_handing_in_is_nbgraders_timestamp(course: Course, solved: NotebookNode):
    place = course.submitted / "ada" / "tiny"
    place.mkdir(parents=True)
    (place / "timestamp.txt").write_text("2031-02-03 04:05:06 UTC")
    write_autograded(course, "tiny", "ada", solved, verdict())
    record(course, solved, verdict())
    with GradebookWriter(course) as writer:
        assert writer.totals("tiny")[0].timestamp == datetime(2031, 2, 3, 4, 5, 6)
        writer.record("tiny", "ada", solved, verdict(), datetime(2032, 1, 1))
        assert writer.totals("tiny")[0].timestamp == datetime(2032, 1, 1)
        writer.record("tiny", "ada", solved, verdict())
    api = NbGraderAPI(course.directory, config=course.nbgrader_config())
    assert api.get_submitted_students("tiny") == {"ada"}
    assert api.get_autograded_students("tiny") == {"ada"}  # what formgrader shows as graded


@pytest.mark.parametrize("method", ["none", "zero"])
def test_the_late_penalty_is_nbgraders_own(course: Course, tmp_path: Path, solved: NotebookNode, method: str):
    with (course.root / "nbgrader_config.py").open("a") as file:
        file.write(f"c.LateSubmissionPlugin.penalty_method = {method!r}\n")
    with Gradebook(course.database_url, "course") as gradebook:
        gradebook.update_or_create_assignment("tiny", duedate="2031-01-01 00:00:00 UTC")
    course = Course.open(course.root)
    with GradebookWriter(course) as writer:
        writer.record("tiny", "ada", solved, verdict(), datetime(2031, 1, 2))
        writer.record("tiny", "bob", solved, verdict(), datetime(2030, 12, 31))
        penalties = {total.student: total.late_penalty for total in writer.totals("tiny")}
    ours = rows(course)["penalty"]
    assert penalties == {"ada": 5.5 if method == "zero" else 0, "bob": 0}
    told = {"notebook": "tiny", "assignment": "tiny", "student": "ada", "db_url": course.database_url}
    AssignLatePenalties(config=course.nbgrader_config()).preprocess(solved, {"nbgrader": told})
    assert rows(course)["penalty"] == ours


def test_totals_and_the_csv_agree_with_nbgrader(
    course: Course, solved: NotebookNode, untouched: NotebookNode
):
    with GradebookWriter(course) as writer:
        writer.record("tiny", "zoe", solved, verdict())
        writer.record("tiny", "ada", untouched, verdict(1, 0, 0))
        totals = writer.totals("tiny")
    assert [(t.student, t.score, t.max_score, t.needs_manual_grade) for t in totals] == [
        ("ada", 1, 9.5, False),
        ("zoe", 5.5, 9.5, True),
    ]
    assert (totals[1].code_score, totals[1].written_score) == (5.5, 0)
    path = export_csv(course, course.root / "out" / "grades.csv")
    with path.open() as file:
        table = {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)}
    assert table == {total.student: total.score for total in totals}
    assert [found.name for found in path.parent.iterdir()] == ["grades.csv"]


def test_a_csv_that_cannot_be_written_is_a_clear_error(course: Course):
    (course.root / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        export_csv(course, course.root / "file" / "grades.csv")


def test_names_with_quotes_and_letters_of_any_script_are_kept(course: Course, solved: NotebookNode):
    for name in ("o'brien", "Åsa Öberg", "李", 'x"; DROP TABLE student; --'):
        record(course, solved, verdict(), name)
        assert rows(course, name)["score"] == 5.5
