"""Which submitted cell is which canonical cell, when no label in the submission can be trusted.

In order: by grade_id, by cell id, by equal text, by the names that a cell defines, and for written
answers by their neighbours. What a student wrote is never thrown away: a cell that matches nothing stays
as a plain cell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from autograder.spec import Spec, SpecCell
from minitx.course.definitions import defined_functions, defined_names, imported_names

_FENCE = re.compile(r"\s*```[^\n]*\n(.*?)\n?```\s*$", re.DOTALL)
_SAYS_NOTHING = re.compile(r"(pass|\.\.\.|raise NotImplementedError(\(.*\))?)\s*(#.*)?$")
_PROSE = re.compile(r"[^\W\d_]{2,} [^\W\d_]{2,}")


@dataclass
class Submitted:
    """One cell as it was handed in, with the labels that it claims."""

    index: float
    cell_type: str
    source: str
    grade_id: str | None = None
    cell_id: str | None = None
    claims: Mapping[str, Any] = field(default_factory=dict)  # its nbgrader metadata
    tags: bool = False
    attachments: Mapping[str, Any] | None = None

    @property
    def blank(self) -> bool:
        return not self.source.strip()


@dataclass
class Matching:
    """For each canonical cell that was found: the submitted cell whose place it has, and the text to keep."""

    spec: Spec
    found: dict[str, Submitted] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)  # of solution and written cells
    extras: list[Submitted] = field(default_factory=list)
    notes: dict[str, list[str]] = field(default_factory=dict)  # grade_ids, by the kind of repair

    def note(self, kind: str, grade_id: str) -> None:
        self.notes.setdefault(kind, []).append(grade_id)

    def claim(self, cell: SpecCell, submitted: Submitted) -> None:
        """This submitted cell is that canonical cell."""
        self.extras.remove(submitted)
        self.found[cell.grade_id] = submitted
        if not cell.locked:
            self.sources[cell.grade_id] = unfenced(submitted) if cell.kind == "solution" else submitted.source

    def untouched(self, cell: SpecCell) -> bool:
        """True when a solution or written cell is missing, empty, or still what was released; of a solution
        cell also when it only says that there is nothing."""
        source = self.sources.get(cell.grade_id, "")
        if not source.strip() or same_text(source, cell.released):
            return True
        lines = [line.strip() for line in source.split("\n")]
        code = [line for line in lines if line and not line.startswith("#")]
        return cell.kind == "solution" and all(map(_SAYS_NOTHING.match, code))


def match(submitted: list[Submitted], spec: Spec) -> Matching:
    """Find the canonical cells among the submitted ones."""
    matching = Matching(spec, extras=list(submitted))
    canonical = {cell.grade_id for cell in spec.cells}
    released = [cell.released for cell in spec.cells]
    _by(matching, lambda one, cell: one.grade_id == cell.grade_id)
    labelled = set(matching.found)
    _by(matching, lambda one, cell: one.cell_id == cell.grade_id and one.grade_id not in canonical)
    _by(
        matching,
        lambda one, cell: (
            bool(cell.released.strip())
            and same_text(one.source, cell.released)
            and sum(same_text(text, cell.released) for text in released) == 1
        ),
    )
    _by_names(matching)
    _by_neighbours(matching)
    for grade_id in matching.found:
        if grade_id not in labelled:
            matching.note("unlabelled", grade_id)
    _drop_copies(matching)
    return matching


def same_text(one: str, other: str) -> bool:
    """Equal up to white space at the ends of lines and of the text."""
    return trimmed(one) == trimmed(other)


def trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n")).strip("\n")


def _by(matching: Matching, belongs: Callable[[Submitted, SpecCell], bool]) -> None:
    """One pass: claim for each canonical cell that is not found yet the best of those that belong to it."""
    for cell in matching.spec.cells:
        if cell.grade_id in matching.found:
            continue
        candidates = [one for one in matching.extras if belongs(one, cell)]
        candidates = [one for one in candidates if not _is_mislabelled(one, cell, matching.spec)]
        if not candidates:
            continue
        best = max(candidates, key=lambda one: _preference(one, cell))
        matching.claim(cell, best)
        if len(candidates) > 1:
            matching.note("duplicate", cell.grade_id)


def _preference(one: Submitted, cell: SpecCell) -> tuple[bool, bool, float]:
    """Of several cells with one label the last counts, as it would when the notebook is run; but an
    answer counts before a stub, and the right type before another."""
    untouched = one.blank or same_text(one.source, cell.released)
    return (untouched if cell.locked else not untouched, one.cell_type == cell.cell_type, one.index)


def _is_mislabelled(one: Submitted, cell: SpecCell, spec: Spec) -> bool:
    """True for the answer to one exercise under the label of another, or of a locked code cell."""
    if cell.cell_type != "code" or same_text(one.source, cell.released):
        return False
    own = defined_names(cell.source)
    others = {
        name
        for other in spec.cells
        if other.kind == "solution" and other is not cell
        for name in defined_names(other.source)
    }
    defined = defined_functions(unfenced(one))
    return bool(defined & others - own) and (cell.locked or not defined & own)


def _by_names(matching: Matching) -> None:
    """Find solution cells by what they define; fill a stub whose code stands elsewhere."""
    solutions = [cell for cell in matching.spec.cells if cell.kind == "solution"]
    for cell in solutions:
        if not matching.untouched(cell):
            continue
        wanted = defined_names(cell.source)
        parts = _defining(matching.extras, wanted)
        covered = {name for part in parts for name in defined_names(part.source)}
        if parts and (cell.grade_id not in matching.found or wanted <= covered):
            _adopt(matching, cell, parts, "\n\n\n")
            continue
        earlier, later = _elsewhere(matching, solutions, cell, wanted)
        if wanted and earlier:
            matching.sources[cell.grade_id] = f"# Nothing here: {', '.join(sorted(wanted))} is defined above."
            matching.note("merged", cell.grade_id)
        elif wanted and later:
            matching.sources[cell.grade_id] = later
            matching.note("merged", cell.grade_id)


def _defining(extras: list[Submitted], wanted: set[str]) -> list[Submitted]:
    """The fewest, latest cells that together define as many of the wanted names as there are."""
    code = [one for one in extras if one.cell_type == "code"]
    if not any(defined_names(one.source) & wanted for one in code):
        # Code that was turned into text; there, only a function is a sure sign.
        code = [one for one in extras if defined_functions(unfenced(one)) & wanted]
    parts: list[Submitted] = []
    missing = set(wanted)
    for one in reversed(code):
        defined = defined_names(unfenced(one)) & missing
        if defined:
            missing -= defined
            parts.insert(0, one)
    return parts


def _adopt(matching: Matching, cell: SpecCell, parts: list[Submitted], between: str) -> None:
    """Make these plain cells the answer in `cell`, in place of the stub where there is one."""
    stub = matching.found.pop(cell.grade_id, None)
    if stub or len(parts) > 1:
        matching.note("gathered", cell.grade_id)
    for part in parts:
        matching.claim(cell, part)
    texts = [part.source if cell.kind == "written" else unfenced(part) for part in parts]
    matching.sources[cell.grade_id] = between.join(texts)
    if stub:
        matching.found[cell.grade_id] = stub  # the answer takes the stub's place


def _elsewhere(
    matching: Matching, solutions: list[SpecCell], cell: SpecCell, wanted: set[str]
) -> tuple[bool, str]:
    """Whether earlier solution cells define all the wanted names, and else the later cell that does."""
    position = solutions.index(cell)
    above: set[str] = set()
    for other in solutions[:position]:
        above |= defined_names(matching.sources.get(other.grade_id, ""))
    for other in solutions[position + 1 :]:
        source = matching.sources.get(other.grade_id, "")
        if wanted <= defined_names(source) and not matching.untouched(other):
            return wanted <= above, source
    return wanted <= above, ""


def _by_neighbours(matching: Matching) -> None:
    """Find answers that define nothing between the canonical cells before and after them."""
    places = {grade_id: one.index for grade_id, one in matching.found.items()}
    for position, cell in enumerate(matching.spec.cells):
        names_nothing = cell.kind == "written" or not defined_names(cell.source)
        if cell.locked or not names_nothing or not matching.untouched(cell):
            continue
        own = [one for one in matching.extras if not one.blank and not _is_copy(one, matching.spec)]
        between = _between(matching, position, places, own)
        if cell.kind == "solution":
            answers = [one for one in between if one.cell_type == "code"]
        else:
            texts = [one for one in own if one.cell_type != "code"]
            answers = [one for one in between if one.cell_type != "code"]
            answers = answers or [one for one in between if len(_PROSE.findall(one.source)) >= 2][:1]
            if not answers and cell.grade_id not in matching.found and len(texts) == 1:
                answers = texts  # the only text of the student's own, wherever it was moved to
        if answers:
            _adopt(matching, cell, answers, "\n\n")


def _between(
    matching: Matching, position: int, places: Mapping[str, float], cells: list[Submitted]
) -> list[Submitted]:
    """Those that stand between the neighbours of the canonical cell at `position`."""
    canonical = matching.spec.cells
    before = [places[cell.grade_id] for cell in canonical[:position] if cell.grade_id in places]
    after = [places[cell.grade_id] for cell in canonical[position + 1 :] if cell.grade_id in places]
    ends = [before[-1] if before else -1, after[0] if after else len(places) + 10**6]
    return [one for one in cells if min(ends) < one.index < max(ends)]


def _drop_copies(matching: Matching) -> None:
    """Leave out empty cells and those that repeat what was released: a repeated stub would undo an answer."""
    for one in list(matching.extras):
        if one.blank or _is_copy(one, matching.spec):
            matching.extras.remove(one)


def _is_copy(one: Submitted, spec: Spec) -> bool:
    return any(same_text(one.source, cell.released) for cell in spec.cells if cell.released.strip())


def unfenced(one: Submitted) -> str:
    """The text of a cell that is to be code: one that was made a text cell may have ``` lines around it."""
    fenced = _FENCE.match(one.source) if one.cell_type != "code" else None
    return fenced[1] if fenced else one.source


def new_names(source: str, released: str) -> set[str]:
    """What a changed locked cell defines or imports beyond the released one."""
    ours = defined_names(released) | imported_names(released)
    return (defined_names(source) | imported_names(source)) - ours
