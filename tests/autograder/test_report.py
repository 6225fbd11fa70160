"""The report: its figures are right, its page needs nothing, shows everything, runs nothing."""

from __future__ import annotations

import json
import statistics
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from classroom import InProcess, answer, hand_in
from hypothesis import given, settings
from hypothesis import strategies as st
from nbformat import NotebookNode
from typer.testing import CliRunner

from autograder import engine
from autograder.cli import app
from autograder.course import Course
from autograder.errors import UsageError
from autograder.report.items import bins_of, correlation, items_of, summary_of
from autograder.report.page import report_html
from autograder.verdict import Outcome, Subtest

numbers = st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=30)


@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(-50, 50)), min_size=3, max_size=30))
@settings(max_examples=100, deadline=None)
def test_the_correlation_is_numpys(pairs: list[tuple[int, int]]):
    one, other = ([float(value) for value in column] for column in zip(*pairs, strict=True))
    ours = correlation(one, other)
    if len(set(one)) == 1 or len(set(other)) == 1:
        assert ours is None
    else:
        assert ours == pytest.approx(np.corrcoef(one, other)[0, 1])


def test_too_few_values_have_no_correlation():
    assert correlation([1, 2], [2, 1]) is None
    assert correlation([], []) is None


@given(numbers)
@settings(max_examples=100, deadline=None)
def test_the_summary_is_numpys(scores: list[float]):
    found = summary_of(scores)
    assert found is not None
    quarters = np.percentile(scores, [25, 50, 75])
    assert [found.first_quarter, found.median, found.third_quarter] == pytest.approx(quarters)
    assert (found.least, found.most, found.number) == (min(scores), max(scores), len(scores))
    assert found.mean == pytest.approx(np.mean(scores))
    assert summary_of([]) is None
    one = summary_of([4.0])
    assert one is not None
    assert (one.first_quarter, one.mean) == (4, 4)


@given(st.lists(st.floats(0, 16), max_size=50))
@settings(max_examples=100, deadline=None)
def test_every_score_is_in_one_bin_and_the_bins_join(scores: list[float]):
    bins = bins_of(scores, 16)
    assert sum(one.count for one in bins) == len(scores)
    assert [one.low for one in bins[1:]] == pytest.approx([one.high for one in bins[:-1]])
    for one in bins:
        inside = [s for s in scores if one.low <= s < one.high or s == one.high == 16]
        assert one.count == pytest.approx(len(inside), abs=2), "rounding may move a score on an edge"
    assert bins_of([1.0], 0) == []


def mark(title: str, outcome: Outcome, points: float = 1) -> Subtest:
    return Subtest(title, outcome, points if outcome == "OK" else 0, points, title == "h")


def test_difficulty_discrimination_and_what_to_look_at():
    """20 students; `good` follows the score, `odd` goes against it, `all` is passed by everyone."""
    verdicts = []
    for number in range(20):
        verdicts.append(
            [
                mark("base", "OK" if number >= 5 else "WA", 4),
                mark("good", "OK" if number >= 10 else "WA", 2),
                mark("odd", "OK" if number < 8 else "RE"),
                mark("all", "OK"),
                mark("none", "TO"),
                mark("h", "XX" if number == 0 else "OK"),
            ]
        )
    items = {item.title: item for item in items_of(verdicts)}
    assert items["good"].difficulty == 0.5
    assert items["base"].difficulty == 0.75
    rests = [sum(m.points for m in marks) - marks[1].points for marks in verdicts]
    expected = statistics.correlation([m[1].points for m in verdicts], rests)
    assert items["good"].discrimination == pytest.approx(expected)
    assert items["odd"].discrimination < 0
    assert "look at the test" in items["odd"].remark
    assert items["all"].discrimination is None
    assert "tells no one apart" in items["all"].remark
    assert "is the test right" in items["none"].remark
    assert items["none"].outcomes == {"TO": 20}
    assert items["good"].remark == ""
    assert len(items["h"].shares) == 19, "the grader's own fault says nothing about a test"
    assert items["h"].hidden
    assert items_of([[mark("nothing to win", "OK", 0)]] * 20)[0].difficulty == 1
    assert items_of([[mark("nothing to win", "WA", 0)]] * 20)[0].difficulty == 0
    assert items_of(verdicts[:5])[4].remark == "", "five submissions say too little"


# The page.

COPIED = "def halve(number):\n    parts = [number * weight for weight in (0.25, 0.125, 0.125)]\n    total = 0.0\n    for part in parts:\n        total = total + part\n    return total if number >= 0 else -abs(total)"
STUDENTS = ["ada", "bob", "<b>eve", "kim", "zed", "o'neil", "twin-1", "twin-2"]


@pytest.fixture
def graded(course: Course, right: NotebookNode, monkeypatch: pytest.MonkeyPatch) -> Course:
    InProcess.reset()
    monkeypatch.setattr(engine, "Runner", InProcess)
    for student, halve in zip(STUDENTS[:4], ["right", "whole", "whole", "double"], strict=True):
        hand_in(course, student, answer(right, halve))
    hand_in(course, "zed", b"no notebook")
    hand_in(course, "o'neil", json.loads(json.dumps(right)), "Tiny (1).ipynb")
    for student, name in (("twin-1", "parts"), ("twin-2", "pieces")):
        book = answer(right)
        for cell in book["cells"]:
            if cell["id"] == "halve":
                cell["source"] = COPIED.replace("parts", name) + "\n# <script>alert(1)</script>"
        hand_in(course, student, book)
    list(engine.grade(course, course.spec("tiny"), course.students("tiny"), 1))
    return course


class Page(HTMLParser):
    """What a browser would make of it, as far as the tests ask."""

    VOID = ("meta", "br", "link", "img", "input", "hr")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.tables: list[list[str]] = []
        self.feed(text)
        assert self.open == [], "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        if "table" in self.open:
            self.tables[-1].append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + " "


def test_the_page_names_what_the_class_believes_and_whom_to_look_at(graded: Course):
    text = " ".join(Page(report_html(graded, "tiny")).text.split())
    assert "8 submissions" in text
    assert "whole-division" in text
    assert "Half of a number is a whole number." in text
    assert "half of an odd number (hidden)" in text
    assert "zed unreadable 0 The file is not a notebook" in text
    assert "twin-1 and twin-2: 100 %" in text
    assert "never a verdict" in text
    assert "The file is called 'Tiny (1).ipynb'" in text
    for student in STUDENTS:
        assert student in text


def test_the_figures_on_the_page_are_those_of_the_gradebook(graded: Course):
    results = list(engine.grade(graded, graded.spec("tiny"), graded.students("tiny"), 1))
    text = " ".join(Page(report_html(graded, "tiny")).text.split())
    points = [result.points for result in results]
    assert f"mean {statistics.fmean(points):.4g} " in text
    assert f"median {statistics.median(points):.4g} " in text


def test_nothing_in_the_page_runs_or_is_fetched(graded: Course):
    html = report_html(graded, "tiny")
    page = Page(html)
    assert not {tag for tag, _ in page.tags} & {"script", "link", "img", "iframe", "object", "form"}
    for _, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on")]
        assert (attributes.get("href") or "#").startswith("#")
        assert "src" not in attributes
    assert "http:" not in html
    assert "https:" not in html
    assert "<script>alert" not in html
    assert "<b>eve" not in html


def test_a_screen_reader_finds_its_way(graded: Course):
    page = Page(report_html(graded, "tiny"))
    assert ("html", {"lang": "en"}) in page.tags
    headings = [tag for tag, _ in page.tags if tag in ("h1", "h2", "h3")]
    assert headings[0] == "h1"
    assert headings.count("h1") == 1
    for table in page.tables:
        assert table[1] == "caption"
        assert "th" in table
    for tag, attributes in page.tags:
        if tag == "th":
            assert attributes.get("scope") in ("col", "row")
    targets = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    links = {(attributes.get("href") or "")[1:] for tag, attributes in page.tags if tag == "a"}
    assert links <= targets
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def luminance(color: str) -> float:
    digits = color.lstrip("#")
    digits = "".join(2 * d for d in digits) if len(digits) == 3 else digits
    values = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in values]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def test_text_has_contrast_by_day_and_by_night(graded: Course):
    """WCAG 2.1: at least 4.5 to 1."""
    import re

    style = report_html(graded, "tiny").split("</style>")[0]
    by_day, by_night = style.split("prefers-color-scheme: dark", 1)
    for part in (by_day, by_night.split("}")[0]):
        colors = dict(re.findall(r"--(\w+): (#\w+)", part))
        for text, ground in [
            (t, g) for t in ("text", "soft", "bar", "alert") for g in ("ground", "panel")
        ] + [("text", "mark")]:
            one, other = sorted((luminance(colors[text]), luminance(colors[ground])))
            assert (other + 0.05) / (one + 0.05) >= 4.5, (text, ground)


def test_a_mended_test_leaves_the_figures_of_the_tests_out(graded: Course):
    from autograder.spec import Spec

    text = graded.spec("tiny").to_json().replace("halve(7) ==", "7 != halve(7) ==")
    graded.write_spec(Spec.from_json(text))
    page = " ".join(Page(report_html(graded, "tiny")).text.split())
    assert "8 of them were graded by other tests" in page


def test_a_unit_that_no_one_has_a_grade_for_is_refused(course: Course):
    with pytest.raises(UsageError, match="No submission of tiny is graded yet"):
        report_html(course, "tiny")


def test_the_command_writes_the_page_for_the_instructor_alone(graded: Course, tmp_path: Any):
    base = ["report", "tiny", "--course", str(graded.root)]
    done = CliRunner().invoke(app, base)
    assert done.exit_code == 0, done.output
    path = graded.root / "reports/tiny.html"
    assert path.stat().st_mode & 0o077 == 0
    done = CliRunner().invoke(app, [*base, "--json"])
    data = json.loads(done.stdout)
    assert data["submissions"] == 8
    assert data["similar_pairs"][0]["students"] == ["twin-1", "twin-2"]
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(app, [*base, "--to", str(tmp_path / "file/x.html")])
    assert done.exit_code == 1
