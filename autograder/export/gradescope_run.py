"""What grades one submission inside Gradescope's container: /autograder/submission in, results.json out.

A fault of the grader's own leaves no results.json and ends with exit code 1: Gradescope then tells the
instructor that the autograder failed, and the student gets no 0.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from autograder.assessing import assess, check_yourself, seed_of
from autograder.errors import UsageError
from autograder.export.gradescope import results_of
from autograder.files import write_atomically
from autograder.intake import collect
from autograder.runners import Runner
from autograder.sandbox.environment import SANDBOX_VARIABLE
from autograder.spec import Spec


def main(root: Path) -> int:
    """Grade what lies in `root`/submission; return the exit code."""
    results = root / "results" / "results.json"
    results.unlink(missing_ok=True)
    config: dict[str, Any] = json.loads((root / "source" / "config.json").read_text(encoding="utf-8"))
    spec = Spec.from_json((root / "source" / "spec.json").read_text(encoding="utf-8"))
    os.environ[SANDBOX_VARIABLE] = config["sandbox"]
    if config["sandbox"] == "none":
        # Nothing keeps student code from this container's files; what it must not read goes before it comes.
        for name in ("spec.json", "config.json"):
            (root / "source" / name).unlink()
    seed = seed_of(bytes.fromhex(config["key"]), spec.unit, student_of(root / "submission_metadata.json"))
    runner = Runner(spec)
    try:
        check_yourself(spec, runner)
        judged = assess("student", collect(root / "submission", spec.unit), spec, seed, runner)
    except UsageError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        runner.stop()
    if judged.unfinished:
        print(f"The grader could not finish: {judged.verdict.needs_review}", file=sys.stderr)
        return 1
    results.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(results_of(judged, spec), indent=1)
    write_atomically(results, text.encode("utf-8", "replace"), 0o644)
    return 0


def student_of(metadata: Path) -> str:
    """Who handed in: the same test inputs at every attempt. A group gets the inputs of its first name."""
    try:
        users = json.loads(metadata.read_text(encoding="utf-8"))["users"]
        return min(str(user.get("email") or user.get("id") or "") for user in users)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ""


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "/autograder")))
