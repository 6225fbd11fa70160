"""`autograder collect`: from a source's files to attempts of students."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from pathlib import Path

from nbgrader.exchange.default import Exchange
from nbgrader.utils import parse_utc

from autograder.collecting.members import Member, inner_members, members_of
from autograder.collecting.names import Owner, Roster, named_by_lms, owner_of
from autograder.collecting.store import SECRET, TIMESTAMP, Attempt, AttemptStore, digest_of
from autograder.course import Course
from autograder.errors import UsageError
from autograder.intake import Refused, shown
from autograder.locking import CourseLock

MAX_ATTEMPT_BYTES, MAX_ATTEMPT_FILES = 256 * 2**20, 200
_MAX_DEPTH = 4  # as deep as `intake` looks
_ZIP = b"PK\x03\x04"
Name = tuple[str, ...]  # of a file, below the student's folder


@dataclass
class Collected:
    """What became of one attempt."""

    student: str
    state: str  # "new", "newer attempt" (graded), "older attempt" (kept), "known"
    when: str
    files: list[str]
    attempts: int
    notes: list[str] = field(default_factory=list)


@dataclass
class _HandIn:
    owner: Owner
    identity: str
    members: list[tuple[Name, Member]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class Collection:
    """The result: one row for each attempt, and what belongs to no one."""

    rows: list[Collected] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def exchange_folder(course: Course) -> Path:
    """nbgrader's inbound folder for this course, by the course's configuration. Raises `UsageError`."""
    root = Path(Exchange(coursedir=course.directory, config=course.nbgrader_config()).root)
    inbound = root / course.directory.course_id / "inbound"
    if not inbound.is_dir():
        raise UsageError(
            f"There is no exchange folder {inbound} to collect from. Set c.Exchange.root in"
            f" {course.root}/nbgrader_config.py, or name a zip archive or a folder: autograder collect UNIT"
            " submissions.zip"
        )
    return inbound


def collect_into(
    course: Course,
    unit: str,
    source: Path,
    *,
    roster: Roster | None = None,
    file_times: tzinfo | None = None,
    check_owners: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> Collection:
    """Take every attempt in `source` (a zip archive or a folder) into the course; place the latest ones.

    `file_times`: the time zone in which the files' own dates are taken for the time of hand-in, where the
    source says no other (Moodle's archives; Canvas's hold no such time). `check_owners`: say so where a
    folder of the exchange belongs to another user than its name says.
    """
    course.spec(unit)
    with CourseLock(course.private):
        result = Collection()
        hand_ins = _sorted_out(members_of(source, file_times or UTC), unit, roster or Roster(), result)
        store = AttemptStore(course, unit)
        for number, hand_in in enumerate(hand_ins):
            if progress:
                progress(hand_in.owner.student, number, len(hand_ins))
            if check_owners:
                hand_in.notes += _another_owner(Path(source), hand_in)
            result.rows.append(_take(store, hand_in, Path(source), file_times is not None))
        for student in {row.student for row in result.rows}:
            store.place(student)
        _tell_the_order(store, result)
    return result


def _sorted_out(members: Iterable[Member], unit: str, roster: Roster, result: Collection) -> list[_HandIn]:
    """The files by attempt, in the order in which they were handed in where that is known."""
    hand_ins: dict[tuple[str, str], _HandIn] = {}
    identities: dict[str, str] = {}
    for member in _without_wrapper(list(members), unit, roster):
        owner = owner_of(member.parts, unit, roster)
        if owner is None:
            result.left_out.append(member.problem or f"{shown(member.name)!r} belongs to no student")
            continue
        identity = next(iter(owner.ids.values()), "") or member.parts[0].split(f"+{unit}+")[0]
        while identities.setdefault(owner.student, identity) != identity:
            owner.student += "-2"  # two names that differ in a blank only
        hand_in = hand_ins.setdefault((owner.student, owner.attempt), _HandIn(owner, identity))
        hand_in.notes += [note for note in (*owner.notes, *member.notes) if note not in hand_in.notes]
        if member.problem:
            hand_in.notes.append(member.problem)
        else:
            hand_in.members.append((owner.rest, member))
    return sorted(hand_ins.values(), key=lambda one: (one.owner.student, one.owner.when or datetime.min))


def _without_wrapper(members: list[Member], unit: str, roster: Roster) -> list[Member]:
    """An archive of one folder that holds everything: leave that folder's name out."""
    tops = {member.parts[0] for member in members}
    inner = {member.parts[1] for member in members if len(member.parts) > 1}
    if len(tops) != 1 or any(len(member.parts) < 2 for member in members):
        return members
    if named_by_lms(members[0].parts, unit, roster) is not None:
        return members
    by_lms = all(named_by_lms(member.parts[1:], unit, roster) for member in members)
    folders = len(inner) > 1 and all(len(member.parts) > 2 for member in members)
    if by_lms or folders:
        for member in members:
            member.parts = member.parts[1:]
    return members


def _take(store: AttemptStore, hand_in: _HandIn, source: Path, file_times: bool) -> Collected:
    """Read one attempt's files and keep them."""
    owner = hand_in.owner
    files, dates = _read_all(hand_in)
    stamp = files.get((TIMESTAMP,))
    when = owner.when
    if owner.ids:
        # Of an LMS's files all are the student's own, whatever they are called.
        for name in (TIMESTAMP, SECRET):
            if (name,) in files:
                files[(f"their {name}",)] = files.pop((name,))
    elif stamp is not None and when is None:
        when = _stamp(stamp)
    if when is None and file_times:
        when = max(dates.values(), default=None)
    files.pop((TIMESTAMP,), None)
    attempt = Attempt(
        digest=digest_of(files),
        when=when.isoformat(" ") if when else "",
        collected=datetime.now(UTC).isoformat(" ", "milliseconds"),
        source=source.name,
        ids={key: value for key, value in owner.ids.items() if value},
        notes=hand_in.notes,
    )
    added = store.add(owner.student, files, attempt, dates)
    return Collected(
        student=owner.student,
        state="new" if added else "known",
        when=attempt.when,
        files=["/".join(parts) for parts in sorted(files)],
        attempts=attempt.number,
        notes=hand_in.notes,
    )


def _read_all(hand_in: _HandIn) -> tuple[dict[Name, bytes], dict[Name, datetime]]:
    """The files' bytes within the limits, archives of the student's opened once; and their dates."""
    files: dict[Name, bytes] = {}
    dates: dict[Name, datetime] = {}
    size = 0
    waiting = [(rest, member, True) for rest, member in hand_in.members]
    while waiting:
        rest, member, may_open = waiting.pop(0)
        if len(files) >= MAX_ATTEMPT_FILES or size >= MAX_ATTEMPT_BYTES:
            hand_in.notes.append(f"{shown(member.name)!r} and what follows is too much, and was left out")
            break
        if member.problem:
            hand_in.notes.append(member.problem)
            continue
        try:
            data = member.read()
            if may_open and data.startswith(_ZIP):
                inner = inner_members(data)
                waiting = [(one.parts, one, False) for one in inner] + waiting
                hand_in.notes.append(f"{shown(member.name)!r} is an archive; what is in it was taken")
                continue
        except (Refused, OSError) as problem:
            hand_in.notes.append(str(problem).rstrip("."))
            continue
        size += len(data)
        name = _free_name(rest, files, hand_in.notes)
        files[name] = data
        if member.when is not None:
            dates[name] = member.when
    return files, dates


def _free_name(rest: Name, files: Mapping[Name, object], notes: list[str]) -> Name:
    """The name, or one like it where a file has it already, or has it as a folder."""

    def taken(name: Name) -> bool:
        return any(other[: len(name)] == name or name[: len(other)] == other for other in files)

    rest = rest if len(rest) <= _MAX_DEPTH else (*rest[: _MAX_DEPTH - 1], rest[-1])
    name, number = rest, 1
    while taken(name):
        number += 1
        stem, dot, suffix = rest[-1].rpartition(".")
        last = f"{stem} ({number}){dot}{suffix}" if stem else f"{rest[-1]} ({number})"
        name = (*(rest[:-1]), last)
        if taken(name[:-1]):
            name = (last,)
    if name != rest:
        notes.append(f"there were several files named {shown('/'.join(rest))!r}")
    return name


def _another_owner(source: Path, hand_in: _HandIn) -> list[str]:
    """nbgrader's own check: in the exchange, a student writes as the user of that name."""
    try:
        owner = pwd.getpwuid(os.lstat(source / hand_in.owner.attempt).st_uid).pw_name
    except (OSError, KeyError):
        owner = "an unknown user"
    return [] if owner == hand_in.identity else [f"its folder in the exchange belongs to {owner}"]


def _stamp(data: bytes) -> datetime | None:
    try:
        return parse_utc(data[:100].decode("ascii").strip())
    except (ValueError, OverflowError, TypeError):
        return None


def _tell_the_order(store: AttemptStore, result: Collection) -> None:
    """Of several attempts, which is graded."""
    for row in result.rows:
        attempts = store.attempts(row.student)
        if row.state == "new" and len(attempts) > 1:
            row.state = "newer attempt" if attempts[-1].number == row.attempts else "older attempt"
        row.attempts = len(attempts)
