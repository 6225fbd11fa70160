"""kill -9 at random moments: whatever is killed, the resumed run ends where an uninterrupted one does.

What dies: the coordinator (the command), a test runner, a zygote. After each kill of the coordinator the same
command is given again. A sandbox is not killed: its death is a verdict on the submission in it.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from classroom import (
    AUDIT,
    KILL,
    answer,
    descendants,
    everything,
    hand_in,
    is_alive,
    make_class,
    progress,
    times_written,
)
from nbformat import NotebookNode
from nbgrader.api import Gradebook

from autograder.course import Course


def command(course: Course) -> list[str]:
    return [
        sys.executable,
        "-m",
        "autograder.cli",
        "grade",
        "tiny",
        "--course",
        str(course.root),
        "--jobs",
        "2",
    ]


def by_hand(course: Course, students: list[str]) -> None:
    """Grade some, then enter what a person enters: a score, a comment, extra credit."""
    done = subprocess.run(
        [*command(course), *(part for one in students for part in ("--student", one))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with Gradebook(course.database_url, "course") as gradebook:
        for number, student in enumerate(students):
            grade = gradebook.find_grade("why", "tiny", "tiny", student)
            grade.manual_score, grade.extra_credit, grade.needs_manual_grade = 1.5 + number, 0.5, False
            gradebook.find_comment("why", "tiny", "tiny", student).manual_comment = f"Seen {student}."
        gradebook.db.commit()


@dataclass
class Killer:
    """Starts the command again and again, and kills what it has started."""

    course: Course
    dice: random.Random
    kills: dict[str, int] = field(default_factory=dict)
    starts: int = 0

    def run(self, wanted: int) -> None:
        """Until so many kills; then once more in peace."""
        while sum(self.kills.values()) < wanted:
            with self._start() as process:
                self._kill_in(process, wanted)
                process.wait(120)
        with self._start() as process:
            _, errors = process.communicate(timeout=280)
            assert process.returncode in (0, 1), errors.decode()
            assert b"Traceback" not in errors, errors.decode()

    def _start(self) -> subprocess.Popen[bytes]:
        self.starts += 1
        return subprocess.Popen(command(self.course), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def _kill_in(self, process: subprocess.Popen[bytes], wanted: int) -> None:
        """Kill runners and zygotes as the work goes on, and at the end the command."""
        while process.poll() is None and sum(self.kills.values()) < wanted:
            whom = self.dice.choice(["coordinator", "runner", "zygote"])
            if self.dice.random() < 0.8 and progress(self.course) < len(self.course.students("tiny")):
                self._wait_for_progress(process)
            else:
                time.sleep(self.dice.uniform(0, 3))  # also while it is starting, or after all is judged
            time.sleep(self.dice.uniform(0, 0.06))
            target = process.pid if whom == "coordinator" else self._one_of(process.pid, whom)
            if target is None or process.poll() is not None:
                continue
            try:
                os.kill(target, KILL)
            except ProcessLookupError:
                continue
            self.kills[whom] = self.kills.get(whom, 0) + 1

    def _wait_for_progress(self, process: subprocess.Popen[bytes]) -> None:
        before, end = progress(self.course), time.monotonic() + 60
        while process.poll() is None and progress(self.course) <= before and time.monotonic() < end:
            time.sleep(0.005)

    def _one_of(self, coordinator: int, what: str) -> int | None:
        name = {"runner": "autograder.runner", "zygote": "autograder.sandbox.zygote"}[what]
        found = descendants(coordinator)
        runners = [pid for pid, line in found.items() if "-m autograder.runner" in line]
        if what == "zygote":
            # The zygote itself, not the sandboxes that are forked from it and look the same.
            below = [pid for runner in runners for pid in children(runner)]
            found = {pid: line for pid, line in found.items() if pid in below}
        chosen = sorted(pid for pid, line in found.items() if f"-m {name}" in line)
        return self.dice.choice(chosen) if chosen else None


def children(process: int) -> list[int]:
    try:
        text = Path(f"/proc/{process}/task/{process}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def crash(course: Course, right: NotebookNode, tmp_path: Path, size: int, kills: int, seed: int) -> Killer:
    make_class(course, right, size)
    hand_graded = ["student-00", "student-01", "student-03"]
    by_hand(course, hand_graded)
    shutil.copytree(course.root, tmp_path / "in-peace")
    peace = Course.open(tmp_path / "in-peace")
    done = subprocess.run(command(peace), capture_output=True, text=True, check=False, timeout=280)
    assert "unreadable" in done.stderr
    with closing(sqlite3.connect(course.gradebook)) as db:
        db.executescript(AUDIT)

    killer = Killer(course, random.Random(seed))
    killer.run(kills)

    assert sum(killer.kills.values()) == kills
    assert everything(course) == everything(peace)
    students = set(course.students("tiny"))
    assert len(students) == size
    assert times_written(course) == dict.fromkeys(students - set(hand_graded), 1), (
        "each score is written once"
    )
    with closing(sqlite3.connect(course.private / "journal.db")) as db:
        assert db.execute("SELECT count(*), count(DISTINCT student) FROM judged").fetchone() == (size, size)
        assert db.execute("SELECT count(*) FROM finished JOIN judged USING (key)").fetchone() == (size,)
    for number, student in enumerate(hand_graded):
        assert everything(course)[student, "why"][1:] == [1.5 + number, 0.5, 0]
        assert everything(course)[student, "why comment"][1] == f"Seen {student}."
    for student in students:
        for step, suffix in ((course.autograded, ".ipynb"), (course.feedback, ".html")):
            assert course.notebook_path(step, student, "tiny", suffix).stat().st_size > 1000
            assert not [path for path in (step / student / "tiny").iterdir() if path.name.startswith(".")]
    return killer


def test_a_few_kills_change_nothing(course: Course, right: NotebookNode, tmp_path: Path):
    crash(course, right, tmp_path, size=8, kills=4, seed=20)


def test_nothing_that_was_started_lives_on_after_the_command_was_killed(course: Course, right: NotebookNode):
    """Not even with a student's endless loop inside, which would be stopped after 20 seconds only."""
    hand_in(course, "loop", answer(right, "right", "while True: pass"))
    with subprocess.Popen(command(course), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        end = time.monotonic() + 60
        started: dict[int, str] = {}
        while time.monotonic() < end and not any("zygote" in line for line in started.values()):
            time.sleep(0.2)
            started = descendants(process.pid)
        time.sleep(3)
        started = descendants(process.pid)
        assert len(started) >= 2
        os.kill(process.pid, KILL)
    end = time.monotonic() + 12
    while time.monotonic() < end and any(map(is_alive, started)):
        time.sleep(0.2)
    assert [line for pid, line in started.items() if is_alive(pid)] == []


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_fifty_kills_over_a_class_of_sixty(course: Course, right: NotebookNode, tmp_path: Path):
    start = time.monotonic()
    killer = crash(course, right, tmp_path, size=60, kills=50, seed=1)
    print(f"\n{killer.kills}, {killer.starts} starts, {time.monotonic() - start:.0f} s")
