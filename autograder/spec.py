"""What was released: the canonical cells of one assignment, and the bank of known wrong answers.

A spec is plain data (`to_json`, `from_json`), so that the coordinator, the test runner and a worker on
another machine all grade against the same bytes. It holds hidden tests and reference solutions:
it never enters a process that student code enters.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Literal

# text: locked markdown. provided: locked code without points. solution: the student's code.
# test: locked code with points. written: an answer with points given by hand.
CellKind = Literal["text", "provided", "solution", "test", "written"]


@dataclass(frozen=True)
class SpecCell:
    """One canonical cell: what the author wrote, and what students were given."""

    grade_id: str
    kind: CellKind
    cell_type: Literal["code", "markdown"]
    source: str  # the author's text, with solutions and hidden tests
    released: str  # the student's text: solutions cleared, hidden tests removed
    points: float = 0.0

    @property
    def locked(self) -> bool:
        """True when a submitted change to this cell is overwritten."""
        return self.kind in ("text", "provided", "test")


@dataclass(frozen=True)
class Misconception:
    """A wrong solution with a name: `code` in place of the solution cell `replaces`."""

    name: str
    belief: str  # the idea behind it, as a student would hold it
    advice: str  # what to think about instead; shown to the student
    replaces: str  # grade_id of the solution cell
    caught_by: str  # title of the subtest that must fail
    code: str


@dataclass(frozen=True)
class Spec:
    """One assignment as it was released."""

    unit: str
    cells: tuple[SpecCell, ...]
    misconceptions: tuple[Misconception, ...] = ()

    def cell(self, grade_id: str) -> SpecCell:
        """The canonical cell with this id. Raises `KeyError` when there is none."""
        for cell in self.cells:
            if cell.grade_id == grade_id:
                return cell
        raise KeyError(grade_id)

    @property
    def max_points(self) -> float:
        return sum(cell.points for cell in self.cells)

    @property
    def digest(self) -> str:
        """sha256 over the spec's canonical JSON: two equal digests grade alike."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), sort_keys=True, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Spec:
        data = json.loads(text)
        return cls(
            unit=data["unit"],
            cells=tuple(SpecCell(**cell) for cell in data["cells"]),
            misconceptions=tuple(Misconception(**item) for item in data["misconceptions"]),
        )
