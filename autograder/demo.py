"""The demo's class: real notebooks as they come back, right, wrong, hostile and mangled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.errors import UsageError
from autograder.release import Built
from minitx.course.definitions import defined_functions

# What the class believes; each is a wrong solution of the unit's bank.
BELIEFS = (
    "no-scale",
    "scale-by-d-k",
    "softmax-over-queries",
    "mask-polarity",
    "diagonal-masked",
    "mask-after-softmax",
    "top-left-causal",
    "softmax-without-shift",
)

WRITTEN = "It asks the others who stands where, and mixes what those answer that fit its question best."

SPY = '''
import gc, inspect, linecache, os, sys

def spy():
    """Look for hidden tests and expected values wherever a Python process can look."""
    def texts():
        for folder, _, files in os.walk("/"):
            for name in files:
                if name.endswith((".ipynb", ".db")) or "hidden" in name:
                    try:
                        yield open(os.path.join(folder, name), errors="replace").read()
                    except OSError:
                        pass
        frame = inspect.currentframe().f_back
        while frame is not None:
            yield from map(repr, [*frame.f_globals.values(), *frame.f_locals.values()])
            frame = frame.f_back
        yield from map(repr, [linecache.cache, dict(os.environ), sys.argv, get_ipython().user_ns.get("In")])
        yield from (item for item in gc.get_objects() if isinstance(item, str))

    return [text for text in texts() if hidden(text)]

def hidden(text):
    return all(a + b in text for a, b in [("HIDDEN", " TESTS"), ("### ", "Belief:"), ("check", ".rng")])

found = spy()
print("found", len(found))
for text in found:
    print(text)
'''

SPYING_SOLUTION = '''
class Always:
    """Agree with whatever is compared."""

    def __eq__(self, other): return True
    def __array__(self, *arguments, **more): return np.zeros(1)
    def __getattr__(self, name): return Always()
    def __call__(self, *arguments, **more): return Always()

def {name}(*arguments, **more):
    frame = inspect.currentframe()
    while frame is not None:
        found.extend(filter(hidden, map(repr, frame.f_locals.values())))
        frame = frame.f_back
    print("found", len(found))
    return Always()
'''

ENDLESS_SOLUTION = """
def {name}(*arguments, **more):
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
"""


@dataclass(frozen=True)
class HandIn:
    """One student's file, and what a grader that works must make of it."""

    student: str
    filename: str
    content: bytes
    expect: str  # "full", "none", "less" (below full), or the name of a misconception


def make_class(built: Built) -> list[HandIn]:
    """The whole class for one unit. Raises `UsageError` when the unit's bank lacks a belief of the demo's."""
    known = {item.name: item for item in built.spec.misconceptions}
    missing = [name for name in BELIEFS if name not in known]
    if missing:
        raise UsageError(
            f"The unit {built.unit} has no misconception named {', '.join(missing)}; the demo needs it."
        )
    right = {cell.grade_id: cell.source for cell in built.spec.cells if cell.kind == "solution"}
    right |= {cell.grade_id: WRITTEN for cell in built.spec.cells if cell.kind == "written"}
    name = f"{built.unit}.ipynb"
    solved = filled(built, right)
    return [
        HandIn("reference", name, dump(solved), "full"),
        HandIn("untouched", name, dump(filled(built, {})), "none"),
        *(
            HandIn(
                belief,
                name,
                dump(filled(built, {**right, known[belief].replaces: known[belief].code})),
                belief,
            )
            for belief in BELIEFS
        ),
        HandIn("hostile-spy", name, dump(hostile(built, SPYING_SOLUTION, SPY)), "none"),
        HandIn("endless-loop", name, dump(hostile(built, ENDLESS_SOLUTION)), "none"),
        HandIn("renamed-file", f"{built.unit.title()} (1).ipynb", dump(solved), "full"),
        HandIn("truncated-file", name, cut(dump(solved)), "less"),
        HandIn("no-metadata", name, dump(stripped(solved)), "full"),
    ]


def hand_in(folder: Path, unit: str, hand_ins: list[HandIn]) -> None:
    """Write the files where nbgrader's collect would put them: submitted/STUDENT/UNIT/."""
    for one in hand_ins:
        place = folder / one.student / unit
        place.mkdir(parents=True, exist_ok=True)
        (place / one.filename).write_bytes(one.content)


def filled(built: Built, solutions: Mapping[str, str]) -> dict[str, Any]:
    """The released notebook with these solution cells in place of the stubs."""
    notebook = json.loads(json.dumps(built.released_notebook))
    for cell in notebook["cells"]:
        grade_id = cell["metadata"].get("nbgrader", {}).get("grade_id")
        if grade_id in solutions:
            cell["source"] = without_markers(solutions[grade_id])
    return notebook


def hostile(built: Built, template: str, prelude: str = "") -> dict[str, Any]:
    """The released notebook with every student function replaced by the template's."""
    solutions = {}
    for cell in built.spec.cells:
        if cell.kind == "solution":
            names = sorted(defined_functions(cell.source))
            solutions[cell.grade_id] = prelude + "".join(template.replace("{name}", name) for name in names)
            prelude = ""
    return filled(built, solutions)


def without_markers(source: str) -> str:
    """A solution as a student would have it: without the author's region markers."""
    return "\n".join(
        line
        for line in source.splitlines()
        if "### BEGIN SOLUTION" not in line and "### END SOLUTION" not in line
    )


def stripped(notebook: dict[str, Any]) -> dict[str, Any]:
    """The same notebook with all metadata and cell ids gone, as some editors and chat tools leave it."""
    bare = json.loads(json.dumps(notebook))
    bare["metadata"] = {}
    bare["nbformat_minor"] = 4
    for cell in bare["cells"]:
        cell["metadata"] = {}
        cell.pop("id", None)
    return bare


def cut(content: bytes) -> bytes:
    """The first two thirds of a file, as a full disk or a broken upload leaves it."""
    return content[: len(content) * 2 // 3]


def dump(notebook: dict[str, Any]) -> bytes:
    return json.dumps(notebook, indent=1, ensure_ascii=False).encode()


def unexpected(hand_in: HandIn, points: float, max_points: float, looks_like: str) -> str:
    """What is wrong with this result; empty when it is as a working grader must have it."""
    if hand_in.expect == "full" and points < max_points:
        return f"{hand_in.student} is right and should get {max_points:g} points, got {points:g}"
    if hand_in.expect == "none" and points > 0:
        return f"{hand_in.student} should get no points, got {points:g}"
    if hand_in.expect not in ("full", "none") and points >= max_points:
        return f"{hand_in.student} should get less than full marks"
    if hand_in.expect in BELIEFS and looks_like != hand_in.expect:
        return f"{hand_in.student} should be recognised, was taken for {looks_like or 'nothing known'}"
    return ""
