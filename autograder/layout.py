"""Where cells go: parts of a split cell back together, canonical cells in order, a student's own between."""

from __future__ import annotations

import bisect
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from autograder.matching import Matching, Submitted
from autograder.spec import SpecCell
from minitx.course.definitions import defined_functions, imported_names, top_level_lines, words

_OPEN_END = re.compile(r"[:,(\[{\\=+\-*/]$")
_LEAVES = re.compile(r"(return|yield)\b")
_DEFINES = re.compile(r"(async\s+def|def|class|import|from)\b|[@)\]}]")


@dataclass
class Placed:
    """One cell of the result: a canonical one, or one of the student's own."""

    source: str
    cell_type: str
    cell: SpecCell | None = None
    attachments: Mapping[str, Any] | None = None


def rejoin(submitted: list[Submitted]) -> tuple[list[Submitted], list[Submitted]]:
    """Join code cells that were split inside an indented block; return all cells, and those that were joined.

    IPython runs an indented cell on its own, so only what cannot stand alone is joined: a second part that
    returns from a function, or a first part that ends in the middle of a statement.
    """
    result: list[Submitted] = []
    joined: list[Submitted] = []
    for one in reversed(submitted):
        rest = result[-1] if result else None
        if rest and _is_split(one, rest):
            result.pop()
            one = replace(one, source=one.source.rstrip("\n") + "\n" + rest.source)  # noqa: PLW2901
            joined = [one, *(other for other in joined if other is not rest)]
        result.append(one)
    return result[::-1], joined


def lay_out(matching: Matching) -> list[Placed]:
    """All cells in the order of the result. Cells that were moved are noted."""
    cells = matching.spec.cells
    places = [
        (index, one.index) for index, cell in enumerate(cells) if (one := matching.found.get(cell.grade_id))
    ]
    unmoved = _longest_increasing(places)
    gathered = matching.notes.get("gathered", [])
    for position, _ in places:
        grade_id = cells[position].grade_id
        if position not in {canonical for canonical, _ in unmoved} and grade_id not in gathered:
            matching.note("moved", grade_id)
    # A student's own cell follows the canonical cell that it followed, among those that were not moved.
    after: dict[int, list[Placed]] = {}
    for one in matching.extras:
        before = bisect.bisect_right([index for _, index in unmoved], one.index) - 1
        anchor = unmoved[before][0] if before >= 0 else -1
        after.setdefault(anchor, []).append(Placed(one.source, one.cell_type, None, one.attachments))
    placed = after.get(-1, [])
    for position, cell in enumerate(cells):
        one = matching.found.get(cell.grade_id)
        source = cell.released if cell.locked else matching.sources.get(cell.grade_id, cell.released)
        attachments = one.attachments if one and cell.kind == "written" else None
        placed.append(Placed(source, cell.cell_type, cell, attachments))
        placed += after.get(position, [])
    return placed


def move_helpers_up(placed: list[Placed], matching: Matching) -> list[Placed]:
    """Move a cell of functions or imports above the code that uses it, when a test stands between.

    A notebook whose cells were run out of order works for its author and for no one else. Only a cell
    that does nothing but define and import is moved, for only then its place makes no other difference.
    """
    placed = list(placed)
    for _ in range(3):  # a helper may need a helper
        moved = False
        for position, one in enumerate(placed):
            if one.cell or one.cell_type != "code" or not _only_defines(one.source):
                continue
            above = placed[:position]
            fresh = _provides(one.source) - {
                name for other in above if other.cell_type == "code" for name in _provides(other.source)
            }
            user = _first_user(above, fresh) if fresh else None
            if user is not None and any(other.cell and other.cell.kind == "test" for other in above[user:]):
                placed.insert(user, placed.pop(position))
                matching.note("helper", ", ".join(sorted(fresh)[:3]))
                moved = True
        if not moved:
            break
    return placed


def _is_split(first: Submitted, second: Submitted) -> bool:
    if (
        first.cell_type != "code"
        or second.cell_type != "code"
        or second.grade_id not in (None, first.grade_id)
    ):
        return False
    lines = [line for line in first.source.split("\n") if line.strip()]
    rest = [line for line in second.source.split("\n") if line.strip()]
    if not lines or not rest or not rest[0][0].isspace():
        return False
    return bool(_OPEN_END.search(lines[-1].rstrip())) or any(
        map(_LEAVES.match, top_level_lines(second.source))
    )


def _longest_increasing(places: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """The longest subsequence whose second parts increase: the cells that kept their order."""
    tails: list[float] = []
    ends: list[list[tuple[int, float]]] = []
    for place in places:
        length = bisect.bisect_left(tails, place[1])
        chain = [*(ends[length - 1] if length else []), place]
        if length == len(tails):
            tails.append(place[1])
            ends.append(chain)
        else:
            tails[length], ends[length] = place[1], chain
    return ends[-1] if ends else []


def _first_user(above: list[Placed], names: set[str]) -> int | None:
    """The first of the student's cells that mentions one of the names."""
    for position, other in enumerate(above):
        own = other.cell is None or other.cell.kind == "solution"
        if own and other.cell_type == "code" and words(other.source) & names:
            return position
    return None


def _provides(source: str) -> set[str]:
    return defined_functions(source) | imported_names(source)


def _only_defines(source: str) -> bool:
    return all(_DEFINES.match(line) for line in top_level_lines(source))
