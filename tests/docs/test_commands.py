"""Every command that the documents tell a reader to type is run, or parsed by its program, or looked up.

`python -m pytest -s tests/docs/test_commands.py` prints the list. A walk runs a page's commands in its order, word for
word, in a folder like the reader's; what a command is said to do is then looked for.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections import Counter

import pytest

pytest.importorskip("nbgrader", reason="the instructor's commands need nbgrader")
from documents import OTHER, PAGES, ROOT, commands, read
from placing import RUN, check, place

COMMANDS = [command for page in PAGES for command in commands(page)]
INSTRUCTORS, STUDENTS = "docs/guides/instructors.md", "docs/guides/students.md"
APART = ("JupyterHub",)  # sections whose commands need a course of their own
WRITTEN = "Each token asks the others what they know, and takes the mean of the answers that fit."


def test_every_command_has_a_place_and_its_program_takes_it():
    """The list of them all; run with -s to read it."""
    counted = Counter()
    for command in COMMANDS:
        kind, where = place(command)
        check(command)
        if test := re.match(r"run in (\S+)", where):
            subcommand = command.plain.split()[1]
            assert f'"{subcommand}"' in (ROOT / test[1]).read_text(), f"{test[1]} does not run {subcommand}"
        counted[kind] += 1
        print(f"{kind:22} {command}  ({where})")
    print(", ".join(f"{number} {kind}" for kind, number in counted.items()))
    assert {command.page for command in COMMANDS} >= {"README.md", "CONTRIBUTING.md", INSTRUCTORS, STUDENTS}
    assert counted[RUN] > 25


@pytest.mark.parametrize(
    "wrong",
    [
        "autograder collect attention --course c --from x.zip",
        "autograder export canvas --course c",
        "autograder colect attention",
        "minitx check --fast",
        "minitx train --steps many",
        "make nothing-of-the-kind",
        "pip install -e '.[quick]'",
        "pip install left-pad",
        "jupyter lab exercises/nosuch/nosuch.ipynb",
        "nbgrader realease_assignment x",
        "frobnicate --now",
    ],
)
def test_a_command_that_its_program_does_not_take_is_found(wrong):
    from documents import Command

    with pytest.raises(BaseException) as caught:
        check(Command("page.md", 1, "", wrong))
    assert not isinstance(caught.value, KeyboardInterrupt)


def test_a_mention_with_an_option_that_is_not_there_is_found():
    from documents import Command

    for wrong in ("grade --regrad", "autograder gade", "minitx check --no", "frob --now"):
        with pytest.raises(AssertionError):
            check(Command("page.md", 1, "", wrong, inline=True))


def test_every_block_of_python_is_run_or_taken_from_a_file():
    """The README's example is run in tests/test_documents.py; the site's blocks are `literalinclude`."""
    typed = {(b.page, b.text) for page in PAGES for b in read(page)[0] if b.kind == "python"}
    typed = {(page, text) for page, text in typed if not page.endswith(".ipynb")}
    assert {page for page, _ in typed} == {"README.md"}
    assert len(typed) == 1
    for page in PAGES:
        for block in read(page)[0]:
            if block.kind == "literalinclude":
                opening = (ROOT / page).read_text().splitlines()[block.line - 2]
                assert (ROOT / page).parent.joinpath(opening.split("}")[1].strip()).is_file()
            assert block.kind in ("shell", "python", *OTHER)


# The walks.


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """A folder in which `.venv/bin/PROGRAM` starts what is under test, and nothing of the reader's own is written."""
    folder = tmp_path_factory.mktemp("walk")
    programs = folder / ".venv/bin"
    programs.mkdir(parents=True)
    for name, module in (
        ("minitx", "minitx.cli"),
        ("autograder", "autograder.cli"),
        ("nbgrader", "nbgrader"),
    ):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {module} "$@"\n')
        program.chmod(0o755)
    shutil.copytree(ROOT / "exercises", folder / "exercises")
    return folder


def solved(unit, belief=None):
    """A unit's notebook as a student hands it in, right or with one misconception."""
    from autograder import demo
    from autograder.release import build

    built = build(ROOT / "solutions" / unit)
    sources = {cell.grade_id: cell.source for cell in built.spec.cells if cell.kind == "solution"}
    sources |= {cell.grade_id: WRITTEN for cell in built.spec.cells if cell.kind == "written"}
    for known in built.spec.misconceptions:
        if known.name == belief:
            sources[known.replaces] = known.code
    return demo.dump(demo.filled(built, sources))


class Walk:
    """Runs commands in a folder, word for word, and keeps what they said."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = {**os.environ, "MINITX_STATE_DIR": str(folder / "state"), "COLUMNS": "120"}
        self.ran = []

    def __call__(self, command, more="", code=0, **options):
        start = time.perf_counter()
        done = subprocess.run(
            ["bash", "-c", f"{command.text.split('  #')[0]} {more}"],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            **options,
        )
        seconds = time.perf_counter() - start
        print(f"ran in {seconds:4.1f} s, exit code {done.returncode}: {command} {more}")
        assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        self.ran.append(command)
        return done.stdout + done.stderr

    def watch(self, command):
        """A command that goes on until ctrl-C: what it says until it waits."""
        with subprocess.Popen(
            ["bash", "-c", f"exec {command.text.split('  #')[0]}"],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            said = ""
            while "Watching" not in said:
                line = process.stdout.readline()
                assert line, f"{command} ended: {said}"
                said += line
            process.send_signal(signal.SIGINT)
            assert process.wait(20) in (0, 130)
        print(f"ran until ctrl-C: {command}")
        self.ran.append(command)
        return said


def to_run(*pages, section=None):
    """The commands of these pages that are run, in this order, each once; those of APART only when asked for."""
    found = {}
    for command in sorted(COMMANDS, key=lambda one: pages.index(one.page) if one.page in pages else -1):
        here = command.section == section if section else command.section not in APART
        if command.page in pages and here and place(command)[0] == RUN:
            found.setdefault(command.plain, command)
    return list(found.values())


def test_what_a_student_is_told_to_type(bench):
    walk = Walk(bench)
    (bench / "exercises/attention/attention.ipynb").write_bytes(solved("attention"))
    for command in [c for c in to_run(STUDENTS, "README.md") if c.plain in STUDENTS_COMMANDS]:
        if command.plain == "minitx watch attention":
            said = walk.watch(command)
        else:
            said = walk(command, input="a\nb\nc\nd\na\n")
        print(said)
        for expected in STUDENTS_COMMANDS[command.plain]:
            assert re.search(expected, said), (str(command), said)
    assert {command.plain for command in walk.ran} == set(STUDENTS_COMMANDS)


STUDENTS_COMMANDS = {
    "minitx doctor": ["Python", "units .*attention, cost, order"],
    "minitx check attention": [r"(\d+) of \1 visible tests pass"],
    "minitx watch attention": ["visible tests", r"ctrl-C ends"],
    "minitx hint attention": ["Hint 1: the idea"],
    "minitx status": ["attention +#+", "quiz:"],
    "minitx quiz": ["5 of 5 answered", "Right|Not quite"],
}


def test_what_a_reader_of_the_code_is_told_to_type(bench):
    """Training is cut to two steps, and what it wrote is what the next command reads."""
    walk = Walk(bench)
    (bench / "book.txt").write_text("Once upon a time a car met another car at a crossing. " * 200)
    wanted = {
        "minitx train": (
            "--steps 2 --evaluate-every 1 --batch 2",
            "weights: runs/book-cpu/model.safetensors",
        ),
        "minitx generate": ("--max-new-tokens 4", "Once"),
        "minitx drive": ("", "picture: drive.png"),
    }
    for command in to_run("README.md"):
        if (name := " ".join(command.plain.split()[:2])) in wanted:
            more, expected = wanted.pop(name)
            assert expected in walk(command, more)
    assert wanted == {}
    assert (bench / "drive.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture(scope="module")
def released(bench):
    """The course after its first command, which the walks go on from."""
    walk = Walk(bench)
    command = to_run(INSTRUCTORS)[0]
    assert command.plain == "autograder release attention --course my-course"
    assert "released attention" in walk(command)
    for made in ("source/attention/attention.ipynb", "exercises/attention/attention.ipynb", "gradebook.db"):
        assert (bench / "my-course" / made).is_file()
    return bench


def copy_of(released, to):
    shutil.copytree(released, to, symlinks=True)
    return to


def test_what_an_instructor_is_told_to_type(released, tmp_path):
    folder = copy_of(released, tmp_path / "desk")
    walk = Walk(folder)
    with zipfile.ZipFile(folder / "submissions.zip", "w") as archive:
        archive.writestr("adaada_1001_501_attention.ipynb", solved("attention"))
        archive.writestr("bobbob_LATE_1002_502_attention.ipynb", solved("attention", "no-scale"))
    for command in to_run(INSTRUCTORS, "README.md"):
        name = " ".join(
            word for word in command.plain.split() if word not in ("attention", "--course", "my-course")
        )
        if not command.plain.startswith("autograder ") or name in ("autograder release",):
            continue
        assert name in INSTRUCTORS_COMMANDS, f"{command}: say in INSTRUCTORS_COMMANDS what it must do"
        before, expected, made = INSTRUCTORS_COMMANDS[name]
        before(folder)
        said = walk(command)
        print(said)
        assert re.search(expected, said), said
        for file in made:
            assert (folder / file).exists(), f"{command} did not make {file}"
    assert len(walk.ran) == len(INSTRUCTORS_COMMANDS)
    with (folder / "import.csv").open() as file:
        scores = {row[1]: row[5] for row in csv.reader(file)}
    assert 0 < float(scores["1002"]) < float(scores["1001"])
    assert json.loads(next((folder / "results").glob("*/results.json")).read_text())["tests"]


def nothing(folder):
    """Nothing needs to be there before."""


def grade_the_written_answers(folder):
    """As a person does in formgrader, so that nothing waits any more."""
    from nbgrader.api import Gradebook

    from autograder.course import Course

    course = Course.open(folder / "my-course")
    with Gradebook(course.database_url, "course") as gradebook:
        for submission in gradebook.assignment_submissions("attention"):
            for notebook in submission.notebooks:
                for grade in notebook.grades:
                    if grade.needs_manual_grade:
                        grade.manual_score, grade.needs_manual_grade = 1.0, False
        gradebook.db.commit()


def table_of_canvas(folder):
    grade_the_written_answers(folder)
    points = points_of(folder)
    (folder / "gradebook.csv").write_text(
        "Student,ID,SIS User ID,SIS Login ID,Section,attention (42)\n"
        f"    Points Possible,,,,,{points:g}\n"
        '"Ada, A",1001,u1,ada,A,\n"Bob, B",1002,u2,bob,A,\n'
    )


def worksheet_of_moodle(folder):
    ids = sorted(path.name for path in (folder / "my-course/submitted").iterdir())
    head = "Identifier,Full name,ID number,Email address,Status,Grade,Maximum Grade,Grade can be changed\n"
    rows = [
        f"Participant {i},Name {i},{name},{name}@x.example,,,{points_of(folder):g},Yes\n"
        for i, name in enumerate(ids)
    ]
    (folder / "worksheet.csv").write_text(head + "".join(rows))


def points_of(folder):
    from autograder.course import Course

    course = Course.open(folder / "my-course")
    return sum(cell.points for cell in course.spec("attention").cells if cell.points)


INSTRUCTORS_COMMANDS = {
    "autograder collect submissions.zip": (
        nothing,
        "2 students",
        ["my-course/submitted", "my-course/collected"],
    ),
    "autograder grade": (nothing, "(?s)full marks.*no-scale", ["my-course/feedback", "my-course/autograded"]),
    "autograder report": (nothing, r"attention\.html", ["my-course/reports/attention.html"]),
    "autograder grade --regrade": (nothing, "No one's grade changes", []),
    "autograder export canvas --csv gradebook.csv --to import.csv": (
        table_of_canvas,
        "2 grades",
        ["import.csv"],
    ),
    "autograder export moodle --csv worksheet.csv --to upload.csv": (
        worksheet_of_moodle,
        "2 grades",
        ["upload.csv"],
    ),
    "autograder export nbgrader --to grades.csv": (nothing, "grades.csv", ["grades.csv"]),
    "autograder feedback --zip feedback.zip": (nothing, "packed in feedback.zip", ["feedback.zip"]),
    "autograder export gradescope --zip --to autograder.zip": (nothing, "hidden tests", ["autograder.zip"]),
    "autograder export gradescope --to results": (nothing, "2 files", ["results"]),
    "autograder feedback": (nothing, "2 pages", []),
}


def test_what_an_instructor_with_a_jupyterhub_is_told_to_type(released, tmp_path):
    """With nbgrader's own fetch and submit on the student's side."""
    folder = copy_of(released, tmp_path / "hub")
    walk = Walk(folder)
    exchange = tmp_path / "exchange"
    exchange.mkdir()
    exchange.chmod(0o777)
    settings = f"c.Exchange.root = {str(exchange)!r}\nc.Exchange.cache = {str(tmp_path / 'cache')!r}\n"
    with (folder / "my-course/nbgrader_config.py").open("a") as file:
        file.write(settings)
    release, collect, grade, feedback = to_run(INSTRUCTORS, section="JupyterHub")
    walk(release)
    home = tmp_path / "home"
    home.mkdir()
    (home / "nbgrader_config.py").write_text(f"c = get_config()\n{settings}")
    student = [sys.executable, "-m", "nbgrader"]
    for step in ("fetch_assignment", "submit"):
        if step == "submit":
            (home / "attention/attention.ipynb").write_bytes(solved("attention"))
        done = subprocess.run(
            [*student, step, "attention", "--course", "course"],
            cwd=home,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert "1 student" in walk(collect)
    assert "full marks" in walk(grade)
    assert "1 page given back" in walk(feedback)
    assert list((exchange / "course/feedback").glob("*.html"))
