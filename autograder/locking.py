"""One command at a time works on a course: a lock that the system frees, however its holder ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from autograder.errors import UsageError


class CourseLock:
    """Held from `take` to `free`; the file stays and names the last holder."""

    def __init__(self, private: Path) -> None:
        self.path = Path(private) / "lock"
        self._handle: int | None = None

    def take(self) -> None:
        """Raises `UsageError` when another process holds it."""
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(handle, 20).decode("ascii", "replace").strip()
            os.close(handle)
            raise UsageError(
                f"Another autograder command (process {holder or 'unknown'}) is at work on the course in"
                f" {self.path.parent.parent}. Wait until it has ended, then try again."
            ) from None
        os.truncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
        self._handle = handle

    def free(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> CourseLock:
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        self.free()
