"""Tier 2: a trusted process that holds one assignment's hidden tests and judges submissions with them.

Run as `python -I -m autograder.runner`. It reads JSON lines from its standard input, the first a spec,
the others jobs, and writes one JSON line for each: {"ready": ...} and then verdicts. It never opens the
gradebook, never imports nbgrader, and never runs student code: the sandboxes that it asks for do.
"""

from __future__ import annotations

import json
import resource
import sys
import traceback
from typing import Any

from autograder.cells import Cell
from autograder.judging import Judge
from autograder.sandbox.client import SandboxUnavailable, ZygoteBackend
from autograder.spec import Spec
from autograder.verdict import Verdict

MEMORY_GB = 6


def main() -> None:
    answers = sys.stdout
    sys.stdout = sys.stderr  # a print in a test cell must not become an answer
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_GB << 30, MEMORY_GB << 30))

    def answer(data: dict[str, Any]) -> None:
        answers.write(json.dumps(data) + "\n")
        answers.flush()

    spec = Spec.from_json(sys.stdin.readline())
    try:
        backend = ZygoteBackend()
    except SandboxUnavailable as error:
        answer({"unavailable": str(error)})
        return
    answer({"ready": backend.name})
    judge = Judge(spec, backend)
    for line in sys.stdin:
        job = json.loads(line)
        try:
            verdict = judge.judge([Cell(**cell) for cell in job["cells"]], bytes.fromhex(job["seed"]))
        except Exception:
            verdict = Verdict(needs_review="The grader failed: " + traceback.format_exc())
        answer({"verdict": verdict.to_json()})
    backend.close()


if __name__ == "__main__":
    main()
