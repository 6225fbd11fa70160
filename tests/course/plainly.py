"""A unit's cells run in one plain namespace, as in a notebook: no sandbox is needed, and no grading."""

import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

release = pytest.importorskip("autograder.release", reason="the course's notebooks are built with nbgrader")
subtests = pytest.importorskip("minitx.course.subtests")

SOLUTIONS = Path(__file__).parents[2] / "solutions"


class Unit:
    """One unit of the course: its `spec`, its `tests`, and what becomes of them."""

    def __init__(self, name: str):
        self.spec = release.build(SOLUTIONS / name).spec
        self.tests = [
            subtests.split(cell.source, grade_id=cell.grade_id, points=cell.points)
            for cell in self.spec.cells
            if cell.kind == "test"
        ]

    @property
    def parts(self) -> list:
        return [part for split in self.tests for part in split.parts]

    def source(self, grade_id: str) -> str:
        return self.spec.cell(grade_id).source

    def played(self, *shown: str, replaced: Mapping[str, str] | None = None) -> dict:
        """The notebook's names after its imports, its solution cells and the shown cells named."""
        names = {"__name__": "notebook"}
        for cell in self.spec.cells:
            if cell.kind == "solution" or cell.grade_id in ("imports", *shown):
                exec((replaced or {}).get(cell.grade_id, cell.source), names)
        return names

    def failures(self, names: Mapping) -> dict[str, str]:
        """{title: message} of the tests that fail with these names; test cells share theirs, as in the grader."""
        failed, scope = {}, dict(names)
        for split in self.tests:
            exec(split.setup, scope)
            for part in split.parts:
                try:
                    with warnings.catch_warnings(), np.errstate(all="ignore"):
                        warnings.simplefilter("ignore")
                        exec(part.code, scope)
                except Exception as error:
                    failed[part.title] = f"{type(error).__name__}: {error}"
        return failed
