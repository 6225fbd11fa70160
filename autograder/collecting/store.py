"""Every attempt of every student, kept under collected/, and the latest placed under submitted/.

collected/UNIT/STUDENT/0001/{attempt.json, files/...}
submitted/STUDENT/UNIT/...                                   the latest attempt, as nbgrader's collect puts it

An attempt appears by one rename, and collecting the same source again adds nothing, so a collection that
was killed is done again without harm.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from autograder.course import Course
from autograder.errors import StoppedError
from autograder.files import write_atomically
from autograder.intake import Listing, Refused, list_files, read_file

TIMESTAMP = "timestamp.txt"
FOUND = "found in submitted/"  # the source of what someone put there by hand
SECRET = "submission_secret.txt"  # nbgrader's, for giving feedback back through the exchange


@dataclass
class Attempt:
    """What is known of one hand-in. `when` is its time in UTC; "" where no one says."""

    digest: str
    when: str
    collected: str
    source: str
    ids: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    number: int = 0

    @property
    def rank(self) -> tuple[str, bool, int]:
        """By time; what lay there before comes before what is collected at the same moment."""
        return (self.when or self.collected, self.source != FOUND, self.number)


class AttemptStore:
    """The attempts of one unit."""

    def __init__(self, course: Course, unit: str) -> None:
        self.course, self.unit = course, unit
        self.root = course.root / "collected" / unit

    def attempts(self, student: str) -> list[Attempt]:
        """A student's attempts, the earliest first."""
        found = []
        for path in sorted((self.root / student).glob("[0-9]*/attempt.json")):
            data = json.loads(path.read_text(encoding="utf-8"))
            found.append(Attempt(**{**data, "number": int(path.parent.name)}))
        return sorted(found, key=lambda attempt: attempt.rank)

    def add(
        self,
        student: str,
        files: Mapping[tuple[str, ...], bytes],
        attempt: Attempt,
        dates: Mapping[tuple[str, ...], datetime] | None = None,
    ) -> bool:
        """Keep one attempt, the files with their dates; False when the same is there already."""
        known = self.attempts(student)
        if any((one.digest, one.when) == (attempt.digest, attempt.when) for one in known):
            return False
        with self._clear_errors(student), self._room(student) as folder:
            for parts, data in files.items():
                path = folder.joinpath("files", *parts)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                if dates and parts in dates:
                    stamp = dates[parts].replace(tzinfo=UTC).timestamp()
                    os.utime(path, (stamp, stamp))
            self._put(student, folder, attempt)
        return True

    def place(self, student: str) -> bool:
        """Put the latest attempt where grading looks for it; False when it is there already.

        What lies there and is no attempt yet (someone put it there by hand) becomes one, so nothing is lost.
        """
        target = self.course.submitted / student / self.unit
        if not self.attempts(student):
            return False
        with self._clear_errors(student):
            if os.path.lexists(target) and not self._is_known(student, target):
                self._adopt(student, target)
            latest = self.attempts(student)[-1]
            if os.path.lexists(target) and self._is(target, latest):
                return False
            new = Path(tempfile.mkdtemp(dir=_made(target.parent), prefix=f".{self.unit}."))
            files = self.root / student / f"{latest.number:04d}" / "files"
            shutil.copytree(files, new, symlinks=True, dirs_exist_ok=True, ignore=_special)
            os.chmod(new, 0o755)
            if latest.when:
                write_atomically(new / TIMESTAMP, f"{latest.when} UTC\n".encode(), 0o644)
            if os.path.lexists(target):
                old = new.with_name(new.name + ".old")
                os.rename(target, old)
                os.rename(new, target)
                _remove(old)
            else:
                os.rename(new, target)
        return True

    def _is_known(self, student: str, target: Path) -> bool:
        digest = digest_of_folder(target)
        return any(attempt.digest == digest for attempt in self.attempts(student))

    def _adopt(self, student: str, target: Path) -> None:
        """Keep a folder that was put into submitted/ by hand as an attempt of its own."""
        stamp = self.course.timestamp(self.unit, student)
        attempt = Attempt(
            digest=digest_of_folder(target),
            when=stamp.isoformat(" ") if stamp else "",
            # Without a time of its own it counts as earlier than what is collected now.
            collected=datetime.fromtimestamp(os.lstat(target).st_mtime, UTC).isoformat(" ", "milliseconds"),
            source=FOUND,
        )
        with self._room(student) as folder:
            os.rmdir(folder / "files")
            shutil.move(target, folder / "files")
            self._put(student, folder, attempt)

    @contextlib.contextmanager
    def _room(self, student: str) -> Iterator[Path]:
        """A folder for a new attempt that vanishes unless it was put in its place."""
        if not self.root.parent.exists():
            self.root.parent.mkdir(mode=0o700, exist_ok=True)  # other students' work
        folder = Path(tempfile.mkdtemp(dir=_made(self.root / student), prefix=".new."))
        (folder / "files").mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _put(self, student: str, folder: Path, attempt: Attempt) -> None:
        attempt.number = 1 + max((one.number for one in self.attempts(student)), default=0)
        text = json.dumps(asdict(attempt), indent=1, ensure_ascii=False)
        (folder / "attempt.json").write_text(text, encoding="utf-8")
        os.rename(folder, self.root / student / f"{attempt.number:04d}")

    def _is(self, target: Path, attempt: Attempt) -> bool:
        stamp = self.course.timestamp(self.unit, target.parent.name)
        when = stamp.isoformat(" ") if stamp else ""
        return when == attempt.when and digest_of_folder(target) == attempt.digest

    @contextlib.contextmanager
    def _clear_errors(self, student: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoppedError(
                f"What {student} handed in cannot be stored in {self.course.root}: {error.strerror or error}."
                " What was collected before is kept. Make room, or make the folder writable, and collect"
                " again."
            ) from None


def digest_of(files: Mapping[tuple[str, ...], bytes]) -> str:
    """sha256 over names and contents; the time of hand-in is no part of it."""
    digest = hashlib.sha256()
    for parts in sorted(files):
        if parts != (TIMESTAMP,):
            name = "/".join(parts).encode("utf-8", "surrogateescape")
            digest.update(f"{len(name)} {len(files[parts])} ".encode() + name + files[parts])
    return digest.hexdigest()


def digest_of_folder(folder: Path) -> str:
    """The same of a folder, without following links; "" for what cannot be read."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(folder, flags)
    except OSError:
        return ""
    try:
        listing = Listing()
        list_files(descriptor, (), listing)
        return digest_of({found.parts: read_file(descriptor, found) for found in listing.files})
    except (Refused, OSError):
        return ""
    finally:
        os.close(descriptor)


def _special(folder: str, names: list[str]) -> list[str]:
    """Pipes, sockets and devices, which no copy can be made of."""
    modes = {name: os.lstat(os.path.join(folder, name)).st_mode for name in names}
    kinds = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)
    return [name for name, mode in modes.items() if not any(is_one(mode) for is_one in kinds)]


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
