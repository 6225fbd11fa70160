"""Taking in what one student handed in: which file is the notebook, and its bytes, without being led astray.

The folder's content is the student's: names, links, devices, sizes. Every path is looked at without
following links, opened relative to its folder, and looked at again once it is open, so that nothing can
be exchanged in between. Every note and every problem is written for the student.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

from autograder.parsing import Parsed, parse

__all__ = ["MAX_BYTES", "Intake", "Parsed", "collect", "parse"]

MAX_BYTES = 64 * 1024 * 1024  # of a notebook file, saved output included
_MAX_ENTRIES, _MAX_DEPTH = 2_000, 4
_IGNORED = (".ipynb_checkpoints", "__MACOSX")
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


@dataclass(frozen=True)
class Intake:
    """The notebook's bytes, or a problem that says why there are none."""

    notebook_bytes: bytes | None
    notes: list[str] = field(default_factory=list)
    problem: str = ""


@dataclass(frozen=True)
class Found:
    parts: tuple[str, ...]  # the path below the student's folder
    status: os.stat_result

    @property
    def shown(self) -> str:
        return shown("/".join(self.parts))


@dataclass
class Listing:
    files: list[Found] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    entries: int = 0


class Refused(Exception):
    """The notebook cannot be taken; the text is for the student."""


def collect(folder: Path, unit: str) -> Intake:
    """Find and read the notebook for `unit` in `folder`, which is submitted/<student>/<unit>/.

    The file with the exact name is taken, or else one with a name like it (`Unit (1).ipynb`), or else
    the only notebook there; of several, the newest. Never raises for what is in the folder.
    """
    notes: list[str] = []
    try:
        root = _open_root(Path(folder), unit)
        try:
            listing = Listing()
            list_files(root, (), listing)
            notes += [f"{entry}; it was left out." for entry in listing.refused[:5]]
            chosen = _choose(listing, unit, notes)
            return Intake(read_file(root, chosen), notes)
        finally:
            os.close(root)
    except Refused as problem:
        return Intake(None, notes, str(problem))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        return Intake(None, notes, f"The folder with your submission could not be read ({reason}).")


def _open_root(folder: Path, unit: str) -> int:
    """Open the student's folder; neither it nor the folder above it may be a link to somewhere else."""
    for path in (folder.parent, folder):
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            raise Refused(f"Nothing was handed in for {unit}. Hand in the file {unit}.ipynb.") from None
        if not stat.S_ISDIR(mode):
            what = _kind(mode) or "a file"
            raise Refused(
                f"Expected a folder with the file {unit}.ipynb, but {shown(path.name)!r} is {what}."
                f" Hand in {unit}.ipynb itself."
            )
    return os.open(folder, _FOLDER_FLAGS)


def list_files(folder: int, parts: tuple[str, ...], listing: Listing) -> None:
    """Collect the regular files below an open folder, and sentences on what is refused."""
    for name in sorted(os.listdir(folder)):
        listing.entries += 1
        if listing.entries > _MAX_ENTRIES:
            raise Refused(f"The submission holds more than {_MAX_ENTRIES} files. Hand in the notebook alone.")
        if name.startswith(".") or name in _IGNORED:
            continue
        below = (*parts, name)
        status = os.lstat(name, dir_fd=folder)
        if stat.S_ISDIR(status.st_mode):
            listing.folders.append(shown("/".join(below)))
            if len(below) < _MAX_DEPTH:
                inner = os.open(name, _FOLDER_FLAGS, dir_fd=folder)
                try:
                    list_files(inner, below, listing)
                finally:
                    os.close(inner)
        elif what := _kind(status.st_mode):
            listing.refused.append(f"{shown('/'.join(below))!r} is {what}, not a file")
        elif status.st_nlink > 1:
            # A second name for a file elsewhere on the disk: another student's, or the solution.
            listing.refused.append(f"{shown('/'.join(below))!r} is a hard link, not a file of its own")
        else:
            listing.files.append(Found(below, status))


def _choose(listing: Listing, unit: str, notes: list[str]) -> Found:
    """The file to grade. What is strange about the choice goes into `notes`."""
    ranked = [(rank, found) for found in listing.files if (rank := _rank(found, unit)) is not None]
    if not ranked:
        raise Refused(_nothing_found(listing, unit))
    best = min(rank for rank, _ in ranked)
    candidates = [found for rank, found in ranked if rank == best]
    chosen = max(candidates, key=lambda found: (found.status.st_mtime_ns, found.parts))
    if chosen.parts != (f"{unit}.ipynb",):
        notes.append(f"The file is called {chosen.shown!r}; expected {unit + '.ipynb'!r}.")
    others = [found.shown for _, found in ranked if found is not chosen]
    if others:
        reason = "the newest" if len(candidates) > 1 else "the one whose name fits best"
        listed = ", ".join(repr(name) for name in others[:5])
        notes.append(f"There were several notebooks; {chosen.shown!r}, {reason}, was graded, not {listed}.")
    return chosen


def _rank(found: Found, unit: str) -> int | None:
    """How well a file's name fits, 0 best; None for a file that is no notebook by its name."""
    name = found.parts[-1]
    if name == f"{unit}.ipynb":
        return 0 if len(found.parts) == 1 else 1
    plain, wanted = _plain(name), _plain(unit)
    if name.casefold().endswith(".ipynb"):
        return 2 if wanted in plain else 3
    if ".ipynb" in name.casefold() or re.fullmatch(re.escape(wanted) + r"(json|txt)?", plain):
        return 4  # attention.ipynb.txt, attention.json, attention: a browser's idea of a name
    return None


def _plain(name: str) -> str:
    """Letters and digits only, case folded."""
    return re.sub(r"[\W_]+", "", name.casefold())


def _nothing_found(listing: Listing, unit: str) -> str:
    expected = f"Hand in the file {unit}.ipynb."
    if listing.refused:
        return f"No notebook can be read: {listing.refused[0]}. {expected}"
    names = [found.shown for found in listing.files if found.parts[-1] != "timestamp.txt"]
    if names:
        listed = ", ".join(repr(name) for name in names[:5])
        return f"No notebook was handed in, only {listed}. {expected}"
    if listing.folders:
        return f"No notebook was handed in; {listing.folders[0]!r} is an empty folder. {expected}"
    return f"The submission is empty. {expected}"


def read_file(root: int, chosen: Found) -> bytes:
    """The bytes of the chosen file, which must still be the file that was listed."""
    folder = os.dup(root)
    try:
        for name in chosen.parts[:-1]:
            inner = os.open(name, _FOLDER_FLAGS, dir_fd=folder)
            os.close(folder)
            folder = inner
        try:
            descriptor = os.open(chosen.parts[-1], _FILE_FLAGS, dir_fd=folder)
        except OSError as error:
            raise Refused(f"The file {chosen.shown!r} could not be opened ({error.strerror}).") from None
    finally:
        os.close(folder)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        same = (status.st_dev, status.st_ino) == (chosen.status.st_dev, chosen.status.st_ino)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or not same:
            raise Refused(
                f"The file {chosen.shown!r} was exchanged while it was being read. Hand it in again."
            )
        data = file.read(MAX_BYTES + 1) if status.st_size <= MAX_BYTES else None
    if data is None or len(data) > MAX_BYTES:
        raise Refused(
            f"The file {chosen.shown!r} has {status.st_size / 2**20:.0f} MB; at most {MAX_BYTES // 2**20} MB"
            " are read. In Jupyter, choose 'Clear Outputs of All Cells', save, and hand it in again."
        )
    return data


def _kind(mode: int) -> str:
    """What a path is, when it is neither a file nor a folder."""
    return next((words for test, words in _KINDS if test(mode)), "")


def shown(name: str) -> str:
    """A file's name as it can be printed: any bytes are allowed in one."""
    clean = name.encode("utf-8", "replace").decode()
    clean = "".join(letter if letter.isprintable() else "?" for letter in clean)
    return clean if len(clean) <= 80 else clean[:77] + "..."
