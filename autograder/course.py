"""A course folder: nbgrader's own layout, and one private folder for what nbgrader does not know.

nbgrader_config.py  gradebook.db  source/  exercises/  submitted/  autograded/  feedback/
.autograder/        the course's key, the specs with their hidden tests, the instructor's logs
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import sys
from datetime import datetime
from pathlib import Path

from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import parse_utc
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from autograder.errors import UsageError
from autograder.files import write_atomically
from autograder.spec import Spec

CONFIG_FILE = "nbgrader_config.py"
RELEASE_DIRECTORY = "exercises"

_CONFIG_TEXT = '''"""This course's settings for nbgrader, read when it is started in this folder."""

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = {course_id!r}
c.CourseDirectory.release_directory = {release!r}

# Student code runs in the sandbox under nbgrader's own commands and in formgrader, too. SystemExit, since
# nbgrader goes on after any other error in this file, and would run student code itself.
try:
    from autograder.preprocessors import configure
except Exception as error:
    raise SystemExit(f"nbgrader needs the course's grader, which cannot be imported here: {{error}}")
configure(c, __file__)

# What lateness costs (due dates: autograder release UNIT --due "2030-05-31 23:59 Europe/Berlin").
# c.LatePolicy.percent_per_day = 10  # of the score, for each day that has begun
# c.LatePolicy.grace_minutes = 15
# c.LatePolicy.most_percent = 50
'''
_COURSE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*$")


class Course:
    """One course folder. Make it with `Course.create`, find it again with `Course.open`."""

    def __init__(self, root: Path) -> None:
        _put_alembic_on_path()
        self.root = root.absolute()
        self.private = self.root / ".autograder"
        self._config = _read_config(self.root)
        self._specs: dict[str, tuple[int, Spec]] = {}  # by unit, with the file's time
        self.directory = CourseDirectory(config=self._config)
        self.source = self._step(self.directory.source_directory)
        self.exercises = self._step(self.directory.release_directory)
        self.submitted = self._step(self.directory.submitted_directory)
        self.autograded = self._step(self.directory.autograded_directory)
        self.feedback = self._step(self.directory.feedback_directory)

    @classmethod
    def create(cls, root: Path, course_id: str = "course") -> Course:
        """Make a course folder, or complete one; what is there already, its key above all, is kept.

        Raises `UsageError` when `root` is a file, cannot be written, or `course_id` has a character
        that nbgrader cannot put into a path.
        """
        if not _COURSE_ID.match(course_id):
            raise UsageError(
                f"A course's id is made of letters, digits, '.', '_' and '-', got {course_id!r}."
                " Choose another."
            )
        root = Path(root).absolute()
        try:
            if not root.exists():
                root.mkdir(parents=True, mode=0o700)  # it will hold solutions and grades
            (root / ".autograder").mkdir(exist_ok=True, mode=0o700)
            if not (root / CONFIG_FILE).exists():
                text = _CONFIG_TEXT.format(course_id=course_id, release=RELEASE_DIRECTORY)
                write_atomically(root / CONFIG_FILE, text.encode(), 0o644)
            if not (root / ".autograder" / "key").exists():
                write_atomically(root / ".autograder" / "key", secrets.token_bytes(32), 0o600)
            course = cls(root)
            course.submitted.mkdir(exist_ok=True)
        except OSError as error:
            raise UsageError(f"The course folder {root} cannot be made: {error.strerror or error}.") from None
        return course

    @classmethod
    def open(cls, root: Path) -> Course:
        """The course in `root`. Raises `UsageError` when there is none, saying what to do."""
        root = Path(root).absolute()
        if not root.is_dir():
            what = "is a file, not a folder" if root.exists() else "does not exist"
            raise UsageError(
                f"The course folder {root} {what}. Check the path for a typing error, or make a course there"
                f" by releasing a unit into it: autograder release UNIT --course {root}"
            )
        if not (root / CONFIG_FILE).is_file() or not (root / ".autograder" / "key").is_file():
            raise UsageError(
                f"The folder {root} is not a course: it has no {CONFIG_FILE} or no .autograder/key. Give the"
                f" folder that holds source/ and submitted/, or make a course by releasing a unit into it:"
                f" autograder release UNIT --course {root}"
            )
        return cls(root)

    @property
    def key(self) -> bytes:
        """The course's 32 secret bytes, from which every student's test inputs are made."""
        key = (self.private / "key").read_bytes()
        if len(key) != 32:
            raise UsageError(
                f"{self.private / 'key'} should hold 32 bytes, but holds {len(key)}. Put the original file"
                " back from a backup: with another key, students get other test inputs at a regrade."
            )
        return key

    @property
    def gradebook(self) -> Path:
        """Where nbgrader's default database lies; the address in use is `database_url`."""
        return self.root / "gradebook.db"

    @property
    def database_url(self) -> str:
        return self.directory.db_url

    def nbgrader_config(self) -> Config:
        """What nbgrader_config.py says, with this folder as the course's root. A new copy each time."""
        return Config(self._config)

    def students(self, unit: str) -> list[str]:
        """The names of those who handed in something for `unit`, sorted."""
        if not self.submitted.is_dir():
            return []
        names = [entry.name for entry in os.scandir(self.submitted) if not entry.name.startswith(".")]
        return sorted(name for name in names if os.path.lexists(self.submitted / name / unit))

    def notebook_path(self, step: Path, student: str, unit: str, suffix: str = ".ipynb") -> Path:
        """Where one student's file for `unit` lies in one of the course's folders."""
        for name in (student, unit):
            if not name or name.startswith(".") or "/" in name or "\0" in name:
                raise UsageError(f"{name!r} cannot be the name of a student or a unit.")
        return step / student / unit / f"{unit}{suffix}"

    def timestamp(self, unit: str, student: str) -> datetime | None:
        """When it was handed in (UTC), from nbgrader's timestamp.txt; None where that says nothing usable."""
        path = self.submitted / student / unit / "timestamp.txt"
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                text = file.read(100).decode("ascii").strip()
            return parse_utc(text) if text else None
        except (OSError, ValueError, TypeError, OverflowError):
            return None

    def write_spec(self, spec: Spec) -> Path:
        """Keep the spec of a released unit where only the instructor can read it."""
        path = self._spec_path(spec.unit)
        write_atomically(path, spec.to_json().encode(), 0o600)
        return path

    def spec(self, unit: str) -> Spec:
        """The spec of a released unit. Raises `UsageError` when it was never released here."""
        path = self._spec_path(unit)
        try:
            changed = path.stat().st_mtime_ns
            if self._specs.get(unit, (0, None))[0] != changed:
                self._specs[unit] = (changed, Spec.from_json(path.read_text(encoding="utf-8")))
            return self._specs[unit][1]
        except FileNotFoundError:
            released = sorted(
                found.name.removesuffix(".spec.json") for found in self.private.glob("*.spec.json")
            )
            raise UsageError(
                f"The unit {unit!r} was not released in the course {self.root}. Released are:"
                f" {', '.join(released) or 'none'}. Release it first:"
                f" autograder release {unit} --course {self.root}"
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"{path} cannot be read ({error}). Release {unit} again to write it anew."
            ) from None

    def write_log(self, unit: str, student: str, text: str) -> Path:
        """Keep the whole verdict, hidden inputs included, for the instructor's eyes only."""
        path = self.notebook_path(self.private / "logs", student, unit, ".json")
        write_atomically(path, text.encode("utf-8", "replace"), 0o600)
        return path

    def _spec_path(self, unit: str) -> Path:
        return self.private / f"{Path(unit).name}.spec.json"

    def _step(self, directory: str) -> Path:
        """One of nbgrader's folders. The order of folders below it is nbgrader's default, always."""
        folder = os.path.join("{nbgrader_step}", "{student_id}", "{assignment_id}")
        if self.directory.directory_structure != folder:
            raise UsageError(
                f"{self.root / CONFIG_FILE} sets CourseDirectory.directory_structure to"
                f" {self.directory.directory_structure!r}; only nbgrader's default, {folder!r}, is supported."
            )
        return self.root / directory


def _put_alembic_on_path() -> None:
    """nbgrader calls the program `alembic` by name when it makes a gradebook, also where the environment
    that holds both was not activated."""
    if shutil.which("alembic") is None:
        os.environ["PATH"] = os.pathsep.join(
            [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
        )


def _read_config(root: Path) -> Config:
    """The instructor's configuration file, run as nbgrader itself would run it."""
    try:
        config = PyFileConfigLoader(CONFIG_FILE, path=str(root)).load_config()
    except Exception as error:  # whatever the instructor's file raises
        raise UsageError(
            f"{root / CONFIG_FILE} cannot be read as nbgrader's configuration:"
            f" {type(error).__name__}: {error}."
        ) from None
    config.CourseDirectory.root = str(root)
    return config
