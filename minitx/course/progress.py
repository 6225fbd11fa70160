"""What the student's commands remember between two calls: last checks, hints shown, answers of the quiz."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from platformdirs import user_state_path


class Progress:
    """A small JSON file; `data` is a dictionary of sections ("checks", "hints", "quiz").

    Lies in the user's state folder, or in MINITX_STATE_DIR. A file that cannot be read is put aside and
    begun anew; one that cannot be written is no error: `problem` says what happened.
    """

    def __init__(self, path: Path | None = None):
        self.path = _default_path() if path is None else path
        self.problem = ""
        self.data: dict[str, dict[str, Any]] = {}
        try:
            read = json.loads(self.path.read_text(encoding="utf-8"))
            if not isinstance(read, dict) or not all(isinstance(part, dict) for part in read.values()):
                raise ValueError("not a dictionary of sections")
            self.data = read
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            self.problem = f"Your progress in {self.path} could not be read ({error}); it begins anew."
            self._put_aside()

    def section(self, name: str) -> dict[str, Any]:
        """A part of the data, to be changed in place."""
        return self.data.setdefault(name, {})

    def save(self) -> None:
        """Write the file whole or not at all."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=".progress-")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(self.data, file, indent=1, sort_keys=True)
            os.replace(name, self.path)
        except OSError as error:
            self.problem = f"Your progress is not kept: {error}. MINITX_STATE_DIR names another folder."

    def _put_aside(self) -> None:
        with contextlib.suppress(OSError):
            os.replace(self.path, self.path.with_suffix(".unreadable"))


def _default_path() -> Path:
    if os.environ.get("MINITX_STATE_DIR"):
        return Path(os.environ["MINITX_STATE_DIR"]) / "progress.json"
    return user_state_path("minitx", appauthor=False) / "progress.json"
