"""Which known misconception does a submission behave like?

The tests' calls of student functions are on record, with what came back. Each wrong solution of the
bank is asked the same questions here; the one that gives the same answers, the wrong ones included, is
what the submission looks like. Nothing of the submission's text is compared.
"""

from __future__ import annotations

import builtins
import copy
import warnings
from dataclasses import dataclass
from types import CodeType
from typing import Any

import numpy as np

from autograder.sandbox.client import Call
from autograder.spec import Misconception, Spec
from autograder.verdict import LooksLike, Subtest
from minitx.course.definitions import defined_functions, defined_names

RTOL, ATOL = 1e-4, 1e-6  # looser than a test: another order of summation is still the same idea


class Bank:
    """The assignment's misconceptions, ready to be asked."""

    def __init__(self, spec: Spec, imports: CodeType) -> None:
        self.misconceptions = spec.misconceptions
        self.imports = imports
        solutions = [cell.source for cell in spec.cells if cell.kind == "solution"]
        # The answer to a question defines nothing that a test could call.
        self.solutions = [source for source in solutions if defined_names(source)]
        self.reference = self._namespace("")
        self.wrong: dict[str, dict[str, Any]] = {}

    def recognise(self, calls: list[Call]) -> LooksLike | None:
        """The first misconception that answers every recorded call of its functions as the student did.

        First to the letter, with dtypes and what became of the arguments; then by the values alone.
        """
        for strict in (True, False):
            answers = [(call, ask(self.reference, call)) for call in calls]
            missed = {call.name for call, right in answers if not agree(call, right, strict)}
            for known in self.misconceptions:
                names = defined_functions(known.code)
                if names & missed and self._fits(
                    known, [pair for pair in answers if pair[0].name in names], strict
                ):
                    return LooksLike(known.name, known.belief, known.advice, certain=True)
        return None

    def chosen(self, failed: list[Subtest]) -> LooksLike | None:
        """The wrong option that a question was answered with: the test has said which, so this is certain."""
        for test in failed:
            for known in self.misconceptions:
                if test.belief == known.name and not defined_names(known.code):
                    return LooksLike(known.name, known.belief, known.advice, certain=True)
        return None

    def suggested(self, failed: list[Subtest], calls: list[Call]) -> LooksLike | None:
        """The misconception that the first wrong answer's test names, when no behaviour was recognised.

        Code that never returned a value holds no belief about one.
        """
        if all(isinstance(call.result, BaseException) for call in calls):
            return None
        for test in failed:
            for known in self.misconceptions:
                if test.outcome == "WA" and test.belief == known.name:
                    return LooksLike(known.name, known.belief, known.advice, certain=False)
        return None

    def _fits(self, known: Misconception, answers: list[tuple[Call, Answer]], strict: bool) -> bool:
        """True when it does what the student did every time, and at least once something wrong."""
        if known.name not in self.wrong:
            self.wrong[known.name] = self._namespace(known.code)
        telling = False
        for call, right in answers:
            if not agree(call, ask(self.wrong[known.name], call), strict):
                return False
            telling |= not isinstance(call.result, BaseException) and not agree(call, right, strict)
        return telling

    def _namespace(self, replacement: str) -> dict[str, Any]:
        names: dict[str, Any] = {"__name__": "__bank__"}
        exec(self.imports, names)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for source in [*self.solutions, replacement]:
                exec(compile(source, "<the author's solution>", "exec"), names)
        return names


@dataclass(frozen=True)
class Answer:
    """What the author's function answers: its value or exception, and the arguments as it left them."""

    result: Any
    after: tuple[tuple[Any, ...], dict[str, Any]]


def ask(names: dict[str, Any], call: Call) -> Answer:
    """Ask the author's function of the same name the same question."""
    arguments, named = copy.deepcopy((call.arguments, call.named))
    if call.name not in names:
        return Answer(NameError(call.name), (arguments, named))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            result = names[call.name](*arguments, **named)
        except Exception as error:
            result = error
    return Answer(result, (arguments, named))


def agree(call: Call, answer: Answer, strict: bool) -> bool:
    """Did the student's function and the author's do the same?"""
    return same(call.result, answer.result, strict) and (not strict or same(call.after, answer.after, strict))


def same(one: Any, other: Any, strict: bool = False) -> bool:
    """True for equal values up to rounding (`strict`: of equal dtype), and for exceptions of one class."""
    if isinstance(one, BaseException) or isinstance(other, BaseException):
        return _error_class(one) is not None and _error_class(one) is _error_class(other)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(same(a, b, strict) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key], strict) for key in one)
    if _numeric(one) and _numeric(other):
        a, b = np.asarray(one), np.asarray(other)
        same_kind = a.shape == b.shape and (not strict or a.dtype == b.dtype)
        return same_kind and bool(np.allclose(a, b, RTOL, ATOL, equal_nan=True))
    return type(one) is type(other) and one == other


def _numeric(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic | int | float | complex)


def _error_class(value: Any) -> type | None:
    for kind in type(value).__mro__ if isinstance(value, BaseException) else ():
        if getattr(builtins, kind.__name__, None) is kind:
            return kind
    return None
