"""Judging one submission: student cells go to a sandbox, test cells run here against proxies.

A test cell is executed unchanged, part by part. A name in it is looked up first among what test cells
and the author's imports defined here, then in the sandbox. So `np` is always the author's NumPy, and
`softmax` is a proxy of the student's.

A submission is run twice, in two sandboxes. The open one meets the visible tests only, and everything
that a student is shown comes from it. The closed one meets the hidden tests, and nothing but an outcome
comes from it: code that remembers a hidden input has no place left to print it.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import signal
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

from autograder.cells import Cell, without_shows
from autograder.likeness import Bank
from autograder.pace import Pace
from autograder.sandbox.client import Backend, Call, Sandbox, SandboxDied, SandboxUnavailable
from autograder.sandbox.proxy import StudentRaised, built_in_name
from autograder.spec import Spec, SpecCell
from autograder.verdict import CellRun, LooksLike, Outcome, Subtest, Verdict
from minitx.course import check, quiz
from minitx.course.subtests import Part, split_cell

RERUNS = 3  # in one run, of what died for no reason that is seen; each cell or test at most once


@dataclass(frozen=True)
class Failure:
    outcome: Outcome
    message: str  # free of anything that a hidden test could have let out
    shown: str = ""  # more, for the author of the submission, when the test is a visible one
    detail: str = ""  # everything, for the instructor
    belief: str = ""  # of the wrong option that was chosen, where the test is of a question
    unexplained: bool = False  # the sandbox was killed, perhaps from outside


class OutOfTime(BaseException):
    """A test cell itself ran past its time; no `Exception`, so that no test catches it."""


class NotDefined(NameError):
    """A test asks for a name that the submission does not define."""


class Judge:
    """Judges submissions of one assignment, one after the other."""

    def __init__(self, spec: Spec, backend: Backend, pace: Pace | None = None) -> None:
        self.spec = spec
        self.backend = backend
        self.pace = pace or Pace()
        self.imports = imports_of(spec)
        self.parts = {cell.grade_id: split_cell(cell) for cell in spec.cells if cell.kind == "test"}
        self.bank = Bank(spec, self.imports)

    def judge(self, cells: list[Cell], seed: bytes) -> Verdict:
        """Judge one submission's cells, in order; `seed` makes the inputs that this student gets."""
        check.use_key(seed)
        start = time.monotonic()
        opened, closed = Run(self, hidden=False), Run(self, hidden=True)
        try:
            useful = without_shows(cells, self.spec)
            opened.through(useful)
            closed.pace = opened.pace
            closed.through([cell for cell in useful if cell.kind == "test" or opened.worked_in(cell)])
        finally:
            opened.close()
            closed.close()
        verdict = Verdict(cells=opened.cells)
        for cell in cells:
            if cell.kind == "test":
                parts = self.parts[cell.id].parts
                verdict.tests[cell.id] = [
                    (closed if part.hidden else opened).marks[cell.id, part.title] for part in parts
                ]
        verdict.looks_like = self._looks_like(opened.calls + closed.calls, verdict)
        verdict.seconds = time.monotonic() - start
        return verdict

    def _looks_like(self, calls: list[Call], verdict: Verdict) -> LooksLike | None:
        failed = [test for tests in verdict.tests.values() for test in tests if test.outcome != "OK"]
        if not failed:
            return None
        return self.bank.recognise(calls) or self.bank.chosen(failed) or self.bank.suggested(failed, calls)


class Run:
    """One way through a submission, with a sandbox of its own and the visible or the hidden tests."""

    def __init__(self, judge: Judge, hidden: bool) -> None:
        self.judge = judge
        self.hidden = hidden
        self.pace = judge.pace
        self.end = time.monotonic() + self.pace.run
        self.cells: dict[str, CellRun] = {}
        self.marks: dict[tuple[str, str], Subtest] = {}
        self.replay: list[str] = []
        self.calls: list[Call] = []
        self.fatal: set[str] = set()  # cells in which the sandbox died
        self.reruns = 0
        self.sandbox: Sandbox = judge.backend.spawn()
        self.names = Names(self)
        exec(judge.imports, self.names)

    def through(self, cells: list[Cell]) -> None:
        """Take the cells in order."""
        self.end = time.monotonic() + self.pace.run
        for cell in cells:
            if cell.kind == "test":
                self.test(self.judge.spec.cell(cell.id))
            else:
                self.student_cell(cell)

    def worked_in(self, cell: Cell) -> bool:
        ended = self.cells[cell.id].outcome if cell.id in self.cells else "XX"
        return ended in ("OK", "RE", "OL") and cell.id not in self.fatal

    def student_cell(self, cell: Cell) -> None:
        """Run one cell in the sandbox. Unless the sandbox dies of it, a later sandbox will run it again."""
        death, outcome, outputs = self._run_cell(cell)
        if self._once_more(death):
            death, outcome, outputs = self._run_cell(cell)
        if death is not None:
            self.fatal.add(cell.id)
        self.cells[cell.id] = CellRun(outcome, outputs)
        if self.worked_in(cell):
            self.replay.append(cell.source)

    def test(self, cell: SpecCell) -> None:
        """Run this run's parts of a test cell. A failed set-up fails them all, a failed part itself."""
        parts = self.judge.parts[cell.grade_id]
        mine = [part for part in parts.parts if part.hidden == self.hidden]
        if not mine:
            return
        failed = self._set_up(parts.setup, cell)
        if self._once_more(failed):
            failed = self._set_up(parts.setup, cell)
        for part in mine:
            failure = failed or self._part(part, cell)
            if not failed and self._once_more(failure):
                # In a new sandbox: what the set-up made in the old one is gone.
                failure = self._set_up(parts.setup, cell) or self._part(part, cell)
            self.marks[cell.grade_id, part.title] = mark(part, failure)

    def lookup(self, name: str) -> Any:
        """What the submission calls `name`."""
        try:
            return self.sandbox.get(name)
        except StudentRaised as error:
            raise NotDefined(
                f"{name} is not defined: the cell that defines it is missing or raised an error"
            ) from error

    def close(self) -> None:
        self._collect()
        self.sandbox.close()

    def _run_cell(self, cell: Cell) -> tuple[SandboxDied | None, Outcome, list[dict[str, Any]]]:
        try:
            return None, *self._alive(self.pace.cell).run_cell(cell.source)
        except SandboxDied as death:
            self._note_death(death)
            return death, death.outcome, [_error_output(death)]

    def _once_more(self, death: SandboxDied | Failure | None) -> bool:
        """Whether to try again what died. A process that the machine or its operator killed is nobody's
        wrong answer; one that ends by its own doing ends a second time."""
        if death is None or not death.unexplained or self.reruns == RERUNS:
            return False
        self.reruns += 1
        return True

    def _set_up(self, source: str, cell: SpecCell) -> Failure | None:
        return self._run(source, f"{cell.grade_id}, set-up") if source.strip() else None

    def _part(self, part: Part, cell: SpecCell) -> Failure | None:
        return self._run("\n" * (part.first_line - 1) + part.code, cell.grade_id)

    def _run(self, source: str, label: str) -> Failure | None:
        """Run trusted code against the sandbox; None when it raised nothing."""
        filename = f"<test {label}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
        try:
            self._alive(self.pace.part)
            with alarm(self.pace.part + 1):
                exec(compile(source, filename, "exec"), self.names)
        except SandboxDied as death:
            self._note_death(death)
            return Failure(death.outcome, death.message, unexplained=death.unexplained)
        except SandboxUnavailable:
            raise  # the grader's own fault, never a wrong answer
        except OutOfTime:
            return Failure("TO", "the test took too long with what your code returned")
        except NotDefined as error:
            return Failure("RE", str(error))
        except StudentRaised as error:
            kind = built_in_name(error)
            return Failure("RE", f"your code raised {kind}", f": {error.text}", traceback.format_exc())
        except Exception as error:
            belief = error.belief if isinstance(error, quiz.WrongChoice) else ""
            return Failure("WA", "", str(error) or type(error).__name__, traceback.format_exc(), belief)
        return None

    def _alive(self, seconds: float) -> Sandbox:
        """The sandbox with its clock set; a new one, with the same cells run again, if the last one died."""
        if self.sandbox.dead is not None:
            self._collect()
            self.sandbox = self.judge.backend.spawn()
            self.sandbox.deadline = min(time.monotonic() + self.pace.cell, self.end)
            for source in self.replay:
                self.sandbox.run_cell(source)
        self.sandbox.deadline = min(time.monotonic() + seconds, self.end)
        return self.sandbox

    def _note_death(self, death: SandboxDied) -> None:
        """Lose patience: an endless loop is met again in every test of the same function."""
        if death.outcome == "TO":
            short = self.pace.after_time_out
            self.pace = replace(self.pace, cell=max(short, self.pace.cell / 10), part=short)

    def _collect(self) -> None:
        self.calls += self.sandbox.log
        self.sandbox.log = []


class Names(dict[str, Any]):
    """The namespace of test cells: what is not defined here is asked of the sandbox."""

    def __init__(self, run: Run) -> None:
        super().__init__(__builtins__=builtins, __name__="__main__")
        self.run = run

    def __missing__(self, name: str) -> Any:
        if hasattr(builtins, name):
            raise KeyError(name)  # Python then looks among the built-in names
        return self.run.lookup(name)


def mark(part: Part, failure: Failure | None) -> Subtest:
    """The mark of one part. Of a hidden part the student learns neither assertion nor error text."""
    if failure is None:
        return Subtest(part.title, "OK", part.points, part.points, part.hidden)
    return Subtest(
        title=part.title,
        outcome=failure.outcome,
        points=0.0,
        max_points=part.points,
        hidden=part.hidden,
        hint=part.hint,
        belief=failure.belief or part.belief,
        message=failure.message if part.hidden else failure.message + failure.shown,
        detail=failure.detail or failure.message,
    )


def imports_of(spec: Spec) -> CodeType:
    """The import statements of the author's own cells, compiled: test cells rely on them."""
    found: list[ast.stmt] = []
    for cell in spec.cells:
        if cell.cell_type == "code" and cell.kind in ("provided", "solution"):
            body = ast.parse(_without_magics(cell.source)).body
            found += [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    return compile(ast.Module(found, []), "<the author's imports>", "exec")


def _without_magics(source: str) -> str:
    return "\n".join("" if line.lstrip().startswith(("%", "!")) else line for line in source.splitlines())


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` here after so long, for a test cell that loops over what student code gave it."""

    def ring(*unused: object) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _error_output(death: SandboxDied) -> dict[str, Any]:
    return {
        "output_type": "error",
        "ename": {"TO": "TimeOut", "ML": "OutOfMemory", "OL": "TooMuchOutput"}.get(
            death.outcome, "SandboxEnded"
        ),
        "evalue": death.message,
        "traceback": [death.message],
    }
