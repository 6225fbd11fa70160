"""Notebooks that no one would write: the coordinator takes every one in, and what it makes of it is whole.

Cells are shuffled, split, merged, copied, retyped, given other text; metadata is replaced by anything that
JSON can say; then the file's bytes may be cut or overwritten.
"""

from __future__ import annotations

import json
import os
from typing import Any

import nbformat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nbformat import NotebookNode
from nbgrader.nbgraderformat import MetadataValidator

from autograder.assessing import Judged, assess, result_of
from autograder.autograded import autograded_notebook
from autograder.cells import Cell
from autograder.intake import Intake
from autograder.journal import key_of
from autograder.release import Built
from autograder.report.standing import own_code
from autograder.similarity import fingerprints
from autograder.spec import Spec
from autograder.verdict import CellRun, Subtest, Verdict
from minitx.course.subtests import split_cell

PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats()
    | st.text(st.characters(exclude_categories=[]), max_size=20)
    | st.sampled_from(
        ["halve", "spread", "test-halve", "code", "markdown", "raw", "def halve(x):\n  return 1"]
    )
)
KEYS = st.sampled_from(
    "cell_type source input outputs metadata nbgrader grade_id id tags points grade solution locked schema_version"
    " task checksum attachments execution_count text/plain image/png level kernelspec".split()
) | st.text(max_size=8)
JUNK = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=15,
)
TEXT = st.sampled_from(
    [
        "",
        " ",
        "%%bash\nrm -rf /",
        "!ls \\\n more",
        "def halve(number):\n    return 1",
        "    return 1",
        '"""open',
        "```python\nx\n```",
        "# %%\n### BEGIN HIDDEN TESTS",
        "\\begin{align}<script>alert(1)</script>",
        "(" * 2000,
        "x = 1;" * 2000,
        "\x1b[31m\0\ufffe",
        "<!-- \u202e -->",
    ]
) | st.text(st.characters(exclude_categories=[]), max_size=80)


def shuffle(draw: Any, cells: list[Any]) -> None:
    cells[:] = draw(st.permutations(cells))


def split(draw: Any, cells: list[Any]) -> None:
    place = draw(st.integers(0, len(cells) - 1))
    cell = cells[place]
    source = cell.get("source") if isinstance(cell, dict) else None
    if isinstance(source, str) and source:
        at = draw(st.integers(0, len(source)))
        rest = {**cell, "source": source[at:]}
        if draw(st.booleans()):
            rest["metadata"] = {}
        cells[place] = {**cell, "source": source[:at]}
        cells.insert(place + 1, rest)


def merge(draw: Any, cells: list[Any]) -> None:
    if len(cells) > 1:
        place = draw(st.integers(0, len(cells) - 2))
        one, other = cells[place : place + 2]
        if isinstance(one, dict) and isinstance(other, dict):
            cells[place : place + 2] = [{**one, "source": f"{one.get('source')}\n{other.get('source')}"}]


def remove(draw: Any, cells: list[Any]) -> None:
    cells.pop(draw(st.integers(0, len(cells) - 1)))


def duplicate(draw: Any, cells: list[Any]) -> None:
    cells.insert(draw(st.integers(0, len(cells))), draw(st.sampled_from(cells)))


def replace(draw: Any, cells: list[Any]) -> None:
    """One field of one cell, or the whole cell, becomes anything."""
    place = draw(st.integers(0, len(cells) - 1))
    if isinstance(cells[place], dict) and draw(st.integers(0, 4)):
        cells[place] = {**cells[place], draw(KEYS): draw(JUNK)}
    else:
        cells[place] = draw(JUNK)


def rewrite(draw: Any, cells: list[Any]) -> None:
    place = draw(st.integers(0, len(cells) - 1))
    if isinstance(cells[place], dict):
        cells[place] = {**cells[place], "source": draw(TEXT)}


def retype(draw: Any, cells: list[Any]) -> None:
    place = draw(st.integers(0, len(cells) - 1))
    if isinstance(cells[place], dict):
        kinds = st.sampled_from(["code", "markdown", "raw", "heading", "CODE", "", "sql"]) | PLAIN
        cells[place] = {**cells[place], "cell_type": draw(kinds)}


def relabel(draw: Any, cells: list[Any]) -> None:
    place = draw(st.integers(0, len(cells) - 1))
    cell = cells[place]
    if isinstance(cell, dict) and isinstance(cell.get("metadata"), dict):
        label = cell["metadata"].get("nbgrader")
        label = dict(label) if isinstance(label, dict) else {}
        cells[place] = {
            **cell,
            "metadata": {**cell["metadata"], "nbgrader": {**label, draw(KEYS): draw(JUNK)}},
        }


CHANGES = [shuffle, split, merge, remove, duplicate, replace, rewrite, retype, relabel]


@st.composite
def files(draw: Any, right: NotebookNode) -> bytes:
    book: dict[str, Any] = json.loads(json.dumps(right))
    for _ in range(draw(st.integers(0, 8))):
        if book["cells"]:
            draw(st.sampled_from(CHANGES))(draw, book["cells"])
    if draw(st.integers(0, 4)) == 0:
        book[draw(st.sampled_from(["cells", "metadata", "nbformat", "nbformat_minor", "worksheets"]))] = draw(
            JUNK
        )
    data = json.dumps(book).encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 9)) == 0:
        data = data[: draw(st.integers(0, len(data)))]
    if draw(st.integers(0, 9)) == 0:
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.binary(max_size=30)) + data[at:]
    return data


class Canned:
    """Answers as a runner would, and looks at what it is given."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec

    def judge(self, cells: list[Cell], seed: bytes) -> Verdict:
        json.dumps([vars(cell) for cell in cells]).encode()
        tests = [cell.grade_id for cell in self.spec.cells if cell.kind == "test"]
        assert [cell.id for cell in cells if cell.kind == "test"] == tests
        verdict = Verdict(seconds=0.1)
        for cell in cells:
            if cell.kind == "test":
                parts = split_cell(self.spec.cell(cell.id)).parts
                verdict.tests[cell.id] = [
                    Subtest(p.title, "WA", 0.0, p.points, p.hidden, p.hint) for p in parts
                ]
            else:
                output = {"output_type": "stream", "name": "stdout", "text": cell.source[:50]}
                verdict.cells[cell.id] = CellRun("OK", [output])
        return verdict


def take_in(data: bytes, spec: Spec) -> None:
    """What the coordinator does with one submission, short of the database and the template."""
    taken = Intake(data, [])
    key_of(taken, spec, b"seed")
    judged = assess("ada", taken, spec, b"seed", Canned(spec))  # type: ignore[arg-type]
    assert judged.verdict.needs_review == "", judged.verdict.needs_review
    again = Judged.from_json(judged.to_json().encode("utf-8", "replace").decode())
    assert again.notes == judged.notes
    result = result_of(again, spec)
    assert result.status in ("no points", "unreadable")
    for note in (*result.notes, result.message):
        note.encode()
        assert note[0].isupper() or not note[0].isalpha()
    finished = autograded_notebook(again.notebook, again.verdict, spec, again.told)
    nbformat.validate(finished)
    MetadataValidator().validate_nb(finished)
    labelled = [c.metadata.nbgrader.grade_id for c in finished.cells if "nbgrader" in c.metadata]
    assert labelled == [cell.grade_id for cell in spec.cells]
    assert "canary_4711" not in json.dumps(list(again.notebook.cells))
    fingerprints(own_code(again, spec))


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_notebook_stops_the_coordinator(right: NotebookNode, tiny: Built, data: Any):
    take_in(data.draw(files(right)), tiny.spec)


@pytest.mark.long
@pytest.mark.timeout(3000)
@given(data=st.data())
@settings(
    max_examples=int(os.environ.get("FUZZ_CASES", "10000")),
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_ten_thousand_notebooks_do_not_stop_the_coordinator(right: NotebookNode, tiny: Built, data: Any):
    take_in(data.draw(files(right)), tiny.spec)


@given(data=st.binary(max_size=2000))
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_bytes_stop_the_coordinator(tiny: Built, data: bytes):
    take_in(data, tiny.spec)
