"""nbgrader's own commands in a course of ours: they use the sandbox, and come to the same scores."""

import os
import subprocess
import sys

import nbformat
import pytest
from nbgrader.api import Gradebook

SPY = """
import os
def halve(number):
    return number / 2
print("user", os.getuid(), "process", os.getpid(), "sees the course", os.path.exists({root!r}))
"""


def nbgrader(course, *arguments):
    bin_folder = os.path.dirname(sys.executable)
    environment = {**os.environ, "PATH": bin_folder + os.pathsep + os.environ["PATH"]}
    command = [sys.executable, "-m", "nbgrader", *arguments]
    return subprocess.run(
        command, cwd=course.root, env=environment, capture_output=True, text=True, timeout=200, check=False
    )


def hand_in(course, student, notebook):
    folder = course.submitted / student / "tiny"
    folder.mkdir(parents=True)
    nbformat.write(notebook, folder / "tiny.ipynb")


@pytest.fixture
def handed_in(course, right):
    hand_in(course, "ada", right)
    spy = nbformat.from_dict(right)
    for cell in spy.cells:
        if cell.id == "halve":
            cell.source = SPY.format(root=str(course.root))
        cell.metadata = {}  # and RepairCells has something to do
    hand_in(course, "eve", spy)
    return course


def test_nbgraders_own_commands_grade_in_the_sandbox_and_scrub_the_feedback(handed_in):
    course = handed_in
    done = nbgrader(course, "autograde", "tiny")
    assert done.returncode == 0, done.stderr
    with Gradebook(course.database_url) as gradebook:
        for student in ("ada", "eve"):
            submission = gradebook.find_submission("tiny", student)
            assert submission.score == 5.5
    graded = nbformat.read(course.autograded / "eve/tiny/tiny.ipynb", as_version=4)
    printed = "".join(o.get("text", "") for cell in graded.cells for o in cell.get("outputs", []))
    assert "process 1 sees the course False" in printed
    assert f"user {os.getuid()} " not in printed or os.getuid() != 0
    done = nbgrader(course, "generate_feedback", "tiny")
    assert done.returncode == 0, done.stderr
    page = (course.feedback / "ada/tiny/tiny.html").read_text()
    assert "half of an odd number" in page
    assert "canary" not in page


def test_a_grader_that_is_not_installed_stops_nbgrader_and_never_falls_back(handed_in):
    """nbgrader goes on with its own settings after an error in a config file, and would run student code itself."""
    course = handed_in
    (course.root / "autograder.py").write_text("")  # what nbgrader then imports is no package
    done = nbgrader(course, "autograde", "tiny")
    assert done.returncode != 0
    assert "cannot be imported here" in done.stderr
    assert not (course.autograded / "ada").exists()
