"""What students handed in reaches the course from wherever it lies: whole, harmless, every attempt kept."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import stat
import struct
import tracemalloc
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from classroom import InProcess, answer, autograder, hand_in
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nbformat import NotebookNode
from nbgrader.auth import Authenticator
from nbgrader.exchange.default import ExchangeFetchAssignment, ExchangeReleaseAssignment, ExchangeSubmit

from autograder import engine
from autograder.collecting import collect as module
from autograder.collecting import members as members_module
from autograder.collecting.collect import Collection, collect_into, exchange_folder
from autograder.collecting.members import safe_parts
from autograder.collecting.names import Roster, owner_of, read_roster, student_id
from autograder.course import Course
from autograder.errors import StoppedError, UsageError
from autograder.intake import MAX_BYTES
from autograder.intake import collect as take_in
from autograder.locking import CourseLock


def packed(path: Path, files: dict[str, bytes] | list[tuple[Any, bytes]]) -> Path:
    """A zip archive with these files, in this order, under any names at all."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items() if isinstance(files, dict) else files:
            info = (
                name if isinstance(name, zipfile.ZipInfo) else zipfile.ZipInfo(name, (2030, 5, 6, 7, 8, 10))
            )
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return path


def laid_out(root: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def collected(course: Course, source: Path, **options: Any) -> Collection:
    return collect_into(course, "tiny", source, **options)


def placed(course: Course) -> dict[str, bytes]:
    """What grading will find, by student."""
    return {
        student: take_in(course.submitted / student / "tiny", "tiny").notebook_bytes or b""
        for student in course.students("tiny")
    }


CANVAS = {
    "doejane_1001_55501_tiny.ipynb": b"jane",
    "poebob_LATE_1002_55502_tiny-1.ipynb": b"bob",
    "anon_1003_55503_my_answers_final.ipynb": b"anon",
}
MOODLE = {
    "Jane Doe_2001_assignsubmission_file_/tiny.ipynb": b"jane",
    "Åsa Öberg_2002_assignsubmission_file_/sub/tiny.ipynb": "åsa".encode(),
    "Bob Poe_2003_assignsubmission_file_tiny.ipynb": b"bob",
}
FOLDERS = {
    "ada/tiny/tiny.ipynb": b"ada",
    "bob/tiny.ipynb": b"bob",
    "eve.ipynb": b"eve",
    "kim+tiny+2030-01-02 03:04:05 UTC+abc/tiny.ipynb": b"kim",
}


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("unpacked", [False, True])
@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (CANVAS, {"doejane-1001": b"jane", "poebob-1002": b"bob", "anon-1003": b"anon"}),
        (
            MOODLE,
            {"Jane-Doe-2001": b"jane", "Åsa-Öberg-2002": "åsa".encode(), "Bob-Poe-2003": b"bob"},
        ),
        (FOLDERS, {"ada": b"ada", "bob": b"bob", "eve": b"eve", "kim": b"kim"}),
    ],
    ids=["canvas", "moodle", "folders"],
)
def test_every_layout_is_known_packed_or_not(
    course: Course, tmp_path: Path, files: dict, expected: dict, unpacked: bool, wrapped: bool
):
    if wrapped:
        if files is FOLDERS:
            files = {name: data for name, data in files.items() if "/" in name}
            expected = {name: data for name, data in expected.items() if name != "eve"}
        files = {f"all of them/{name}": data for name, data in files.items()}
    source = laid_out(tmp_path / "in", files) if unpacked else packed(tmp_path / "in.zip", files)
    result = collected(course, source)
    assert placed(course) == expected
    assert {row.state for row in result.rows} == {"new"}
    assert result.left_out == []


def test_collecting_the_same_again_adds_nothing(course: Course, tmp_path: Path):
    for source in (packed(tmp_path / "c.zip", CANVAS), laid_out(tmp_path / "f", FOLDERS)):
        collected(course, source)
        before = sorted(path for path in (course.root / "collected").rglob("*"))
        stamps = {path: path.stat().st_mtime_ns for path in course.submitted.rglob("*")}
        assert {row.state for row in collected(course, source).rows} == {"known"}
        assert sorted(path for path in (course.root / "collected").rglob("*")) == before
        assert {path: path.stat().st_mtime_ns for path in course.submitted.rglob("*")} == stamps


def test_the_latest_attempt_counts_and_all_are_kept(course: Course, tmp_path: Path):
    names = [f"ada+tiny+2030-01-0{day} 00:00:00 UTC+r{day}" for day in (2, 3, 1)]
    for order, name in enumerate(names):
        rows = collected(course, laid_out(tmp_path / f"{order}", {f"{name}/tiny.ipynb": name.encode()})).rows
        states = [row.state for row in rows]
        assert states == [["new"], ["newer attempt"], ["older attempt"]][order]
    assert placed(course) == {"ada": names[1].encode()}
    assert course.timestamp("tiny", "ada") == datetime(2030, 1, 3)
    kept = sorted((course.root / "collected/tiny/ada").glob("*/files/tiny.ipynb"))
    assert {path.read_bytes() for path in kept} == {name.encode() for name in names}
    assert rows[0].attempts == 3


def test_all_attempts_of_one_source_are_kept(course: Course, tmp_path: Path):
    files = {f"ada+tiny+2030-01-0{day} 00:00:00 UTC+r/tiny.ipynb": bytes([day]) for day in (3, 1, 2)}
    result = collected(course, packed(tmp_path / "x.zip", files))
    assert [row.state for row in result.rows] == ["older attempt", "older attempt", "newer attempt"]
    assert placed(course) == {"ada": b"\x03"}


def test_a_new_download_without_times_is_the_newer_attempt(course: Course, tmp_path: Path):
    collected(course, packed(tmp_path / "1.zip", {"doejane_1001_1_tiny.ipynb": b"first"}))
    result = collected(course, packed(tmp_path / "2.zip", {"doejane_1001_2_tiny-1.ipynb": b"second"}))
    assert [row.state for row in result.rows] == ["newer attempt"]
    assert placed(course) == {"doejane-1001": b"second"}


def test_what_someone_put_into_submitted_by_hand_is_kept(course: Course, tmp_path: Path):
    folder = hand_in(course, "ada", b"by hand").parent
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("/etc/passwd")
    collected(course, laid_out(tmp_path / "in", {"ada/tiny.ipynb": b"collected"}))
    assert placed(course) == {"ada": b"collected"}
    assert sorted(path.name for path in folder.iterdir()) == ["tiny.ipynb"]
    kept = [path.read_bytes() for path in (course.root / "collected/tiny/ada").glob("*/files/tiny.ipynb")]
    assert sorted(kept) == [b"by hand", b"collected"]
    collected(course, laid_out(tmp_path / "in", {"ada/tiny.ipynb": b"collected"}))
    assert len(list((course.root / "collected/tiny/ada").glob("0*"))) == 2


def test_an_earlier_hand_in_does_not_replace_a_later_one_put_there_by_hand(course: Course, tmp_path: Path):
    folder = hand_in(course, "ada", b"late, by hand").parent
    (folder / "timestamp.txt").write_text("2031-01-01 00:00:00 UTC")
    files = {"ada+tiny+2030-01-01 00:00:00 UTC+r/tiny.ipynb": b"early"}
    assert [row.state for row in collected(course, packed(tmp_path / "x.zip", files)).rows] == [
        "older attempt"
    ]
    assert placed(course) == {"ada": b"late, by hand"}
    assert course.timestamp("tiny", "ada") == datetime(2031, 1, 1)


@pytest.mark.parametrize("step", ["rename", "copytree", "write_bytes"])
def test_a_collection_that_is_killed_is_done_again_without_harm(
    course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
):
    collected(course, laid_out(tmp_path / "1", {"ada/tiny.ipynb": b"first", "bob/tiny.ipynb": b"b"}))
    source = laid_out(tmp_path / "2", {"ada/tiny.ipynb": b"second", "bob/tiny.ipynb": b"c"})
    home: Any = {"rename": os, "copytree": shutil, "write_bytes": Path}[step]
    real = getattr(home, step)
    for last in range(1, 7):
        calls: list[int] = []

        def dies(*arguments: Any, calls: list[int] = calls, last: int = last, **named: Any) -> Any:
            calls.append(1)
            if len(calls) == last:
                raise KeyboardInterrupt
            return real(*arguments, **named)

        monkeypatch.setattr(home, step, dies)
        with contextlib.suppress(KeyboardInterrupt):
            collected(course, source)
        monkeypatch.setattr(home, step, real)
    collected(course, source)
    assert placed(course) == {"ada": b"second", "bob": b"c"}
    assert len(list((course.root / "collected/tiny/ada").glob("0*"))) == 2


def test_a_full_disk_is_a_clear_error(course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    source = packed(tmp_path / "c.zip", CANVAS)
    with pytest.raises(StoppedError, match=r"cannot be stored.*No space left.*collect again"):
        collected(course, source)
    assert not list((course.root / "collected").rglob("attempt.json"))


# Hostile archives.


def written_outside(course: Course, tmp_path: Path) -> list[Path]:
    return [path for path in tmp_path.rglob("*") if "evil" in path.name and course.root not in path.parents]


@pytest.mark.parametrize(
    "name",
    [
        "../../evil.ipynb",
        "/tmp/evil.ipynb",
        "C:\\windows\\evil.ipynb",
        "..\\..\\evil.ipynb",
        "a/../../../evil.ipynb",
        "\x00evil.ipynb",
        "evil\x1b[31m.ipynb",
        "x/" * 60 + "evil.ipynb",
        "e" * 4000 + ".ipynb",
        "evil.ipynb/evil.ipynb/evil.ipynb",
    ],
)
def test_no_name_leads_out_of_the_students_folder(course: Course, tmp_path: Path, name: str):
    files = [
        (f"Jane Doe_2001_assignsubmission_file_/{name}", b"x"),
        ("../evil_1_2_evil.ipynb", b"y"),
        (name, b"z"),
    ]
    collected(course, packed(tmp_path / "in.zip", files))
    assert written_outside(course, tmp_path) == []
    assert not Path("/tmp/evil.ipynb").exists()
    for path in (course.root / "collected").rglob("*"):
        assert path.name.isprintable()
        assert len(path.name.encode()) <= 160
    if "\0" not in name:  # Python itself cuts it there
        assert "Jane-Doe-2001" in course.students("tiny")


def test_links_devices_and_locked_entries_in_an_archive_are_left_out(course: Course, tmp_path: Path):
    kinds = {"link": stat.S_IFLNK, "pipe": stat.S_IFIFO, "device": stat.S_IFCHR}
    entries: list[tuple[Any, bytes]] = []
    for name, kind in kinds.items():
        info = zipfile.ZipInfo(f"ada/{name}.ipynb")
        info.external_attr = (kind | 0o777) << 16
        entries.append((info, b"/etc/passwd"))
    entries.append(("ada/locked.ipynb", b"secret"))
    entries.append(("bob/tiny.ipynb", b"bob"))
    path = packed(tmp_path / "in.zip", entries)
    data = bytearray(path.read_bytes())
    place = data.index(b"PK\x01\x02", data.index(b"ada/locked.ipynb"))
    while data[place + 46 : place + 62] != b"ada/locked.ipynb":
        place = data.index(b"PK\x01\x02", place + 1)
    struct.pack_into("<H", data, place + 8, 1)
    path.write_bytes(data)
    rows = {row.student: row for row in collected(course, path).rows}
    assert rows["ada"].files == []
    notes = " ".join(rows["ada"].notes)
    assert "a link" in notes
    assert "no file" in notes
    assert "password" in notes
    assert placed(course) == {"ada": b"", "bob": b"bob"}


def test_links_and_pipes_in_a_folder_are_left_out(course: Course, tmp_path: Path):
    source = laid_out(tmp_path / "in", {"ada/tiny.ipynb": b"ada", "secret": b"of the instructor"})
    (source / "ada/link.ipynb").symlink_to("/etc/passwd")
    (source / "bob").symlink_to("/etc")
    os.mkfifo(source / "eve.ipynb")
    (source / "kim").mkdir()
    os.link(source / "secret", source / "kim/tiny.ipynb")
    (source / "deep").mkdir()
    (source / "deep/pipe").mkdir()
    os.mkfifo(source / "deep/pipe/x.ipynb")
    result = collected(course, source)
    assert placed(course) == {"ada": b"ada", "deep": b"", "eve": b"", "kim": b""}
    told = " ".join([*result.left_out, *(note for row in result.rows for note in row.notes)])
    for text in ("link.ipynb", "'bob'", "eve.ipynb", "hard link", "named pipe", "'secret'"):
        assert text in told


def test_a_zip_bomb_costs_no_more_than_the_limit(
    course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(members_module, "MAX_BYTES", 2**20)
    bomb = bytes(60 * 2**20)
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("deep.ipynb", bomb)
    files = {"ada/tiny.ipynb": bomb, "bob/tiny.ipynb": b"bob", "eve/in.zip": inner.getvalue()}
    path = packed(tmp_path / "in.zip", files)
    tracemalloc.start()
    rows = {row.student: row for row in collected(course, path).rows}
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 12 * 2**20
    assert "larger than" in " ".join(rows["ada"].notes)
    assert "larger than" in " ".join(rows["eve"].notes)
    assert placed(course) == {"ada": b"", "bob": b"bob", "eve": b""}


def test_a_header_that_lies_about_the_size_is_not_believed(course: Course, tmp_path: Path):
    path = packed(tmp_path / "in.zip", {"ada/tiny.ipynb": b"a" * 5000, "bob/tiny.ipynb": b"bob"})
    data = bytearray(path.read_bytes())
    for magic, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<I", data, data.index(magic) + offset, 7)
    path.write_bytes(data)
    rows = {row.student: row for row in collected(course, path).rows}
    assert placed(course)["bob"] == b"bob"
    assert len(placed(course)["ada"]) <= 7
    assert rows["ada"].notes or rows["ada"].files


def test_a_damaged_entry_is_told_and_the_others_are_taken(course: Course, tmp_path: Path):
    path = packed(tmp_path / "in.zip", {"ada/tiny.ipynb": os.urandom(3000), "bob/tiny.ipynb": b"bob"})
    data = bytearray(path.read_bytes())
    data[200:300] = bytes(100)
    path.write_bytes(data)
    rows = {row.student: row for row in collected(course, path).rows}
    assert "ada/tiny.ipynb" in " ".join(rows["ada"].notes)
    assert placed(course) == {"ada": b"", "bob": b"bob"}


def test_an_archive_of_too_many_files_inside_a_submission_is_refused(course: Course, tmp_path: Path):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        for number in range(2100):
            archive.writestr(f"{number}.ipynb", b"")
    rows = collected(course, packed(tmp_path / "in.zip", {"ada/in.zip": inner.getvalue()})).rows
    assert "2100 files" in " ".join(rows[0].notes)


def test_a_student_cannot_fill_the_disk_with_files(
    course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "MAX_ATTEMPT_BYTES", 1000)
    files = {f"ada/{number:03}.ipynb": bytes(100) for number in range(300)} | {"bob/tiny.ipynb": b"bob"}
    rows = {row.student: row for row in collected(course, packed(tmp_path / "in.zip", files)).rows}
    assert len(rows["ada"].files) == 10
    assert "too much" in " ".join(rows["ada"].notes)
    assert placed(course)["bob"] == b"bob"


def test_an_archive_inside_is_opened_once(course: Course, tmp_path: Path):
    def archive_of(name: str, data: bytes) -> bytes:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(name, data)
        return file.getvalue()

    inner = archive_of("work/tiny.ipynb", b"inside")
    files = {"ada/mine.zip": inner, "bob/mine.zip": archive_of("again.zip", inner), "eve.zip": inner}
    collected(course, packed(tmp_path / "in.zip", files))
    found = placed(course)
    assert (found["ada"], found["eve"]) == (b"inside", b"inside")
    assert found["bob"] == b""


def test_a_student_cannot_set_the_time_of_hand_in_in_an_lms(course: Course, tmp_path: Path):
    name = "Jane Doe_2001_assignsubmission_file_"
    files = {f"{name}/tiny.ipynb": b"x", f"{name}/timestamp.txt": b"1999-01-01 00:00:00 UTC"}
    collected(course, packed(tmp_path / "in.zip", files))
    assert course.timestamp("tiny", "Jane-Doe-2001") is None


def test_names_in_other_encodings_are_read(course: Course, tmp_path: Path):
    """Without the flag for UTF-8 the bytes are UTF-8 all the same, as macOS and Moodle on Windows write them."""
    path = tmp_path / "in.zip"
    plain = packed(path, {"Asa XXXXXX_2002_assignsubmission_file_/tiny.ipynb": b"x"}).read_bytes()
    path.write_bytes(plain.replace(b"XXXXXX", "ÖÖÖ".encode()))
    collected(course, path)
    assert course.students("tiny") == ["Asa-ÖÖÖ-2002"]


def test_two_files_of_one_name_are_both_kept(course: Course, tmp_path: Path):
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = packed(tmp_path / "in.zip", [("ada/tiny.ipynb", b"one"), ("ada/tiny.ipynb", b"two")])
    rows = collected(course, path).rows
    assert rows[0].files == ["tiny (2).ipynb", "tiny.ipynb"]
    assert "several files" in rows[0].notes[0]


def test_students_whose_names_become_alike_stay_apart(course: Course, tmp_path: Path):
    files = {"Jane Doe/tiny.ipynb": b"one", "Jane-Doe/tiny.ipynb": b"two"}
    collected(course, laid_out(tmp_path / "in", files))
    assert placed(course) == {"Jane-Doe": b"one", "Jane-Doe-2": b"two"}


@given(name=st.text(max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_name_becomes_a_harmless_path(name: str):
    parts, _ = safe_parts(name)
    for part in parts:
        assert part not in ("", ".", "..")
        assert not set(part) & {"/", "\\", "\0", "\n"}
        assert len(part.encode()) <= 150
    assert len(parts) <= 6
    if parts:
        owner = owner_of(parts, "tiny", Roster())
        assert owner is None or owner.student == student_id(owner.student)
    clean = student_id(name)
    assert clean
    assert not clean.startswith((".", "-"))
    assert not set(clean) & set("/\\\0 ")


@given(data=st.binary(max_size=400), at=st.integers(0, 500))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_damage_to_an_archive_stops_more_than_the_archive(
    course: Course, tmp_path: Path, data: bytes, at: int
):
    path = packed(tmp_path / "in.zip", {"ada/tiny.ipynb": b"x" * 300, "bob/tiny.ipynb": b"bob"})
    whole = bytearray(path.read_bytes())
    whole[at : at + len(data)] = data
    path.write_bytes(whole)
    try:
        collected(course, path)
    except UsageError as error:
        assert "zip archive" in str(error) or "at most" in str(error)
    for student in course.students("tiny"):
        take_in(course.submitted / student / "tiny", "tiny")


# Names and times.


def test_canvass_gradebook_gives_students_their_own_names(course: Course, tmp_path: Path):
    table = tmp_path / "canvas.csv"
    table.write_text(
        "\ufeffStudent,ID,SIS User ID,SIS Login ID,Section,tiny (9)\n"
        "    Points Possible,,,,,9.5\n"
        '"Doe, Jane",1001,u77,jdoe,A,\n"Poe, Bob",1002,u78,,A,\n'
    )
    collected(course, packed(tmp_path / "c.zip", CANVAS), roster=read_roster(table))
    assert course.students("tiny") == ["anon-1003", "jdoe", "u78"]


def test_moodles_worksheet_gives_students_their_own_names(course: Course, tmp_path: Path):
    table = tmp_path / "moodle.csv"
    table.write_text(
        "Identifier,Full name,Email address,Status,Grade,Maximum Grade\n"
        "Participant 2001,Jane Doe,jane@uni.example,Submitted,,9.50\n"
    )
    collected(course, packed(tmp_path / "m.zip", MOODLE), roster=read_roster(table))
    assert "jane@uni.example" in course.students("tiny")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no one"),
        ("a,b\n1,2\n", "names no one"),
        ("Student,ID,SIS Login ID\nA,1,x\nB,2,x\n", "same name to several"),
    ],
)
def test_a_roster_of_no_use_is_refused(tmp_path: Path, text: str, said: str):
    path = tmp_path / "r.csv"
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        read_roster(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot be read"):
        read_roster(path)


def test_the_files_own_dates_count_only_when_asked_for(course: Course, tmp_path: Path):
    source = packed(tmp_path / "m.zip", MOODLE)
    collected(course, source)
    assert course.timestamp("tiny", "Jane-Doe-2001") is None
    collected(course, source, file_times=ZoneInfo("Europe/Berlin"))
    assert course.timestamp("tiny", "Jane-Doe-2001") == datetime(2030, 5, 6, 5, 8, 10)
    stamp = (course.submitted / "Jane-Doe-2001/tiny/tiny.ipynb").stat().st_mtime
    assert datetime.fromtimestamp(stamp, UTC).replace(tzinfo=None) == datetime(2030, 5, 6, 5, 8, 10)


def test_canvass_mark_for_late_is_told(course: Course, tmp_path: Path):
    rows = {row.student: row for row in collected(course, packed(tmp_path / "c.zip", CANVAS)).rows}
    assert "LATE" in rows["poebob-1002"].notes[0]


def test_what_belongs_to_no_one_is_said(course: Course, tmp_path: Path):
    result = collected(course, packed(tmp_path / "x.zip", {"readme.md": b"", "ada.ipynb": b"x"}))
    assert result.left_out == ["'readme.md' belongs to no student"]
    assert course.students("tiny") == ["ada"]


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 cut off", None])
def test_a_source_that_is_none_is_refused(course: Course, tmp_path: Path, content: bytes | None):
    path = tmp_path / "in.zip"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match="Download it again" if content is not None else "no .*in.zip"):
        collected(course, path)


def test_a_unit_that_was_not_released_is_refused(course: Course, tmp_path: Path):
    with pytest.raises(UsageError, match="was not released"):
        collect_into(course, "other", packed(tmp_path / "c.zip", CANVAS))


def test_collecting_waits_for_no_one_and_says_who_is_at_work(course: Course, tmp_path: Path):
    with CourseLock(course.private), pytest.raises(UsageError, match="is at work"):
        collected(course, packed(tmp_path / "c.zip", CANVAS))


# nbgrader's exchange.


@pytest.fixture
def exchange(course: Course, tmp_path: Path) -> Course:
    """A course whose exchange is a folder here, with the unit in its outbound folder."""
    root = tmp_path / "exchange"
    root.mkdir(mode=0o777)
    root.chmod(0o777)
    with (course.root / "nbgrader_config.py").open("a") as file:
        file.write(f"\nc.Exchange.root = {str(root)!r}\nc.Exchange.cache = {str(tmp_path / 'cache')!r}\n")
    course = Course.open(course.root)
    course.directory.assignment_id = "tiny"
    ExchangeReleaseAssignment(coursedir=course.directory, config=course.nbgrader_config()).start()
    return course


def submit(course: Course, tmp_path: Path, content: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """What a student does, with nbgrader's own tools."""
    home = tmp_path / f"home-{len(list(tmp_path.iterdir()))}"
    home.mkdir()
    monkeypatch.chdir(home)
    config = course.nbgrader_config()
    config.CourseDirectory.root = str(home)
    student = Course.open(course.root).directory
    student.root, student.assignment_id = str(home), "tiny"
    may_enter = Authenticator(config=config)
    ExchangeFetchAssignment(coursedir=student, authenticator=may_enter, config=config).start()
    (home / "tiny/tiny.ipynb").write_text(json.dumps(content))
    ExchangeSubmit(coursedir=student, authenticator=may_enter, config=config).start()


def test_the_exchange_gives_and_takes_back(
    exchange: Course, right: NotebookNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """nbgrader submit, collect twice, grade, feedback --exchange: and nbgrader's own tool fetches the page."""
    course, user = exchange, os.environ.get("JUPYTERHUB_USER") or __import__("getpass").getuser()
    submit(course, tmp_path, answer(right, "whole"), monkeypatch)
    submit(course, tmp_path, answer(right), monkeypatch)
    rows = collect_into(course, "tiny", exchange_folder(course), check_owners=True).rows
    assert [row.attempts for row in rows] == [2, 2]
    assert not any("belongs to" in note for row in rows for note in row.notes)
    assert b"number / 2" in placed(course)[user]
    assert course.timestamp("tiny", user) is not None
    monkeypatch.setattr(engine, "Runner", InProcess)
    (result,) = engine.grade(course, course.spec("tiny"), [user], 1)
    assert result.status == "full marks"
    done = autograder("feedback", "tiny", "--course", course.root, "--exchange")
    assert done.returncode == 0, done.stderr
    assert "1 page given back" in done.stdout
    pages = list((tmp_path / "exchange/course/feedback").glob("*.html"))
    assert [page.read_text() for page in pages] == [(course.feedback / user / "tiny/tiny.html").read_text()]


def test_another_users_folder_in_the_exchange_is_told(exchange: Course, tmp_path: Path):
    inbound = exchange_folder(exchange)
    laid_out(inbound, {"nobody-such+tiny+2030-01-01 00:00:00 UTC+x/tiny.ipynb": b"x"})
    (row,) = collect_into(exchange, "tiny", inbound, check_owners=True).rows
    assert "belongs to" in " ".join(row.notes)


def test_a_course_without_an_exchange_says_what_to_do(course: Course, tmp_path: Path):
    with (course.root / "nbgrader_config.py").open("a") as file:
        file.write(f"\nc.Exchange.root = {str(tmp_path / 'none')!r}\n")
    with pytest.raises(UsageError, match=r"no exchange folder.*submissions\.zip"):
        exchange_folder(Course.open(course.root))


# The commands.


def test_the_command_takes_archives_and_says_what_it_did(course: Course, tmp_path: Path):
    source = packed(tmp_path / "c.zip", {**CANVAS, "readme.md": b""})
    done = autograder("collect", "tiny", source, "--course", course.root)
    assert done.returncode == 0, done.stderr
    assert "3 students, 3 new attempts." in done.stdout
    assert "readme.md" in done.stderr
    done = autograder("collect", "tiny", source, "--course", course.root, "--json")
    assert {row["state"] for row in json.loads(done.stdout)["attempts"]} == {"known"}
    done = autograder("collect", "tiny", source, "--course", course.root, "--file-times", "Nowhere/City")
    assert (done.returncode, "no time zone" in done.stderr) == (2, True)


def test_feedback_is_packed_as_each_lms_takes_it_back(
    course: Course, right: NotebookNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    book = json.dumps(answer(right)).encode()
    for source, files in (("c.zip", CANVAS), ("m.zip", MOODLE)):
        collected(course, packed(tmp_path / source, dict.fromkeys(files, book)))
    hand_in(course, "by-hand", book)
    monkeypatch.setattr(engine, "Runner", InProcess)
    list(engine.grade(course, course.spec("tiny"), course.students("tiny"), 2))
    (course.feedback / "by-hand/tiny/tiny.html").unlink()
    done = autograder("feedback", "tiny", "--course", course.root, "--zip", tmp_path / "back.zip")
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / "back.zip") as archive:
        assert set(archive.namelist()) == {
            "doejane_1001_55501_tiny.html",
            "poebob_LATE_1002_55502_tiny-1.html",
            "anon_1003_55503_my_answers_final.html",
            "Jane Doe_2001_assignsubmission_file_/tiny.html",
            "Åsa Öberg_2002_assignsubmission_file_/tiny.html",
            "Bob Poe_2003_assignsubmission_file_/tiny.html",
            "by-hand/tiny.html",
        }
        assert b"half of an odd number" in archive.read("by-hand/tiny.html")
    done = autograder("feedback", "tiny", "--course", course.root, "--exchange")
    assert done.returncode == 1
    assert "not given back" in done.stderr
    assert autograder("feedback", "tiny", "--course", course.root, "--student", "nobody").returncode == 2


def test_the_limit_for_one_file_is_that_of_the_intake():
    assert members_module.MAX_BYTES == MAX_BYTES
