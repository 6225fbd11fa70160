"""Feedback pages on their way back: an archive for an LMS, or nbgrader's exchange."""

from __future__ import annotations

import os
import re
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from nbgrader.exchange.default import ExchangeReleaseFeedback
from nbgrader.utils import notebook_hash

from autograder.collecting.store import SECRET, AttemptStore
from autograder.course import Course
from autograder.errors import StoppedError, UsageError
from autograder.files import write_atomically


def graded_students(course: Course, unit: str) -> list[str]:
    """Those who have an autograded notebook, by name."""
    return sorted(path.parent.parent.name for path in course.autograded.glob(f"*/{unit}/{unit}.ipynb"))


def pack(course: Course, unit: str, students: Sequence[str], path: Path) -> Path:
    """A zip archive of the pages, named as the LMS named the submissions, so that it takes them back.

    Moodle wants the folders of its own archive, Canvas a name with the student's and the file's number.
    """
    store = AttemptStore(course, unit)
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for student in students:
                page = course.notebook_path(course.feedback, student, unit, ".html")
                archive.write(page, _name_for_lms(store, student, unit))
        os.replace(temporary, path)
    except OSError as error:
        raise StoppedError(f"{path} cannot be written: {error.strerror}. Choose another place.") from None
    return path


def _name_for_lms(store: AttemptStore, student: str, unit: str) -> str:
    attempts = store.attempts(student)
    ids = attempts[-1].ids if attempts else {}
    if "moodle" in ids:
        folder = ids.get("origin") or f"{ids['name']}_{ids['moodle']}_assignsubmission_file_"
        return f"{folder}/{unit}.html"
    if "canvas" in ids:
        return re.sub(r"\.[^.]*$", "", ids["origin"]) + ".html"
    return f"{student}/{unit}.html"


def release_to_exchange(course: Course, unit: str, students: Sequence[str]) -> tuple[list[str], list[str]]:
    """Hand pages back by nbgrader's own means; return who was served, and who has no secret.

    Raises `UsageError` when there is no exchange.
    """
    returned, without = [], []
    directory = course.directory
    for student in students:
        secret = _secret(course.submitted / student / unit)
        if secret is None:
            without.append(student)
            continue
        page = course.notebook_path(course.feedback, student, unit, ".html")
        stamp = course.timestamp(unit, student)
        # nbgrader names the page in the exchange by a digest of these.
        write_atomically(page.parent / SECRET, secret, 0o600)
        write_atomically(page.parent / "timestamp.txt", f"{stamp or ''} UTC".encode(), 0o644)
        directory.assignment_id, directory.student_id = unit, student
        exchange = ExchangeReleaseFeedback(coursedir=directory, config=course.nbgrader_config())
        try:
            exchange.start()
        except Exception as error:  # nbgrader raises ExchangeError and whatever the file system does
            raise UsageError(
                f"nbgrader's exchange does not take the feedback: {error}. Set c.Exchange.root in"
                f" {course.root}/nbgrader_config.py."
            ) from None
        wanted = f"{notebook_hash(secret=secret.decode(), notebook_id=unit)}.html"
        if not (Path(exchange.root) / directory.course_id / "feedback" / wanted).exists():
            raise UsageError(f"nbgrader's exchange did not take the feedback of {student}.")
        returned.append(student)
    return returned, without


def _secret(folder: Path) -> bytes | None:
    """What `nbgrader submit` left for finding the feedback; the file is the student's."""
    try:
        descriptor = os.open(folder / SECRET, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(200)
    except OSError:
        return None
    return data if re.fullmatch(rb"[0-9a-zA-Z_-]{8,128}", data) else None
