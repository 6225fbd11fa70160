"""What a student is told about a test: in words, without anything that a hidden test consists of."""

from __future__ import annotations

from autograder.spec import Spec
from autograder.verdict import Subtest

STATUS = {
    "OK": "passed",
    "WA": "wrong answer",
    "RE": "your code raised an error",
    "TO": "too slow",
    "ML": "out of memory",
    "OL": "too much output",
    "SG": "crashed",
    "XX": "not graded yet",
}
NOT_GRADED = "The grader could not finish this test. A person will look at it."


def remarks_on(test: Subtest, spec: Spec) -> list[tuple[str, str]]:
    """Label and text of each remark on a test that failed. Of a hidden one never its message: what the
    student's code raised or returned there could spell out the hidden input."""
    if test.outcome == "OK":
        return []
    if test.outcome == "XX":
        return [("", NOT_GRADED)]
    remarks = []
    if test.message and not test.hidden:
        remarks.append(("", test.message))
    if test.hint:
        remarks.append(("Hint", test.hint))
    for known in spec.misconceptions:
        if known.name == test.belief:
            remarks.append((f"Perhaps you think ({known.name})", f"{known.belief} {known.advice}"))
    return remarks
