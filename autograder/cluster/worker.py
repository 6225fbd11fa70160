"""What runs on a worker of the cluster: the same judgement as on the coordinator's own machine.

Dask calls `judge` in the worker's process, which holds no student code either: it asks a test runner, a
process of its own, and that asks a sandbox (see `autograder.runner`). A worker opens neither the course
nor the gradebook. Before its first judgement a runner proves itself, as `--jobs` does: the reference
solution must get every point, and the untouched release none.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autograder.assessing import assess, check_yourself
from autograder.cluster.messages import pack_described, pack_judged, pack_refusal, unpack_job
from autograder.errors import UsageError
from autograder.journal import environment, grader_digest
from autograder.runners import Runner
from autograder.spec import Spec

IDLE_SECONDS = 60.0  # a runner holds hidden tests; without work it ends


def identity() -> dict[str, str]:
    """What must be equal on coordinator and workers, or a score would depend on where it was made."""
    here = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        here.update(path.read_bytes())
    python, machine, numpy = environment()
    return {
        "autograder": hashlib.sha256((grader_digest() + here.hexdigest()).encode()).hexdigest()[:12],
        "Python": python,
        "machine": machine,
        "NumPy": numpy,
        "distributed": importlib.metadata.version("distributed"),
    }


def differences(theirs: dict[str, str], ours: dict[str, str]) -> str:
    """In words, what `theirs` has otherwise than the coordinator's `ours`; empty when nothing."""
    return "; ".join(
        f"{name} is {theirs.get(name, 'not there')}, the coordinator's is {value}"
        for name, value in ours.items()
        if theirs.get(name) != value
    )


def judge(job: bytes, spec: bytes, coordinator: dict[str, str], sandbox: str) -> bytes:
    """One submission (see `messages`) to its judgement, or to the reason why this worker does not judge."""
    taken, seed = unpack_job(job)
    try:
        with pool.runner(spec, coordinator, sandbox) as runner:
            return pack_judged(assess("", taken, runner.spec, seed, runner))
    except UsageError as error:
        return pack_refusal(str(error))


def prove(spec: bytes, coordinator: dict[str, str], sandbox: str) -> bytes:
    """Have a runner ready that has proved itself; tell of its sandbox, or why there is none."""
    try:
        with pool.runner(spec, coordinator, sandbox) as runner:
            return pack_described(runner.describe())
    except UsageError as error:
        return pack_refusal(str(error))


class Pool:
    """This worker's runners that have proved themselves: as many as Dask gives it tasks at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[tuple[str, str], list[tuple[float, Runner]]] = {}
        self._sweeper: threading.Timer | None = None

    @contextmanager
    def runner(self, spec: bytes, coordinator: dict[str, str], sandbox: str) -> Iterator[Runner]:
        """A runner for this spec, nobody else's for as long. Raises `UsageError` where none may judge."""
        other = differences(identity(), coordinator)
        if other:
            raise UsageError(f"its software is not the coordinator's: {other}")
        key = (hashlib.sha256(spec).hexdigest(), sandbox)
        runner = self._take(key) or _proved(Spec.from_json(spec.decode()), sandbox)
        try:
            yield runner
        finally:
            self._give_back(key, runner)

    def close_idle(self, seconds: float) -> None:
        """End the runners that have had no work for so long."""
        with self._lock:
            old = time.monotonic() - seconds
            for waiting in self._idle.values():
                for since, runner in [one for one in waiting if one[0] <= old]:
                    waiting.remove((since, runner))
                    runner.stop()
            self._sweeper = None
            if any(self._idle.values()):
                self._sweep_later()

    def _take(self, key: tuple[str, str]) -> Runner | None:
        with self._lock:
            waiting = self._idle.get(key)
            return waiting.pop()[1] if waiting else None

    def _give_back(self, key: tuple[str, str], runner: Runner) -> None:
        with self._lock:
            self._idle.setdefault(key, []).append((time.monotonic(), runner))
            self._sweep_later()

    def _sweep_later(self) -> None:
        if self._sweeper is None:
            self._sweeper = threading.Timer(IDLE_SECONDS, self.close_idle, (IDLE_SECONDS,))
            self._sweeper.daemon = True
            self._sweeper.start()


def _proved(spec: Spec, sandbox: str) -> Runner:
    runner = Runner(spec, sandbox=sandbox)
    try:
        check_yourself(spec, runner)
    except BaseException:
        runner.stop()
        raise
    return runner


pool = Pool()
