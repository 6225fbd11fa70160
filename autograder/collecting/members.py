"""The files of a source: a zip archive or a folder that may hold anything. Nothing is unpacked in place.

A file is a name, as a tuple of harmless parts, and a way to read its bytes that never gives more than the
limits allow: not of a zip bomb, not through a link, not from outside the folder.
"""

from __future__ import annotations

import io
import os
import re
import stat
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from functools import partial
from pathlib import Path

from autograder.errors import UsageError
from autograder.intake import MAX_BYTES, Found, Listing, Refused, list_files, read_file, shown

MAX_MEMBERS = 100_000  # of an archive: a class of 2,000 with fifty files each
_MAX_INNER = 2_000  # of an archive inside an archive
_MAX_DEPTH, _MAX_PART = 6, 150
_IGNORED = ("__MACOSX", ".ipynb_checkpoints", "__pycache__")
_CENTRAL = b"PK\x01\x02"  # begins each entry of an archive's table of contents
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass
class Member:
    """One file of a source."""

    parts: tuple[str, ...]
    when: datetime | None  # its own date, in UTC without a zone
    read: Callable[[], bytes]  # raises `Refused`
    notes: list[str] = field(default_factory=list)
    problem: str = ""  # not empty: there is a file, but it is not taken

    @property
    def name(self) -> str:
        return "/".join(self.parts)


def members_of(source: Path, zone: tzinfo = UTC) -> list[Member]:
    """Every file in a zip archive or a folder. Raises `UsageError` when it is neither."""
    source = Path(source)
    if source.is_dir():
        return list(_in_folder(_unwrapped(source)))
    if not source.exists():
        raise UsageError(f"There is no {source} to collect from. Give a zip archive or a folder.")
    try:
        archive = zipfile.ZipFile(source)  # open for as long as one of its members is
        return list(_in_archive(archive, zone, MAX_MEMBERS, str(source)))
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, OSError, ValueError) as error:
        raise UsageError(
            f"{source} cannot be read as a zip archive ({error}). Download it again, or give the folder that"
            " it was unpacked into."
        ) from None


def inner_members(data: bytes, zone: tzinfo = UTC) -> list[Member]:
    """The files of an archive that a student handed in. Raises `Refused`."""
    count = data.count(_CENTRAL)  # before anything is built of it
    if count > _MAX_INNER:
        raise Refused(f"The archive holds {count} files; at most {_MAX_INNER} are taken.")
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        return list(_in_archive(archive, zone, _MAX_INNER, "the archive"))
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, ValueError, UsageError) as error:
        raise Refused(f"The archive cannot be read ({error}).") from None


def safe_parts(name: str) -> tuple[tuple[str, ...], bool]:
    """The parts of a file's name that can be a path below a folder of ours; and whether the name tried to
    lead elsewhere."""
    plain = name.replace("\\", "/")
    drive = re.match(r"[A-Za-z]:", plain)
    wanders = plain.startswith("/") or drive is not None
    parts = []
    for part in plain[drive.end() if drive else 0 :].split("/"):
        if part == "..":
            wanders = True
        clean = "".join(letter if letter.isprintable() else "_" for letter in part.strip())
        clean = clean.encode("utf-8", "replace")[:_MAX_PART].decode("utf-8", "ignore")
        if clean not in ("", ".", ".."):
            parts.append(clean)
    if len(parts) > _MAX_DEPTH:
        parts = [*parts[: _MAX_DEPTH - 1], parts[-1]]
    return tuple(parts), wanders


def _in_archive(archive: zipfile.ZipFile, zone: tzinfo, most: int, where: str) -> Iterator[Member]:
    infos = archive.infolist()
    if len(infos) > most:
        raise UsageError(f"{where} holds {len(infos)} files; at most {most} are taken.")
    for info in infos:
        if not info.filename or info.filename.endswith("/"):
            continue
        parts, wanders = safe_parts(_name_of(info))
        if not parts or any(part in _IGNORED or part.startswith(".") for part in parts):
            continue
        member = Member(parts, _date_of(info, zone), partial(_read_entry, archive, info))
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG):
            what = "a link" if kind == stat.S_IFLNK else "no file"
            member.problem = f"{shown(member.name)!r} is {what}, and was left out"
        elif info.flag_bits & 0x1:
            member.problem = f"{shown(member.name)!r} is locked with a password, and was left out"
        if wanders:
            member.notes.append(f"The name {shown(info.filename)!r} led out of its folder; it was cut.")
        yield member


def _name_of(info: zipfile.ZipInfo) -> str:
    """An entry's name. Without the flag for UTF-8, Python reads code page 437, which few mean."""
    if info.flag_bits & 0x800:
        return info.filename
    try:
        return info.filename.encode("cp437").decode("utf-8")
    except (UnicodeEncodeError, UnicodeDecodeError):
        return info.filename


def _date_of(info: zipfile.ZipInfo, zone: tzinfo) -> datetime | None:
    """An entry's date; an archive does not say in which time zone it is."""
    try:
        return datetime(*info.date_time, tzinfo=zone).astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None


def _read_entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """An entry's bytes, whatever its header says of their number."""
    try:
        with archive.open(info) as file:
            data = file.read(MAX_BYTES + 1)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError) as error:
        raise Refused(f"{shown(info.filename)!r} cannot be unpacked ({error})") from None
    except Exception as error:  # zlib.error, lzma.LZMAError: each library has its own
        raise Refused(f"{shown(info.filename)!r} is damaged ({error})") from None
    if len(data) > MAX_BYTES:
        raise Refused(f"{shown(info.filename)!r} is larger than {MAX_BYTES // 2**20} MB, and was left out")
    return data


def _in_folder(folder: Path) -> Iterator[Member]:
    """The files below a folder, each looked at without following links."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name.startswith(".") or entry.name in _IGNORED:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _below(Path(entry.path))
        else:
            yield _loose_file(folder, entry)


def _below(folder: Path) -> Iterator[Member]:
    listing = Listing()
    try:
        descriptor = os.open(folder, _FOLDER_FLAGS)
    except OSError as error:
        parts, _ = safe_parts(folder.name)
        problem = f"{shown(folder.name)!r} cannot be opened ({error.strerror})"
        yield Member(parts, None, bytes, problem=problem)
        return
    try:
        list_files(descriptor, (), listing)
    except Refused as refused:
        listing.refused.append(str(refused).rstrip("."))
    finally:
        os.close(descriptor)
    for found in listing.files:
        parts, _ = safe_parts("/".join((folder.name, *found.parts)))
        yield Member(parts, _mtime(found.status), partial(_read_below, folder, found))
    for refused in listing.refused:
        yield Member((*safe_parts(folder.name)[0], "?"), None, bytes, problem=refused)


def _loose_file(folder: Path, entry: os.DirEntry[str]) -> Member:
    parts, _ = safe_parts(entry.name)
    status = entry.stat(follow_symlinks=False)
    found = Found((entry.name,), status)
    member = Member(parts, _mtime(status), partial(_read_below, folder, found))
    if not stat.S_ISREG(status.st_mode):
        member.problem = f"{shown(entry.name)!r} is no file, and was left out"
    return member


def _read_below(folder: Path, found: Found) -> bytes:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return read_file(descriptor, found)
    finally:
        os.close(descriptor)


def _mtime(status: os.stat_result) -> datetime | None:
    try:
        return datetime.fromtimestamp(status.st_mtime, UTC).replace(tzinfo=None, microsecond=0)
    except (ValueError, OverflowError, OSError):
        return None


def _unwrapped(folder: Path) -> Path:
    """The folder itself, or the only folder in it when that holds nothing but folders of several students."""
    entries = [entry for entry in os.scandir(folder) if not entry.name.startswith(".")]
    if len(entries) != 1 or not entries[0].is_dir(follow_symlinks=False):
        return folder
    inner = [entry for entry in os.scandir(entries[0].path) if not entry.name.startswith(".")]
    many = len(inner) > 1 and all(entry.is_dir(follow_symlinks=False) for entry in inner)
    return Path(entries[0].path) if many else folder
