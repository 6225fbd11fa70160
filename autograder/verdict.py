"""What the test runner says about one submission: plain data, safe to store and to send."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any, Literal

# OK passed; WA wrong answer; RE the student's code raised; TO too slow; ML out of memory; OL too much
# output; SG died of a signal; XX a fault of the grader's own (manual review, never counted as 0).
Outcome = Literal["OK", "WA", "RE", "TO", "ML", "OL", "SG", "XX"]


@dataclass
class Subtest:
    """One named test inside a test cell."""

    title: str
    outcome: Outcome
    points: float
    max_points: float
    hidden: bool
    hint: str = ""
    belief: str = ""  # name of the misconception that failing this test suggests
    message: str = ""  # safe for the student
    detail: str = ""  # for the instructor only: may hold hidden inputs and expected values


@dataclass
class CellRun:
    """What became of one student or provided cell in the sandbox."""

    outcome: Outcome
    outputs: list[dict[str, Any]] = field(default_factory=list)  # nbformat 4 outputs


@dataclass
class LooksLike:
    """The known misconception that a submission behaves like."""

    name: str
    belief: str
    advice: str
    certain: bool  # True: it gave the same wrong answers; False: only suggested by a failed test


@dataclass
class Verdict:
    """The result for one submission. `tests` and `cells` are keyed by grade_id."""

    tests: dict[str, list[Subtest]] = field(default_factory=dict)
    cells: dict[str, CellRun] = field(default_factory=dict)
    looks_like: LooksLike | None = None
    needs_review: str = ""  # not empty: the grader itself failed, a person must look
    seconds: float = 0.0

    def points(self, grade_id: str) -> float:
        return sum(test.points for test in self.tests[grade_id])

    @property
    def total(self) -> float:
        return sum(self.points(grade_id) for grade_id in self.tests)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Verdict:
        data = json.loads(text)
        guess = data["looks_like"]
        return cls(
            tests={key: [Subtest(**test) for test in tests] for key, tests in data["tests"].items()},
            cells={key: CellRun(**run) for key, run in data["cells"].items()},
            looks_like=LooksLike(**guess) if guess else None,
            needs_review=data["needs_review"],
            seconds=data["seconds"],
        )
