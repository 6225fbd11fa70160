"""The figures of a report: how scores are spread, how hard each test is, how well it tells students apart."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from autograder.verdict import Subtest

FEW = 10  # with fewer submissions, figures of one test say little


@dataclass(frozen=True)
class Bin:
    """How many scores lie from `low` up to, but not at, `high` (the last one holds `high`, too)."""

    low: float
    high: float
    count: int


@dataclass
class Item:
    """One test over the whole class."""

    title: str
    hidden: bool
    max_points: float
    shares: list[float] = field(default_factory=list)  # of its points, one for each submission
    rests: list[float] = field(default_factory=list)  # the submission's points in all other tests
    outcomes: Counter[str] = field(default_factory=Counter)
    belief: str = ""

    @property
    def difficulty(self) -> float:
        """The mean share of its points: 1 means that everyone passes. (Classical test theory's p value.)"""
        return statistics.fmean(self.shares) if self.shares else 0.0

    @property
    def discrimination(self) -> float | None:
        """Pearson's correlation of the test with the rest of the score; None where one of them is the same
        for all. (Corrected item-total correlation.)"""
        return correlation(self.shares, self.rests)

    @property
    def remark(self) -> str:
        """What to look at."""
        if len(self.shares) < FEW:
            return ""
        if self.difficulty == 0:
            return "No one passes: is the test right, and the task said clearly?"
        discrimination = self.discrimination
        if discrimination is not None and discrimination < 0:
            return "Those who are better elsewhere fail here more often: look at the test."
        if self.difficulty == 1:
            return "Everyone passes: it tells no one apart."
        return ""


def items_of(verdicts: Sequence[Sequence[Subtest]]) -> list[Item]:
    """The tests, in the order of the unit, over all submissions' marks."""
    items: dict[str, Item] = {}
    for marks in verdicts:
        total = sum(mark.points for mark in marks)
        for mark in marks:
            item = items.setdefault(mark.title, Item(mark.title, mark.hidden, mark.max_points))
            if mark.outcome == "XX":
                continue  # the grader's own fault says nothing about the test
            item.outcomes[mark.outcome] += 1
            item.belief = item.belief or mark.belief
            passed = float(mark.outcome == "OK")
            item.shares.append(mark.points / mark.max_points if mark.max_points else passed)
            item.rests.append(total - mark.points)
    return list(items.values())


def correlation(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Pearson's correlation; None for fewer than three values, or where either does not vary."""
    if len(one) < 3:
        return None
    a, b = statistics.fmean(one), statistics.fmean(other)
    covariance = math.fsum((x - a) * (y - b) for x, y in zip(one, other, strict=True))
    spread = math.sqrt(math.fsum((x - a) ** 2 for x in one) * math.fsum((y - b) ** 2 for y in other))
    return covariance / spread if spread > 1e-12 else None


def bins_of(scores: Sequence[float], most: float, number: int = 10) -> list[Bin]:
    """The spread of scores from 0 to `most` in equal steps."""
    if most <= 0:
        return []
    counts = Counter(min(number - 1, max(0, int(score / most * number))) for score in scores)
    step = most / number
    return [Bin(step * i, step * (i + 1), counts[i]) for i in range(number)]


@dataclass(frozen=True)
class Summary:
    """The five numbers and the mean."""

    number: int
    least: float
    first_quarter: float
    median: float
    third_quarter: float
    most: float
    mean: float


def summary_of(scores: Sequence[float]) -> Summary | None:
    if not scores:
        return None
    quarters = statistics.quantiles(scores, n=4, method="inclusive") if len(scores) > 1 else [scores[0]] * 3
    first, median, third = quarters
    return Summary(len(scores), min(scores), first, median, third, max(scores), statistics.fmean(scores))
