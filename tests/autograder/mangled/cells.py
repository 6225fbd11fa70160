"""The cells: moved, deleted, copied, split, merged, retyped, rewritten."""

from __future__ import annotations

import copy
import random

from mangled.kind import Book, Kind, as_cells, code, each, find, text

STUB = "# YOUR CODE HERE\nraise NotImplementedError()"
LOCKED = ("imports", "test-halve", "test-spread")


def rewrite(which: str, source: str):
    return lambda cells: cells[find(cells, which)].update(source=source)


def delete(*names: str):
    return lambda cells: [cell for cell in cells if cell["id"] not in names]


def moved(which: str, to: int):
    return lambda cells: cells.insert(to, cells.pop(find(cells, which)))


def shuffled(cells: list[Book]) -> None:
    random.Random(5).shuffle(cells)


def answers_in_new_cells(cells: list[Book]) -> list[Book]:
    """The stubs were left as they were, and the answers written below everything."""
    new = []
    for name in ("halve", "spread"):
        cell = cells[find(cells, name)]
        new.append(code(cell["source"]))
        cell["source"] = STUB
    return cells + new


def answers_on_top(cells: list[Book]) -> list[Book]:
    one = "\n\n".join(["import math", *(cells[find(cells, name)]["source"] for name in ("halve", "spread"))])
    return [code(one), *delete("halve", "spread")(cells)]


def split_in_a_function(cells: list[Book]) -> None:
    place = find(cells, "halve")
    lines = cells[place]["source"].split("\n")
    rest = {**copy.deepcopy(cells[place]), "source": "\n".join(lines[2:]), "metadata": {}, "id": "rest"}
    cells[place]["source"] = "\n".join(lines[:2])
    cells.insert(place + 1, rest)


def split_between_functions(cells: list[Book]) -> None:
    place = find(cells, "spread")
    first, second = cells[place]["source"].split("\n\n\n")
    cells[place]["source"] = first
    cells.insert(place + 1, {**copy.deepcopy(cells[place]), "source": second})


def fenced(cells: list[Book]) -> None:
    cell = cells[find(cells, "halve")]
    cell.update(cell_type="markdown", source=f"```python\n{cell['source']}\n```", metadata={}, id="zz")


def old_copies(cells: list[Book]) -> None:
    """An older try, with the same label, above each answer."""
    for name in ("halve", "spread"):
        place = find(cells, name)
        cells.insert(place, {**copy.deepcopy(cells[place]), "source": f"def {name}(*_):\n    return 'old'"})


def helper_below(cells: list[Book]) -> None:
    """The answer calls a helper that its author wrote at the bottom, and ran first."""
    cell = cells[find(cells, "spread")]
    name = "furthest" if "max(numbers) - middle" in cell["source"] else "nearest"
    cell["source"] = cell["source"].replace("return max(numbers)", f"return {name}(numbers)")
    cells.append(code(f"def {name}(numbers):\n    return max(numbers)"))


def scratch(cells: list[Book]) -> list[Book]:
    junk = [
        code("1 / 0"),
        text("hm"),
        code("def halve(number:"),
        code("%%bash\nrm -rf /"),
        code("x = (" * 500),
    ]
    return [
        one for number, cell in enumerate(cells) for one in (cell, copy.deepcopy(junk[number % len(junk)]))
    ]


def magics(cells: list[Book]) -> None:
    cell = cells[find(cells, "halve")]
    errands = [
        "%matplotlib inline",
        "%load_ext autoreload",
        "%autoreload 2",
        "%cd ..",
        "%pip install \\",
        "  numpy",
    ]
    cell["source"] = "\n".join([*errands, "!pip install numpy", cell["source"], "halve?"])


def timed(cells: list[Book]) -> None:
    cell = cells[find(cells, "halve")]
    cell["source"] = "%%time\n" + cell["source"]


def both_in_one(cells: list[Book]) -> list[Book]:
    first, second = cells[find(cells, "halve")], cells[find(cells, "spread")]
    first["source"] += "\n\n\n" + second["source"]
    return delete("spread")(cells)


def in_the_test(cells: list[Book]) -> list[Book]:
    test, own = cells[find(cells, "test-halve")], cells[find(cells, "halve")]
    test["source"] = own["source"] + "\n" + test["source"]
    return delete("halve")(cells)


def warnings_printed(cells: list[Book]) -> None:
    cell = cells[find(cells, "halve")]
    cell["source"] += "\nimport sys, warnings\nwarnings.warn('careful')\nprint('noise', file=sys.stderr)"


def indented(cell: Book) -> None:
    if cell["cell_type"] == "code":
        cell["source"] = "\n".join("    " + line if line else line for line in cell["source"].split("\n"))


def tabs(cell: Book) -> None:
    if cell["cell_type"] == "code":
        cell["source"] = cell["source"].replace("    ", "\t")


KINDS: list[Kind] = [
    as_cells("reversed", lambda cells: cells[::-1]),
    as_cells("shuffled", shuffled),
    as_cells("test-edited", rewrite("test-halve", "assert True")),
    as_cells("test-that-raises", rewrite("test-spread", "raise SystemExit")),
    as_cells("test-emptied", rewrite("test-halve", "")),
    as_cells(
        "tests-moved-to-the-front",
        lambda cells: (moved("test-spread", 0)(cells), moved("test-halve", 0)(cells))[0],
    ),
    as_cells("tests-deleted", delete("test-halve", "test-spread")),
    as_cells("everything-locked-deleted", delete(*LOCKED)),
    as_cells("imports-edited", rewrite("imports", "math = None")),
    as_cells("imports-at-the-end", moved("imports", 9)),
    as_cells("solution-at-the-end", moved("halve", 9)),
    as_cells("one-solution-deleted", delete("spread"), "Missing cells were put back: spread"),
    as_cells("every-cell-twice", lambda cells: [copy.deepcopy(cell) for cell in cells for _ in range(2)]),
    as_cells("the-whole-twice", lambda cells: cells + copy.deepcopy(cells)),
    as_cells("old-copies-above", old_copies),
    as_cells("answers-in-new-cells", answers_in_new_cells),
    as_cells("answers-on-top", answers_on_top),
    as_cells("both-answers-in-one-cell", both_in_one),
    as_cells("answer-in-the-test-cell", in_the_test),
    as_cells("split-in-a-function", split_in_a_function),
    as_cells("split-between-functions", split_between_functions),
    as_cells("solution-made-text", lambda cells: cells[find(cells, "halve")].update(cell_type="markdown")),
    as_cells("solution-made-raw", lambda cells: cells[find(cells, "spread")].update(cell_type="raw")),
    as_cells("solution-fenced", fenced),
    as_cells("test-made-text", lambda cells: cells[find(cells, "test-halve")].update(cell_type="markdown")),
    as_cells("text-made-code", lambda cells: cells[0].update(cell_type="code")),
    as_cells("helper-at-the-bottom", helper_below),
    as_cells("scratch-everywhere", scratch),
    as_cells("magics", magics),
    as_cells("a-cell-magic", timed),
    as_cells("noise-on-standard-error", warnings_printed),
    each("indented", indented),
    each("tabs", tabs),
    each(
        "blanks-at-line-ends",
        lambda cell: cell.update(source=cell["source"].replace("\n", "   \n") + "\n\n\n"),
    ),
]
