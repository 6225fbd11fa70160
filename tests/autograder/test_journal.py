"""What is graded once is not graded again; what is stored is never lost; what cannot be written is said."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from classroom import InProcess, answer, hand_in
from nbformat import NotebookNode
from nbgrader.api import Gradebook

from autograder import engine, journal
from autograder.assessing import Result, seed_of
from autograder.course import Course
from autograder.errors import StoppedError, UsageError
from autograder.intake import Intake
from autograder.journal import Journal, code_digest, key_of
from autograder.release import Built
from autograder.spec import Spec


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    InProcess.reset()
    monkeypatch.setattr(engine, "Runner", InProcess)


@pytest.fixture
def room(course: Course, right: NotebookNode) -> Course:
    """A course with five hand-ins."""
    for student, halve in [("ada", "right"), ("bob", "whole"), ("eve", "double"), ("kim", "nothing")]:
        hand_in(course, student, answer(right, halve))
    hand_in(course, "zed", b"no notebook")
    return course


def run(course: Course, students: list[str] | None = None, **options: Any) -> dict[str, Result]:
    spec = course.spec("tiny")
    results = engine.grade(course, spec, students or course.students("tiny"), 2, **options)
    return {result.student: result for result in results}


def scores(course: Course) -> dict[str, float]:
    with Gradebook(course.database_url, "course") as gradebook:
        return {one.student.id: one.score for one in gradebook.assignment_submissions("tiny")}


def states(results: dict[str, Result]) -> set[str]:
    return {result.state for result in results.values()}


def mend(course: Course, old: str, new: str) -> None:
    """The instructor changed a test and released again."""
    course.write_spec(Spec.from_json(course.spec("tiny").to_json().replace(old, new)))


def test_a_second_run_judges_nothing_and_says_the_same(room: Course):
    first = run(room)
    assert InProcess.count == 5
    assert states(first) == {"graded"}
    second = run(room)
    assert InProcess.count == 5
    assert states(second) == {"unchanged"}
    assert {s: replace(r, state="graded") for s, r in second.items()} == first
    assert second["bob"].looks_like is not None
    assert second["bob"].looks_like.name == "whole-division"
    assert second["zed"].status == "unreadable"


def test_only_what_was_handed_in_anew_is_judged(room: Course, right: NotebookNode):
    run(room)
    hand_in(room, "bob", answer(right))
    hand_in(room, "new", answer(right))
    results = run(room)
    assert InProcess.count == 7
    assert {name for name, result in results.items() if result.state == "graded"} == {"bob", "new"}
    assert scores(room)["bob"] == scores(room)["new"] == 5.5


def test_going_back_to_an_earlier_answer_brings_the_earlier_score_back(room: Course, right: NotebookNode):
    run(room)
    before = scores(room)["bob"]
    hand_in(room, "bob", answer(right))
    run(room, ["bob"])
    hand_in(room, "bob", answer(right, "whole"))
    run(room, ["bob"])
    assert scores(room)["bob"] == before != 5.5


def test_again_judges_everything_anew(room: Course):
    run(room)
    with sqlite3.connect(room.gradebook) as db:
        db.execute("UPDATE grade SET auto_score = 0.25 WHERE auto_score IS NOT NULL")
    assert states(run(room)) == {"unchanged"}
    assert states(run(room, again=True)) == {"graded"}
    assert InProcess.count == 10
    assert scores(room)["ada"] == 5.5


def test_a_mended_test_leaves_earlier_grades_alone_until_a_regrade(room: Course, right: NotebookNode):
    run(room)
    before = scores(room)
    mend(room, "halve(7) == expected_canary_4711", "halve(7) in (3, expected_canary_4711)")
    hand_in(room, "new", answer(right, "whole"))
    results = run(room)
    assert results["new"].state == "graded"
    assert results["new"].points == 3  # `spread` needs the half
    assert {r.state for name, r in results.items() if name != "new"} == {"outdated"}
    assert {name: score for name, score in scores(room).items() if name != "new"} == before


def test_a_fault_of_the_graders_is_tried_again_at_the_next_run(room: Course):
    InProcess.fail = {seed_of(room.key, "tiny", "ada")}
    assert run(room)["ada"].status == "needs review"
    assert scores(room)["ada"] == 0
    InProcess.fail = set()
    results = run(room)
    assert results["ada"].status == "full marks"
    assert InProcess.count == 6
    assert scores(room)["ada"] == 5.5


@pytest.mark.parametrize("step", ["write_autograded", "record", "write", "write_log", "finish"])
def test_a_run_that_ends_at_any_step_goes_on_there(room: Course, monkeypatch: pytest.MonkeyPatch, step: str):
    """At the second submission, before that step is done; as by a kill, for nothing after it is done."""
    homes: dict[str, Any] = {
        "write_autograded": engine,
        "record": engine.GradebookWriter,
        "write": engine.FeedbackWriter,
        "write_log": Course,
        "finish": Journal,
    }
    real, calls = getattr(homes[step], step), []

    def fails(*arguments: Any, **named: Any) -> Any:
        calls.append(step)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments, **named)

    monkeypatch.setattr(homes[step], step, fails)
    with pytest.raises(KeyboardInterrupt):
        run(room)
    judged = InProcess.count
    with sqlite3.connect(room.private / "journal.db") as db:
        kept = db.execute("SELECT count(*) FROM judged").fetchone()[0]
    monkeypatch.setattr(homes[step], step, real)
    results = run(room)
    assert set(results) == {"ada", "bob", "eve", "kim", "zed"}
    assert InProcess.count == judged + 5 - kept
    assert scores(room)["ada"] == 5.5
    assert states(run(room)) == {"unchanged"}


def test_what_is_recorded_is_not_recorded_again(room: Course, monkeypatch: pytest.MonkeyPatch):
    """A person may have graded between the crash and the next run."""
    real = engine.FeedbackWriter.write

    def fails(self: Any, unit: str, student: str) -> Any:
        if student == "ada":
            raise KeyboardInterrupt
        return real(self, unit, student)

    monkeypatch.setattr(engine.FeedbackWriter, "write", fails)
    with pytest.raises(KeyboardInterrupt):
        run(room)
    monkeypatch.setattr(engine.FeedbackWriter, "write", real)
    with Gradebook(room.database_url, "course") as gradebook:
        grade = gradebook.find_grade("why", "tiny", "tiny", "ada")
        grade.manual_score, grade.needs_manual_grade = 4.0, False
        gradebook.db.commit()
    run(room)
    with Gradebook(room.database_url, "course") as gradebook:
        grade = gradebook.find_grade("why", "tiny", "tiny", "ada")
        assert (grade.manual_score, grade.needs_manual_grade) == (4.0, False)
        assert gradebook.find_submission("tiny", "ada").score == 9.5
    assert "9.5" in (room.feedback / "ada/tiny/tiny.html").read_text()


def test_a_gradebook_from_a_backup_is_filled_again_without_judging(room: Course, tmp_path: Path):
    shutil.copy(room.gradebook, tmp_path / "backup.db")
    run(room)
    before = scores(room)
    shutil.copy(tmp_path / "backup.db", room.gradebook)
    assert scores(room) == {}
    assert states(run(room)) == {"graded"}
    assert InProcess.count == 5
    assert scores(room) == before


def test_a_deleted_submission_is_graded_again(room: Course):
    run(room)
    with Gradebook(room.database_url, "course") as gradebook:
        gradebook.remove_submission("tiny", "ada")
    assert run(room)["ada"].state == "graded"
    assert scores(room)["ada"] == 5.5


@pytest.mark.parametrize("step", ["autograded", "feedback"])
def test_pages_that_were_deleted_are_written_again(room: Course, step: str):
    run(room)
    shutil.rmtree(getattr(room, step) / "ada")
    run(room)
    assert InProcess.count == 5
    assert any((getattr(room, step) / "ada/tiny").iterdir())


def test_a_lost_journal_means_judging_again_and_nothing_worse(room: Course):
    run(room)
    before = scores(room)
    for path in room.private.glob("journal.db*"):
        path.unlink()
    run(room)
    assert InProcess.count == 10
    assert scores(room) == before


def test_two_runs_at_once_are_refused(room: Course):
    with (
        Journal(room.private),
        pytest.raises(UsageError, match=rf"process {os.getpid()}\) is at work.*Wait") as error,
    ):
        run(room)
    assert error.value.exit_code == 2
    assert scores(room) == {}
    run(room)


def test_half_written_files_of_a_killed_run_are_swept(room: Course, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(engine.GradebookWriter, "record", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        run(room)
    monkeypatch.undo()
    monkeypatch.setattr(engine, "Runner", InProcess)
    folder = room.autograded / "ada/tiny"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".tiny.ipynb.x1y2").write_bytes(b"half")
    run(room)
    assert sorted(path.name for path in folder.iterdir()) == ["tiny.ipynb"]


def test_a_due_date_set_later_and_a_moved_one_are_applied_without_judging(room: Course):
    path = room.submitted / "ada/tiny/timestamp.txt"
    path.write_text("2030-01-02 12:00:00 UTC")
    run(room)
    with (room.root / "nbgrader_config.py").open("a") as file:
        file.write("\nc.LatePolicy.percent_per_day = 10\n")
    course = Course.open(room.root)

    def penalty_with(due: datetime | None) -> float:
        with Gradebook(course.database_url, "course") as gradebook:
            gradebook.find_assignment("tiny").duedate = due
            gradebook.db.commit()
        run(course)
        with Gradebook(course.database_url, "course") as gradebook:
            return gradebook.find_submission("tiny", "ada").late_submission_penalty

    assert penalty_with(datetime(2030, 1, 2, 13)) == 0
    assert penalty_with(datetime(2030, 1, 2, 11)) == pytest.approx(0.55)
    assert "0.55" in (course.feedback / "ada/tiny/tiny.html").read_text()
    assert penalty_with(datetime(2030, 1, 1, 11)) == pytest.approx(1.1)
    assert penalty_with(None) == 0
    assert InProcess.count == 5


# What a judgement depends on.


@pytest.fixture
def spec(tiny: Built) -> Spec:
    return tiny.spec


def test_a_key_depends_on_all_that_a_score_depends_on(spec: Spec, monkeypatch: pytest.MonkeyPatch):
    taken = Intake(b"{}", ["A note."])
    keys = [
        key_of(taken, spec, b"seed"),
        key_of(Intake(b"{} ", ["A note."]), spec, b"seed"),
        key_of(Intake(b"{}"), spec, b"seed"),
        key_of(Intake(None, ["A note."]), spec, b"seed"),
        key_of(Intake(None, ["A note."], "A problem."), spec, b"seed"),
        key_of(taken, replace(spec, cells=spec.cells[:-1]), b"seed"),
        key_of(taken, spec, b"another"),
    ]
    monkeypatch.setattr(journal, "grader_digest", lambda: "another grader")
    keys.append(key_of(taken, spec, b"seed"))
    monkeypatch.undo()
    monkeypatch.setattr(journal, "environment", lambda: ("3.99",))
    keys.append(key_of(taken, spec, b"seed"))
    monkeypatch.undo()
    assert len({key.whole for key in keys}) == len(keys)
    assert key_of(taken, spec, b"seed") == keys[0]
    submissions = [key.submission for key in keys]
    assert submissions[5:] == submissions[:1] * 4, "the student's part is the student's alone"


def test_the_graders_digest_covers_what_decides_and_nothing_else(tmp_path: Path):
    """An edit to judging, or to what the sandbox imports, changes it; an edit to a page does not."""
    root = Path(journal.__file__).parents[1]
    for name in ("autograder", "minitx/course"):
        shutil.copytree(root / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    before = code_digest(tmp_path)
    assert before == journal.grader_digest()
    for name, counts in [
        ("judging.py", True),
        ("sandbox/wire.py", True),
        ("../minitx/course/check.py", True),
        ("../minitx/course/subtests.py", True),
        ("feedback.py", False),
        ("cli/grade.py", False),
        ("report/template.html", False),
    ]:
        path = tmp_path / "autograder" / name
        old = path.read_bytes()
        path.write_bytes(old + b"\n# edited\n")
        assert (code_digest(tmp_path) != before) == counts, name
        path.write_bytes(old)


def test_a_judgement_comes_back_as_it_went_in(room: Course, spec: Spec):
    run(room)
    found = {judged.student: judged for judged, _ in journal.stored(room.private, "tiny")}
    assert set(found) == {"ada", "bob", "eve", "kim", "zed"}
    log = json.loads((room.private / "logs/bob/tiny/tiny.json").read_text())
    assert json.loads(found["bob"].verdict.to_json()) == log
    assert [cell.id for cell in found["bob"].notebook.cells] == [cell.grade_id for cell in spec.cells]
    assert found["zed"].problem
    assert (room.private / "journal.db").stat().st_mode & 0o077 == 0


def test_a_damaged_journal_is_a_clear_error(room: Course):
    run(room)
    for path in room.private.glob("journal.db*"):
        path.unlink()
    (room.private / "journal.db").write_bytes(b"This is no database, and long enough to be looked at." * 50)
    with pytest.raises(StoppedError, match=r"journal.* cannot be used"):
        run(room)
    with pytest.raises(StoppedError, match="cannot be read"):
        list(journal.stored(room.private, "tiny"))


# Disks.


PROGRAM = f"""
import resource, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
from classroom import InProcess
from autograder import engine
from autograder.course import Course
from autograder.errors import StoppedError

engine.Runner = InProcess
course = Course.open(Path(sys.argv[1]))
for size in map(int, sys.argv[2:] or ["-1"]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        list(engine.grade(course, course.spec("tiny"), course.students("tiny"), 1))
    except StoppedError as error:
        print(InProcess.count, "stopped:", error)
"""


def other_process(*command: str, **options: Any) -> list[str]:
    """The lines that it prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout.splitlines()


def test_a_full_disk_stops_with_a_clear_error_and_loses_nothing(room: Course):
    """No file may grow beyond so many bytes; then any number again."""
    run(room, ["ada"])
    before = scores(room)["ada"]
    sizes = ["100", "9000", "40000", "100000"]
    stopped = other_process(sys.executable, "-c", PROGRAM, str(room.root), *sizes)
    assert len(stopped) == len(sizes), stopped
    for line in stopped:
        assert "safe" in line or "nothing that was there before is lost" in line
        assert "goes on where it stopped" in line
    assert len({line[:30] for line in stopped}) > 1, "several kinds of files ran into the limit"
    assert scores(room)["ada"] == before
    run(room)
    assert scores(room).keys() == {"ada", "bob", "eve", "kim", "zed"}


def test_a_gradebook_that_cannot_be_written_stops_the_run_before_anyone_is_judged(room: Course):
    run(room, ["ada"])
    before = scores(room)
    command = [sys.executable, "-c", PROGRAM, str(room.root)]
    if os.geteuid():
        room.gradebook.chmod(0o400)
    else:  # root may write whatever the permissions say
        mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", mount, str(room.gradebook), *command]
    (line,) = other_process(*command)
    assert line.startswith("0 stopped: The gradebook")
    assert "readonly" in line
    assert "can be written" in line
    room.gradebook.chmod(0o600)
    assert scores(room) == before
    run(room)
    assert InProcess.count == 5
