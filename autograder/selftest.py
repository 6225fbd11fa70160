"""`autograder selftest`: does the sandbox hold on this machine?

First what the sandbox says of itself (its layers), then what student code is refused, one thing at a time
(`sandbox.probes`), then whole submissions of the hostile kinds, judged as they would be in a real run. One
thing that gets through, or a right answer that does not, and the verdict is that nothing may be graded here.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import get_args

from autograder.cells import Cell
from autograder.hostile import CANARY, KINDS, SPEC, Kind
from autograder.pace import Pace
from autograder.runners import Runner
from autograder.sandbox.backends import start
from autograder.sandbox.client import SandboxUnavailable
from autograder.sandbox.environment import CHOICES
from autograder.sandbox.layers import Layer
from autograder.sandbox.probes import PROBES, leaks
from autograder.verdict import Outcome, Verdict

PACE = Pace(cell=1.5, part=0.7, after_time_out=0.15, run=10.0)
FAIR_SECONDS = Pace(cell=60.0, part=60.0, run=240.0)  # the right answer may take its time on a busy machine


@dataclass(frozen=True)
class Finding:
    """One thing that was tried."""

    name: str
    held: bool
    detail: str = ""


@dataclass(frozen=True)
class Report:
    """What one back-end is worth on this machine."""

    sandbox: str
    machine: str
    unavailable: str  # why there is no such sandbox here; then nothing else was tried
    layers: tuple[Layer, ...] = ()
    probes: tuple[Finding, ...] = ()
    kinds: tuple[Finding, ...] = ()

    @property
    def got_through(self) -> list[str]:
        return [one.name for one in (*self.probes, *self.kinds) if not one.held]

    @property
    def holds(self) -> bool:
        return not self.unavailable and not self.got_through


def machine() -> str:
    """The machine in short: what a sandbox's strength depends on."""
    user = _user() if hasattr(os, "geteuid") else ""
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return f"{system}, Python {platform.python_version()}{user}"


def _user() -> str:
    return ", as root" if os.geteuid() == 0 else f", as an ordinary user ({os.geteuid()})"


def selftest(name: str, progress: Callable[[str], None] = lambda _: None) -> Report:
    """Try one kind of sandbox (`zygote`, `bwrap`) on this machine."""
    progress(f"{name}: starting a sandbox")
    try:
        layers, refused = _ask(name)
    except SandboxUnavailable as error:
        return Report(name, machine(), str(error))
    probes = tuple(Finding(probe, probe not in refused) for probe in PROBES)
    probes += tuple(Finding(other, False) for other in refused if other not in PROBES)
    if refused:  # hostile code is not run in a sandbox with a hole
        return Report(name, machine(), "", layers, probes)
    return Report(name, machine(), "", layers, probes, tuple(_judge_kinds(name, progress)))


def _ask(name: str) -> tuple[tuple[Layer, ...], list[str]]:
    backend = start(name)
    try:
        sandbox = backend.spawn()
        found = leaks(sandbox)
        sandbox.close()
        return sandbox.layers, found
    finally:
        backend.close()


def _judge_kinds(name: str, progress: Callable[[str], None]) -> Iterator[Finding]:
    fair, harsh = Runner(SPEC, FAIR_SECONDS, sandbox=name), Runner(SPEC, PACE, sandbox=name)
    try:
        progress(f"{name}: a right answer")
        right = fair.judge(_cells(SPEC.cell("answer").source), b"selftest")
        yield Finding("a right answer gets every point", right.total == SPEC.max_points, _told(right))
        for kind in KINDS:
            progress(f"{name}: {kind.name}")
            verdict = (fair if kind.patient else harsh).judge(_cells(kind.source), b"selftest")
            yield Finding(kind.name, _held(kind, verdict), _told(verdict))
    finally:
        fair.close()
        harsh.close()


def _cells(source: str) -> list[Cell]:
    imports = Cell("imports", "student", SPEC.cell("imports").source)
    return [imports, Cell("answer", "student", source), Cell("test-total", "test", "")]


def _held(kind: Kind, verdict: Verdict) -> bool:
    """No point, an outcome that was to be expected, and no word of a hidden test in what a student sees."""
    seen = [str(run.outputs) for run in verdict.cells.values()]
    tests = [test for tests in verdict.tests.values() for test in tests]
    seen += [test.message for test in tests]
    outcomes = {run.outcome for run in verdict.cells.values()} | {test.outcome for test in tests}
    known = outcomes <= set(get_args(Outcome)) - {"XX"}
    return (
        not verdict.needs_review
        and bool(tests)
        and verdict.total == 0
        and known
        and not any(canary in text for text in seen for canary in CANARY)
        and (not kind.ends or bool(outcomes & set(kind.ends)))
    )


def _told(verdict: Verdict) -> str:
    if verdict.needs_review:
        return verdict.needs_review.strip().splitlines()[-1]
    outcomes = [run.outcome for run in verdict.cells.values()]
    outcomes += [test.outcome for tests in verdict.tests.values() for test in tests]
    return f"{verdict.total:g} points, {' '.join(sorted(set(outcomes)))}"


def chosen(name: str) -> tuple[str, ...]:
    """The kinds of sandbox to try."""
    return tuple(kind for kind in CHOICES if kind not in ("auto", "none")) if name == "auto" else (name,)
