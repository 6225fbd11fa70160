"""After a test was mended: who is told what, before anything is written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from classroom import InProcess, answer, autograder, hand_in
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from typer.testing import CliRunner, Result

from autograder import engine
from autograder.assessing import Judged
from autograder.cli import app
from autograder.course import Course
from autograder.regrade import tests_that_changed as phrases
from autograder.spec import Spec
from autograder.verdict import Outcome, Subtest, Verdict

MENDED = ("halve(7) == expected_canary_4711", "halve(7) in (3, expected_canary_4711)")


@pytest.fixture
def graded(course: Course, right: NotebookNode, monkeypatch: pytest.MonkeyPatch) -> Course:
    """Three students, one with a score by hand; then one test is mended and released again."""
    InProcess.reset()
    monkeypatch.setattr(engine, "Runner", InProcess)
    for student, halve in [("ada", "right"), ("bob", "whole"), ("eve", "nothing")]:
        hand_in(course, student, answer(right, halve))
    list(engine.grade(course, course.spec("tiny"), course.students("tiny"), 1))
    with Gradebook(course.database_url, "course") as gradebook:
        gradebook.find_grade("why", "tiny", "tiny", "bob").manual_score = 2.0
        gradebook.find_grade("test-spread", "tiny", "tiny", "eve").extra_credit = 0.5
        gradebook.db.commit()
    course.write_spec(Spec.from_json(course.spec("tiny").to_json().replace(*MENDED)))
    return course


def grade(course: Course, *options: str, **more: Any) -> Result:
    return CliRunner().invoke(app, ["grade", "tiny", "--course", str(course.root), *options], **more)


def scores(course: Course) -> dict[str, float]:
    with Gradebook(course.database_url, "course") as gradebook:
        return {one.student.id: one.score for one in gradebook.assignment_submissions("tiny")}


BEFORE = {"ada": 5.5, "bob": 3.0, "eve": 0.5}
AFTER = {"ada": 5.5, "bob": 5.0, "eve": 0.5}


def test_a_dry_run_names_who_changes_and_writes_nothing(graded: Course):
    done = grade(graded, "--regrade", "--dry-run")
    assert done.exit_code == 0, done.output
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("bob")]
    assert line.split()[:4] == ["bob", "3", "5", "+2"]
    assert "half of an odd number: wrong answer, now passed" in " ".join(done.stdout.split())
    assert "ada " not in done.stdout
    assert "1 grade of 3 change." in done.stdout
    assert scores(graded) == BEFORE
    assert (
        "passed" not in (graded.feedback / "bob/tiny/tiny.html").read_text().split("half of an odd")[1][:200]
    )


def test_without_a_yes_nothing_is_written_and_nothing_is_judged_twice(graded: Course):
    done = grade(graded, "--regrade")
    assert (done.exit_code, "--yes" in done.stderr) == (1, True)
    assert scores(graded) == BEFORE
    count = InProcess.count
    done = grade(graded, "--regrade", "--yes")
    assert done.exit_code == 0, done.output
    assert InProcess.count == count
    assert scores(graded) == AFTER
    assert "3 submissions written." in done.stdout


def test_after_it_was_written_all_is_as_it_was_before_the_change(graded: Course):
    grade(graded, "--regrade", "--yes")
    count = InProcess.count
    done = grade(graded)
    assert done.exit_code == 0
    assert "left as they were" not in done.stderr
    assert InProcess.count == count
    assert "No one's grade changes (0 submissions of tiny judged again)." in grade(graded, "--regrade").stdout


def test_the_list_is_there_for_a_program(graded: Course):
    done = grade(graded, "--regrade", "--dry-run", "--json")
    (change,) = json.loads(done.stdout)
    assert (change["student"], change["before"], change["after"]) == ("bob", 3.0, 5.0)


def test_one_who_was_never_graded_is_named_too(graded: Course, right: NotebookNode):
    hand_in(graded, "new", answer(right))
    done = grade(graded, "--regrade", "--dry-run")
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("new")]
    assert line.split()[:4] == ["new", "none", "5.5", "+5.5"]
    assert "new" not in scores(graded)


def test_options_that_do_not_fit_are_refused(graded: Course):
    for options in (["--dry-run"], ["--yes"], ["--regrade", "--again"]):
        done = autograder("grade", "tiny", "--course", graded.root, *options)
        assert (done.returncode, "belong to" in done.stderr or "not both" in done.stderr) == (2, True)


def judged(*tests: tuple[str, Outcome, float]) -> Judged:
    marks = [Subtest(title, outcome, points, 2, False) for title, outcome, points in tests]
    return Judged("ada", None, Verdict(tests={"t": marks}))  # type: ignore[arg-type]


def test_phrases_say_which_test_ends_otherwise():
    old = judged(("a", "OK", 2), ("b", "WA", 0), ("c", "OK", 1), ("gone", "OK", 2))
    new = judged(("a", "OK", 2), ("b", "TO", 0), ("c", "OK", 2), ("fresh", "OK", 2))
    assert phrases(old, new) == (
        "b: wrong answer, now too slow",
        "c: 1 points, now 2",
        "fresh: new, passed",
        "gone: no longer there",
    )
    assert phrases(None, new) == ()
