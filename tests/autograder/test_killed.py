"""A sandbox that something outside kills: not the submission's fault, as long as it does not happen again.

The kernel, short of memory, kills whom it likes; so may an operator. A death by SIGKILL that no limit of
the submission's explains is tried once more. What dies by its own doing dies then, too.
"""

import os
import signal
import threading
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from autograder.cells import Cell
from autograder.judging import RERUNS, Judge
from autograder.release import build
from autograder.runner import judged
from autograder.sandbox import backends
from autograder.sandbox.client import Ending, SandboxDied, SandboxUnavailable

UNIT = Path(__file__).parent / "hostile" / "unit" / "guarded"
NAP = "import time\ntime.sleep(1.5)\n"
HANG_UP = "import os\nos.closerange(3, 64)\nwhile True: pass\n"


@pytest.fixture(scope="module")
def built():
    return build(UNIT)


@pytest.fixture
def zygote():
    backend = backends.start("zygote")
    yield backend
    backend.close()


def cells(built, *, before="", inside=""):
    """The right answer, with a line before it or in each of its functions."""
    source = built.spec.cell("answer").source.replace(":\n    ", f":\n    {inside}", 1) if inside else ""
    source = before + (source or built.spec.cell("answer").source)
    return [
        Cell("imports", "student", built.spec.cell("imports").source),
        Cell("answer", "student", source),
        *(Cell(name, "test", "") for name in ("test-total", "test-scaled")),
    ]


class Killer(threading.Thread):
    """Kills the zygote's sandboxes, the first `times` of them, a while after each has begun to sleep."""

    def __init__(self, zygote, times):
        super().__init__(daemon=True)
        self.zygote, self.times, self.killed = zygote, times, []
        self.start()

    def run(self):
        children = Path(f"/proc/{self.zygote.process.pid}/task/{self.zygote.process.pid}/children")
        end = time.monotonic() + 60
        while len(self.killed) < self.times and time.monotonic() < end:
            if not children.exists():
                return  # the zygote has ended
            for pid in map(int, children.read_text().split()):
                if pid not in self.killed and asleep(pid):
                    os.kill(pid, signal.SIGKILL)
                    self.killed.append(pid)
                    break
            time.sleep(0.01)


@pytest.mark.parametrize("ends", ["import os; os._exit(0)", HANG_UP], ids=["exit", "hang-up"])
def test_a_cell_in_which_the_process_ended_does_not_end_every_later_one(built, zygote, ends):
    """It is not run again for the tests of another cell."""
    more = Cell("more", "student", ends)
    verdict = Judge(built.spec, zygote).judge([*cells(built)[:2], more, *cells(built)[2:]], b"k")
    assert verdict.cells["more"].outcome == "RE"
    assert verdict.total == 7


def asleep(pid):
    """Whether the process is in time.sleep, as far as the kernel tells."""
    try:
        return "nanosleep" in Path(f"/proc/{pid}/wchan").read_text()
    except OSError:
        return False


def test_a_cell_whose_sandbox_was_killed_from_outside_is_run_again(built, zygote):
    killer = Killer(zygote, times=1)
    verdict = Judge(built.spec, zygote).judge(cells(built, before=NAP), b"k")
    assert len(killer.killed) == 1
    assert verdict.cells["answer"].outcome == "OK"
    assert verdict.total == 7


def test_a_test_whose_sandbox_was_killed_from_outside_is_run_again(built, zygote):
    killer = Killer(zygote, times=1)
    verdict = Judge(built.spec, zygote).judge(cells(built, inside=NAP.replace("\n", "; ")), b"k")
    assert len(killer.killed) == 1
    outcomes = [test.outcome for tests in verdict.tests.values() for test in tests]
    assert outcomes == ["OK"] * len(outcomes)


@pytest.mark.parametrize("where", ["before", "inside"])
def test_a_submission_that_ends_itself_is_run_once_more_and_then_it_is_its_own_doing(built, zygote, where):
    spawned = counting(zygote)
    source = HANG_UP if where == "before" else "import os; os.closerange(3, 64)\n    "
    verdict = Judge(built.spec, zygote).judge(cells(built, **{where: source}), b"k")
    assert verdict.total < 7
    assert verdict.needs_review == ""
    outcomes = {run.outcome for run in verdict.cells.values()}
    outcomes |= {test.outcome for tests in verdict.tests.values() for test in tests}
    assert "RE" in outcomes
    tests = sum(len(tests) for tests in verdict.tests.values())
    assert len(spawned) <= 2 + tests + 2 * RERUNS


def test_a_submission_that_kills_its_own_process_is_no_different(built):
    """Where student code has no process namespace of its own, a signal to itself does arrive."""
    backend = backends.start("none")
    spawned = counting(backend)
    source = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
    verdict = Judge(built.spec, backend).judge(cells(built, before=source), b"k")
    backend.close()
    assert verdict.cells["answer"].outcome == "RE"
    assert verdict.total == 0
    assert len(spawned) == 4, "two runs; once more what died, and one for what comes after it"


def test_there_is_an_end_to_it(built, zygote):
    """A hundred tests that end the process each would otherwise run two hundred times."""
    killer = Killer(zygote, times=100)
    spawned = counting(zygote)
    many = [
        *cells(built)[:1],
        *(Cell(f"nap-{number}", "student", NAP) for number in range(5)),
        *cells(built)[2:],
    ]
    verdict = Judge(built.spec, zygote).judge(many, b"k")
    outcomes = [verdict.cells[f"nap-{number}"].outcome for number in range(5)]
    assert outcomes == ["RE"] * 5
    assert len(killer.killed) == 5 + RERUNS
    assert len(spawned) < 20


def counting(backend):
    """Every sandbox that the back-end makes from now on."""
    made, spawn = [], backend.spawn

    def counted():
        made.append(spawn())
        return made[-1]

    backend.spawn = counted
    return made


# ---- which deaths explain themselves


@pytest.mark.parametrize(
    ("ending", "outcome", "unexplained"),
    [
        (Ending(9, 50_000, 1.0), "RE", True),
        (Ending(9, 50_000, 299.5), "TO", False),
        (Ending(9, 900_000, 1.0, out_of_memory=True), "ML", False),
        (Ending(9, 900_000, 1.0), "ML", False),
        (Ending(9, 50_000, 1.0, out_of_memory=True), "ML", True),  # the machine's memory, not the job's
        (Ending(3 << 8, 50_000, 1.0), "RE", False),
        (Ending(11, 50_000, 1.0), "SG", False),
        (Ending(6, 50_000, 1.0), "SG", False),
    ],
)
def test_a_death_is_unexplained_only_where_no_limit_and_no_crash_of_its_own_accounts_for_it(
    zygote, monkeypatch, ending, outcome, unexplained
):
    sandbox = zygote.spawn()
    sandbox.deadline = time.monotonic() + 20
    true_end = zygote.end_of
    monkeypatch.setattr(zygote, "end_of", lambda job: true_end(job) and ending)
    with pytest.raises(SandboxDied) as death:
        sandbox.run_cell("import os; os._exit(0)")
    assert (death.value.outcome, death.value.unexplained) == (outcome, unexplained)


def test_a_time_out_of_ours_is_explained(zygote):
    sandbox = zygote.spawn()
    sandbox.deadline = time.monotonic() + 1
    with pytest.raises(SandboxDied) as death:
        sandbox.run_cell("while True: pass")
    assert not death.value.unexplained


@pytest.mark.parametrize(("lost", "review"), [({3}, False), ({3, 6}, True)])
def test_a_sandbox_that_is_killed_before_it_is_ready_is_the_grader_s_own_fault(
    built, zygote, monkeypatch, lost, review
):
    """Never a wrong answer of the student's: judged once more, and then a person looks. The third and the
    sixth sandbox are those in the place of one that the submission ended."""
    spawn, count = zygote.spawn, []

    def spawned():
        count.append(1)
        if len(count) in lost:
            raise SandboxUnavailable("A sandbox process ended before it was ready.")
        return spawn()

    monkeypatch.setattr(zygote, "spawn", spawned)
    submission = cells(built, inside="import os; os._exit(0)\n    ")
    verdict = judged(
        Judge(built.spec, zygote), {"cells": [asdict(cell) for cell in submission], "seed": b"k".hex()}
    )
    assert ("before it was ready" in verdict.needs_review) == review
    assert review or verdict.total == 3
