"""Tier 2: a trusted process that holds one assignment's hidden tests and judges submissions with them.

Run as `python -I -m autograder.runner [PACE]`, PACE being JSON. It reads JSON lines from its standard
input, the first a spec, the others jobs, and writes one JSON line for each: {"ready": ...} and then
verdicts. It never opens the gradebook, never imports nbgrader, and never runs student code: the sandboxes
that it asks for do. AUTOGRADER_SANDBOX names their kind (see `sandbox.backends`).
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
import time
import traceback
from typing import Any

from autograder.cells import Cell
from autograder.judging import Judge, Pace
from autograder.sandbox.backends import choose
from autograder.sandbox.client import BackendLost, SandboxUnavailable
from autograder.sandbox.environment import SANDBOX_VARIABLE
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

    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    spec = Spec.from_json(sys.stdin.readline())
    pace = Pace(**json.loads(sys.argv[1])) if len(sys.argv) > 1 else None
    try:
        backend = choose(os.environ.get(SANDBOX_VARIABLE) or "auto")
        layers = backend.layers
    except SandboxUnavailable as error:
        answer({"unavailable": str(error)})
        return
    answer({"ready": backend.name, "layers": [layer.to_node() for layer in layers]})
    judge = Judge(spec, backend, pace)
    for line in sys.stdin:
        answer({"verdict": judged(judge, json.loads(line)).to_json()})
    backend.close()


def end_with(parent: int) -> None:
    """End when the coordinator does, also when it was killed while a student's endless loop runs here. The
    zygote then hears nothing more from this process, and ends with all that it has forked."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def judged(judge: Judge, job: dict[str, Any]) -> Verdict:
    """The verdict on one submission. A sandbox that cannot be made, or whose parent is lost, is a fault
    of the grader's: once more."""
    cells, seed = [Cell(**cell) for cell in job["cells"]], bytes.fromhex(job["seed"])
    reason = ""
    for _ in range(2):
        try:
            return judge.judge(cells, seed)
        except (BackendLost, SandboxUnavailable) as error:
            reason = str(error)
        except Exception:
            reason = traceback.format_exc()
            break
    return Verdict(needs_review=f"The grader failed: {reason}")


if __name__ == "__main__":
    main()
