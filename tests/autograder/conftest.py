"""A small made-up unit, and a course in which it is released, for every test of the grader's own files."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from autograder.course import Course
from autograder.release import Built, build, release

UNITS = Path(__file__).parent / "units"


@pytest.fixture(scope="session")
def tiny() -> Built:
    return build(UNITS / "tiny")


@pytest.fixture(scope="session")
def _released_once(tiny: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("template") / "course"
    release(Course.create(root), tiny)
    return root


@pytest.fixture
def course(_released_once: Path, tmp_path: Path) -> Course:
    """A course of its own for each test, with `tiny` released in it."""
    shutil.copytree(_released_once, tmp_path / "course")
    return Course.open(tmp_path / "course")


@pytest.fixture
def right(tiny: Built) -> NotebookNode:
    """The released notebook with every answer filled in right."""
    return answered(tiny)


def answered(built: Built) -> NotebookNode:
    """The released notebook with the reference solutions, without the author's markers."""
    notebook = nbformat.from_dict(built.released_notebook)
    for cell in notebook.cells:
        canonical = built.spec.cell(cell.id)
        if canonical.kind in ("solution", "written"):
            lines = [line for line in canonical.source.split("\n") if " SOLUTION" not in line]
            cell.source = "\n".join(lines)
    return nbformat.from_dict(notebook)
