"""A submission made whole: the canonical cells in their order, the student's own cells among them.

Nothing that a submission says about itself is trusted. Locked cells get their released text (the hidden
tests are put in only where the instructor's copy is written), labels are made anew, and what was repaired
is told to student and instructor, one sentence for each kind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nbformat import NotebookNode

from autograder.layout import Placed, lay_out, move_helpers_up, rejoin
from autograder.matching import Matching, Submitted, match, new_names, same_text, trimmed
from autograder.nodes import node
from autograder.spec import Spec, SpecCell

_KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}

# One sentence for each kind of repair, in the order in which they are told.
_SENTENCES = {
    "rejoined": "A cell had been split in the middle of a block, and its parts were joined: {cells}.",
    "unlabelled": "Cells without their labels were recognised by their text or by what they define: {cells}.",
    "duplicate": "A cell was there more than once, and the last answer counts: {cells}.",
    "gathered": "The answer stood in other cells and was put where it belongs: {cells}.",
    "merged": "The answer stood in the cell of another exercise and was taken from there: {cells}.",
    "retyped": "The type of a cell had been changed between code and text, and was set back: {cells}.",
    "changed": "A locked cell had been changed, and was set back: {cells}.",
    "kept": "What you added to a locked cell was kept in a cell of its own: {cells}.",
    "claims": "The grading marks of a cell had been changed, and were set back: {cells}.",
    "moved": "Cells had been moved, and were put back in their order: {cells}.",
    "missing": "Missing cells were put back: {cells}.",
    "helper": "A cell of yours stood below the test that needs it, and was moved up: {cells}.",
}


@dataclass
class Repaired:
    """A valid notebook with every canonical cell, and what had to be repaired, for the student to read."""

    notebook: NotebookNode
    notes: list[str] = field(default_factory=list)


def repair(notebook: NotebookNode, spec: Spec) -> Repaired:
    """Make a submission whole. Never raises for what is in `notebook`.

    The result has, for each canonical cell, the id and grade_id of the spec and fresh nbgrader metadata,
    in the spec's order; a test cell has its released text, without hidden tests. The student's own cells
    stand where they stood among their neighbours, as plain cells.
    """
    submitted = _read(notebook)
    joined, ends = rejoin(submitted)
    matching = match(joined, spec)
    for one in ends:
        matching.note("rejoined", one.grade_id or f"number {one.index + 1:.0f}")
    _compare(matching)
    placed = lay_out(matching)
    placed = move_helpers_up(placed, matching)
    told = [
        sentence.format(cells=_listed(matching.notes[kind]))
        for kind, sentence in _SENTENCES.items()
        if kind in matching.notes
    ]
    return Repaired(_build(placed), _general_notes(notebook, submitted, matching) + told)


def checksum(cell: SpecCell, source: str) -> str:
    """nbgrader's own checksum of a cell with this text (`nbgrader.utils.compute_checksum`)."""
    graded, solution = cell.kind in ("test", "written"), cell.kind in ("solution", "written")
    parts = [source, cell.cell_type, str(graded), str(solution), str(cell.locked), cell.grade_id]
    if graded:
        parts.append(str(float(cell.points)))
    return hashlib.md5("".join(parts).encode(), usedforsecurity=False).hexdigest()


def nbgrader_metadata(cell: SpecCell, source: str) -> dict[str, Any]:
    """A canonical cell's nbgrader metadata (schema 3); `source` is the text that counts as unchanged."""
    graded = cell.kind in ("test", "written")
    metadata = {
        "schema_version": 3,
        "grade_id": cell.grade_id,
        "grade": graded,
        "solution": cell.kind in ("solution", "written"),
        "locked": cell.locked,
        "task": False,
        "cell_type": cell.cell_type,
        "checksum": checksum(cell, source),
    }
    return {**metadata, "points": cell.points} if graded else metadata


def _read(notebook: Any) -> list[Submitted]:
    """The submitted cells, with only such labels as have the right type."""
    cells = notebook.get("cells") if isinstance(notebook, Mapping) else None
    found = []
    for index, cell in enumerate(cells if isinstance(cells, list) else []):
        if not isinstance(cell, Mapping):
            continue
        metadata = cell.get("metadata")
        metadata = metadata if isinstance(metadata, Mapping) else {}
        claims = metadata.get("nbgrader")
        claims = claims if isinstance(claims, Mapping) else {}
        grade_id, cell_id, source = claims.get("grade_id"), cell.get("id"), cell.get("source")
        kind, attachments = cell.get("cell_type"), cell.get("attachments")
        found.append(
            Submitted(
                index=index,
                cell_type=kind if kind in ("code", "markdown", "raw") else "raw",
                source=source if isinstance(source, str) else "",
                grade_id=grade_id if isinstance(grade_id, str) else None,
                cell_id=cell_id if isinstance(cell_id, str) else None,
                claims=claims,
                tags=bool(metadata.get("tags")),
                attachments=attachments if isinstance(attachments, Mapping) else None,
            )
        )
    return found


def _compare(matching: Matching) -> None:
    """Note how cells differ from the canonical ones; keep what a student added to a locked one."""
    for cell in matching.spec.cells:
        one = matching.found.get(cell.grade_id)
        if one is None:
            if cell.grade_id not in matching.sources and cell.released.strip():
                matching.note("missing", cell.grade_id)
            continue
        if one.cell_type != cell.cell_type:
            matching.note("retyped", cell.grade_id)
        if one.grade_id == cell.grade_id and _claims_otherwise(one.claims, cell):
            matching.note("claims", cell.grade_id)
        if cell.locked and not same_text(one.source, cell.released):
            matching.note("changed", cell.grade_id)
            if added := _added(one, cell):
                matching.note("kept", cell.grade_id)
                matching.extras.append(Submitted(one.index + 0.5, cell.cell_type, added))
    matching.extras.sort(key=lambda one: one.index)


def _claims_otherwise(claims: Mapping[str, Any], cell: SpecCell) -> bool:
    canonical = nbgrader_metadata(cell, cell.released)
    # A released test may be marked as locked or not: nbgrader locks it all the same.
    keys = ("grade", "solution") if cell.kind == "test" else ("grade", "solution", "locked")
    wrong_flag = any(claims[key] != canonical[key] for key in keys if key in claims)
    return wrong_flag or ("points" in claims and claims["points"] != canonical.get("points"))


def _added(one: Submitted, cell: SpecCell) -> str:
    """What a student wrote into a locked cell and would miss: definitions, or lines of text."""
    if cell.cell_type == "code":
        return one.source if new_names(one.source, cell.released) else ""
    known = set(trimmed(cell.released).split("\n"))
    return "\n".join(line for line in trimmed(one.source).split("\n") if line not in known).strip("\n")


def _general_notes(notebook: Any, submitted: list[Submitted], matching: Matching) -> list[str]:
    """What concerns the whole notebook."""
    notes = []
    metadata = notebook.get("metadata") if isinstance(notebook, Mapping) else None
    kernelspec = metadata.get("kernelspec") if isinstance(metadata, Mapping) else None
    language = kernelspec.get("language") if isinstance(kernelspec, Mapping) else None
    if isinstance(language, str) and language.casefold() != "python":
        notes.append("The notebook's kernel was set back to Python 3.")
    if any(one.tags for one in submitted):
        notes.append("Tags on cells were removed; they have no effect on the grading.")
    if not submitted:
        notes.append("The notebook has no cells.")
    elif not matching.found:
        notes.append(
            f"None of the cells of {matching.spec.unit} is in this notebook. Is it the notebook of another"
            " unit?"
        )
    return notes


def _build(placed: list[Placed]) -> NotebookNode:
    """A valid notebook of these cells."""
    taken = {one.cell.grade_id for one in placed if one.cell}
    cells: list[dict[str, Any]] = []
    number = 0
    for one in placed:
        cell: dict[str, Any] = {"cell_type": one.cell_type, "metadata": {}, "source": one.source}
        if one.cell:
            cell["id"] = one.cell.grade_id
            cell["metadata"]["nbgrader"] = nbgrader_metadata(one.cell, one.cell.released)
        else:
            number += 1
            while f"extra-{number:02d}" in taken:
                number += 1
            cell["id"] = f"extra-{number:02d}"
        if one.cell_type == "code":
            cell.update(outputs=[], execution_count=None)
        elif one.attachments:
            cell["attachments"] = one.attachments
        cells.append(cell)
    metadata = {"kernelspec": _KERNELSPEC, "language_info": {"name": "python"}}
    return node({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


def _listed(names: list[str]) -> str:
    unique = list(dict.fromkeys(names))
    return ", ".join(unique[:12]) + (f" and {len(unique) - 12} more" if len(unique) > 12 else "")
