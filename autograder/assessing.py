"""One submission from its bytes to a verdict, and what a table says of it: everything but the records.

It needs neither the course's folder nor nbgrader, so that it runs on any machine that has a spec and a
sandbox: the coordinator's, a worker's, an LMS's own container.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import traceback
from dataclasses import dataclass, field
from typing import Literal

from nbformat import NotebookNode
from nbformat.v4 import new_notebook

from autograder.cells import cells_from_spec, cells_of
from autograder.errors import UsageError
from autograder.intake import Intake, parse
from autograder.nodes import node
from autograder.repair import repair
from autograder.runners import Runner
from autograder.spec import Spec
from autograder.verdict import LooksLike, Verdict

# graded: in this run. unchanged: earlier, and nothing has changed since. outdated: earlier, by other
# tests or another grader; it is left as it is until a regrade.
State = Literal["graded", "unchanged", "outdated"]


@dataclass
class Judged:
    """One submission after judgement and before it is written down."""

    student: str
    notebook: NotebookNode
    verdict: Verdict
    notes: list[str] = field(default_factory=list)
    problem: str = ""

    @property
    def told(self) -> list[str]:
        """What is said about the file, for the student."""
        return [self.problem, *self.notes] if self.problem else self.notes

    @property
    def unfinished(self) -> bool:
        """True where the grader itself failed: the next run tries again."""
        tests = [test for tests in self.verdict.tests.values() for test in tests]
        return bool(self.verdict.needs_review) or any(test.outcome == "XX" for test in tests)

    def to_json(self) -> str:
        parts = {"notebook": self.notebook, "notes": self.notes, "problem": self.problem}
        return json.dumps({**parts, "student": self.student, "verdict": self.verdict.to_json()})

    @classmethod
    def from_json(cls, text: str) -> Judged:
        data = json.loads(text)
        notebook = node(data["notebook"])
        verdict = Verdict.from_json(data["verdict"])
        return cls(data["student"], notebook, verdict, data["notes"], data["problem"])


@dataclass(frozen=True)
class Result:
    """One row of the table."""

    student: str
    status: str
    points: float
    max_points: float
    looks_like: LooksLike | None
    notes: tuple[str, ...]
    message: str
    state: State = "graded"


def assess(student: str, taken: Intake, spec: Spec, seed: bytes, runner: Runner) -> Judged:
    """Repair and judge what was taken in of one student. A fault of the grader's own never raises: it
    becomes a case for a person."""
    notes, problem, notebook = list(taken.notes), taken.problem, None
    try:
        if taken.notebook_bytes is not None:
            parsed = parse(taken.notebook_bytes)
            notebook, problem = parsed.notebook, parsed.problem
            notes += parsed.notes
        # What cannot be read is graded like a notebook without an answer, and says so.
        repaired = repair(notebook if notebook is not None else new_notebook(), spec)
        if not problem:
            notes += repaired.notes
        verdict = runner.judge(cells_of(repaired.notebook, spec), seed)
    except Exception:
        return failed(student, spec, "The grader failed: " + traceback.format_exc())
    return Judged(student, repaired.notebook, verdict, notes, problem)


def failed(student: str, spec: Spec, why: str) -> Judged:
    """What is written down of a submission that the grader could not judge."""
    return Judged(student, repair(new_notebook(), spec).notebook, Verdict(needs_review=why))


def seed_of(key: bytes, unit: str, student: str) -> bytes:
    """This student's seed for this unit: the same at every regrade, unknown without the course's key."""
    return hmac.digest(key, f"{unit}\0{student}".encode(), hashlib.sha256)


def check_yourself(spec: Spec, runner: Runner) -> None:
    """Stop unless, on this machine, the reference gets every point and the untouched release none."""
    for reference, name in ((True, "reference solution"), (False, "untouched release")):
        verdict = runner.judge(cells_from_spec(spec, reference), b"check")
        if verdict.needs_review:
            raise UsageError(
                f"The grader's check of itself failed, so nothing was graded. {verdict.needs_review}"
            )
        tests = [test for tests in verdict.tests.values() for test in tests]
        wrong = [test for test in tests if (test.points < test.max_points if reference else test.points > 0)]
        if wrong:
            expected = "every point" if reference else "no point"
            seen = "; ".join(
                f"{test.title!r}: {test.outcome} {_last_line(test.detail)}".strip() for test in wrong
            )
            raise UsageError(
                f"The {name} of {spec.unit} should get {expected} on this machine but does not, so nothing "
                f"was graded. Mend the unit, or this Python's libraries, and grade again. Seen: {seen}."
            )


def result_of(judged: Judged, spec: Spec, state: State = "graded") -> Result:
    """The row of the table for one judged submission. Points are those that the tests give."""
    automatic = sum(cell.points for cell in spec.cells if cell.kind == "test")
    status, message = status_of(judged, automatic)
    return Result(
        student=judged.student,
        status=status,
        points=judged.verdict.total,
        max_points=automatic,
        looks_like=judged.verdict.looks_like,
        notes=tuple(judged.notes),
        message=message,
        state=state,
    )


def status_of(judged: Judged, automatic: float) -> tuple[str, str]:
    """One word or two for the table, and one sentence that its author can use."""
    verdict = judged.verdict
    if verdict.needs_review:
        return "needs review", "The grader could not finish; a person will look at this submission."
    if judged.problem:
        return "unreadable", judged.problem
    if verdict.total >= automatic:
        return "full marks", "Every test passed."
    outcomes = {run.outcome for run in verdict.cells.values()}
    outcomes |= {test.outcome for tests in verdict.tests.values() for test in tests}
    for outcome, status, message in (
        ("TO", "timed out", "Some of your code did not end in time and was stopped."),
        ("ML", "out of memory", "Some of your code needed more memory than it is given."),
        ("OL", "too much output", "Some of your code printed or returned more than is kept."),
        ("SG", "crashed", "Some of your code crashed the Python process."),
    ):
        if outcome in outcomes:
            return status, message
    if verdict.total > 0:
        return "partly right", "Some tests failed; the feedback names them."
    return "no points", "No test passed; the feedback names them."


def _last_line(text: str) -> str:
    return text.strip().splitlines()[-1] if text.strip() else ""
