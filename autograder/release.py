"""From a unit's text to the notebook that students get, and to a real nbgrader assignment.

`build` runs nbgrader's own preprocessors, in the order in which `nbgrader generate_assignment` runs
them, without its command line and without a database; `release` then lets nbgrader itself do the same
in a course folder, and compares.
"""

from __future__ import annotations

import copy
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters import GenerateAssignment
from nbgrader.preprocessors import (
    CheckCellMetadata,
    ClearHiddenTests,
    ClearMarkScheme,
    ClearOutput,
    ClearSolutions,
    ComputeChecksums,
    IncludeHeaderFooter,
    LockCells,
)
from nbgrader.utils import capture_log

from autograder.authoring import AuthoredCell, read_unit
from autograder.bank import read_misconceptions
from autograder.course import Course
from autograder.errors import ReleaseError
from autograder.files import write_atomically
from autograder.leaks import find_leaks
from autograder.questions import FILE as QUESTIONS
from autograder.questions import wrong_choices
from autograder.spec import Misconception, Spec, SpecCell
from minitx.course.definitions import defined_names
from minitx.course.subtests import SplitCell, SubtestError, checks_something, split_cell

# The files of a unit's folder that must never reach nbgrader's source/, since it copies all it finds there.
PRIVATE_FILES = ("misconceptions.py", "other_styles.py", QUESTIONS)

_PIPELINE = (
    IncludeHeaderFooter,
    LockCells,
    ClearSolutions,
    ClearOutput,
    CheckCellMetadata,
    ComputeChecksums,
    ClearHiddenTests,
    ClearMarkScheme,
    ComputeChecksums,
    CheckCellMetadata,
)


@dataclass(frozen=True)
class Built:
    """A unit as its author wrote it and as students get it."""

    unit: str
    source_notebook: NotebookNode
    released_notebook: NotebookNode
    spec: Spec


def build(unit_folder: Path) -> Built:
    """Build `<unit>/<unit>.py` into a notebook to release, with the misconceptions beside it, and those that
    the wrong options of the unit's graded question in `../questions.yaml` stand for.

    Raises `ReleaseError`, naming file, cell and line, for whatever would make a bad release: metadata
    that nbgrader would misread, tests that cannot be split or cannot fail, a misconception that points
    nowhere, a solution or hidden test that would be given away.
    """
    folder = Path(unit_folder)
    unit = folder.resolve().name
    path = folder / f"{unit}.py"
    source, authored = read_unit(path)
    released = _students_version(source, path)
    canonical = [cell for cell in released.cells if "nbgrader" in cell.metadata]  # all but practice cells
    cells = tuple(
        SpecCell(
            grade_id=one.grade_id,
            kind=one.kind,
            cell_type=one.cell.cell_type,
            source=one.cell.source,
            released=given.source,
            points=float(one.cell.metadata["nbgrader"].get("points", 0.0)),
        )
        for one, given in zip(authored, canonical, strict=True)
    )
    titles = _check_tests(path, authored, cells)
    bank, questions = folder / "misconceptions.py", folder.resolve().parent / QUESTIONS
    known = read_misconceptions(bank) if bank.exists() else ()
    chosen = wrong_choices(questions, unit) if questions.exists() else ()
    spec = Spec(unit, cells, (*known, *chosen))
    _check_misconceptions(bank, spec, known, titles)
    _check_misconceptions(questions, spec, chosen, titles)
    _check_beliefs(bank, spec)
    built = Built(unit, source, released, spec)
    if found := leaks(built):
        raise ReleaseError(f"{path} would give away what students must not see. " + " ".join(found))
    return built


def leaks(built: Built) -> list[str]:
    """One sentence for each solution line and hidden test line that stands in the released notebook."""
    return find_leaks(built.spec, {cell["id"]: cell.source for cell in built.released_notebook.cells})


def notebook_bytes(notebook: NotebookNode) -> bytes:
    """A notebook as it is written to disk: the same bytes for the same cells, always."""
    return (nbformat.writes(notebook).rstrip("\n") + "\n").encode()


def write_exercise(built: Built, exercises_dir: Path) -> Path:
    """Write `<exercises_dir>/<unit>/<unit>.ipynb`, byte for byte reproducible."""
    path = Path(exercises_dir) / built.unit / f"{built.unit}.ipynb"
    write_atomically(path, notebook_bytes(built.released_notebook), 0o644)
    return path


def release(course: Course, built: Built) -> None:
    """Make the unit an assignment of the course: source/, exercises/ and gradebook.db by nbgrader itself.

    Raises `ReleaseError` when nbgrader refuses (cells were added or removed after the first
    submission), or when the course's configuration makes nbgrader release something else than `build`
    did. The release and the spec that were there before are then kept.
    """
    _refuse_to_orphan_submissions(course, built)
    source = course.source / built.unit / f"{built.unit}.ipynb"
    for name in (*PRIVATE_FILES, f"{built.unit}.py"):
        if (source.parent / name).exists():
            raise ReleaseError(
                f"{source.parent / name} must not lie there: nbgrader gives students every file in that"
                " folder. Move it away and release again."
            )
    exercise = course.exercises / built.unit / f"{built.unit}.ipynb"
    before = {path: path.read_bytes() for path in (source, exercise) if path.exists()}
    write_atomically(source, notebook_bytes(built.source_notebook), 0o600)
    try:
        _generate_assignment(course, built.unit)
        _compare(built, exercise)
    except ReleaseError:
        for path, data in before.items():
            write_atomically(path, data, 0o600 if path == source else 0o644)
        raise
    course.write_spec(built.spec)


def _students_version(source: NotebookNode, path: Path) -> NotebookNode:
    """The author's notebook after nbgrader's preprocessors."""
    notebook: Any = copy.deepcopy(source)
    resources: Any = ResourcesDict()
    for preprocessor in _PIPELINE:
        try:
            notebook, resources = preprocessor().preprocess(notebook, resources)
        except Exception as error:  # nbgrader raises RuntimeError, ValueError and its own
            raise ReleaseError(
                f"{path}: nbgrader's {preprocessor.__name__} refuses it: {error}. Check that every"
                " '### BEGIN SOLUTION' has its '### END SOLUTION', in a solution cell, and every"
                " '### BEGIN HIDDEN TESTS' its '### END HIDDEN TESTS', in a test cell."
            ) from None
    return notebook


def _check_tests(path: Path, authored: list[AuthoredCell], cells: tuple[SpecCell, ...]) -> dict[str, str]:
    """Split every test cell; return the grade_id by title. Titles are unique in a unit, since the bank
    names tests by them."""
    student_names = {name for cell in cells if cell.kind == "solution" for name in defined_names(cell.source)}
    titles: dict[str, str] = {}
    for one, cell in zip(authored, cells, strict=True):
        if cell.kind != "test":
            continue
        parts = _split(path, one, cell)
        for part in parts.parts:
            line = one.line + part.first_line - 1
            where = f"{path}:{line}: in the test cell {cell.grade_id!r}, the test {part.title!r}"
            if part.title in titles:
                raise ReleaseError(
                    f"{where} has the title of a test in {titles[part.title]!r}; titles are unique."
                )
            if not checks_something(part, student_names):
                raise ReleaseError(f"{where} cannot fail: it asserts nothing and calls no check.")
            titles[part.title] = cell.grade_id
    return titles


def _split(path: Path, one: AuthoredCell, cell: SpecCell) -> SplitCell:
    try:
        return split_cell(cell)
    except SubtestError as error:
        line = one.line + error.line - 1
        raise ReleaseError(f"{path}:{line}: in the test cell {cell.grade_id!r}: {error.message}.") from None


def _check_misconceptions(
    bank: Path, spec: Spec, misconceptions: tuple[Misconception, ...], titles: dict[str, str]
) -> None:
    """Every misconception replaces a solution cell and names a test."""
    solutions = {cell.grade_id for cell in spec.cells if cell.kind == "solution"}
    for item in misconceptions:
        if item.replaces not in solutions:
            raise ReleaseError(_no_such(bank, item, "replaces", item.replaces, solutions))
        if item.caught_by not in titles:
            raise ReleaseError(_no_such(bank, item, "caught by", item.caught_by, set(titles)))


def _check_beliefs(bank: Path, spec: Spec) -> None:
    """Every test's belief is known."""
    names = {item.name for item in spec.misconceptions}
    for cell in spec.cells:
        if cell.kind == "test":
            for part in split_cell(cell).parts:
                if part.belief and part.belief not in names:
                    raise ReleaseError(
                        f"The test {part.title!r} in the cell {cell.grade_id!r} names the belief"
                        f" {part.belief!r}, which is not in {bank}."
                        f" There are: {', '.join(sorted(names)) or 'none'}."
                    )


def _no_such(bank: Path, item: Misconception, key: str, value: str, known: set[str]) -> str:
    choices = "; ".join(sorted(known)) or "none"
    return f"{bank}: the misconception {item.name!r} says '{key}: {value}', but the unit has: {choices}."


def _refuse_to_orphan_submissions(course: Course, built: Built) -> None:
    """nbgrader refuses to add or remove cells once there are submissions, but only after it has deleted
    the release; so ask first."""
    if not course.gradebook.exists() and course.database_url.startswith("sqlite"):
        return
    with Gradebook(course.database_url, course.directory.course_id) as gradebook:
        try:
            notebook = gradebook.find_notebook(built.unit, built.unit)
        except MissingEntry:
            return
        old = {cell.name for cell in notebook.source_cells}
        new = {cell.grade_id for cell in built.spec.cells}
        if notebook.submissions and old != new:
            changed = ", ".join(sorted(old ^ new))
            raise ReleaseError(
                f"{built.unit} has {len(notebook.submissions)} graded submissions in {course.root}, so its"
                f" cells can be changed but not added or removed: {changed}. Keep their grade_ids, or release"
                " under a new name."
            )


def _generate_assignment(course: Course, unit: str) -> None:
    """Run `nbgrader generate_assignment --force` in this process."""
    directory = course.directory
    directory.assignment_id, directory.notebook_id = unit, "*"
    converter = GenerateAssignment(coursedir=directory, config=course.nbgrader_config())
    converter.force = True
    # nbgrader logs its progress to a logger that others may have switched to standard error.
    logger, level = converter.log, converter.log.level
    logger.setLevel(logging.WARNING)
    try:
        result = capture_log(converter)
    finally:
        logger.setLevel(level)
    if not result["success"]:
        log = str(result.get("log") or result["error"]).strip().splitlines()
        errors = [line for line in log if "Error" in line and "errors on" not in line]
        said = (errors or log)[-1].strip()
        raise ReleaseError(f"nbgrader could not generate the assignment {unit!r}: {said}")


def _compare(built: Built, exercise: Path) -> None:
    """nbgrader's release must be ours, or students would be graded against cells that they never got."""
    theirs = nbformat.read(exercise, as_version=4)
    ours = built.released_notebook
    same = len(theirs.cells) == len(ours.cells) and all(
        (a.cell_type, a.source, a.metadata) == (b.cell_type, b.source, b.metadata)
        for a, b in zip(theirs.cells, ours.cells, strict=True)
    )
    if not same:
        raise ReleaseError(
            f"nbgrader released other cells than were built from {built.unit}: the course's"
            " nbgrader_config.py changes the release (a header, other stubs, other preprocessors). Remove"
            " those settings and release again."
        )
