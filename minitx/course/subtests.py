"""One test cell is many named tests: the split by comment lines.

    rng = np.random.default_rng(seed)      # before the first `### Test:` line: set-up common to the cell
    ### Test: rows sum to one (2 points)
    ### Hint: Along which axis does one query's row of weights lie?
    ### Belief: softmax-over-queries
    check_rows(softmax(rng.normal(size=(3, 5))))

The lines are ordinary comments, so nbgrader sees one ordinary test cell whose points are the sum.
A hint or a title may go on in lines that begin with `###` and two or more spaces. Everything between
`### BEGIN HIDDEN TESTS` and `### END HIDDEN TESTS` is taken out of the release by nbgrader; a test
lies wholly inside or wholly outside.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from dataclasses import dataclass, field
from typing import Protocol

BEGIN_HIDDEN, END_HIDDEN = "BEGIN HIDDEN TESTS", "END HIDDEN TESTS"  # nbgrader's own delimiters

_DIRECTIVE = re.compile(r"###\s(?P<key>[A-Z][A-Za-z]*):(?P<value>.*)$")
_CONTINUED = re.compile(r"###\s{2,}(?P<value>\S.*)$")
_TITLE = re.compile(r"(?P<title>.*?)\s*\((?P<points>\d+(?:\.\d+)?) points?\)$")


class SubtestError(ValueError):
    """A test cell that cannot be split. `line` counts from 1 inside the cell."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line} of the cell: {message}")
        self.line = line
        self.message = message


@dataclass(frozen=True)
class Part:
    """One named test. `first_line` is where `code` begins in the cell, counted from 1."""

    title: str
    points: float
    hint: str
    belief: str
    code: str
    hidden: bool
    first_line: int


@dataclass(frozen=True)
class SplitCell:
    """A test cell: the code before its first test, and its tests. `setup` begins at line 1."""

    setup: str
    parts: tuple[Part, ...]


@dataclass
class _Draft:
    """A part while its lines are being read."""

    line: int
    heading: str
    hidden: bool
    hint: str | None = None
    belief: str | None = None
    open_key: str = "Test"  # the directive that a continuation line would belong to; "" below the block
    code: list[str] = field(default_factory=list)
    first_line: int = 0


class TestCell(Protocol):
    """A test cell of a unit: its text, its name and its points."""

    @property
    def source(self) -> str: ...
    @property
    def grade_id(self) -> str: ...
    @property
    def points(self) -> float: ...


def split_cell(cell: TestCell) -> SplitCell:
    """The tests of one canonical test cell. Raises `SubtestError`."""
    return split(cell.source, grade_id=cell.grade_id, points=cell.points)


def split(source: str, *, grade_id: str = "test", points: float | None = None) -> SplitCell:
    """Split the text of a test cell into its set-up and its tests.

    A cell without a `### Test:` line is one test, titled `grade_id`, with all of `points`. When
    `points` is given, the tests' points must sum to it. Raises `SubtestError` on unbalanced hidden
    regions, a test without title, points or code, a repeated title, or code that does not parse.
    """
    _parse(source, 1)
    setup, drafts, any_hidden = _read(source)
    if not drafts:
        code = "\n".join(setup)
        whole = Part(grade_id, float(points or 0.0), "", "", code, any_hidden, 1)
        _require_code(whole, 1)
        if points is None:
            raise SubtestError(1, f"no '### Test:' line, and the points of {grade_id!r} were not given")
        return SplitCell("", (whole,))
    parts = tuple(_finish(draft) for draft in drafts)
    seen: dict[str, int] = {}
    for part, draft in zip(parts, drafts, strict=True):
        if part.title in seen:
            raise SubtestError(
                draft.line, f"the title {part.title!r} was used in line {seen[part.title]}; titles are unique"
            )
        seen[part.title] = draft.line
    total = sum(part.points for part in parts)
    if points is not None and abs(total - points) > 1e-9:
        raise SubtestError(
            drafts[0].line,
            f"its tests give {total:g} points together, but the cell's metadata says {points:g}",
        )
    return SplitCell("\n".join(setup), parts)


def checks_something(part: Part, student_names: set[str]) -> bool:
    """False when this test cannot fail on a wrong value: it holds no `assert`, no `raise`, no `with`,
    and no call made for its effect alone, other than a call of the student's own functions.
    """
    for node in ast.walk(ast.parse(part.code)):
        if isinstance(node, ast.Assert | ast.Raise | ast.With):
            return True
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = node.value.func
            while isinstance(called, ast.Attribute | ast.Call | ast.Subscript):
                called = called.func if isinstance(called, ast.Call) else called.value
            if not (isinstance(called, ast.Name) and called.id in student_names | {"print"}):
                return True
    return False


def _read(source: str) -> tuple[list[str], list[_Draft], bool]:
    """One pass over the lines: set-up, drafts of the parts, and whether there was a hidden region."""
    comments = _column_zero_comments(source)
    setup: list[str] = []
    drafts: list[_Draft] = []
    region_line, any_hidden = 0, False  # the line where the open hidden region began, or 0
    for number, line in enumerate(source.split("\n"), 1):
        draft, kept = (drafts[-1] if drafts else None), line
        if BEGIN_HIDDEN in line or END_HIDDEN in line:
            begins = BEGIN_HIDDEN in line
            if begins and region_line:
                raise SubtestError(
                    number, f"a hidden region begins inside the one that began in line {region_line}"
                )
            if not begins and not region_line:
                raise SubtestError(number, "'### END HIDDEN TESTS' without a '### BEGIN HIDDEN TESTS' before")
            region_line, any_hidden, kept = (number if begins else 0), True, ""
        elif number in comments and _take_directive(line, number, drafts, bool(region_line)):
            continue
        elif draft and line.strip() and number not in comments and draft.hidden != bool(region_line):
            raise SubtestError(
                number,
                "code of a test that lies half inside a hidden region; put a '### Test:' line above it,"
                " or move it in front of the first test",
            )
        if draft and draft is drafts[-1]:
            draft.open_key = ""
            draft.first_line = draft.first_line or number
            draft.code.append(kept)
        else:
            setup.append(kept)
    if region_line:
        raise SubtestError(region_line, "this hidden region has no '### END HIDDEN TESTS'")
    return setup, drafts, any_hidden


def _take_directive(line: str, number: int, drafts: list[_Draft], hidden: bool) -> bool:
    """Read a `### Key:` line, or the continuation of one, into `drafts`. False for any other comment."""
    draft = drafts[-1] if drafts else None
    if match := _DIRECTIVE.match(line):
        key, value = match["key"], match["value"].strip()
        if key == "Test":
            drafts.append(_Draft(number, value, hidden))
        elif draft is None or not draft.open_key:
            raise SubtestError(number, f"'### {key}:' must follow directly after a '### Test:' line")
        elif key == "Hint" and draft.hint is None:
            draft.hint, draft.open_key = value, key
        elif key == "Belief" and draft.belief is None:
            draft.belief, draft.open_key = value, key
        else:
            raise SubtestError(number, f"'### {key}:' is given twice, or is none of Test, Hint, Belief")
        return True
    if draft and draft.open_key in ("Test", "Hint") and (match := _CONTINUED.match(line)):
        if draft.open_key == "Hint":
            draft.hint = f"{draft.hint} {match['value'].strip()}"
        else:
            draft.heading = f"{draft.heading} {match['value'].strip()}"
        return True
    return False


def _finish(draft: _Draft) -> Part:
    """Check one draft and make a `Part` of it."""
    match = _TITLE.match(draft.heading)
    if match is None or not match["title"]:
        raise SubtestError(
            draft.line,
            f"expected '### Test: a title (2 points)', got '### Test: {draft.heading}'",
        )
    while draft.code and not draft.code[-1].strip():
        draft.code.pop()
    part = Part(
        match["title"],
        float(match["points"]),
        draft.hint or "",
        draft.belief or "",
        "\n".join(draft.code),
        draft.hidden,
        draft.first_line,
    )
    _require_code(part, draft.line)
    return part


def _require_code(part: Part, line: int) -> None:
    if not _parse(part.code, part.first_line).body:
        raise SubtestError(line, f"the test {part.title!r} has no code")


def _parse(code: str, first_line: int) -> ast.Module:
    """Parse the author's code; the error's line is counted in the whole cell."""
    try:
        return ast.parse(code)
    except SyntaxError as error:
        line = first_line + (error.lineno or 1) - 1
        raise SubtestError(line, f"not valid Python ({error.msg}); each test must stand on its own") from None


def _column_zero_comments(source: str) -> set[int]:
    """Line numbers of whole-line comments that are not indented, strings of several lines left out."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.start[0] for token in tokens if token.type == tokenize.COMMENT and token.start[1] == 0}
