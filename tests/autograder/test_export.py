"""Grades as each LMS takes them: its own table filled, nothing else in it changed, no one lost in silence."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import zipfile
from datetime import datetime
from pathlib import Path

import pytest
from classroom import InProcess, answer, autograder, hand_in
from nbformat import NotebookNode
from nbgrader.api import Gradebook

from autograder import engine
from autograder.course import Course
from autograder.errors import UsageError
from autograder.export import canvas, moodle
from autograder.export.grades import Grade, grades_of
from autograder.export.gradescope import results_of, write_zip
from autograder.export.gradescope_run import student_of
from autograder.export.nbgrader_csv import export_csv
from autograder.release import Built
from autograder.report.standing import judged_in

HIDDEN = ("canary_4711", "halve(7)")


def grade(student: str, score: float, waits: bool = False, **ids: str) -> Grade:
    return Grade(student, score, 9.5, waits, ids)


GRADES = [
    grade("jdoe", 5.5),
    grade("poe-1002", 3.456, canvas="1002", moodle="2002"),
    grade("eve", 9.5, waits=True),
    grade("ex", 1),
    grade("lost", 2),
]
CANVAS = (
    "\ufeffStudent,ID,SIS User ID,SIS Login ID,Section,Warm-up (7),tiny (42),Current Score\r\n"
    ",,,,,Manual Posting,,\r\n"
    "    Points Possible,,,,,3,9.5,(read only)\r\n"
    '"Doe, Jane",1001,u1,JDoe,A,2,1.00,50\r\n'
    '"Poe, Bob",1002,u2,bob,A,,,0\r\n'
    '"Eve, E",1003,u3,eve@uni.example,A,,,0\r\n'
    '"Ex, X",1004,u4,ex,A,,EX,0\r\n'
    '"Idle, I",1005,u5,idle,A,3,7.00,0\r\n'
    '"Student, Test",1006,,,A,,,0\r\n'
)


def table(text: str, delimiter: str = ",") -> list[list[str]]:
    return list(csv.reader(io.StringIO(text.removeprefix("\ufeff")), delimiter=delimiter))


def on_disk(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "table.csv"
    path.write_bytes(text.encode())
    return path


def test_canvass_column_is_filled_and_nothing_else(tmp_path: Path):
    filled = canvas.fill(on_disk(tmp_path, CANVAS), "tiny", GRADES)
    assert filled.text.startswith("\ufeffStudent,ID,")
    assert filled.text.count("\r\n") == CANVAS.count("\r\n")
    rows = table(filled.text)
    assert rows[0] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "tiny (42)"]
    assert rows[2] == ["    Points Possible", "", "", "", "", "9.5"]
    assert {row[0]: row[5] for row in rows[3:]} == {
        "Doe, Jane": "5.50",
        "Poe, Bob": "3.46",
        "Eve, E": "",
        "Ex, X": "EX",
        "Idle, I": "",
        "Student, Test": "",
    }
    assert filled.written == ["jdoe", "poe-1002"]
    assert (filled.waiting, filled.locked, filled.unknown) == (["eve"], ["ex"], ["lost"])


def test_unfinished_grades_go_out_when_asked_for(tmp_path: Path):
    filled = canvas.fill(on_disk(tmp_path, CANVAS), "tiny", GRADES, unfinished=True)
    assert {row[0]: row[5] for row in table(filled.text)}["Eve, E"] == "9.50"


def test_other_points_in_canvas_are_refused_or_scaled(tmp_path: Path):
    path = on_disk(tmp_path, CANVAS.replace("3,9.5,", "3,100,"))
    with pytest.raises(UsageError, match=r"100 points possible, here it has 9\.5.*--scale"):
        canvas.fill(path, "tiny", GRADES)
    filled = canvas.fill(path, "tiny", GRADES, scale=True)
    assert table(filled.text)[3][5] == f"{5.5 / 9.5 * 100:.2f}"
    assert "scaled" in filled.notes[0]


def test_canvas_with_semicolons_stays_with_semicolons(tmp_path: Path):
    text = 'Student;ID;Section;tiny (42)\n    Points Possible;;;9,5\n"Doe; J";jdoe;A;\n'
    filled = canvas.fill(on_disk(tmp_path, text), "tiny", GRADES[:1])
    assert table(filled.text, ";")[2] == ["Doe; J", "jdoe", "A", "5.50"]


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("", None, "no table"),
        ("Student,ID,tiny\n", None, "no table"),
        ("Name,Number,tiny\na,1,\n", None, "no columns Student and ID"),
        ("Student,ID,other\na,1,\n", None, "no column is named 'tiny'"),
        ("Student,ID,tiny (1),tiny (2)\na,1,,\n", None, "several columns are named 'tiny'"),
        ("Student,ID,tiny\na,1,\n", "ID", "no assignment's column"),
        ("\udcff", None, "not UTF-8"),
    ],
)
def test_a_table_that_is_not_canvass_is_refused(tmp_path: Path, text: str, column: str | None, said: str):
    path = tmp_path / "table.csv"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError, match=said):
        canvas.fill(path, "tiny", GRADES, column=column)


MOODLE = (
    "Identifier,Full name,ID number,Email address,Status,Grade,Maximum Grade,Grade can be changed,"
    "Last modified (submission),Last modified (grade),Feedback comments\n"
    'Participant 2001,"Doe, Jane",u1,jdoe@uni.example,Submitted,1.00,9.50,Yes,"Monday, 1",-,\n'
    'Participant 2002,"Poe, Bob",,bob@uni.example,Submitted,,9.50,Yes,-,-,Already said.\n'
    "Participant 2003,Eve,,eve@uni.example,Submitted,,9.50,Yes,-,-,\n"
    "Participant 2004,Ex,,ex@uni.example,Submitted,,9.50,No,-,-,\n"
    "Participant 2005,Idle,,idle@uni.example,No submission,4.00,9.50,Yes,-,-,\n"
)


def test_moodles_worksheet_is_filled_and_nothing_else(tmp_path: Path):
    said = {"jdoe": "Some tests failed.", "poe-1002": "Not this."}
    filled = moodle.fill(on_disk(tmp_path, MOODLE), GRADES, comments=said)
    before, after = table(MOODLE), table(filled.text)
    changed = {
        (r, c): after[r][c]
        for r, row in enumerate(before)
        for c, cell in enumerate(row)
        if after[r][c] != cell
    }
    assert changed == {(1, 5): "5.50", (1, 10): "Some tests failed.", (2, 5): "3.46"}
    assert filled.written == ["jdoe", "poe-1002"]
    assert (filled.waiting, filled.locked, filled.unknown) == (["eve"], ["ex"], ["lost"])


@pytest.mark.parametrize("header", ["Bewertung", "Puntuación obtenida"])
def test_a_worksheet_in_another_language_is_filled(tmp_path: Path, header: str):
    """Known words, or the place beside the maximum; and a comma where this Moodle writes one."""
    text = (
        f"ID,Vollständiger Name,E-Mail-Adresse,Status,{header},Bestwertung,Bewertung kann geändert werden,Zuletzt\n"
        'Teilnehmer/in2001,Jane,jdoe@uni.example,Abgegeben,,"9,50",Ja,-\n'
    ).replace("Bewertung kann", "Kann")
    filled = moodle.fill(on_disk(tmp_path, text), GRADES[:1])
    assert table(filled.text)[1][4] == "5,50"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no table"),
        ("a,b\nc,d\n", "identifiers like 'Participant 123'"),
        ("Identifier,Full name\nParticipant 1,A\n", "Which column"),
        ("Identifier,Name,Mail,Grade,Maximum Grade\nParticipant 1,A,a,,Good\n", "graded by a scale"),
        (
            "Identifier,Name,Mail,Grade,Maximum Grade\nParticipant 1,A,a,,10\n",
            "maximum grade is 10, here it is 9.5",
        ),
    ],
)
def test_a_table_that_is_not_moodles_is_refused(tmp_path: Path, text: str, said: str):
    with pytest.raises(UsageError, match=said):
        moodle.fill(on_disk(tmp_path, text), GRADES)


def test_moodles_maximum_is_scaled_to_when_asked(tmp_path: Path):
    filled = moodle.fill(on_disk(tmp_path, MOODLE.replace("9.50", "19.00")), GRADES, scale=True)
    assert table(filled.text)[1][5] == "11.00"


# From a graded course.


@pytest.fixture
def graded(course: Course, right: NotebookNode, monkeypatch: pytest.MonkeyPatch) -> Course:
    InProcess.reset()
    monkeypatch.setattr(engine, "Runner", InProcess)
    with (course.root / "nbgrader_config.py").open("a") as file:
        file.write("\nc.LatePolicy.percent_per_day = 10\n")
    course = Course.open(course.root)
    for student, halve in [("ada", "right"), ("bob", "whole"), ("kim", "nothing")]:
        hand_in(course, student, answer(right, halve))
    (course.submitted / "ada/tiny/timestamp.txt").write_text("2030-01-02 12:00:00 UTC")
    hand_in(course, "zed", b"no notebook")
    with Gradebook(course.database_url, "course") as gradebook:
        gradebook.find_assignment("tiny").duedate = datetime(2030, 1, 2, 11)
        gradebook.db.commit()
    list(engine.grade(course, course.spec("tiny"), course.students("tiny"), 1))
    return course


def test_grades_are_nbgraders_own_after_the_late_penalty(graded: Course, tmp_path: Path):
    path = export_csv(graded, tmp_path / "out.csv")
    with path.open() as file:
        theirs = {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)}
    ours = {one.student: one.score for one in grades_of(graded, "tiny")}
    assert ours == pytest.approx(theirs)
    assert ours["ada"] == pytest.approx(5.5 * 0.9)


def test_results_for_gradescope_have_its_form_and_hide_what_is_hidden(graded: Course, tiny: Built):
    found = {judged.student: results_of(judged, tiny.spec) for judged in judged_in(graded, tiny.spec)}
    allowed = {
        "score", "execution_time", "output", "output_format", "visibility", "stdout_visibility", "extra_data",
        "tests", "leaderboard",
    }  # fmt: skip
    per_test = {
        "score", "max_score", "status", "name", "number", "output", "output_format", "tags", "visibility",
    }  # fmt: skip
    for results in found.values():
        assert set(results) <= allowed
        assert results["score"] == sum(test["score"] for test in results["tests"])
        assert sum(test["max_score"] for test in results["tests"]) == 5.5
        for test in results["tests"]:
            assert set(test) <= per_test
            assert test["status"] in ("passed", "failed")
        assert not any(text in json.dumps(results) for text in HIDDEN)
    assert found["ada"]["score"] == 5.5
    assert found["bob"]["tests"][1]["output"].startswith("wrong answer\nHint: Does your division keep what")
    assert "whole-division" in found["bob"]["output"]
    assert "not a notebook" in found["zed"]["output"]


def test_the_commands_write_files_and_say_who_is_missing(graded: Course, tmp_path: Path):
    path = on_disk(tmp_path, CANVAS.replace("JDoe", "ada").replace("bob,A", "kim,A"))
    to = tmp_path / "import.csv"
    done = autograder(
        "export", "canvas", "tiny", "--csv", path, "--to", to, "--course", graded.root, "--unfinished"
    )
    assert done.returncode == 1, "bob and zed are not in the table"
    assert "bob, zed: graded here, but not found in the table." in done.stderr
    rows = {row[0]: row[5] for row in table(to.read_text())}
    assert (rows["Doe, Jane"], rows["Poe, Bob"]) == ("4.95", "0.00")
    done = autograder("export", "nbgrader", "--to", tmp_path / "all.csv", "--course", graded.root)
    assert done.returncode == 0
    assert (tmp_path / "all.csv").read_text().startswith("assignment,duedate,")


def test_moodles_command_with_comments_and_gradescopes_files(graded: Course, tmp_path: Path):
    path = on_disk(tmp_path, MOODLE.replace("jdoe", "ada").replace("bob@", "kim@"))
    to = tmp_path / "upload.csv"
    arguments = ("export", "moodle", "tiny", "--csv", path, "--to", to, "--course", graded.root)
    done = autograder(*arguments, "--unfinished", "--comments")
    assert "bob, zed" in done.stderr
    assert table(to.read_text())[1][10] == "Every test passed."
    done = autograder("export", "gradescope", "tiny", "--to", tmp_path / "g", "--course", graded.root)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "g/ada/results.json").read_text())["score"] == 5.5
    done = autograder("export", "gradescope", "tiny", "--unsafe", "--course", graded.root)
    assert done.returncode == 2


# Gradescope's container.


@pytest.fixture
def container(tiny: Built, tmp_path: Path) -> Path:
    """An unpacked archive in Gradescope's layout; what setup.sh would install is this Python's."""
    root = tmp_path / "autograder"
    with zipfile.ZipFile(write_zip(tiny.spec, b"k" * 32, tmp_path / "a.zip")) as archive:
        archive.extractall(root / "source")
        modes = {info.filename: info.external_attr >> 16 & 0o777 for info in archive.infolist()}
    assert (modes["setup.sh"], modes["run_autograder"], modes["spec.json"]) == (0o755, 0o755, 0o600)
    for name in ("submission", "results", "venv/bin"):
        (root / name).mkdir(parents=True)
    python = root / "venv/bin/python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (root / "submission_metadata.json").write_text(
        '{"users": [{"email": "b@x.example"}, {"email": "a@x.example"}]}'
    )
    return root


def run_autograder(root: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "AUTOGRADER_ROOT": str(root)}
    command = ["bash", str(root / "source/run_autograder")]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=240, check=False, cwd="/"
    )


def test_the_archive_grades_in_gradescopes_layout(container: Path, right: NotebookNode):
    (container / "submission/my answers (1).ipynb").write_text(json.dumps(answer(right, "whole")))
    done = run_autograder(container)
    assert done.returncode == 0, done.stderr
    results = json.loads((container / "results/results.json").read_text())
    assert results["score"] == 1
    assert {test["name"]: test["status"] for test in results["tests"]} == {
        "half of an even number": "passed",
        "half of an odd number": "failed",
        "test-spread": "failed",
    }
    assert "expected 'tiny.ipynb'" in results["output"]
    assert "whole-division" in results["output"]
    assert not any(text in json.dumps(results) for text in HIDDEN)


def test_a_fault_of_the_grader_leaves_no_results_and_no_zero(container: Path, right: NotebookNode):
    (container / "submission/tiny.ipynb").write_text(json.dumps(answer(right)))
    (container / "results/results.json").write_text("{}")
    spec = container / "source/spec.json"
    spec.write_text(spec.read_text().replace("half_of_it = number / 2", "half_of_it = number / 3"))
    done = run_autograder(container)
    assert done.returncode == 1
    assert "reference solution of tiny should get every point" in done.stderr
    assert not (container / "results/results.json").exists()


def test_an_empty_submission_gets_results_that_say_so(container: Path):
    assert run_autograder(container).returncode == 0
    results = json.loads((container / "results/results.json").read_text())
    assert (results["score"], "submission is empty" in results["output"]) == (0, True)


def test_the_archive_is_reproducible_has_no_key_of_the_course_and_its_scripts_parse(
    tiny: Built, tmp_path: Path
):
    key = bytes(range(32))
    one, other = (write_zip(tiny.spec, key, tmp_path / name).read_bytes() for name in ("1.zip", "2.zip"))
    assert one == other
    with zipfile.ZipFile(tmp_path / "1.zip") as archive:
        config = json.loads(archive.read("config.json"))
        assert config["sandbox"] == "auto"
        assert key.hex() not in json.dumps(config)
        names = archive.namelist()
        assert "packages/autograder/runner.py" in names
        assert "packages/minitx/course/check.py" in names
        assert not any("solutions" in name or "__pycache__" in name for name in names)
        for name in ("setup.sh", "run_autograder"):
            done = subprocess.run(["bash", "-n"], input=archive.read(name), check=False)
            assert done.returncode == 0
    assert os.stat(tmp_path / "1.zip").st_mode & 0o077 == 0


def test_what_grades_there_needs_no_nbgrader():
    program = "import sys, autograder.export.gradescope_run; print('nbgrader' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("text", "student"),
    [
        ('{"users": [{"email": "b"}, {"email": "a"}]}', "a"),
        ('{"users": [{"id": 7}]}', "7"),
        ("{}", ""),
        ("[", ""),
        ('{"users": []}', ""),
        ('{"users": [3]}', ""),
        (None, ""),
    ],
)
def test_whose_submission_it_is(tmp_path: Path, text: str | None, student: str):
    path = tmp_path / "m.json"
    if text is not None:
        path.write_text(text)
    assert student_of(path) == student
