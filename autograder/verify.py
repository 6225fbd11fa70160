"""Proof that a unit grades as it should: right answers pass, wrong ideas are caught and named.

Everything runs in the sandbox, as a submission would. `claims` are the things to be proved, one by one, so
that a test can name each; `autograder verify` prints them as a matrix.
"""

from __future__ import annotations

import copy
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from autograder.bank import Style, read_styles
from autograder.cells import Cell, cells_from_spec
from autograder.errors import ReleaseError
from autograder.judging import Judge
from autograder.release import build, leaks, notebook_bytes
from autograder.sandbox.client import Backend
from autograder.spec import Misconception
from autograder.verdict import Verdict
from minitx.course.definitions import defined_functions

MOST_SECONDS = 180.0  # for the notebook with its reference solution, figures and all

# Functions that compute nothing: a test such as "the input stays as it was" must not be passed by them.
IDLE = {
    "nothing": "return None",
    "its first argument": "return arguments[0]",
    "its arguments": "return arguments",
    "zeros": "return np.zeros_like(arguments[0])",
    "a pair of zeros": "return np.zeros_like(arguments[0]), np.zeros_like(arguments[0])",
}


@dataclass(frozen=True)
class Claim:
    """One thing to be proved. `prove` returns "" where it holds, else what was found in its place."""

    kind: str
    name: str
    prove: Callable[[], str]


class Unit:
    """A unit's folder under proof."""

    def __init__(self, folder: Path, backend: Backend):
        self.folder = folder
        self.built = build(folder)
        self.judge = Judge(self.built.spec, backend)

    @property
    def full(self) -> float:
        """The points that tests give."""
        return sum(cell.points for cell in self.built.spec.cells if cell.kind == "test")

    @cached_property
    def styles(self) -> dict[str, Style]:
        path = self.folder / "other_styles.py"
        return read_styles(path) if path.exists() else {}

    def claims(self, exercises: Path | None = None, run: bool = True) -> Iterator[Claim]:
        """Everything about the unit, the cheap first; `exercises` holds the committed notebooks."""
        yield Claim("release", "gives nothing away", self.gives_nothing_away)
        if exercises is not None:
            yield Claim("release", "is the committed notebook", lambda: self.is_committed(exercises))
        yield Claim("answers", "the reference gets every point", self.reference)
        yield Claim("answers", "the untouched release gets none", self.untouched)
        for name, body in IDLE.items():
            yield Claim("answers", f"returning {name} gets none", lambda body=body: self.idle(body))
        for item in self.built.spec.misconceptions:
            yield Claim("misconceptions", item.name, lambda item=item: self.misconception(item))
        for name, style in self.styles.items():
            yield Claim("other styles", name, lambda style=style: self.style(style))
        if run:
            yield Claim("notebook", "runs from top to bottom", self.runs)

    def judged(self, codes: dict[str, str], seed: bytes = b"one student") -> Verdict:
        """The verdict on the reference with some solution cells replaced."""
        cells = cells_from_spec(self.built.spec, reference=True)
        return self.judge.judge([Cell(c.id, c.kind, codes.get(c.id, c.source)) for c in cells], seed)

    def gives_nothing_away(self) -> str:
        return " ".join(leaks(self.built))

    def is_committed(self, exercises: Path) -> str:
        path = exercises / self.built.unit / f"{self.built.unit}.ipynb"
        if not path.is_file():
            return f"{path} is missing: make exercises"
        same = path.read_bytes() == notebook_bytes(self.built.released_notebook)
        return "" if same else f"{path} is not what the source builds: make exercises"

    def reference(self) -> str:
        return self._wants(self.judged({}), self.full)

    def untouched(self) -> str:
        cells = cells_from_spec(self.built.spec, reference=False)
        return self._wants(self.judge.judge(cells, b"one student"), 0.0)

    def idle(self, body: str) -> str:
        codes = {
            cell.grade_id: "\n".join(
                f"def {name}(*arguments, **named):\n    {body}" for name in defined_functions(cell.source)
            )
            for cell in self.built.spec.cells
            if cell.kind == "solution"
        }
        verdict = self.judged(codes)
        passed = [test.title for tests in verdict.tests.values() for test in tests if test.points]
        return f"it passes: {'; '.join(passed)}" if passed else ""

    def misconception(self, known: Misconception) -> str:
        """Fails the test that it names, loses points, and is recognised by what it does."""
        verdict = self.judged({known.replaces: known.code})
        failed = {test.title for tests in verdict.tests.values() for test in tests if test.outcome != "OK"}
        if known.caught_by not in failed:
            others = "; ".join(sorted(failed)) or "none"
            return f"passes {known.caught_by!r}; tests that fail: {others}"
        if verdict.total >= self.full:
            return "gets every point"
        guess = verdict.looks_like
        if guess is None or guess.name != known.name or not guess.certain:
            named = "no name" if guess is None else f"{'' if guess.certain else 'perhaps '}{guess.name}"
            return f"is caught, but gets the name: {named}"
        return ""

    def style(self, style: Style) -> str:
        return self._wants(self.judged(style.codes), self.full)

    def runs(self) -> str:
        """The author's notebook in a real kernel, with its figures, as a student would run it."""
        from nbclient import NotebookClient  # noqa: PLC0415 - starts slowly, and few callers come here
        from nbclient.exceptions import CellExecutionError  # noqa: PLC0415

        start = time.monotonic()
        environment = {**os.environ, "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
        client = NotebookClient(
            copy.deepcopy(self.built.source_notebook), timeout=int(MOST_SECONDS), kernel_name="python3"
        )
        try:
            client.execute(env=environment, stderr=subprocess.DEVNULL)
        except CellExecutionError as error:
            return f"a cell fails: {error.ename}: {error.evalue}"
        took = time.monotonic() - start
        return "" if took < MOST_SECONDS else f"takes {took:.0f} s, more than {MOST_SECONDS:.0f}"

    def _wants(self, verdict: Verdict, points: float) -> str:
        if verdict.total == points:
            return ""
        wrong = [
            f"{test.title} ({test.outcome})"
            for tests in verdict.tests.values()
            for test in tests
            if bool(test.points) == (points == 0) or (points and test.outcome != "OK")
        ]
        return f"gets {verdict.total:g} of {self.full:g} points, expected {points:g}: {'; '.join(wrong)}"


def units_in(solutions: Path, wanted: list[str] | None = None) -> list[Path]:
    """The folders of the units, all or those named. Raises `ReleaseError` for one that is not there."""
    found = {path.name: path for path in sorted(solutions.iterdir()) if (path / f"{path.name}.py").is_file()}
    missing = [name for name in wanted or () if name not in found]
    if missing:
        raise ReleaseError(f"There is no unit {', '.join(missing)}. There are: {', '.join(found)}.")
    return [found[name] for name in wanted] if wanted else list(found.values())
