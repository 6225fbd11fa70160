"""The whole gradebook as CSV, by nbgrader's own exporter."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from nbgrader import api
from nbgrader.plugins import CsvExportPlugin

from autograder.course import Course
from autograder.errors import UsageError
from autograder.gradebook import clear_errors


def export_csv(course: Course, path: Path) -> Path:
    """Write the whole gradebook as CSV, with nbgrader's own exporter."""
    path = Path(path)
    with clear_errors(course), api.Gradebook(course.database_url, course.directory.course_id) as gradebook:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            os.close(descriptor)
            exporter = CsvExportPlugin()
            exporter.to = temporary
            exporter.export(gradebook)
            os.replace(temporary, path)
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}. Choose another place.") from None
    return path
