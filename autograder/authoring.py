"""From a unit's text file to a notebook with nbgrader's metadata, the author's errors named by line.

The text is py:percent. A markdown cell without metadata is locked text; every code cell says what it is:

    # %% nbgrader={"grade_id": "imports", "locked": true}                                 provided
    # %% nbgrader={"grade_id": "softmax", "solution": true}                               solution
    # %% nbgrader={"grade_id": "test-softmax", "grade": true, "points": 5}                test
    # %% [markdown] nbgrader={"grade_id": "why", "grade": true, "solution": true, "points": 4}   written
    # %% practice=true                                                                    practice

A practice cell is an ordinary cell, for a student to change as they like: nbgrader does not know it, and in
what comes back it is one of the student's own.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import jupytext
from nbformat import NotebookNode

from autograder.errors import ReleaseError
from autograder.nodes import node
from autograder.spec import CellKind

KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}

_MARKER = re.compile(r"#\s?%%(\s|$)")
_GRADE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}$")  # what both nbgrader and nbformat's cell ids allow
_FLAGS = ("grade", "solution", "locked", "task")
_FIELDS = {*_FLAGS, "grade_id", "points", "schema_version", "cell_type"}
_UNSUPPORTED = ("BEGIN MARK SCHEME", "AUTOTEST")
_EXAMPLE = '# %% nbgrader={"grade_id": "softmax", "solution": true}'


@dataclass(frozen=True)
class AuthoredCell:
    """One cell of the unit: its kind, and the line of the file where its text begins."""

    cell: NotebookNode
    kind: CellKind
    line: int

    @property
    def grade_id(self) -> str:
        return self.cell.metadata["nbgrader"]["grade_id"]


def read_unit(path: Path) -> tuple[NotebookNode, list[AuthoredCell]]:
    """The author's notebook, complete with nbgrader's metadata, and its cells with their kinds; practice
    cells are in the notebook only.

    Raises `ReleaseError` naming file, cell and line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ReleaseError(
            f"{path} does not exist. A unit is a folder with a file of the same name:"
            f" {path.parent.name}/{path.parent.name}.py"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ReleaseError(f"{path} cannot be read: {error}.") from None
    notebook = jupytext.reads(text, fmt="py:percent")
    lines = _first_lines(text, notebook)
    authored: list[AuthoredCell] = []
    texts = practices = 0
    for cell, line in zip(notebook.cells, lines, strict=True):
        where = f"{path}:{line}"
        if _is_practice(cell, where):
            practices += 1
            cell.metadata = node({})
            cell["id"] = f"practice-{practices:02d}"
            continue
        metadata = _declared(cell, where)
        if metadata is None:
            texts += 1
            metadata = {"grade_id": f"text-{texts:02d}", "locked": True}
        kind = _complete(cell, metadata, where)
        for other in authored:
            if other.grade_id == metadata["grade_id"]:
                _refuse(
                    where, f"the grade_id {other.grade_id!r} was used in line {other.line}; ids are unique."
                )
        authored.append(AuthoredCell(cell, kind, line))
    if not authored:
        raise ReleaseError(f"{path} holds no cells; a cell begins with a line '# %%'.")
    notebook.metadata = node({"kernelspec": KERNELSPEC, "language_info": {"name": "python"}})
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook, authored


def _is_practice(cell: NotebookNode, where: str) -> bool:
    """True for a cell that students change as they like, and that counts for nothing."""
    if "practice" not in cell.metadata:
        return False
    if dict(cell.metadata) != {"practice": True} or cell.cell_type != "code":
        _refuse(where, "a practice cell is code and says '# %% practice=true' and nothing else.")
    return True


def _declared(cell: NotebookNode, where: str) -> dict[str, Any] | None:
    """What the author wrote after `nbgrader=`; None for a text cell without it."""
    example = f"Declare it like this: {_EXAMPLE}"
    if "incorrectly_encoded_metadata" in cell.metadata:
        _refuse(where, f"the metadata is no JSON: {cell.metadata['incorrectly_encoded_metadata']}. {example}")
    if cell.cell_type not in ("code", "markdown"):
        _refuse(where, f"a {cell.cell_type} cell cannot be released; use a code or a markdown cell.")
    if "nbgrader" not in cell.metadata:
        if cell.cell_type == "markdown":
            return None
        first = next((line for line in cell.source.split("\n") if line.strip()), "")
        _refuse(where, f"the code cell that begins {first[:60]!r} has no nbgrader metadata. {example}")
    metadata = cell.metadata["nbgrader"]
    if not isinstance(metadata, dict):
        _refuse(where, f"expected nbgrader={{...}}, got nbgrader={metadata!r}. {example}")
    return dict(metadata)


def _complete(cell: NotebookNode, metadata: dict[str, Any], where: str) -> CellKind:
    """Check the metadata, fill in what nbgrader needs, give the cell its id; return its kind."""
    grade_id = metadata.get("grade_id")
    if not isinstance(grade_id, str) or not _GRADE_ID.match(grade_id):
        _refuse(
            where,
            f"a grade_id is 1 to 64 letters, digits, '-' and '_', got {grade_id!r}. Example: {_EXAMPLE}",
        )
    if unknown := set(metadata) - _FIELDS:
        _refuse(where, f"the cell {grade_id!r} has unknown nbgrader fields: {', '.join(sorted(unknown))}.")
    for flag in _FLAGS:
        if not isinstance(metadata.setdefault(flag, False), bool):
            _refuse(
                where, f"in the cell {grade_id!r}, {flag!r} must be true or false, got {metadata[flag]!r}."
            )
    kind = _kind(cell, metadata, where)
    for marker in _UNSUPPORTED:
        if marker in cell.source:
            _refuse(where, f"the cell {grade_id!r} uses nbgrader's {marker!r}, which is not supported here.")
    points = metadata.get("points")
    if kind in ("test", "written"):
        if not isinstance(points, int | float) or isinstance(points, bool) or not 0 <= points < math.inf:
            _refuse(where, f"the cell {grade_id!r} needs its points, a number from 0, got {points!r}.")
    elif points is not None:
        _refuse(where, f"the cell {grade_id!r} has points that would count for nothing: no 'grade': true.")
    metadata.update(schema_version=3, cell_type=cell.cell_type)
    kept = {key: cell.metadata[key] for key in ("tags",) if key in cell.metadata}
    cell.metadata = node({"nbgrader": metadata, **kept})
    cell["id"] = grade_id
    return kind


def _kind(cell: NotebookNode, metadata: dict[str, Any], where: str) -> CellKind:
    """What the flags of a cell make of it."""
    flags = {flag for flag in _FLAGS if metadata[flag]}
    kinds: dict[tuple[str, frozenset[str]], CellKind] = {
        ("markdown", frozenset({"locked"})): "text",
        ("markdown", frozenset({"grade", "solution"})): "written",
        ("code", frozenset({"locked"})): "provided",
        ("code", frozenset({"solution"})): "solution",
        ("code", frozenset({"grade"})): "test",
        ("code", frozenset({"grade", "locked"})): "test",
    }
    kind = kinds.get((cell.cell_type, frozenset(flags)))
    if kind is None:
        said = ", ".join(sorted(flags)) or "nothing"
        _refuse(
            where,
            f"the {cell.cell_type} cell {metadata['grade_id']!r} says {said}. Use 'locked' for provided code"
            " or text, 'solution' for a student's code, 'grade' for a test, 'grade' and 'solution' for a"
            " written answer.",
        )
    return kind


def _first_lines(text: str, notebook: NotebookNode) -> list[int]:
    """For each cell the line of the file (from 1) where its text begins, found by its `# %%` line.

    Where the markers cannot be paired with the cells (one stands inside a string), all lines are 1.
    """
    lines = text.split("\n")
    markers = [number for number, line in enumerate(lines, 1) if _MARKER.match(line)]
    if len(markers) != len(notebook.cells):
        return [1] * len(notebook.cells)
    starts = []
    for marker, cell in zip(markers, notebook.cells, strict=True):
        leading = len(cell.source) - len(cell.source.lstrip("\n"))
        start = marker + 1
        while not leading and start < len(lines) and not lines[start - 1].strip():
            start += 1
        starts.append(start)
    return starts


def _refuse(where: str, message: str) -> NoReturn:
    raise ReleaseError(f"{where}: {message}")
