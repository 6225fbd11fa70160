"""The journal of a course: what was judged, under which circumstances, and what is fully written down.

A judgement is stored before anything is made of it, so that a run which was killed (power, `kill -9`, a
full disk) goes on where it stopped: what is in the journal is not judged again, what is not written
down is written. Whether the gradebook has it is asked of the gradebook itself (`gradebook.py`).

A judgement's key is a digest of everything that it depends on: the submission's bytes, the spec, the
grader's own code, the environment and the student's seed. One process at a time holds the journal.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import json
import os
import platform
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from autograder.assessing import Judged
from autograder.errors import StoppedError
from autograder.intake import Intake
from autograder.locking import CourseLock
from autograder.spec import Spec

# What decides about points: these files and what they import of ours. An edit to any other file (a page, a
# table, a command) changes no one's grade.
_DECIDING = ("autograder/assessing.py", "autograder/runner.py", "autograder/sandbox/*.py")
_OURS = ("autograder.", "minitx.course.")
_TABLES = """
CREATE TABLE IF NOT EXISTS judged (
    key TEXT PRIMARY KEY, unit TEXT NOT NULL, student TEXT NOT NULL, submission TEXT NOT NULL,
    spec TEXT NOT NULL, judgement BLOB NOT NULL, at TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS judged_of ON judged (unit, student);
CREATE TABLE IF NOT EXISTS finished (
    unit TEXT NOT NULL, student TEXT NOT NULL, key TEXT NOT NULL, at TEXT NOT NULL,
    PRIMARY KEY (unit, student));
CREATE TABLE IF NOT EXISTS runs (process INTEGER NOT NULL, at TEXT NOT NULL);
"""


@dataclass(frozen=True)
class Key:
    """What a judgement depends on. `submission` is the part of it that is the student's."""

    submission: str
    whole: str


def key_of(taken: Intake, spec: Spec, seed: bytes) -> Key:
    """The key of the judgement on what was taken in."""
    content = hashlib.sha256(taken.notebook_bytes or b"").hexdigest()
    submission = _digest([content, taken.notebook_bytes is None, list(taken.notes), taken.problem])
    seed_digest = hashlib.sha256(b"seed" + seed).hexdigest()
    return Key(submission, _digest([submission, spec.digest, grader_digest(), environment(), seed_digest]))


def no_key(spec: Spec, student: str) -> Key:
    """The key of a submission that could not even be read: equal to that of no submission."""
    return Key("", _digest(["no key", spec.unit, student]))


@cache
def grader_digest() -> str:
    """sha256 over the grader's own deciding files."""
    return code_digest(Path(__file__).parents[1])


def code_digest(home: Path) -> str:
    """sha256 over the deciding files of a checkout, or of the folder where the packages are installed."""
    waiting = [path for pattern in _DECIDING for path in home.glob(pattern)]
    texts: dict[str, bytes] = {}
    while waiting:
        path = waiting.pop()
        name = path.relative_to(home).as_posix()
        if name not in texts:
            texts[name] = path.read_bytes()
            waiting += _imported(home, texts[name])
    digest = hashlib.sha256()
    for name in sorted(texts):
        digest.update(f"{name} {len(texts[name])} ".encode() + texts[name])
    return digest.hexdigest()


def _imported(home: Path, text: bytes) -> Iterator[Path]:
    """The files of ours that a file imports."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                path = home.joinpath(*name.split(".")).with_suffix(".py")
                if name.startswith(_OURS) and path.is_file():
                    yield path


@cache
def environment() -> tuple[str, ...]:
    """What else a score may depend on: Python, the machine, NumPy."""
    return (platform.python_version(), platform.machine(), importlib.metadata.version("numpy"))


class Journal:
    """The journal in a course's private folder; use it in a `with` statement.

    Raises `UsageError` when another process holds it, `StoppedError` when it cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self.path = Path(folder) / "journal.db"
        self.interrupted = False  # True: the run before this one did not come to its end
        self._lock = CourseLock(folder)

    def __enter__(self) -> Journal:
        with self._clear_errors():
            self._lock.take()
            try:
                self.db = sqlite3.connect(self.path, isolation_level=None)
                os.chmod(self.path, 0o600)  # a judgement holds hidden inputs
                # After a power cut the last judgements may be gone, and are made again; none is half there.
                self.db.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;" + _TABLES)
                self.interrupted = self.db.execute("SELECT count(*) FROM runs").fetchone()[0] > 0
                self.db.execute("DELETE FROM runs")
                self.db.execute("INSERT INTO runs VALUES (?, ?)", (os.getpid(), _now()))
            except BaseException:
                self._lock.free()
                raise
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                with self._clear_errors():
                    self.db.execute("DELETE FROM runs")
        finally:
            self.db.close()
            self._lock.free()

    def add(self, key: Key, unit: str, spec: Spec, judged: Judged) -> None:
        """Store a judgement; it is on the disk when this returns."""
        packed = zlib.compress(judged.to_json().encode("utf-8", "replace"))
        row = (key.whole, unit, judged.student, key.submission, spec.digest, packed, _now())
        with self._clear_errors():
            self.db.execute("INSERT OR REPLACE INTO judged VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def judgement(self, key: str) -> Judged | None:
        """The judgement stored under a key."""
        with self._clear_errors():
            row = self.db.execute("SELECT judgement FROM judged WHERE key = ?", (key,)).fetchone()
        return Judged.from_json(zlib.decompress(row[0]).decode()) if row else None

    def has(self, key: str) -> bool:
        with self._clear_errors():
            return self.db.execute("SELECT 1 FROM judged WHERE key = ?", (key,)).fetchone() is not None

    def finished(self, unit: str) -> dict[str, str]:
        """By student, the key of what is written down whole: gradebook, notebook, feedback and log."""
        with self._clear_errors():
            return dict(self.db.execute("SELECT student, key FROM finished WHERE unit = ?", (unit,)))

    def finish(self, unit: str, student: str, key: str) -> None:
        """Everything about this judgement is written down; the student's earlier ones are dropped."""
        with self._clear_errors():
            self.db.execute("BEGIN IMMEDIATE")
            self.db.execute(
                "INSERT OR REPLACE INTO finished VALUES (?, ?, ?, ?)", (unit, student, key, _now())
            )
            old = "DELETE FROM judged WHERE unit = ? AND student = ? AND key != ?"
            self.db.execute(old, (unit, student, key))
            self.db.execute("COMMIT")

    def forget(self, unit: str, student: str, key: str) -> None:
        """Drop a judgement, so that the submission is judged again."""
        with self._clear_errors():
            self.db.execute("DELETE FROM judged WHERE key = ?", (key,))
            self.db.execute("DELETE FROM finished WHERE unit = ? AND student = ?", (unit, student))

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StoppedError(
                f"The journal {self.path} cannot be used: {error}. What was stored before is safe. Check that"
                " the folder can be written and that the disk is not full, then give the same command again:"
                " it goes on where it stopped."
            ) from None


def stored(folder: Path, unit: str) -> Iterator[tuple[Judged, str]]:
    """Every judgement on `unit` that is written down whole, by student, with the digest of its spec.

    For reading only: it needs no lock, and one judgement at a time is in memory.
    """
    path = Path(folder) / "journal.db"
    if not path.exists():
        return
    query = (
        "SELECT judged.judgement, judged.spec FROM finished JOIN judged USING (key)"
        " WHERE finished.unit = ? ORDER BY finished.student"
    )
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            for packed, spec in db.execute(query, (unit,)):
                yield Judged.from_json(zlib.decompress(packed).decode()), spec
    except sqlite3.Error as error:
        raise StoppedError(f"The journal {path} cannot be read: {error}. Grade {unit} again.") from None


def _digest(parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
