"""A unit's due date, in nbgrader's gradebook."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from nbgrader.api import Gradebook

from autograder.course import Course
from autograder.errors import UsageError
from autograder.gradebook import clear_errors

_EXAMPLE = 'Give it as "2030-05-31 23:59 Europe/Berlin"; without a time zone it is UTC; "none" takes it away.'


def parse_due(text: str) -> datetime | None:
    """A due date as a person writes it, in UTC without a zone, as nbgrader keeps it. Raises `UsageError`."""
    words = text.split()
    if [word.casefold() for word in words] == ["none"]:
        return None
    zone: ZoneInfo | None = None
    if len(words) > 1 and words[-1][0].isalpha():
        try:
            zone = ZoneInfo(words.pop())
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise UsageError(f"The due date {text!r} names no time zone that is known. {_EXAMPLE}") from None
    try:
        due = datetime.fromisoformat(" ".join(words))
    except ValueError:
        raise UsageError(f"The due date {text!r} cannot be read. {_EXAMPLE}") from None
    if zone is not None and due.tzinfo is not None:
        raise UsageError(f"The due date {text!r} has two time zones. {_EXAMPLE}")
    if due.tzinfo is None:
        due = due.replace(tzinfo=zone or UTC)
    return due.astimezone(UTC).replace(tzinfo=None)


def set_due_date(course: Course, unit: str, due: datetime | None) -> None:
    """Write the due date of a released unit (UTC, without a zone) into the gradebook."""
    with clear_errors(course), Gradebook(course.database_url, course.directory.course_id) as gradebook:
        gradebook.find_assignment(unit).duedate = due
        gradebook.db.commit()
