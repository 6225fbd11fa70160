"""The autograded notebook: what was handed in, made whole, with its outputs and the result of every test.

It is the instructor's copy, as in nbgrader: test cells have their whole text, hidden tests included. Its
outputs are what students will see in the feedback, so they hold nothing but what is meant for students.
"""

from __future__ import annotations

import copy
import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import writes

from autograder.course import Course
from autograder.files import write_atomically
from autograder.nodes import node, nodes
from autograder.remarks import NOT_GRADED, STATUS, remarks_on
from autograder.repair import nbgrader_metadata
from autograder.sanitize import presentable_markdown, safe_outputs
from autograder.spec import Spec, SpecCell
from autograder.verdict import LooksLike, Subtest, Verdict
from minitx.course import quiz
from minitx.course.definitions import questions_shown
from minitx.errors import CourseError

OURS = "autograder"  # the key that marks cells and outputs of the grader's own
SUMMARY_ID = "autograder-summary"


def write_autograded(
    course: Course,
    unit: str,
    student: str,
    notebook: NotebookNode,
    verdict: Verdict,
    notes: Sequence[str] = (),
) -> Path:
    """Write autograded/<student>/<unit>/<unit>.ipynb for a repaired notebook, in one step.

    Each test cell ends in an output with its points, which nbgrader's own `determine_grade` reads as the
    score, unless the grader could not finish it. `notes` are shown at the top.
    """
    path = course.notebook_path(course.autograded, student, unit)
    result = autograded_notebook(notebook, verdict, course.spec(unit), notes)
    # The hidden tests are in it; on a shared machine it is for the course's staff alone.
    shared = course.directory.groupshared
    write_atomically(path, writes(result).encode(), 0o660 if shared else 0o600)
    stamp = course.timestamp(unit, student)
    if stamp is not None:
        write_atomically(path.parent / "timestamp.txt", f"{stamp.isoformat(' ')} UTC".encode(), 0o644)
    return path


def autograded_notebook(
    notebook: NotebookNode, verdict: Verdict, spec: Spec, notes: Sequence[str] = ()
) -> NotebookNode:
    """The notebook that `write_autograded` writes."""
    result = copy.deepcopy(notebook)
    canonical = {cell.grade_id: cell for cell in spec.cells}
    count = 0
    for cell in result.cells:
        known = canonical.get(cell.metadata.get("nbgrader", {}).get("grade_id"))
        if known and known.kind == "test":
            cell.source = known.source
            cell.metadata.nbgrader = node(nbgrader_metadata(known, known.source))
            cell.outputs = nodes(_test_outputs(known, verdict, spec))
        elif cell.cell_type == "code":
            run = verdict.cells.get(cell.id)
            if run is not None:
                count += 1
                cell.execution_count = count
                cell.outputs = nodes(safe_outputs(run.outputs, count))
            elif known and known.kind == "provided":
                cell.outputs = nodes(_question_outputs(known))
        elif not (known and known.locked):
            cell.source = presentable_markdown(cell.source, cell.get("attachments"))
    summary = summary_cell(notes, verdict.looks_like, verdict.needs_review != "")
    if summary is not None:
        result.cells.insert(0, summary)
    return result


def summary_cell(
    notes: Sequence[str], looks_like: LooksLike | None, needs_review: bool
) -> NotebookNode | None:
    """A text cell for the top of the page; None when there is nothing to say."""
    parts = []
    if needs_review:
        parts.append("<p><b>The grader could not finish. A person will look at this submission.</b></p>")
    if looks_like is not None:
        start = (
            "Your answer does what this idea would do"
            if looks_like.certain
            else "Perhaps this idea is behind it"
        )
        told = f"{_html(looks_like.belief)} <i>{_html(looks_like.advice)}</i>"
        parts.append(f"<p><b>{start} ({_html(looks_like.name)}):</b> {told}</p>")
    if notes:
        items = "".join(f"<li>{_html(note)}</li>" for note in notes)
        parts.append(f"<p><b>About the file you handed in:</b></p><ul>{items}</ul>")
    if not parts:
        return None
    # One line, since Markdown ends a block of HTML at the first empty one.
    source = f'<div class="autograder-summary">{"".join(parts)}</div>'
    metadata = {OURS: "summary", "deletable": False, "editable": False}
    return node({"cell_type": "markdown", "id": SUMMARY_ID, "metadata": metadata, "source": source})


def _test_outputs(cell: SpecCell, verdict: Verdict, spec: Spec) -> list[dict[str, Any]]:
    """The table of a test cell's tests, and its points as nbgrader reads them."""
    tests = verdict.tests.get(cell.grade_id, [])
    unfinished = bool(verdict.needs_review) or not tests or any(test.outcome == "XX" for test in tests)
    marked = {"metadata": {OURS: True}}
    if verdict.needs_review or not tests:
        shown = {"text/plain": NOT_GRADED, "text/html": f"<p>{_html(NOT_GRADED)}</p>"}
    else:
        rows = [(test, remarks_on(test, spec)) for test in tests]
        shown = {"text/plain": _plain_table(rows), "text/html": _html_table(rows)}
    table = {"output_type": "display_data", "data": shown, **marked}
    if unfinished:
        return [table]
    points = {"text/plain": repr(float(verdict.points(cell.grade_id)))}
    return [table, {"output_type": "execute_result", "data": points, "execution_count": None, **marked}]


def _question_outputs(cell: SpecCell) -> list[dict[str, Any]]:
    """What a cell prints that shows a question. It is not run while grading, and the page needs the text."""
    try:
        text = "\n".join(quiz.text_of(name) for name in questions_shown(cell.source))
    except CourseError:  # of an earlier release: the bank no longer has it
        return []
    return [{"output_type": "stream", "name": "stdout", "text": text + "\n"}] if text else []


def _plain_table(rows: list[tuple[Subtest, list[tuple[str, str]]]]) -> str:
    lines = []
    for test, remarks in rows:
        lines.append(f"{STATUS[test.outcome]}: {test.title} ({test.points:g} of {test.max_points:g})")
        lines += [f"    {label}: {text}" if label else f"    {text}" for label, text in remarks]
    return "\n".join(lines)


def _html_table(rows: list[tuple[Subtest, list[tuple[str, str]]]]) -> str:
    cell = 'style="text-align:left;vertical-align:top;padding:2px 12px 2px 0"'
    whole = cell.replace(":top;", ":top;white-space:nowrap;")  # or "0.5 of 0.5" breaks in two
    lines = ["<tr>" + "".join(f"<th {cell}>{head}</th>" for head in ("Test", "Result", "Points")) + "</tr>"]
    for test, remarks in rows:
        told = "".join(
            f"<br>{f'<i>{_html(label)}:</i> ' if label else ''}{_html(text)}" for label, text in remarks
        )
        lines.append(
            f"<tr><td {cell}>{_html(test.title)}{told}</td>"
            f"<td {whole}>{STATUS[test.outcome]}</td>"
            f"<td {whole}>{test.points:g} of {test.max_points:g}</td></tr>"
        )
    return f'<table class="autograder-tests">{"".join(lines)}</table>'


def _html(text: str) -> str:
    return html.escape(" ".join(text.split()))
