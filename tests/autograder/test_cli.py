"""The instructor's command: what wrong use gets, and what the doors promise."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

UNITS = Path(__file__).parent / "units"
ROOT = Path(__file__).resolve().parents[2]


def autograder(*arguments, **more):
    command = [sys.executable, "-m", "autograder.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, **more)


def assert_refused(done, *said):
    """One paragraph on standard error, exit code 2, no traceback."""
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().split("\n\n")) == 1
    for text in said:
        assert text in done.stderr


def test_a_course_that_does_not_exist_is_refused_with_what_to_do(tmp_path):
    done = autograder("grade", "attention", "--course", tmp_path / "nowhere")
    assert_refused(done, "nowhere does not exist", "autograder release")
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_that_is_no_course_is_refused(tmp_path):
    assert_refused(autograder("grade", "attention", "--course", tmp_path), "is not a course")


def test_a_unit_that_does_not_exist_is_refused(tmp_path):
    done = autograder("release", "nosuch", "--course", tmp_path / "c", "--solutions", UNITS)
    assert_refused(done, "nosuch.py does not exist")


def test_a_release_without_a_course_says_what_is_missing():
    assert_refused(autograder("release", "tiny", "--solutions", UNITS), "--course DIR")


def test_a_folder_of_units_that_does_not_exist_is_refused(tmp_path):
    done = autograder("release", "--build", "--solutions", tmp_path / "no", "--exercises", tmp_path)
    assert_refused(done, "no folder of unit sources", "--solutions DIR")


def test_an_unknown_command_and_a_wrong_number_of_jobs_are_wrong_use(tmp_path):
    assert autograder("gade").returncode == 2
    assert autograder("grade", "tiny", "--jobs", "0").returncode == 2


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    root = tmp_path_factory.mktemp("course") / "my course"
    done = autograder("release", "tiny", "--course", root, "--solutions", UNITS)
    assert done.returncode == 0, done.stderr
    return root


def hand_in(course, student, content, name="tiny.ipynb"):
    folder = course / "submitted" / student / "tiny"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def test_a_unit_that_was_not_released_is_refused(course):
    assert_refused(
        autograder("grade", "attention", "--course", course), "was not released", "Released are: tiny"
    )


def test_an_empty_submitted_folder_is_refused_with_the_layout_expected(course):
    assert_refused(autograder("grade", "tiny", "--course", course), "Nobody has handed in tiny")


def test_a_student_who_did_not_hand_in_is_named(course):
    hand_in(course, "ada", (course / "exercises/tiny/tiny.ipynb").read_bytes())
    done = autograder("grade", "tiny", "--course", course, "--student", "bob")
    assert_refused(done, "No submission of tiny by bob", "ada")


def test_a_notebook_that_is_no_json_is_reported_and_the_others_are_graded(course):
    hand_in(course, "ada", (course / "exercises/tiny/tiny.ipynb").read_bytes())
    hand_in(course, "eve", b"This is not a notebook.\n")
    done = autograder("grade", "tiny", "--course", course, "--json")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    rows = {row["student"]: row for row in json.loads(done.stdout)}
    assert rows["eve"]["status"] == "unreadable"
    assert "eve" in done.stderr
    assert rows["ada"]["status"] == "no points"
    assert (course / "feedback/eve/tiny/tiny.html").exists()


def test_names_with_brackets_are_printed_as_they_are(course):
    """The terminal library would take them for markup, and stop at one that it cannot close."""
    hand_in(course, "[bold]bob", (course / "exercises/tiny/tiny.ipynb").read_bytes(), "tiny [x] (1).ipynb")
    done = autograder("grade", "tiny", "--course", course, "--student", "[bold]bob")
    assert done.returncode == 0, done.stderr
    assert "[bold]bob" in done.stdout
    assert "[x]" in done.stdout
    assert_refused(autograder("grade", "tiny", "--course", course, "--student", "[/]"), "[/]")


@pytest.mark.parametrize("command", [(), ("demo",), ("release",), ("grade",)])
def test_help_has_an_example(command):
    done = autograder(*command, "--help", env={"PATH": "/usr/bin:/bin", "COLUMNS": "200"})
    assert done.returncode == 0
    assert "Example" in done.stdout or not command


def test_the_committed_exercises_are_what_the_sources_build(tmp_path):
    """Byte for byte, and without a solution line or a hidden test (the builder's own check refuses those)."""
    done = autograder("release", "--build", "--exercises", tmp_path)
    assert done.returncode == 0, done.stderr
    built = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.ipynb"))
    committed = sorted(path.relative_to(ROOT / "exercises") for path in (ROOT / "exercises").rglob("*.ipynb"))
    assert built == committed
    for path in built:
        text = (tmp_path / path).read_bytes()
        assert text == (ROOT / "exercises" / path).read_bytes()
        assert b"BEGIN SOLUTION" not in text
        assert b"HIDDEN TESTS" not in text
