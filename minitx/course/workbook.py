"""A student's notebook as text: where a unit's lies, and what its cells are. Nothing is run here."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from minitx.course.definitions import defined_functions
from minitx.errors import CourseError

# Each unit needs some of those before it. Others, of an instructor's own, come after them by name.
ORDER = ("attention", "cost", "order", "causal", "cache", "heads", "autograd", "gpt", "expert")
Kind = Literal["text", "provided", "solution", "test", "written", "own"]

_DETAILS = re.compile(r"<details>\s*<summary>(?P<title>.*?)</summary>(?P<text>.*?)</details>", re.DOTALL)
_MINUTES = re.compile(r"\*\*Time:\*\*\D*(\d+)")


@dataclass(frozen=True)
class Cell:
    """One cell. `name` is its grade_id, or its place ("cell 7") where a student added it."""

    name: str
    kind: Kind
    source: str
    is_code: bool


@dataclass(frozen=True)
class Task:
    """What the student writes in one place: the functions, the hints before it, the test cells after it."""

    name: str
    functions: tuple[str, ...]
    hints: tuple[str, ...]
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Workbook:
    """The notebook of one unit."""

    unit: str
    path: Path
    cells: tuple[Cell, ...]
    title: str = ""
    minutes: int | None = None
    tasks: tuple[Task, ...] = field(default=())


def find(name: str, start: Path | None = None) -> Path:
    """The notebook of a unit, or the file called `name`.

    Looked for, here and in every folder above: exercises/NAME/NAME.ipynb, NAME/NAME.ipynb, NAME.ipynb.
    Raises CourseError that lists the units that there are.
    """
    start = Path.cwd() if start is None else start
    if name.endswith(".ipynb") or "/" in name:
        path = start / name
        if path.is_file():
            return path
        raise CourseError(f"There is no notebook {name}.")
    for folder in (start, *start.parents):
        for place in (f"exercises/{name}/{name}.ipynb", f"{name}/{name}.ipynb", f"{name}.ipynb"):
            if (folder / place).is_file():
                return folder / place
    there = ", ".join(sorted(path.stem for path in all_units(start)))
    raise CourseError(
        f"No notebook of a unit {name!r} was found from {start} upwards. "
        + (f"There are: {there}." if there else "Go to the folder that holds `exercises`.")
    )


def all_units(start: Path | None = None) -> list[Path]:
    """The notebooks of all units in the nearest `exercises` folder, here or above, in the course's order."""
    start = Path.cwd() if start is None else start
    for folder in (start, *start.parents):
        found = sorted(folder.glob("exercises/*/*.ipynb"), key=place_in_course)
        units = [path for path in found if path.stem == path.parent.name]
        if units:
            return units
    return []


def place_in_course(path: Path) -> tuple[int, str]:
    """What to sort notebooks by."""
    return ORDER.index(path.stem) if path.stem in ORDER else len(ORDER), str(path)


def read(path: Path) -> Workbook:
    """The notebook as it is on disk. Raises CourseError where it cannot be read, and says what to do."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CourseError(f"{path} cannot be read: {error}") from None
    try:
        notebook = json.loads(text)
        raw = notebook["cells"]
        cells = tuple(_cell(item, place) for place, item in enumerate(raw, 1))
    except (ValueError, KeyError, TypeError, AttributeError):
        reason = (
            "it holds marks of an unfinished merge (<<<<<<<)" if "<<<<<<<" in text else "it is no notebook"
        )
        if not text.strip():
            reason = "it is empty"
        raise CourseError(
            f"{path} cannot be read: {reason}. Save it again in Jupyter, or take a fresh copy of the unit."
        ) from None
    words = "\n".join(cell.source for cell in cells if not cell.is_code)
    heading = re.search(r"^# (.+)$", words, re.MULTILINE)
    minutes = _MINUTES.search(words)
    return Workbook(
        path.stem,
        path,
        cells,
        heading[1].strip() if heading else path.stem,
        int(minutes[1]) if minutes else None,
        tuple(_tasks(cells)),
    )


def _cell(item: dict[str, Any], place: int) -> Cell:
    source = item["source"] if isinstance(item["source"], str) else "".join(item["source"])
    marks = item.get("metadata", {}).get("nbgrader") or {}
    is_code = item["cell_type"] == "code"
    name = marks.get("grade_id") or f"cell {place}"
    return Cell(str(name), _kind(marks, is_code), source, is_code)


def _kind(marks: dict[str, Any], is_code: bool) -> Kind:
    if marks.get("grade") and marks.get("solution"):
        return "written"
    if marks.get("grade") and is_code:
        return "test"
    if marks.get("solution"):
        return "solution"
    if not is_code:
        return "text"
    return "provided" if marks.get("locked") else "own"


def _tasks(cells: tuple[Cell, ...]) -> list[Task]:
    """Each solution cell with the hints since the one before, and the test cells up to the next."""
    tasks: list[Task] = []
    hints: list[str] = []
    for cell in cells:
        if cell.kind == "text":
            hints += [_plain(match) for match in _DETAILS.finditer(cell.source)]
        elif cell.kind == "solution" and cell.is_code:
            tasks.append(Task(cell.name, tuple(sorted(defined_functions(cell.source))), tuple(hints), ()))
            hints = []
        elif cell.kind == "test" and tasks:
            last = tasks[-1]
            tasks[-1] = Task(last.name, last.functions, last.hints, (*last.tests, cell.name))
    return tasks


def _plain(match: re.Match[str]) -> str:
    """A folded hint as lines for a terminal."""
    text = re.sub(r"^```\w*$", "", match["text"], flags=re.MULTILINE).replace("`", "").strip()
    return f"{match['title'].strip()}\n\n{text}"
