"""Whatever was done to the cells of a right answer, it gets full marks; whatever is wrong stays wrong.

The oracle runs the repaired cells in order, test cells with their whole text, as a grader does.
"""

from __future__ import annotations

import copy
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import nbformat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook
from nbgrader.nbgraderformat import MetadataValidator
from nbgrader.utils import compute_checksum

from autograder.intake import parse
from autograder.release import Built
from autograder.repair import Repaired, repair
from autograder.spec import Spec, SpecCell

Cells = list[dict[str, Any]]
WRONG = {"half_of_it = number / 2": "half_of_it = number // 3", "- middle(numbers)": "+ middle(numbers)"}


STUB = "    # YOUR CODE HERE\n    raise NotImplementedError()"
STUBS = {
    "halve": f'def halve(number):\n    """Half of `number`."""\n{STUB}',
    "spread": (
        'def middle(numbers):\n    """Halfway between the least and the greatest of `numbers`."""\n'
        f"{STUB}\n\n\n"
        f'def spread(numbers):\n    """How far `numbers` reach from their middle."""\n{STUB}'
    ),
}


def code(source: str, **metadata: Any) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "source": source,
        "metadata": metadata,
        "outputs": [],
        "execution_count": None,
    }


def text(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "source": source, "metadata": {}}


def at(cells: Cells, grade_id: str) -> int:
    return next(i for i, cell in enumerate(cells) if cell["metadata"]["nbgrader"]["grade_id"] == grade_id)


def through(notebook: dict[str, Any], spec: Spec) -> Repaired:
    """The way of every submission: bytes, parse, repair; and what must hold of every result."""
    parsed = parse(json.dumps(notebook).encode())
    assert parsed.notebook is not None, parsed.problem
    repaired = repair(parsed.notebook, spec)
    must_hold(repaired, spec)
    return repaired


def must_hold(repaired: Repaired, spec: Spec) -> None:
    nbformat.validate(repaired.notebook)
    MetadataValidator().validate_nb(repaired.notebook)
    labelled = [cell for cell in repaired.notebook.cells if cell.metadata]
    assert [cell.id for cell in labelled] == [cell.grade_id for cell in spec.cells]
    for cell, canonical in zip(labelled, spec.cells, strict=True):
        assert set(cell.metadata) == {"nbgrader"}
        assert cell.metadata.nbgrader.grade_id == cell.id
        assert cell.metadata.nbgrader.get("points", 0) == canonical.points
        assert cell.cell_type == canonical.cell_type
        released = {**cell, "source": canonical.released}
        assert cell.metadata.nbgrader.checksum == compute_checksum(nbformat.from_dict(released))
        if canonical.locked:
            assert cell.source == canonical.released
    assert "canary_4711" not in json.dumps(repaired.notebook)
    for note in repaired.notes:
        assert note[0].isupper()
        assert note.rstrip()[-1] in ".?"


def passed(repaired: Repaired, spec: Spec) -> set[str]:
    """The test cells that pass when the cells are run in order."""
    names: dict[str, Any] = {}
    good = set()
    for cell in repaired.notebook.cells:
        if cell.cell_type != "code":
            continue
        is_test = cell.metadata.get("nbgrader", {}).get("grade", False)
        try:
            exec(spec.cell(cell.id).source if is_test else cell.source, names)
        except Exception:
            continue
        if is_test:
            good.add(cell.id)
    return good


def edit(change: Callable[[Cells], object]) -> Callable[[Cells], Cells]:
    """A change in place, or one that returns the new list of cells."""

    def apply(cells: Cells) -> Cells:
        changed = change(cells)
        return changed if isinstance(changed, list) else cells

    return apply


def every(change: Callable[[dict[str, Any]], object]) -> Callable[[Cells], Cells]:
    """A change to every cell."""

    def apply(cells: Cells) -> Cells:
        for cell in cells:
            change(cell)
        return cells

    return apply


def put(which: str, **values: Any) -> Callable[[Cells], Cells]:
    """Other fields for one cell."""
    return edit(lambda cells: cells[at(cells, which)].update(values))


def relabel(which: str, /, **values: Any) -> Callable[[Cells], Cells]:
    """Other nbgrader metadata for one cell."""
    return edit(lambda cells: cells[at(cells, which)]["metadata"]["nbgrader"].update(values))


def strip_metadata(cells: Cells) -> None:
    for cell in cells:
        cell["metadata"] = {}


def strip_everything(cells: Cells) -> None:
    strip_metadata(cells)
    for cell in cells:
        cell.pop("id", None)


def strip_everything_in_reverse(cells: Cells) -> Cells:
    strip_everything(cells)
    return cells[::-1]


def rename_labels(cells: Cells) -> None:
    for number, cell in enumerate(cells):
        cell["metadata"]["nbgrader"]["grade_id"] = f"mine-{number}"


def rename_labels_and_drop_ids(cells: Cells) -> None:
    rename_labels(cells)
    for cell in cells:
        cell.pop("id")


def exchange_labels(cells: Cells) -> None:
    one, other = (cells[at(cells, name)]["metadata"]["nbgrader"] for name in ("halve", "spread"))
    one["grade_id"], other["grade_id"] = "spread", "halve"


def move(grade_id: str, to: int) -> Callable[[Cells], Cells]:
    return edit(lambda cells: cells.insert(to, cells.pop(at(cells, grade_id))))


def insert(position: int, *added: dict[str, Any]) -> Callable[[Cells], Cells]:
    return lambda cells: [*cells[:position], *added, *cells[position:]]


def delete(*grade_ids: str) -> Callable[[Cells], Cells]:
    return lambda cells: [cell for cell in cells if cell["metadata"]["nbgrader"]["grade_id"] not in grade_ids]


def fence(cells: Cells) -> None:
    cell = cells[at(cells, "halve")]
    cell.update(cell_type="markdown", source=f"```python\n{cell['source']}\n```", metadata={}, id="zzz")


def copy_before(cells: Cells) -> None:
    """An older try, a copy with the same label, stands above."""
    old = copy.deepcopy(cells[at(cells, "halve")])
    old["source"] = "def halve(number):\n    return 'old'"
    cells.insert(at(cells, "halve"), old)


def stub_after(cells: Cells) -> None:
    """A copy of the released stub was kept below the answer."""
    stub = copy.deepcopy(cells[at(cells, "halve")])
    stub["source"] = STUBS["halve"]
    cells.insert(at(cells, "halve") + 1, stub)


def copy_test(cells: Cells) -> None:
    cells.insert(6, copy.deepcopy(cells[at(cells, "test-halve")]))


def all_in_one(into: str) -> Callable[[Cells], Cells]:
    def merge(cells: Cells) -> Cells:
        merged = "\n\n".join(cells[at(cells, name)]["source"] for name in STUBS)
        cells[at(cells, into)]["source"] = merged
        other = "spread" if into == "halve" else "halve"
        return delete(other)(cells)

    return merge


def all_in_new_cell(on_top: bool, stubs: bool) -> Callable[[Cells], Cells]:
    """Everything in one new cell; the labelled cells deleted, or still as they were released."""

    def gather(cells: Cells) -> Cells:
        merged = "\n\n".join(["import math", *(cells[at(cells, name)]["source"] for name in STUBS)])
        for name, stub in STUBS.items():
            cells[at(cells, name)]["source"] = stub
        cells = cells if stubs else delete(*STUBS)(cells)
        return [code(merged), *cells] if on_top else [*cells, code(merged)]

    return gather


def split_between_functions(keep_label: bool) -> Callable[[Cells], Cells]:
    def split(cells: Cells) -> None:
        place = at(cells, "spread")
        first, second = cells[place]["source"].split("\n\n\n")
        rest = {**copy.deepcopy(cells[place]), "source": second}
        if not keep_label:
            rest.update(metadata={}, id="rest")
        cells[place]["source"] = first
        cells.insert(place + 1, rest)

    return edit(split)


def split_in_function(keep_label: bool) -> Callable[[Cells], Cells]:
    def split(cells: Cells) -> None:
        place = at(cells, "halve")
        lines = cells[place]["source"].split("\n")
        for line in reversed(lines[2:]):
            part = {**copy.deepcopy(cells[place]), "source": line}
            if not keep_label:
                part.update(metadata={}, id="rest")
            cells.insert(place + 1, part)
        cells[place]["source"] = "\n".join(lines[:2])

    return edit(split)


def answer_in(grade_id: str) -> Callable[[Cells], Cells]:
    """The answer was merged into a locked cell, whose label survived."""

    def merge(cells: Cells) -> Cells:
        place = at(cells, grade_id)
        cells[place]["source"] = cells[at(cells, "halve")]["source"] + "\n" + cells[place]["source"]
        return delete("halve")(cells)

    return merge


def helper(source: str, position: int = 10) -> Callable[[Cells], Cells]:
    """`halve` needs a helper, which stands in a cell of its own at `position`."""

    def add(cells: Cells) -> None:
        cells[at(cells, "halve")]["source"] = "def halve(number):\n    return divide_it(number, 2)"
        cells.insert(position, code(source))

    return edit(add)


def helper_in_imports(cells: Cells) -> None:
    cells[at(cells, "halve")]["source"] = "def halve(number):\n    return divide_it(number, 2)"
    cells[at(cells, "imports")]["source"] = f"import math\n{DIVIDE}"


DIVIDE = "def divide_it(a, b):\n    return a / b"
DIVIDE_BY_IMPORT = "from operator import truediv\n\n\ndef divide_it(a, b):\n    return truediv(a, b)"
LOCKED = ("text-01", "imports", "text-02", "test-halve", "text-03", "test-spread", "text-04")
TAGS = ["skip-execution", "raises-exception"]

MANGLED: dict[str, Callable[[Cells], Cells]] = {
    "nothing": lambda cells: cells,
    "all metadata stripped": edit(strip_metadata),
    "all metadata and ids stripped": edit(strip_everything),
    "labels renamed": edit(rename_labels),
    "labels renamed and ids gone": edit(rename_labels_and_drop_ids),
    "labels exchanged": edit(exchange_labels),
    "reversed": lambda cells: cells[::-1],
    "reversed and stripped": strip_everything_in_reverse,
    "imports moved to the end": move("imports", 9),
    "tests moved to the front": move("test-spread", 0),
    "solution moved to the end": move("halve", 9),
    "tests deleted": delete("test-halve", "test-spread"),
    "imports deleted": delete("imports"),
    "all but the solutions deleted": delete(*LOCKED, "why"),
    "points 500": relabel("test-halve", points=500),
    "points text": relabel("test-halve", points="abc"),
    "grade false": relabel("test-halve", grade=False),
    "test made a solution": relabel("test-halve", solution=True),
    "solution made a test": relabel("halve", solution=False, grade=True, points=50),
    "schema 4": relabel("halve", schema_version=4),
    "schema an object": relabel("halve", schema_version={"a": 1}),
    "grade_id a number": relabel("halve", grade_id=5),
    "grade_id empty": relabel("halve", grade_id=""),
    "metadata null": put("halve", metadata=None),
    "metadata a list": put("halve", metadata=["nbgrader"]),
    "solution retyped to text": put("halve", cell_type="markdown"),
    "solution retyped to raw": put("spread", cell_type="raw"),
    "solution retyped, fenced and unlabelled": edit(fence),
    "test retyped": put("test-halve", cell_type="markdown"),
    "text retyped to code": put("text-02", cell_type="code"),
    "written answer retyped to code": put("why", cell_type="code"),
    "type nonsense": put("halve", cell_type="Kode"),
    "test edited": put("test-halve", source="assert True"),
    "test edited to raise": put("test-halve", source="raise ValueError"),
    "imports edited away": put("imports", source="pass"),
    "an older copy above": edit(copy_before),
    "a stub copied below": edit(stub_after),
    "test cell copied": edit(copy_test),
    "every cell twice": lambda cells: [copy.deepcopy(cell) for cell in cells for _ in range(2)],
    "whole notebook twice": lambda cells: cells + copy.deepcopy(cells),
    "all in the first cell": all_in_one("halve"),
    "all in the last cell": all_in_one("spread"),
    "all in a new cell on top": all_in_new_cell(on_top=True, stubs=False),
    "all in a new cell at the end": all_in_new_cell(on_top=False, stubs=False),
    "all in a new cell on top, stubs left": all_in_new_cell(on_top=True, stubs=True),
    "all in a new cell at the end, stubs left": all_in_new_cell(on_top=False, stubs=True),
    "split between functions": split_between_functions(keep_label=False),
    "split between functions, both labelled": split_between_functions(keep_label=True),
    "split inside a function": split_in_function(keep_label=False),
    "split inside a function, all labelled": split_in_function(keep_label=True),
    "answer merged into the test": answer_in("test-halve"),
    "answer merged into the imports": answer_in("imports"),
    "helper above": helper(DIVIDE, 0),
    "helper between": helper(DIVIDE, 3),
    "helper below its test": helper(DIVIDE),
    "helper below, with an import": helper(DIVIDE_BY_IMPORT),
    "helpers below, one needing the other": lambda cells: [
        *helper("def quotient(a, b):\n    return a / b")(cells),
        code("def divide_it(a, b):\n    return quotient(a, b)"),
    ],
    "helper written into the locked imports": edit(helper_in_imports),
    "tags": every(lambda cell: cell["metadata"].update(tags=TAGS)),
    "scratch cells everywhere": lambda cells: [
        c for cell in cells for c in (cell, code("1 / 0"), text("hm"))
    ],
    "windows line ends": every(lambda cell: cell.update(source=cell["source"].replace("\n", "\r\n"))),
    "blanks at line ends": every(
        lambda cell: cell.update(source=cell["source"].replace("\n", "  \n") + "\n\n")
    ),
    "a syntax error in a scratch cell": insert(2, code("def halve(number:\n  x =")),
    "a deeply nested scratch cell": insert(2, code("x = " + "(" * 50_000)),
}


def mangle(notebook: NotebookNode, name: str, wrong: bool = False) -> dict[str, Any]:
    plain = json.loads(json.dumps(notebook))
    if wrong:
        for cell in plain["cells"]:
            for right, other in WRONG.items():
                cell["source"] = cell["source"].replace(right, other)
    plain["cells"] = MANGLED[name](plain["cells"])
    return plain


@pytest.mark.parametrize("name", MANGLED)
def test_right_code_gets_full_marks_whatever_was_mangled(right: NotebookNode, tiny: Built, name: str):
    repaired = through(mangle(right, name), tiny.spec)
    assert passed(repaired, tiny.spec) == {"test-halve", "test-spread"}, repaired.notes


@pytest.mark.parametrize("name", [name for name in MANGLED if "helper" not in name])
def test_wrong_code_stays_wrong_whatever_was_mangled(right: NotebookNode, tiny: Built, name: str):
    assert passed(through(mangle(right, name, wrong=True), tiny.spec), tiny.spec) == set()


@pytest.mark.parametrize("name", MANGLED)
def test_the_written_answer_survives(right: NotebookNode, tiny: Built, name: str):
    repaired = through(mangle(right, name), tiny.spec)
    (written,) = [cell for cell in repaired.notebook.cells if cell.id == "why"]
    gone = name == "all but the solutions deleted"
    assert written.source.strip() == ("YOUR ANSWER HERE" if gone else tiny.spec.cell("why").source)


def test_the_stubs_written_here_are_the_released_ones(tiny: Built):
    assert {name: tiny.spec.cell(name).released for name in STUBS} == STUBS


def test_an_untouched_release_comes_back_as_it_was_and_gets_nothing(tiny: Built):
    repaired = repair(tiny.released_notebook, tiny.spec)
    assert repaired.notes == []
    for ours, theirs in zip(repaired.notebook.cells, tiny.released_notebook.cells, strict=True):
        assert (ours.id, ours.source, ours.cell_type) == (theirs.id, theirs.source, theirs.cell_type)
        assert ours.metadata.nbgrader.checksum == theirs.metadata.nbgrader.checksum
    assert passed(repaired, tiny.spec) == set()
    must_hold(repaired, tiny.spec)


def test_a_right_notebook_comes_back_without_a_note(right: NotebookNode, tiny: Built):
    assert repair(right, tiny.spec).notes == []


def test_repairing_twice_changes_nothing(right: NotebookNode, tiny: Built):
    for name in MANGLED:
        once = through(mangle(right, name), tiny.spec).notebook
        again = repair(once, tiny.spec).notebook
        assert json.dumps(again) == json.dumps(once), name


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("points 500", "grading marks of a cell .*: test-halve"),
        ("grade false", "grading marks of a cell .*: test-halve"),
        ("test edited", "locked cell had been changed.*: test-halve"),
        ("tests deleted", "Missing cells were put back: test-halve"),
        ("all metadata stripped", "Cells without their labels were recognised.*halve"),
        ("imports moved to the end", "Cells had been moved.*: imports"),
        ("solution retyped to text", "type of a cell.*: halve"),
        ("an older copy above", "more than once.*: halve"),
        ("split inside a function", "split in the middle of a block.*: halve"),
        ("all in the first cell", "cell of another exercise.*: spread"),
        ("all in a new cell at the end, stubs left", "stood in other cells.*: halve"),
        ("helper below its test", "below the test that needs it.*: divide_it"),
        ("helper written into the locked imports", "What you added to a locked cell was kept.*: imports"),
        ("tags", "Tags on cells were removed"),
    ],
)
def test_each_repair_is_told(right: NotebookNode, tiny: Built, name: str, said: str):
    notes = through(mangle(right, name), tiny.spec).notes
    assert any(re.search(said, note) for note in notes), notes


def test_an_older_copy_stays_as_a_plain_cell_above(right: NotebookNode, tiny: Built):
    cells = through(mangle(right, "an older copy above"), tiny.spec).notebook.cells
    ids = [cell.id for cell in cells]
    old = cells[ids.index("halve") - 1]
    assert old.id == "extra-01"
    assert "'old'" in old.source
    assert old.metadata == {}


@pytest.mark.parametrize("copied", ["stub", "text"])
def test_of_several_cells_with_one_label_the_answer_counts(right: NotebookNode, tiny: Built, copied: str):
    """Not a stub that was kept below it, nor a text cell with the same label."""
    plain = json.loads(json.dumps(right))
    place = at(plain["cells"], "halve")
    answer, other = plain["cells"][place]["source"], copy.deepcopy(plain["cells"][place])
    other.update(
        {"source": STUBS["halve"]} if copied == "stub" else {"cell_type": "markdown", "source": "Hm."}
    )
    plain["cells"].insert(place + 1, other)
    repaired = through(plain, tiny.spec)
    assert {cell.id: cell.source for cell in repaired.notebook.cells}["halve"] == answer
    assert repaired.notes == ["A cell was there more than once, and the last answer counts: halve."]


def test_students_own_cells_stay_among_their_neighbours(right: NotebookNode, tiny: Built):
    plain = json.loads(json.dumps(right))
    plain["cells"].insert(4, code("after_halve = 1"))
    plain["cells"].insert(0, code("first = 1"))
    plain["cells"].append(text("last"))
    plain["cells"].insert(3, plain["cells"].pop(7))  # a locked cell is moved as well
    ids = [(cell.id, cell.source) for cell in through(plain, tiny.spec).notebook.cells]
    names = [name for name, _ in ids]
    assert ids[0] == ("extra-01", "first = 1")
    assert names[names.index("halve") + 1] == "extra-02"
    assert ids[-1][1] == "last"


def test_lines_added_to_a_locked_text_are_kept_for_the_reader(right: NotebookNode, tiny: Built):
    plain = json.loads(json.dumps(right))
    plain["cells"][2]["source"] += "\n\nMy answer to that."
    cells = through(plain, tiny.spec).notebook.cells
    assert (cells[3].cell_type, cells[3].source) == ("markdown", "My answer to that.")


def test_an_answer_below_the_untouched_place_for_it_is_taken(right: NotebookNode, tiny: Built):
    plain = json.loads(json.dumps(right))
    place = at(plain["cells"], "why")
    plain["cells"][place]["source"] = "YOUR ANSWER HERE"
    plain["cells"].insert(place + 1, text("It is symmetric."))
    repaired = through(plain, tiny.spec)
    (written,) = [cell for cell in repaired.notebook.cells if cell.id == "why"]
    assert written.source == "It is symmetric."
    assert any("stood in other cells" in note for note in repaired.notes)


def test_a_notebook_of_another_unit_is_told_so(tiny: Built):
    repaired = repair(new_notebook(cells=[new_code_cell("print('hello')")]), tiny.spec)
    assert any("Is it the notebook of another unit?" in note for note in repaired.notes)
    must_hold(repaired, tiny.spec)


def test_an_empty_notebook_becomes_the_release(tiny: Built):
    repaired = repair(new_notebook(), tiny.spec)
    assert [cell.source for cell in repaired.notebook.cells] == [cell.released for cell in tiny.spec.cells]
    assert "The notebook has no cells." in repaired.notes


def test_an_id_that_looks_like_ours_is_not_used_twice():
    spec = Spec("u", (SpecCell("extra-01", "provided", "code", "x = 1", "x = 1"),))
    repaired = repair(new_notebook(cells=[new_code_cell("y = 1")]), spec)
    assert sorted(cell.id for cell in repaired.notebook.cells) == ["extra-01", "extra-02"]


def test_another_kernel_is_set_back(right: NotebookNode, tiny: Built):
    plain = json.loads(json.dumps(right))
    plain["metadata"]["kernelspec"] = {"name": "ir", "language": "R", "display_name": "R"}
    repaired = through(plain, tiny.spec)
    assert repaired.notebook.metadata.kernelspec.name == "python3"
    assert any("kernel was set back" in note for note in repaired.notes)


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(["halve", "code", "markdown"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["cell_type", "source", "metadata", "nbgrader", "grade_id", "id", "tags", "points"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(cells=st.lists(JUNK, max_size=6), seed=st.integers(0, 2**32))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_json_at_all_stops_the_repair(right: NotebookNode, tiny: Built, cells: list[Any], seed: int):
    plain = json.loads(json.dumps(right))
    dice = random.Random(seed)
    for junk in cells:
        place = dice.randrange(len(plain["cells"]) + 1)
        plain["cells"].insert(place, junk)
    through(plain, tiny.spec)
    repaired = repair(nbformat.from_dict({"cells": cells, "metadata": cells}), tiny.spec)  # type: ignore
    must_hold(repaired, tiny.spec)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_mixture_of_moves_losses_and_copies_leaves_right_code_right(
    right: NotebookNode, tiny: Built, seed: int
):
    dice = random.Random(seed)
    cells = json.loads(json.dumps(right))["cells"]
    for cell in cells:
        if dice.random() < 0.4:
            cell["metadata"] = {}
        if dice.random() < 0.4:
            cell.pop("id", None)
        if dice.random() < 0.1:
            cell["cell_type"] = dice.choice(["markdown", "raw", "code"])
        if dice.random() < 0.1 and cell["metadata"]:
            cell["metadata"]["nbgrader"].update(points=99, grade=True, locked=dice.random() < 0.5)
    answers = {tiny.spec.cell(name).source.split("\n")[0] for name in ("halve", "spread")}
    cells = [c for c in cells if dice.random() < 0.8 or c["source"].split("\n")[0] in answers]
    cells += [copy.deepcopy(cell) for cell in cells if dice.random() < 0.2]
    if dice.random() < 0.7:
        dice.shuffle(cells)
    repaired = through({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, tiny.spec)
    assert passed(repaired, tiny.spec) == {"test-halve", "test-spread"}, (cells, repaired.notes)


def test_a_worker_needs_no_nbgrader():
    """Intake, repair and judging travel to machines that never see a gradebook."""
    names = "intake, repair, spec, verdict, assessing"
    program = (
        f"import sys\nfrom autograder import {names}\nprint({{'nbgrader', 'sqlalchemy'}} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
