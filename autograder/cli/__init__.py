"""The instructor's command. Exit code 0: done; 1: the work says no; 2: wrong use."""

from __future__ import annotations

import sys

from autograder.cli import collect, demo, export, feedback, grade, release, report, selftest, verify
from autograder.cli.app import app, notices
from autograder.errors import UsageError

__all__ = [
    "collect",
    "demo",
    "export",
    "feedback",
    "grade",
    "main",
    "release",
    "report",
    "selftest",
    "verify",
]


def main() -> None:
    """Run the command; an error that a person can mend ends in one paragraph, never in a traceback."""
    try:
        app()
    except UsageError as error:
        notices.print(
            str(error),
            style="red" if notices.is_terminal else None,
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
        sys.exit(error.exit_code)
