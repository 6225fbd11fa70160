"""Grading a course's submissions of one unit: what is to be done, who judges it, what is written down.

The coordinator runs no student code and evaluates no test. Each submission is independent; whatever is
wrong with one ends in its own status and message, and the batch goes on. Everything that was judged is in
the journal before it is written down, and everything that is written down is written whole, so a run that
was killed at any moment goes on where it stopped.
"""

from __future__ import annotations

import errno
import queue
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from autograder.assessing import (
    Judged,
    Result,
    assess,
    check_yourself,
    failed,
    result_of,
    seed_of,
)
from autograder.cluster.address import Cluster
from autograder.cluster.coordinator import Submission, judge_on
from autograder.course import Course
from autograder.errors import StoppedError
from autograder.feedback import FeedbackWriter, write_autograded
from autograder.gradebook import GradebookWriter
from autograder.intake import Intake, collect
from autograder.journal import Journal, Key, key_of, no_key
from autograder.runners import Runner
from autograder.spec import Spec

__all__ = ["Grading", "Plan", "Result", "check_yourself", "grade", "seed_of"]

# Once an error of the disk has come up, every later submission would meet it too.
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EFBIG, errno.EIO)
Say = Callable[[str], None]
Judging = Generator[tuple[Key, Judged], None, None]


@dataclass
class Plan:
    """What is to be done for each student."""

    judge: list[str] = field(default_factory=list)
    write: list[str] = field(default_factory=list)  # judged earlier, not written down whole
    unchanged: list[str] = field(default_factory=list)
    outdated: list[str] = field(default_factory=list)  # by other tests or another grader
    keys: dict[str, Key] = field(default_factory=dict)  # of what was handed in, or of what is outdated
    recorded: dict[str, Key] = field(default_factory=dict)  # what the gradebook's scores come from


def grade(
    course: Course,
    spec: Spec,
    students: Sequence[str],
    jobs: int,
    progress: Say | None = None,
    *,
    again: bool = False,
    cluster: Cluster | None = None,
) -> Iterator[Result]:
    """Grade these students' submissions with `jobs` test runners here, or with those of a `cluster`; yield
    each result once it is stored.

    What was graded before and has not changed is not judged again, unless `again` is true. Raises
    `UsageError` when another process is grading or the cluster cannot be used, `StoppedError` when the
    disk, the gradebook or the cluster fails.
    """
    with Grading(course, spec, cluster) as grading:
        if grading.journal.interrupted:
            grading.sweep()
        plan = grading.plan(students, again=again)
        yield from grading.carry_out(plan, jobs, progress or (lambda _: None))


class Grading:
    """One run: it alone holds the journal and the gradebook, from the plan to the last page."""

    def __init__(self, course: Course, spec: Spec, cluster: Cluster | None = None) -> None:
        self.course, self.spec, self.cluster = course, spec, cluster
        self.journal = Journal(course.private)
        self._stack = ExitStack()
        self._course_key = course.key

    def __enter__(self) -> Grading:
        with self._stack as stack:
            stack.enter_context(self.journal)
            self.gradebook = stack.enter_context(GradebookWriter(self.course))
            self.feedback = stack.enter_context(FeedbackWriter(self.course))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.__exit__(*error)  # type: ignore[arg-type]

    def key(self, student: str) -> Key:
        """The key of what this student has handed in now."""
        return key_of(self._taken(student), self.spec, self.seed(student))

    def seed(self, student: str) -> bytes:
        return seed_of(self._course_key, self.spec.unit, student)

    def plan(self, students: Sequence[str], *, again: bool = False, regrade: bool = False) -> Plan:
        """Compare what was handed in with what is stored.

        With `regrade`, what other tests or another grader judged is to be judged anew; with `again`,
        everything is.
        """
        unit = self.spec.unit
        plan, finished = Plan(recorded=self.gradebook.recorded(unit)), self.journal.finished(unit)
        for student in students:
            key, stored = self.key(student), plan.recorded.get(student)
            plan.keys[student] = key
            judged = self.journal.judgement(key.whole)
            if judged is not None and (again or judged.unfinished):
                self.gradebook.forget(unit, student)  # first: what is judged anew must be written anew
                self.journal.forget(unit, student, key.whole)
                judged = None
            if judged is not None:
                whole = stored == key and finished.get(student) == key.whole and self._files_there(student)
                (plan.unchanged if whole else plan.write).append(student)
            elif (
                stored is not None
                and stored.whole != key.whole
                and stored.submission == key.submission
                and not (regrade or again)
                and self.journal.has(stored.whole)
            ):
                plan.outdated.append(student)
                plan.keys[student] = stored
            else:
                plan.judge.append(student)
        return plan

    def carry_out(self, plan: Plan, jobs: int, say: Say) -> Iterator[Result]:
        """Do what the plan says; yield a result for each student."""
        for student in plan.unchanged:
            self._refresh(student)
            yield result_of(self._stored(plan.keys[student]), self.spec, "unchanged")
        for student in plan.outdated:
            yield result_of(self._stored(plan.keys[student]), self.spec, "outdated")
        for student in plan.write:
            key = plan.keys[student]
            judged = self._stored(key)
            self.write_down(key, judged, plan.recorded.get(student) == key)
            yield result_of(judged, self.spec)
        for key, judged in self.judge(plan.judge, jobs, say):
            self.write_down(key, judged)
            yield result_of(judged, self.spec)

    def judge(self, students: Sequence[str], jobs: int, say: Say) -> Iterator[tuple[Key, Judged]]:
        """Judge these submissions, and put each judgement into the journal; nothing else is written."""
        if not students:
            return
        judging = self._on_cluster(students, say) if self.cluster else self._here(students, jobs, say)
        with closing(judging):
            for key, judged in judging:
                self.journal.add(key, self.spec.unit, self.spec, judged)
                yield key, judged

    def _here(self, students: Sequence[str], jobs: int, say: Say) -> Judging:
        runners = [Runner(self.spec) for _ in range(max(1, min(jobs, len(students))))]
        try:
            say("checking the grader itself")
            check_yourself(self.spec, runners[0])
            say(f"sandbox: {runners[0].describe()}")
            yield from self._judge_all(students, runners)
        finally:
            for runner in runners:
                runner.stop()

    def _on_cluster(self, students: Sequence[str], say: Say) -> Judging:
        assert self.cluster is not None
        unread: list[tuple[Key, Judged]] = []

        def submissions() -> Iterator[Submission]:
            for student in students:
                try:
                    yield Submission(student, self._taken(student), self.seed(student))
                except Exception as error:
                    unread.append(self._failed(student, error))

        with closing(judge_on(self.cluster, self.spec, submissions(), say)) as judging:
            for submission, judged in judging:
                yield key_of(submission.taken, self.spec, submission.seed), judged
        yield from unread

    def write_down(self, key: Key, judged: Judged, recorded: bool = False) -> None:
        """Autograded notebook, gradebook (unless it is `recorded` there), feedback and log, in this order.
        The coordinator is the only writer."""
        unit, student = self.spec.unit, judged.student
        with self._disk_errors(student):
            write_autograded(self.course, unit, student, judged.notebook, judged.verdict, judged.told)
            if not recorded:
                timestamp = self.course.timestamp(unit, student)
                self.gradebook.record(unit, student, judged.notebook, judged.verdict, timestamp, key)
            self.feedback.write(unit, student)
            self.course.write_log(unit, student, judged.verdict.to_json())
        self.journal.finish(unit, student, key.whole)

    def sweep(self) -> None:
        """Remove what a killed run may have left half-written beside the files that it meant to replace."""
        unit = self.spec.unit
        for step in (self.course.autograded, self.course.feedback, self.course.private / "logs"):
            for path in step.glob(f"*/{unit}/.{unit}.*"):
                path.unlink(missing_ok=True)

    def _refresh(self, student: str) -> None:
        """Of a result that has not changed, the late penalty may have to change."""
        if self.gradebook.refresh(self.spec.unit, student):
            with self._disk_errors(student):
                self.feedback.write(self.spec.unit, student)

    def _stored(self, key: Key) -> Judged:
        judged = self.journal.judgement(key.whole)
        assert judged is not None, "the plan was made from the journal, which no other process changes"
        return judged

    def _taken(self, student: str) -> Intake:
        return collect(self.course.submitted / student / self.spec.unit, self.spec.unit)

    def _judge_all(self, students: Sequence[str], runners: list[Runner]) -> Iterator[tuple[Key, Judged]]:
        """Judge in threads, one for each runner; yield in the order of completion."""
        waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
        room = threading.Semaphore(4 * len(runners))  # judgements that wait to be written down
        done: queue.SimpleQueue[tuple[Key, Judged]] = queue.SimpleQueue()
        for student in students:
            waiting.put(student)

        def work(runner: Runner) -> None:
            while not runner.stopped:
                try:
                    student = waiting.get_nowait()
                except queue.Empty:
                    return
                while not room.acquire(timeout=1):
                    if runner.stopped:
                        return
                done.put(self._judge_one(student, runner))

        for runner in runners:
            threading.Thread(target=work, args=(runner,), daemon=True).start()
        for _ in students:
            yield done.get()
            room.release()

    def _judge_one(self, student: str, runner: Runner) -> tuple[Key, Judged]:
        try:
            taken, seed = self._taken(student), self.seed(student)
            return key_of(taken, self.spec, seed), assess(student, taken, self.spec, seed, runner)
        except Exception as error:
            return self._failed(student, error)

    def _failed(self, student: str, error: Exception) -> tuple[Key, Judged]:
        why = f"The grader failed: {type(error).__name__}: {error}"
        return no_key(self.spec, student), failed(student, self.spec, why)

    def _files_there(self, student: str) -> bool:
        course, unit = self.course, self.spec.unit
        files = (
            course.notebook_path(course.autograded, student, unit),
            course.notebook_path(course.feedback, student, unit, ".html"),
        )
        return all(path.is_file() and path.stat().st_size for path in files)

    @contextmanager
    def _disk_errors(self, student: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno not in _DISK:
                raise
            where = Path(str(error.filename)).parent if error.filename else self.course.root
            raise StoppedError(
                f"The results of {student} cannot be written in {where}: {error.strerror}. Everything stored"
                " before is safe, and this submission's judgement is in the journal. Make room, or make the"
                " folder writable, and give the same command again: it goes on where it stopped."
            ) from None
