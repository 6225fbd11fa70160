"""The report page: one HTML file that needs nothing else, readable by a screen reader, on paper, at night."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from autograder.assessing import Result, result_of
from autograder.course import Course
from autograder.errors import UsageError
from autograder.gradebook import GradebookWriter, Total
from autograder.journal import stored
from autograder.report.items import bins_of, items_of, summary_of
from autograder.report.standing import known_code, own_code
from autograder.similarity import Pair, similar_pairs
from autograder.spec import Spec
from autograder.verdict import Subtest

SLOW = 10  # rows in the table of slow submissions
_FAILING = ("unreadable", "needs review", "timed out", "out of memory", "too much output", "crashed")
_FAILED = {  # how a test ended, in the words of the page
    "WA": "wrong",
    "RE": "raised an error",
    "TO": "too slow",
    "ML": "out of memory",
    "OL": "too much output",
    "SG": "crashed",
}
_MOST_LINES = 60  # of code shown for one side of a pair


@dataclass
class ClassData:
    """What the page is made of; of a submission only what is shown is kept."""

    results: list[Result]
    seconds: dict[str, float]
    marks: list[list[Subtest]]
    code: dict[str, str]
    totals: list[Total]


@dataclass(frozen=True)
class Belief:
    """A misconception in the class."""

    name: str
    belief: str
    certain: list[str]  # students whose code behaves like it
    suggested: list[str]  # students whose failed test suggests it


def report_html(course: Course, unit: str) -> str:
    """The page for one unit. Raises `UsageError` when nothing is graded."""
    spec = course.spec(unit)
    data = _read(course, spec)
    if not data.results:
        raise UsageError(
            f"No submission of {unit} is graded yet. Grade first: autograder grade {unit} --course"
            f" {course.root}"
        )
    pairs, common = similar_pairs(data.code, known_code(spec))
    automatic = data.results[0].max_points
    points = [result.points for result in data.results if result.status not in ("needs review",)]
    slowest = sorted(data.results, key=lambda result: -data.seconds[result.student])[:SLOW]
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = lambda value: f"{value:.4g}"
    environment.filters["percent"] = lambda value: f"{100 * value:.0f} %"
    return environment.get_template("template.html").render(
        unit=unit,
        course=course.directory.course_id,
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        spec=spec.digest[:12],
        results=data.results,
        automatic=automatic,
        bins=(bins := bins_of(points, automatic)),
        tallest=max((one.count for one in bins), default=1),
        summary=summary_of(points),
        items=items_of(data.marks),
        outcomes=_FAILED,
        beliefs=_beliefs(spec, data.results),
        seconds=data.seconds,
        slowest=slowest,
        failing=[result for result in data.results if result.status in _FAILING],
        statuses=Counter(result.status for result in data.results).most_common(),
        outdated=sum(result.state == "outdated" for result in data.results),
        waiting=[total.student for total in data.totals if total.needs_manual_grade],
        late=[total for total in data.totals if total.late_penalty],
        repairs=[result for result in data.results if result.notes],
        pairs=[(pair, _passages(pair, data.code)) for pair in pairs],
        common=common,
    )


def _read(course: Course, spec: Spec) -> ClassData:
    data = ClassData([], {}, [], {}, [])
    for judged, digest in stored(course.private, spec.unit):
        data.results.append(result_of(judged, spec, "unchanged" if digest == spec.digest else "outdated"))
        data.seconds[judged.student] = judged.verdict.seconds
        data.code[judged.student] = own_code(judged, spec)
        if digest == spec.digest and not (judged.verdict.needs_review or judged.problem):
            data.marks.append([mark for marks in judged.verdict.tests.values() for mark in marks])
    if data.results:
        with GradebookWriter(course) as gradebook:
            data.totals = gradebook.totals(spec.unit)
    return data


def _beliefs(spec: Spec, results: list[Result]) -> list[Belief]:
    """The misconceptions that someone in the class has, the most frequent first."""
    found = {item.name: Belief(item.name, item.belief, [], []) for item in spec.misconceptions}
    for result in results:
        guess = result.looks_like
        if guess is not None:
            belief = found.setdefault(guess.name, Belief(guess.name, guess.belief, [], []))
            (belief.certain if guess.certain else belief.suggested).append(result.student)
    present = [belief for belief in found.values() if belief.certain or belief.suggested]
    return sorted(present, key=lambda one: (-len(one.certain), -len(one.suggested), one.name))


def _passages(pair: Pair, code: dict[str, str]) -> list[list[tuple[str, bool]]]:
    """For both sides the lines to show, each with whether it is part of a shared passage."""
    return [_excerpt(code[pair.one], pair.lines[0]), _excerpt(code[pair.other], pair.lines[1])]


def _excerpt(source: str, shared: frozenset[int]) -> list[tuple[str, bool]]:
    """The shared lines with one line around them; a gap is three dots."""
    lines = source.split("\n")
    near = {line + step for line in shared for step in (-1, 0, 1)}
    shown: list[tuple[str, bool]] = []
    last = 0
    for number in sorted(line for line in near if 0 < line <= len(lines)):
        if len(shown) >= _MOST_LINES:
            shown.append(("...", False))
            break
        if number > last + 1:
            shown.append(("...", False))
        shown.append((lines[number - 1][:200], number in shared))
        last = number
    return shown


def as_data(course: Course, unit: str) -> dict[str, Any]:
    """The same for a program to read."""
    spec = course.spec(unit)
    data = _read(course, spec)
    pairs, _ = similar_pairs(data.code, known_code(spec))
    return {
        "unit": unit,
        "submissions": len(data.results),
        "scores": {result.student: result.points for result in data.results},
        "items": [
            {
                "title": item.title,
                "hidden": item.hidden,
                "difficulty": item.difficulty,
                "discrimination": item.discrimination,
                "outcomes": dict(item.outcomes),
            }
            for item in items_of(data.marks)
        ],
        "misconceptions": [vars(belief) for belief in _beliefs(spec, data.results)],
        "similar_pairs": [
            {"students": [pair.one, pair.other], "shared": pair.shared, "share": pair.share} for pair in pairs
        ],
    }
