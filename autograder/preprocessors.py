"""nbgrader's own commands, and formgrader's Autograde button, on this grader's code.

A course's nbgrader_config.py calls `configure`, which puts two preprocessors in the place of nbgrader's:
`RepairCells` for DeduplicateIds, and `SandboxExecute` for Execute, which would run student code beside
the hidden tests and with the rights of whoever started it.
"""

from __future__ import annotations

import atexit
from pathlib import Path
from typing import Any

from nbconvert.preprocessors import ClearMetadataPreprocessor, CSSHTMLHeaderPreprocessor
from nbformat import NotebookNode
from nbgrader.preprocessors import (
    AssignLatePenalties,
    CheckCellMetadata,
    ClearOutput,
    GetGrades,
    IgnorePattern,
    LimitOutput,
    NbGraderPreprocessor,
    OverwriteCells,
    OverwriteKernelspec,
    SaveAutoGrades,
)
from traitlets import Unicode
from traitlets.config import Config

from autograder.assessing import check_yourself, seed_of
from autograder.autograded import autograded_notebook
from autograder.cells import cells_of
from autograder.course import Course
from autograder.feedback import ScrubFeedback
from autograder.latepolicy import LatePolicy
from autograder.repair import repair
from autograder.runners import Runner
from autograder.spec import Spec


class _OfCourse(NbGraderPreprocessor):
    """A preprocessor that knows the course's folder."""

    course = Unicode(help="The course folder.").tag(config=True)

    def spec_of(self, resources: Any) -> Spec:
        return Course.open(Path(self.course)).spec(resources["nbgrader"]["assignment"])


class RepairCells(_OfCourse):
    """The canonical cells again, whatever became of them in the submission."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        repaired = repair(nb, self.spec_of(resources))
        for note in repaired.notes:
            self.log.warning("%s", note)
        return repaired.notebook, resources


class SandboxExecute(_OfCourse):
    """Judge the notebook in a test runner; its outputs are the results."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        spec, told = self.spec_of(resources), resources["nbgrader"]
        runner = runner_for(spec)
        seed = seed_of(Course.open(Path(self.course)).key, told["assignment"], told["student"])
        verdict = runner.judge(cells_of(nb, spec), seed)
        if verdict.needs_review:
            raise RuntimeError(verdict.needs_review)  # nbgrader then records no score, and says so
        return autograded_notebook(nb, verdict, spec), resources


_runners: dict[str, Runner] = {}


def runner_for(spec: Spec) -> Runner:
    """A runner for this spec that has proved itself, kept for the next submission."""
    if spec.digest not in _runners:
        runner = Runner(spec)
        check_yourself(spec, runner)
        _runners[spec.digest] = runner
        atexit.register(runner.close)
    return _runners[spec.digest]


def configure(config: Config, config_file: str) -> None:
    """Set up nbgrader for the course in which `config_file` lies."""
    root = str(Path(config_file).resolve().parent)
    config.RepairCells.course = config.SandboxExecute.course = root
    config.Autograde.sanitize_preprocessors = [
        ClearOutput,
        RepairCells,
        OverwriteKernelspec,
        OverwriteCells,
        CheckCellMetadata,
    ]
    config.Autograde.autograde_preprocessors = [
        SandboxExecute,
        IgnorePattern,
        ClearMetadataPreprocessor,
        LimitOutput,
        SaveAutoGrades,
        AssignLatePenalties,
        CheckCellMetadata,
    ]
    if "plugin_class" not in config.AssignLatePenalties:
        config.AssignLatePenalties.plugin_class = LatePolicy
    config.GenerateFeedback.preprocessors = [GetGrades, ScrubFeedback, CSSHTMLHeaderPreprocessor]
