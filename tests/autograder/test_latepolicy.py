"""What lateness costs, the same by every door: ours, and nbgrader's own command."""

from __future__ import annotations

import csv
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
from classroom import InProcess, answer, autograder, hand_in
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from traitlets import TraitError
from traitlets.config import Config

from autograder import engine
from autograder.course import Course
from autograder.deadlines import parse_due, set_due_date
from autograder.errors import UsageError
from autograder.export.nbgrader_csv import export_csv
from autograder.latepolicy import LatePolicy

MINUTE, HOUR, DAY = 60, 3600, 86_400


@pytest.mark.parametrize(
    ("late", "expected"),
    [
        (1, None),
        (15 * MINUTE, None),
        (15 * MINUTE + 1, 1.0),
        (DAY, 1.0),
        (DAY + 15 * MINUTE, 1.0),
        (DAY + 16 * MINUTE, 2.0),
        (4 * DAY, 4.0),
        (6 * DAY, 5.0),
        (1000 * DAY, 5.0),
    ],
)
def test_so_much_a_day_after_the_grace_and_never_more_than_the_most(late: float, expected: float | None):
    policy = LatePolicy(percent_per_day=10, grace_minutes=15, most_percent=50)
    assert policy.late_submission_penalty("ada", 10.0, late) == expected


def test_without_a_rate_nbgraders_own_method_decides():
    assert LatePolicy().late_submission_penalty("ada", 8.0, DAY) is None
    policy = LatePolicy(config=Config(LateSubmissionPlugin={"penalty_method": "zero"}))
    assert policy.late_submission_penalty("ada", 8.0, DAY) == 8.0


@pytest.mark.parametrize("wrong", [{"percent_per_day": -1}, {"percent_per_day": 101}, {"grace_minutes": -1}])
def test_a_policy_that_cannot_be_is_refused(wrong: dict[str, float]):
    with pytest.raises(TraitError):
        LatePolicy(**wrong)


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("2030-05-31 23:59", datetime(2030, 5, 31, 23, 59)),
        ("2030-05-31 23:59 UTC", datetime(2030, 5, 31, 23, 59)),
        ("2030-05-31 23:59 Europe/Berlin", datetime(2030, 5, 31, 21, 59)),
        ("2030-01-31 23:59 Europe/Berlin", datetime(2030, 1, 31, 22, 59)),
        ("2030-05-31T23:59+02:00", datetime(2030, 5, 31, 21, 59)),
        ("2030-05-31", datetime(2030, 5, 31)),
        ("None", None),
    ],
)
def test_due_dates_are_read_as_people_write_them(text: str, due: datetime | None):
    assert parse_due(text) == due


@pytest.mark.parametrize(
    "text", ["", "tomorrow", "31.5.2030", "2030-05-31 23:59 Nowhere/City", "2030-13-01", "x" * 999]
)
def test_a_due_date_that_cannot_be_read_says_how_to_write_it(text: str):
    with pytest.raises(UsageError, match="2030-05-31 23:59 Europe/Berlin"):
        parse_due(text)


def with_policy(course: Course) -> Course:
    path = course.root / "nbgrader_config.py"
    text = path.read_text()
    assert "# c.LatePolicy.percent_per_day = 10" in text, "a new course names the settings"
    for name in ("percent_per_day", "grace_minutes", "most_percent"):
        text = text.replace(f"# c.LatePolicy.{name}", f"c.LatePolicy.{name}")
    path.write_text(text)
    return Course.open(course.root)


def penalties(course: Course) -> dict[str, float]:
    with Gradebook(course.database_url, "course") as gradebook:
        return {
            one.student.id: one.late_submission_penalty for one in gradebook.assignment_submissions("tiny")
        }


def test_nbgraders_own_command_comes_to_the_same_totals(
    course: Course, right: NotebookNode, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    course = with_policy(course)
    hours = {"early": -5, "grace": 0.2, "hour": 1, "days": 30, "weeks": 700}
    for student, late in hours.items():
        path = hand_in(course, student, answer(right, "right"))
        stamp = datetime.fromtimestamp(1_900_000_000 + late * HOUR)
        (path.parent / "timestamp.txt").write_text(stamp.isoformat(" "))
    set_due_date(course, "tiny", datetime.fromtimestamp(1_900_000_000))
    monkeypatch.setattr(engine, "Runner", InProcess)
    list(engine.grade(course, course.spec("tiny"), course.students("tiny"), 1))
    ours = penalties(course)
    assert ours == pytest.approx({"early": 0, "grace": 0, "hour": 0.55, "days": 1.1, "weeks": 2.75})
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", "autograde", "tiny", "--force", "--student", "days"],
        cwd=course.root,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert penalties(course) == pytest.approx(ours)
    with export_csv(course, tmp_path / "grades.csv").open() as file:
        scores = {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)}
    assert scores["days"] == pytest.approx(5.5 - 1.1)


def test_an_extension_for_one_student_counts(
    course: Course, right: NotebookNode, monkeypatch: pytest.MonkeyPatch
):
    course = with_policy(course)
    for student in ("ada", "bob"):
        path = hand_in(course, student, answer(right))
        (path.parent / "timestamp.txt").write_text("2030-01-02 12:00:00 UTC")
    set_due_date(course, "tiny", datetime(2030, 1, 2, 10))
    monkeypatch.setattr(engine, "Runner", InProcess)
    list(engine.grade(course, course.spec("tiny"), ["ada", "bob"], 1))
    assert penalties(course) == pytest.approx({"ada": 0.55, "bob": 0.55})
    with Gradebook(course.database_url, "course") as gradebook:
        gradebook.grant_extension("tiny", "ada", hours=3)
    list(engine.grade(course, course.spec("tiny"), ["ada", "bob"], 1))
    assert penalties(course) == pytest.approx({"ada": 0, "bob": 0.55})


def test_a_score_that_a_person_enters_raises_the_penalty_at_the_next_run(
    course: Course, right: NotebookNode, monkeypatch: pytest.MonkeyPatch
):
    course = with_policy(course)
    (hand_in(course, "ada", answer(right)).parent / "timestamp.txt").write_text("2030-01-02 12:00:00 UTC")
    set_due_date(course, "tiny", datetime(2030, 1, 2, 10))
    monkeypatch.setattr(engine, "Runner", InProcess)
    list(engine.grade(course, course.spec("tiny"), ["ada"], 1))
    with Gradebook(course.database_url, "course") as gradebook:
        gradebook.find_grade("why", "tiny", "tiny", "ada").manual_score = 4.0
        gradebook.db.commit()
    list(engine.grade(course, course.spec("tiny"), ["ada"], 1))
    assert penalties(course) == pytest.approx({"ada": 0.95})


def test_the_command_sets_and_takes_away_a_due_date(course: Course):
    units = Path(__file__).parent / "units"
    base = ("release", "tiny", "--course", course.root, "--solutions", units, "--due")
    for text, due in (("2030-05-31 23:59 Europe/Berlin", datetime(2030, 5, 31, 21, 59)), ("none", None)):
        done = autograder(*base, text)
        assert done.returncode == 0, done.stderr
        with Gradebook(course.database_url, "course") as gradebook:
            assert gradebook.find_assignment("tiny").duedate == due
    done = autograder(*base, "soon")
    assert (done.returncode, "cannot be read" in done.stderr) == (2, True)
