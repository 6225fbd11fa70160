"""A class for tests: notebooks of the unit `tiny`, and a runner that needs no sandbox.

The runner executes the students' cells in this process, so it is for our own answers only; what it gives
is a real verdict, test by test. `count` says how often it was asked to judge.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

from nbformat import NotebookNode

from autograder.cells import Cell
from autograder.cli import main
from autograder.course import Course
from autograder.spec import Spec
from autograder.verdict import CellRun, LooksLike, Subtest, Verdict
from minitx.course.subtests import split_cell

HALVES = {
    "right": "number / 2",
    "whole": "number // 2",
    "double": "number / 0.5",
    "nothing": "None",
}


AUDIT = """
CREATE TABLE audit (notebook_id TEXT, cell_id TEXT, score REAL);
CREATE TRIGGER audit_scores AFTER UPDATE OF auto_score ON grade
WHEN new.auto_score IS NOT NULL BEGIN
    INSERT INTO audit VALUES (new.notebook_id, new.cell_id, new.auto_score);
END;
"""
SLOW = "import time\ntime.sleep(0.6)"


def answer(right: NotebookNode, halve: str = "right", extra: str = "") -> dict[str, Any]:
    """The right notebook with another way to halve, and with a line more in that cell."""
    notebook = json.loads(json.dumps(right))
    for cell in notebook["cells"]:
        if cell["id"] == "halve":
            cell["source"] = f"{extra}\ndef halve(number):\n    return {HALVES[halve]}".strip()
    return notebook


def hand_in(course: Course, student: str, content: Any, name: str = "tiny.ipynb", unit: str = "tiny") -> Path:
    """Put a notebook, or bytes, where nbgrader's collect would."""
    folder = course.submitted / student / unit
    folder.mkdir(parents=True, exist_ok=True)
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / name).write_bytes(data)
    return folder / name


def make_class(course: Course, right: NotebookNode, size: int) -> None:
    """Right and wrong, quick and slow, one that cannot be read."""
    kinds = [("right", ""), ("whole", ""), ("double", SLOW), ("nothing", ""), ("right", SLOW)]
    for number in range(size - 2):
        hand_in(course, f"student-{number:02d}", answer(right, *kinds[number % len(kinds)]))
    hand_in(course, "unreadable", b'{"cells": [')
    hand_in(course, "wordy", answer(right, "right", "print('x' * 3000)"))


def everything(course: Course) -> dict[str, Any]:
    """What the gradebook says, by student and cell, without the random ids."""
    query = """
        SELECT s.student_id, c.name, g.auto_score, g.manual_score, g.extra_credit, g.needs_manual_grade
        FROM grade g JOIN submitted_notebook n ON g.notebook_id = n.id
        JOIN submitted_assignment s ON n.assignment_id = s.id JOIN base_cell c ON g.cell_id = c.id
        UNION ALL
        SELECT s.student_id, c.name || ' comment', k.auto_comment, k.manual_comment, n.late_submission_penalty, 0
        FROM comment k JOIN submitted_notebook n ON k.notebook_id = n.id
        JOIN submitted_assignment s ON n.assignment_id = s.id JOIN base_cell c ON k.cell_id = c.id
    """
    with closing(sqlite3.connect(course.gradebook)) as db:
        rows = db.execute(query).fetchall()
    found = {(student, name): rest for student, name, *rest in rows}
    assert len(found) == len(rows), "a student has a cell twice"
    return found


def times_written(course: Course) -> dict[str, int]:
    """By student, how often each score was written, at most. A score that waits for the grader's next try,
    or for a person, is none."""
    query = """
        SELECT s.student_id, max(times) FROM
        (SELECT notebook_id, cell_id, count(*) AS times FROM audit GROUP BY notebook_id, cell_id) a
        JOIN submitted_notebook n ON a.notebook_id = n.id
        JOIN submitted_assignment s ON n.assignment_id = s.id GROUP BY s.student_id
    """
    with closing(sqlite3.connect(course.gradebook)) as db:
        return dict(db.execute(query).fetchall())


def progress(course: Course) -> int:
    """How many judgements are in the journal."""
    try:
        with closing(sqlite3.connect(f"file:{course.private}/journal.db?mode=ro", uri=True, timeout=5)) as db:
            return db.execute("SELECT count(*) FROM judged").fetchone()[0]
    except sqlite3.OperationalError:
        return 0


class InProcess:
    """In place of `autograder.runners.Runner`."""

    count: ClassVar[int] = 0
    students: ClassVar[list[bytes]] = []  # the seeds of those who were judged
    fail: ClassVar[set[bytes]] = set()  # seeds for which the grader itself fails
    stop_after: ClassVar[int | None] = None
    lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, spec: Spec, *_: Any, **__: Any) -> None:
        self.spec = spec
        self.stopped = False

    @classmethod
    def reset(cls) -> None:
        cls.count, cls.students, cls.fail, cls.stop_after = 0, [], set(), None

    def judge(self, cells: Sequence[Cell], seed: bytes) -> Verdict:
        if seed != b"check":
            with self.lock:
                InProcess.count += 1
                InProcess.students.append(seed)
            if seed in self.fail:
                return Verdict(needs_review="The grader failed.")
        names: dict[str, Any] = {}
        verdict = Verdict(seconds=0.01)
        for cell in cells:
            if cell.kind == "test":
                verdict.tests[cell.id] = self._test(cell.id, names)
                continue
            try:
                exec(cell.source, names)
                verdict.cells[cell.id] = CellRun("OK")
            except Exception:
                verdict.cells[cell.id] = CellRun("RE")
        failed = [t for tests in verdict.tests.values() for t in tests if t.outcome != "OK"]
        for known in self.spec.misconceptions:
            if any(test.belief == known.name for test in failed):
                verdict.looks_like = LooksLike(known.name, known.belief, known.advice, certain=True)
        return verdict

    def _test(self, grade_id: str, names: dict[str, Any]) -> list[Subtest]:
        split, marks = split_cell(self.spec.cell(grade_id)), []
        scope = dict(names)
        for part in split.parts:
            mark = Subtest(part.title, "OK", part.points, part.points, part.hidden)
            try:
                exec(split.setup, scope)
                exec(part.code, scope)
            except Exception:
                mark = Subtest(part.title, "WA", 0.0, part.points, part.hidden, part.hint, part.belief)
            marks.append(mark)
        return marks

    def describe(self) -> str:
        return "in this process"

    def start(self) -> None:
        pass

    def stop(self) -> None:
        self.stopped = True

    close = stop


@dataclass(frozen=True)
class Done:
    """What a command printed, and how it ended."""

    returncode: int
    stdout: str
    stderr: str


def autograder(*arguments: object) -> Done:
    """The command, as from a terminal, but in this process: the libraries take seconds to load."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    argv = patch("sys.argv", ["autograder", *map(str, arguments)])
    # --sandbox and --unsafe are told to the processes below in the environment, which stays this one's.
    with redirect_stdout(out), redirect_stderr(err), argv, patch.dict(os.environ):
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return Done(code, out.getvalue(), err.getvalue())


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def descendants(process: int) -> dict[int, str]:
    """The living processes below this one, with their command lines."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
    found: dict[int, str] = {}
    waiting = [process]
    while waiting:
        parent = waiting.pop()
        for child in [one for one, above in parents.items() if above == parent]:
            try:
                found[child] = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            waiting.append(child)
    return found


KILL = signal.SIGKILL
