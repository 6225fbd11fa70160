"""The main job, end to end: release, hand in, grade in a sandbox, feedback."""

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook

from autograder.course import Course
from autograder.demo import BELIEFS

SOLUTIONS = Path(__file__).resolve().parents[2] / "solutions"
CANARY = "canary-71e0-hidden-test"


def autograder(*arguments):
    command = [sys.executable, "-m", "autograder.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A demo course whose hidden tests carry a canary: in a comment, a string and a message."""
    solutions = tmp_path_factory.mktemp("solutions") / "solutions"
    shutil.copytree(SOLUTIONS / "attention", solutions / "attention")
    unit = solutions / "attention" / "attention.py"
    text = unit.read_text()
    begin = "### BEGIN HIDDEN TESTS\n"
    assert text.count(begin) >= 3
    unit.write_text(text.replace(begin, f'{begin}canary = "{CANARY}"  # {CANARY}\n'))
    root = tmp_path_factory.mktemp("course") / "demo"
    done = autograder("demo", "--course", root, "--solutions", solutions, "--json")
    assert done.returncode == 0, done.stderr
    return Course.open(root), {row["student"]: row for row in json.loads(done.stdout)}


def test_every_right_answer_gets_full_marks_whatever_was_mangled(graded):
    _, rows = graded
    for student in ("reference", "renamed-file", "no-metadata"):
        assert rows[student]["points"] == rows[student]["max_points"] == 17
        assert rows[student]["status"] == "full marks"
    assert rows["renamed-file"]["notes"]
    assert rows["no-metadata"]["notes"]


def test_the_untouched_release_gets_nothing(graded):
    _, rows = graded
    assert rows["untouched"]["points"] == 0


@pytest.mark.parametrize("belief", BELIEFS)
def test_a_misconception_loses_points_and_is_named(graded, belief):
    _, rows = graded
    assert 0 < rows[belief]["points"] < 17
    assert rows[belief]["looks_like"]["name"] == belief
    assert rows[belief]["looks_like"]["certain"]


def test_the_hostile_the_endless_and_the_truncated_end_with_a_status_and_a_message(graded):
    _, rows = graded
    assert rows["hostile-spy"]["points"] == 0
    assert rows["endless-loop"]["status"] == "timed out"
    assert rows["endless-loop"]["points"] == 0
    assert "cut off" in " ".join([rows["truncated-file"]["message"], *rows["truncated-file"]["notes"]])
    assert all(row["status"] and row["message"] for row in rows.values())


def test_the_spy_found_nothing(graded):
    course, _ = graded
    notebook = nbformat.read(course.autograded / "hostile-spy/attention/attention.ipynb", as_version=4)
    printed = [
        output["text"]
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "stream"
    ]
    assert "found 0\n" in printed


def test_the_canary_is_in_nothing_that_a_student_receives(graded):
    course, rows = graded
    assert CANARY in (course.source / "attention/attention.ipynb").read_text(), (
        "the canary must be there to be found"
    )
    received = [
        path for folder in (course.exercises, course.feedback, course.submitted) for path in folder.rglob("*")
    ]
    received = [path for path in received if path.is_file()]
    assert len(received) >= 2 * len(rows) + 1
    for path in received:
        assert CANARY.encode() not in path.read_bytes(), path
    for path in course.autograded.rglob("*.ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            assert CANARY not in json.dumps(cell.get("outputs", [])), (path, cell.id)


def test_nbgrader_reads_the_same_scores_from_its_gradebook(graded):
    course, rows = graded
    with Gradebook(course.database_url) as gradebook:
        for student, row in rows.items():
            submission = gradebook.find_submission("attention", student)
            assert submission.score == row["points"]
            assert submission.max_score == 21
        reference = gradebook.find_submission("attention", "reference")
        assert reference.needs_manual_grade, "the written answer waits for a person"


def test_the_csv_holds_one_row_for_each_student(graded):
    course, rows = graded
    with open(course.root / "grades.csv", newline="") as file:
        scores = {row["student_id"]: float(row["raw_score"]) for row in csv.DictReader(file)}
    assert scores == {student: row["points"] for student, row in rows.items()}


def test_each_student_has_a_feedback_page_that_names_the_misconception(graded):
    course, rows = graded
    for student in rows:
        page = (course.feedback / student / "attention" / "attention.html").read_text()
        assert "HIDDEN TESTS" not in page
    page = (course.feedback / "no-scale" / "attention" / "attention.html").read_text()
    assert "no-scale" in page


def test_grading_again_changes_no_score(graded):
    course, rows = graded
    done = autograder(
        "grade",
        "attention",
        "--course",
        course.root,
        "--json",
        "--student",
        "no-scale",
        "--student",
        "reference",
    )
    assert done.returncode == 0, done.stderr
    again = {row["student"]: row for row in json.loads(done.stdout)}
    assert set(again) == {"no-scale", "reference"}
    for student, row in again.items():
        assert row["points"] == rows[student]["points"]
