"""Grading a course's submissions of one unit: intake, repair, judgement, records.

The coordinator runs no student code and evaluates no test. Each submission is independent; whatever is
wrong with one ends in its own status and message, and the batch goes on.
"""

from __future__ import annotations

import hashlib
import hmac
import queue
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from nbformat import NotebookNode
from nbformat.v4 import new_notebook

from autograder.cells import cells_from_spec, cells_of
from autograder.course import Course
from autograder.errors import UsageError
from autograder.feedback import FeedbackWriter, write_autograded
from autograder.gradebook import GradebookWriter
from autograder.intake import collect, parse
from autograder.repair import repair
from autograder.runners import Runner
from autograder.spec import Spec
from autograder.verdict import LooksLike, Verdict


@dataclass
class Judged:
    """One submission after judgement and before it is written down."""

    student: str
    notebook: NotebookNode
    verdict: Verdict
    notes: list[str] = field(default_factory=list)
    problem: str = ""


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


def judge_submission(course: Course, spec: Spec, student: str, runner: Runner) -> Judged:
    """Take in, repair and judge what one student handed in."""
    taken = collect(course.submitted / student / spec.unit, spec.unit)
    notes, problem, notebook = list(taken.notes), taken.problem, None
    if taken.notebook_bytes is not None:
        parsed = parse(taken.notebook_bytes)
        notebook, problem = parsed.notebook, parsed.problem
        notes += parsed.notes
    # What cannot be read is graded like a notebook without an answer, and says so.
    repaired = repair(notebook if notebook is not None else new_notebook(), spec)
    if not problem:
        notes += repaired.notes
    verdict = runner.judge(cells_of(repaired.notebook, spec), seed_of(course.key, spec.unit, student))
    return Judged(student, repaired.notebook, verdict, notes, problem)


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
                f"{test.title!r}: {test.outcome} {last_line(test.detail)}".strip() for test in wrong
            )
            raise UsageError(
                f"The {name} of {spec.unit} should get {expected} on this machine but does not, so nothing "
                f"was graded. Mend the unit, or this Python's libraries, and grade again. Seen: {seen}."
            )


def last_line(text: str) -> str:
    return text.strip().splitlines()[-1] if text.strip() else ""


def grade(
    course: Course,
    spec: Spec,
    students: Sequence[str],
    jobs: int,
    progress: Callable[[str], None] | None = None,
) -> Iterator[Result]:
    """Grade these students' submissions with `jobs` test runners; yield each result once it is stored."""
    say = progress or (lambda _: None)
    runners = [Runner(spec) for _ in range(max(1, min(jobs, len(students))))]
    try:
        say("checking the grader itself")
        check_yourself(spec, runners[0])
        yield from _write_down(course, spec, _judge_all(course, spec, students, runners))
    finally:
        for runner in runners:
            runner.close()


def _judge_all(
    course: Course, spec: Spec, students: Sequence[str], runners: list[Runner]
) -> Iterator[Judged]:
    """Judge in threads, one for each runner; yield in the order of completion."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    done: queue.SimpleQueue[Judged] = queue.SimpleQueue()
    for student in students:
        waiting.put(student)

    def work(runner: Runner) -> None:
        while True:
            try:
                student = waiting.get_nowait()
            except queue.Empty:
                return
            done.put(_never_stop(course, spec, student, runner))

    for runner in runners:
        threading.Thread(target=work, args=(runner,), daemon=True).start()
    for _ in students:
        yield done.get()


def _never_stop(course: Course, spec: Spec, student: str, runner: Runner) -> Judged:
    """Judge one submission; a fault of the grader's own becomes a case for manual review."""
    try:
        return judge_submission(course, spec, student, runner)
    except Exception:
        empty = repair(new_notebook(), spec).notebook
        return Judged(student, empty, Verdict(needs_review="The grader failed: " + traceback.format_exc()))


def _write_down(course: Course, spec: Spec, judged: Iterator[Judged]) -> Iterator[Result]:
    """Write autograded notebook, gradebook rows and feedback; the coordinator is the only writer."""
    with GradebookWriter(course) as gradebook, FeedbackWriter(course) as feedback:
        for one in judged:
            notes = [one.problem, *one.notes] if one.problem else one.notes
            write_autograded(course, spec.unit, one.student, one.notebook, one.verdict, notes)
            timestamp = course.timestamp(spec.unit, one.student)
            gradebook.record(spec.unit, one.student, one.notebook, one.verdict, timestamp)
            feedback.write(spec.unit, one.student)
            course.write_log(spec.unit, one.student, one.verdict.to_json())
            yield result_of(one, spec)


def result_of(judged: Judged, spec: Spec) -> Result:
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
