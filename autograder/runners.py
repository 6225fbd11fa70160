"""The coordinator's hold on its test runners: start them, hand them submissions, survive their death."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from autograder.cells import Cell
from autograder.errors import UsageError
from autograder.pace import Pace
from autograder.sandbox.environment import SANDBOX_VARIABLE
from autograder.sandbox.layers import Layer, from_nodes, in_short
from autograder.spec import Spec
from autograder.verdict import Verdict

START_SECONDS = 90.0
JUDGE_SECONDS = 300.0  # the runner itself stops a submission long before this


class RunnerLost(RuntimeError):
    """A runner died or no longer answers: a fault of the grader's, never of a submission's."""


class Runner:
    """One test runner process. It is started on the first use and again after a loss."""

    def __init__(self, spec: Spec, pace: Pace | None = None, sandbox: str = "") -> None:
        self.spec = spec
        self.pace = pace
        self.sandbox = sandbox  # its kind; by default what the environment says
        self.process: subprocess.Popen[bytes] | None = None
        self.backend = ""
        self.layers: tuple[Layer, ...] = ()
        self.stopped = False
        self.errors = tempfile.TemporaryFile()  # what the runner and the tests print

    def judge(self, cells: Sequence[Cell], seed: bytes) -> Verdict:
        """The verdict on one submission. A runner that is lost twice leaves it to a person."""
        line = json.dumps({"cells": [asdict(cell) for cell in cells], "seed": seed.hex()})
        reason = "the run was stopped"
        for _ in range(2):
            if self.stopped:
                break
            try:
                self.start()
                return Verdict.from_json(self._ask(line, JUDGE_SECONDS)["verdict"])
            except RunnerLost as error:
                reason = str(error)
                self.close()
        return Verdict(needs_review=f"The grader could not judge this submission: {reason}.")

    def start(self) -> None:
        """Start the process, if it is not running, and give it the spec."""
        if self.process is not None:
            return
        pace = [json.dumps(asdict(self.pace))] if self.pace else []
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-m", "autograder.runner", *pace],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env={**os.environ, SANDBOX_VARIABLE: self.sandbox} if self.sandbox else None,
            cwd="/",
        )
        answer = self._ask(self.spec.to_json(), START_SECONDS)
        if "unavailable" in answer:
            self.close()
            raise UsageError(answer["unavailable"])
        self.backend, self.layers = answer["ready"], from_nodes(answer["layers"])

    def describe(self) -> str:
        """The kind of sandbox in use and what holds in it, for one line of a terminal."""
        return f"{self.backend} ({in_short(self.layers)})"

    def stop(self) -> None:
        """End for good, also where another thread is waiting for an answer."""
        self.stopped = True
        self.close()

    def close(self) -> None:
        """End the process; its zygote and sandboxes end with it."""
        if self.process is None:
            return
        process, self.process = self.process, None
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _ask(self, line: str, seconds: float) -> dict[str, Any]:
        assert self.process is not None and self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise RunnerLost(self._last_words()) from error
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(seconds):
                raise RunnerLost(f"the test runner did not answer within {seconds:.0f} seconds")
        answer = self.process.stdout.readline()
        if not answer.endswith(b"\n"):
            raise RunnerLost(self._last_words())
        return json.loads(answer)

    def _last_words(self) -> str:
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return f"the test runner ended ({lines[-1]})" if lines else "the test runner ended"


def default_jobs() -> int:
    """One runner for each processor that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
