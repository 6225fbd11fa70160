"""Whose file is it? The names that an LMS, nbgrader's exchange or a plain folder give to what they hold.

exchange   STUDENT+UNIT+TIMESTAMP[+RANDOM]/file       (nbgrader's inbound folder)
Moodle     Full Name_ID_assignsubmission_file_/file   (or all in one name)
Canvas     lastfirst[_LATE]_USER_FILE_name.ipynb      (what "Download Submissions" gives)
folder     STUDENT/UNIT/file, STUDENT/file, STUDENT.ipynb
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from nbgrader.utils import parse_utc

from autograder.errors import UsageError

_MOODLE = re.compile(r"(?P<name>.+)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)_?(?P<rest>.*)$", re.S)
_CANVAS = re.compile(r"(?P<name>[^_/]+)_(?P<late>LATE_)?(?P<id>\d+)_(?P<file>\d+)_(?P<rest>.+)$", re.S)
_CANVAS_COPY = re.compile(r"-\d+(?=\.[^.]+$)")  # what Canvas adds to the name of a second attempt


@dataclass
class Owner:
    """Who handed a file in, and what is said about the hand-in as a whole."""

    student: str
    rest: tuple[str, ...]  # the file's name below the student's folder
    when: datetime | None = None
    ids: dict[str, str] = field(default_factory=dict)  # for sending grades back: canvas, moodle
    attempt: str = ""  # files of one attempt have the same
    notes: list[str] = field(default_factory=list)


def owner_of(parts: tuple[str, ...], unit: str, roster: Roster) -> Owner | None:
    """The owner of a file with this name; None for one that belongs to no one."""
    return named_by_lms(parts, unit, roster) or _in_plain_folder(parts, unit)


def named_by_lms(parts: tuple[str, ...], unit: str, roster: Roster) -> Owner | None:
    """The owner by a name that Moodle, Canvas or the exchange made; None for any other name."""
    first, rest = parts[0], parts[1:]
    exchange = re.match(rf"(?P<name>.+)\+{re.escape(unit)}\+(?P<when>[^+]+)(\+.*)?$", first)
    if exchange and rest:
        return Owner(student_id(exchange["name"]), rest, _time(exchange["when"]), attempt=first)
    if moodle := _MOODLE.match(first):
        inner = rest or ((moodle["rest"],) if moodle["rest"] else ())
        ids = {"moodle": moodle["id"], "name": moodle["name"], "origin": first if rest else ""}
        student = roster.moodle.get(moodle["id"]) or student_id(f"{moodle['name']}-{moodle['id']}")
        return Owner(student, inner, ids=ids, attempt=moodle["id"]) if inner else None
    if (canvas := _CANVAS.match(first)) and not rest:
        ids = {"canvas": canvas["id"], "name": canvas["name"], "origin": first}
        student = roster.canvas.get(canvas["id"]) or student_id(f"{canvas['name']}-{canvas['id']}")
        notes = ["Canvas marks it LATE, and does not say when it was handed in"] if canvas["late"] else []
        name = _CANVAS_COPY.sub("", canvas["rest"])
        return Owner(student, (name,), ids=ids, attempt=canvas["id"], notes=notes)
    return None


def _in_plain_folder(parts: tuple[str, ...], unit: str) -> Owner | None:
    first, rest = parts[0], parts[1:]
    if rest:
        below = rest[1:] if len(rest) > 1 and rest[0] == unit else rest
        return Owner(student_id(first), below, attempt=first)
    stem, _, suffix = first.rpartition(".")
    if suffix.casefold() in ("ipynb", "zip") and stem:
        return Owner(student_id(stem), (f"{unit}.{suffix}",), attempt=first)
    return None


def _time(text: str) -> datetime | None:
    try:
        return parse_utc(text)
    except (ValueError, OverflowError, TypeError):
        return None


def student_id(name: str) -> str:
    """A name as nbgrader, a path and a shell can take it: letters and digits of any script, . - _ @ +."""
    clean = re.sub(r"[^\w.@+-]+", "-", name.strip(), flags=re.UNICODE).strip("-.")
    return clean.encode()[:100].decode("utf-8", "ignore") or "unnamed"


@dataclass
class Roster:
    """Students' own names by an LMS's numbers."""

    canvas: dict[str, str] = field(default_factory=dict)
    moodle: dict[str, str] = field(default_factory=dict)


def read_roster(path: Path) -> Roster:
    """A roster out of Canvas's gradebook CSV or Moodle's grading worksheet. Raises `UsageError`."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The roster {path} cannot be read: {error}.") from None
    first = text.split("\n", 1)[0]
    delimiter = ";" if first.count(";") > first.count(",") else ","
    roster = Roster()
    for row in csv.DictReader(io.StringIO(text), delimiter=delimiter):
        values = {(k or "").strip(): (v or "").strip() for k, v in row.items() if isinstance(v, str)}
        login = values.get("SIS Login ID") or values.get("SIS User ID")
        if values.get("ID", "").isdigit() and login:
            roster.canvas[values["ID"]] = student_id(login)
        number = re.search(r"\d+$", values.get("Identifier", ""))
        known = values.get("Username") or values.get("ID number") or values.get("Email address")
        if number and known:
            roster.moodle[number[0]] = student_id(known)
    if not roster.canvas and not roster.moodle:
        raise UsageError(
            f"The roster {path} names no one. Expected Canvas's exported gradebook (columns ID and SIS"
            " Login ID) or Moodle's grading worksheet (columns Identifier and Email address, ID number or"
            f" Username); it begins {first[:80]!r}."
        )
    twice = [login for known in (roster.canvas, roster.moodle) for login in _repeated(known)]
    if twice:
        names = ", ".join(twice[:5])
        raise UsageError(f"The roster {path} gives the same name to several students: {names}.")
    return roster


def _repeated(known: dict[str, str]) -> list[str]:
    values = list(known.values())
    return sorted({value for value in values if values.count(value) > 1})
