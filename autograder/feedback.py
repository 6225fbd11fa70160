"""Feedback pages for students: nbgrader's own template, without anything that a hidden test consists of."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from jinja2 import pass_context
from nbconvert.exporters import HTMLExporter
from nbconvert.filters import Highlight2HTML
from nbconvert.filters.widgetsdatatypefilter import WidgetsDataTypeFilter
from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor
from nbformat import NotebookNode
from nbformat.v4 import reads
from nbgrader.api import Gradebook
from nbgrader.converters import GenerateFeedback
from nbgrader.preprocessors import GetGrades, NbGraderPreprocessor
from nbgrader.utils import is_grade, is_locked, is_solution

from autograder.autograded import OURS, STATUS, SUMMARY_ID, summary_cell, write_autograded
from autograder.course import Course
from autograder.errors import UsageError
from autograder.files import write_atomically
from autograder.gradebook import clear_errors
from autograder.nodes import nodes
from autograder.sanitize import presentable_markdown, safe_outputs
from autograder.verdict import Verdict
from minitx.course.subtests import BEGIN_HIDDEN, END_HIDDEN

__all__ = ["STATUS", "FeedbackWriter", "ScrubFeedback", "write_autograded", "write_feedback"]


KEPT = 512  # cells as HTML, for the next pages
LONGEST_KEPT = 8_000  # characters: what students write may be as long as they like


class ScrubFeedback(NbGraderPreprocessor):
    """Takes out of a page what students must not see, and what must not run in a browser.

    For `c.GenerateFeedback.preprocessors = [GetGrades, ScrubFeedback, CSSHTMLHeaderPreprocessor]`.
    """

    def preprocess_cell(
        self, cell: NotebookNode, resources: Any, cell_index: int
    ) -> tuple[NotebookNode, Any]:
        if is_grade(cell) and not is_solution(cell):
            cell.source = without_hidden_tests(cell.source)
            # Any output but ours would be a traceback through hidden lines, or student code's own.
            cell.outputs = [
                output for output in cell.get("outputs", []) if output.get("metadata", {}).get(OURS)
            ]
        elif cell.cell_type == "code":
            outputs = safe_outputs(cell.get("outputs"), cell.get("execution_count"))
            cell.outputs = nodes(outputs)
        elif not is_locked(cell) and OURS not in cell.metadata:
            cell.source = presentable_markdown(cell.source, cell.get("attachments"))
        return cell, resources


class _SharedGrades(GetGrades):
    """nbgrader's GetGrades on one gradebook for a whole batch, where it would open one for each page."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        told = resources["nbgrader"]
        self.notebook_id, self.assignment_id = told["notebook"], told["assignment"]
        self.student_id = told["student"]
        for index, cell in enumerate(nb.cells):
            nb.cells[index], resources = self.preprocess_cell(cell, resources, index)
        submitted: Any = self.gradebook.find_submission_notebook(
            self.notebook_id, self.assignment_id, self.student_id
        )
        penalty = submitted.late_submission_penalty or 0
        told.update(score=submitted.score - penalty, max_score=submitted.max_score, late_penalty=penalty)
        self.gradebook.db.remove()  # and its connection, until the next page
        return nb, resources


class _PageExporter(HTMLExporter):
    """HTMLExporter that keeps what it has made of a cell, since most cells are the same in a whole class, and
    without its last step, which parses the finished page once more to give pictures an alternative text
    (ours have one) and to mark parts of another template.
    """

    def __init__(self, **kw: Any) -> None:
        super().__init__(**kw)
        self._markdown = lru_cache(KEPT)(partial(super().markdown2html, {}))
        self._highlighted = lru_cache(KEPT)(self._highlight)

    def from_notebook_node(
        self, nb: NotebookNode, resources: dict[str, Any] | None = None, **kw: Any
    ) -> tuple[str, dict[str, Any]]:
        resources = self._init_resources(resources)
        language = nb.metadata.get("language_info", {})
        lexer = language.get("pygments_lexer", language.get("name"))
        self.register_filter("highlight_code", partial(self._highlight_code, lexer))
        widgets = WidgetsDataTypeFilter(notebook_metadata=nb.metadata, parent=self, resources=resources)
        self.register_filter("filter_data_type", widgets)
        return super(HTMLExporter, self).from_notebook_node(nb, resources, **kw)

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        if len(source) > LONGEST_KEPT or context.get("cell", {}).get("attachments"):
            return super().markdown2html(context, source)
        return self._markdown(source)

    def _highlight_code(
        self, lexer: str | None, source: str, language: str | None = None, metadata: Any = None
    ) -> str:
        magic = (metadata or {}).get("magics_language")  # of a cell such as %%bash
        make = self._highlighted if len(source) <= LONGEST_KEPT else self._highlight
        return make(lexer, source, language, magic)

    def _highlight(self, lexer: str | None, source: str, language: str | None, magic: str | None) -> str:
        metadata = {"magics_language": magic} if magic else None
        return Highlight2HTML(pygments_lexer=lexer, parent=self)(source, language, metadata)


class FeedbackWriter:
    """Writes feedback pages with one exporter and one gradebook session for a whole batch; in a `with`
    statement, or to the end of the process.
    """

    def __init__(self, course: Course) -> None:
        self.course = course
        converter = GenerateFeedback(coursedir=course.directory, config=course.nbgrader_config())
        self._exporter = _PageExporter(parent=converter, config=converter.config)
        with clear_errors(course):
            self._gradebook = Gradebook(course.database_url, course.directory.course_id)
        grades = _SharedGrades(parent=self._exporter)
        grades.gradebook = self._gradebook
        for preprocessor in (grades, ScrubFeedback, CSSHTMLHeaderPreprocessor):
            self._exporter.register_preprocessor(preprocessor, enabled=True)

    def __enter__(self) -> FeedbackWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._gradebook.close()

    def write(
        self, unit: str, student: str, verdict: Verdict | None = None, notes: Sequence[str] | None = None
    ) -> Path:
        """Write feedback/<student>/<unit>/<unit>.html from the autograded notebook and the gradebook.

        `verdict` and `notes` make the part at the top; without either, the autograded notebook's is kept.
        Raises `UsageError` when the submission is not graded yet.
        """
        source = self.course.notebook_path(self.course.autograded, student, unit)
        try:
            notebook: Any = reads(source.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UsageError(
                f"There is no graded notebook of {student} for {unit}: {source} does not exist. Grade it"
                f" first: autograder grade {unit} --course {self.course.root}"
            ) from None
        if verdict is not None or notes is not None:
            notebook.cells = [cell for cell in notebook.cells if cell.get("id") != SUMMARY_ID]
            looks_like = verdict.looks_like if verdict else None
            summary = summary_cell(notes or (), looks_like, bool(verdict and verdict.needs_review))
            notebook.cells[:0] = [summary] if summary else []
        with clear_errors(self.course):
            page, _ = self._exporter.from_notebook_node(notebook, resources=self._resources(unit, student))
        path = self.course.notebook_path(self.course.feedback, student, unit, ".html")
        write_atomically(path, page.encode(), 0o664 if self.course.directory.groupshared else 0o644)
        return path

    def _resources(self, unit: str, student: str) -> dict[str, Any]:
        """What nbgrader's converter tells its preprocessors and template."""
        return {
            "unique_key": unit,
            "output_files_dir": f"{unit}_files",
            "metadata": {"name": unit},
            "nbgrader": {
                "student": student,
                "assignment": unit,
                "notebook": unit,
                "db_url": self.course.database_url,
            },
        }


def write_feedback(course: Course, unit: str, student: str) -> Path:
    """Write the feedback page of one graded submission; for many, use one `FeedbackWriter`."""
    with FeedbackWriter(course) as writer:
        return writer.write(unit, student)


def without_hidden_tests(source: str) -> str:
    """A test cell's text without its hidden regions; nothing of it when they are not well-formed."""
    lines, inside = [], False
    for line in source.split("\n"):
        if BEGIN_HIDDEN in line or END_HIDDEN in line:
            if (BEGIN_HIDDEN in line) == inside:
                return "# This test is hidden."
            inside = not inside
        elif not inside:
            lines.append(line)
    return "# This test is hidden." if inside or not "".join(lines).strip() else "\n".join(lines)
