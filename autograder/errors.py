"""The exceptions whose text is meant to be read: one clear paragraph, no traceback needed."""

from __future__ import annotations


class UsageError(Exception):
    """Something the person at the keyboard can mend: what was expected, what came, what to do."""

    exit_code = 2


class ReleaseError(UsageError):
    """A unit that cannot be released as it is written. Names file, cell and line."""


class StoppedError(UsageError):
    """The command was right, but the work cannot go on: a full disk, a gradebook that cannot be written."""

    exit_code = 1
