"""What students hand in, as files: names, links, sizes, encodings, formats, damage."""

from __future__ import annotations

import copy
import json
import os
import socket
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nbformat import NotebookNode

from autograder import intake
from autograder.decoding import LARGE
from autograder.intake import collect, parse
from autograder.parsing import MAX_CELLS, MAX_SOURCE, Parsed

BOOK: dict[str, Any] = {
    "cells": [
        {
            "cell_type": "code",
            "execution_count": 3,
            "id": "first",
            "metadata": {"nbgrader": {"grade_id": "a", "points": 2, "grade": True}, "deletable": False},
            "outputs": [{"output_type": "stream", "name": "stdout", "text": ["printed\n"]}],
            "source": ["x = 1\n", 'y = "é ü"'],
        },
        {"cell_type": "markdown", "id": "second", "metadata": {}, "source": "Größe: *fünf*"},
        {
            "cell_type": "code",
            "execution_count": None,
            "id": "third",
            "metadata": {},
            "outputs": [],
            "source": "z",
        },
    ],
    "metadata": {"kernelspec": {"name": "python3", "language": "python", "display_name": "Python 3"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}
SOURCES = ['x = 1\ny = "é ü"', "Größe: *fünf*", "z"]


def dump(book: Any = BOOK, **options: Any) -> bytes:
    return json.dumps(book, indent=1, ensure_ascii=False, **options).encode()


def sources(parsed: Parsed) -> list[str]:
    assert parsed.notebook is not None, parsed.problem
    return [cell.source for cell in parsed.notebook.cells]


def changed(**values: Any) -> dict[str, Any]:
    book = copy.deepcopy(BOOK)
    book["cells"][0].update(values)
    return book


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "submitted" / "ada" / "unit"
    folder.mkdir(parents=True)
    return folder


def touch(path: Path, content: bytes = b"{}", age: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    stamp = path.stat().st_mtime_ns - age * 10**9
    os.utime(path, ns=(stamp, stamp))
    return path


def test_the_file_with_the_right_name_is_taken_without_a_note(place: Path):
    touch(place / "unit.ipynb", b"bytes")
    touch(place / "timestamp.txt")
    touch(place / "numpy.py")
    assert collect(place, "unit") == intake.Intake(b"bytes", [], "")


@pytest.mark.parametrize(
    "name",
    [
        "unit (1).ipynb",
        "Unit.ipynb",
        "UNIT.IPYNB",
        "Unit_final.ipynb",
        "unit-Copy1.ipynb",
        "my answers.ipynb",
        "unit.ipynb.txt",
        "unit.ipynb.json",
        "unit.json",
        "unit",
        "sub/unit.ipynb",
        "unit.ipynb/unit.ipynb",
        "a/b/c/other.ipynb",
        "ü\udcff\n.ipynb",
    ],
)
def test_a_file_by_another_name_is_taken_and_the_note_says_so(place: Path, name: str):
    touch(place / name, b"bytes")
    taken = collect(place, "unit")
    assert taken.notebook_bytes == b"bytes", taken.problem
    assert len(taken.notes) == 1
    assert "expected 'unit.ipynb'" in taken.notes[0]
    assert taken.notes[0].isprintable()


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"unit.ipynb": 50, "unit (1).ipynb": 0}, "unit.ipynb"),
        ({"unit.ipynb": 50, "sub/unit.ipynb": 0}, "unit.ipynb"),
        ({"unit (1).ipynb": 50, "unit (2).ipynb": 20, "other.ipynb": 0}, "unit (2).ipynb"),
        ({"a.ipynb": 9, "b.ipynb": 60}, "a.ipynb"),
    ],
)
def test_of_several_files_the_exact_name_counts_or_else_the_newest(
    place: Path, files: dict[str, int], expected: str
):
    for name, age in files.items():
        touch(place / name, name.encode(), age)
    taken = collect(place, "unit")
    assert taken.notebook_bytes == expected.encode()
    assert any("There were several notebooks" in note for note in taken.notes)


def test_what_an_editor_leaves_behind_is_not_taken_for_a_submission(place: Path):
    touch(place / ".ipynb_checkpoints" / "unit-checkpoint.ipynb")
    touch(place / "__MACOSX" / "unit.ipynb")
    touch(place / "._unit.ipynb")
    taken = collect(place, "unit")
    assert (taken.notebook_bytes, taken.problem) == (
        None,
        "The submission is empty. Hand in the file unit.ipynb.",
    )


def test_nothing_there_or_something_else_there_is_a_problem_that_says_what(place: Path):
    assert "The submission is empty" in collect(place, "unit").problem
    touch(place / "answer.py")
    touch(place / "timestamp.txt")
    assert "only 'answer.py'. Hand in the file unit.ipynb" in collect(place, "unit").problem
    (place / "answer.py").unlink()
    (place / "unit.ipynb").mkdir()
    assert "only 'timestamp.txt'" not in collect(place, "unit").problem
    assert "'unit.ipynb' is an empty folder" in collect(place, "unit").problem
    assert "Nothing was handed in" in collect(place.parent / "nowhere", "unit").problem
    assert "'answer' is a file" in collect(touch(place / "answer"), "unit").problem


def secret(tmp_path: Path) -> Path:
    return touch(tmp_path / "secret.ipynb", b"the solution")


def make_links(place: Path, target: Path) -> dict[str, Any]:
    return {
        "link to a file": lambda: (place / "unit.ipynb").symlink_to(target),
        "relative link": lambda: (place / "unit.ipynb").symlink_to("../../../secret.ipynb"),
        "dangling link": lambda: (place / "unit.ipynb").symlink_to("/nowhere"),
        "link to itself": lambda: (place / "unit.ipynb").symlink_to("unit.ipynb"),
        "link to a folder": lambda: (place / "sub").symlink_to(target.parent),
        "hard link": lambda: (place / "unit.ipynb").hardlink_to(target),
        "named pipe": lambda: os.mkfifo(place / "unit.ipynb"),
        "socket": lambda: socket.socket(socket.AF_UNIX).bind(str(place / "unit.ipynb")),
    }


@pytest.mark.parametrize("kind", make_links(Path(), Path()))
def test_links_pipes_and_sockets_are_refused_and_never_waited_for(
    place: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(place)  # a socket's path must be short
    make_links(Path(), secret(tmp_path).absolute())[kind]()
    taken = collect(place, "unit")
    assert taken.notebook_bytes is None
    assert "not a file" in taken.problem


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device")
def test_a_device_is_refused(place: Path):
    try:
        os.mknod(place / "unit.ipynb", 0o600 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("this machine lets no one make devices")
    assert "is a device" in collect(place, "unit").problem


def test_a_link_beside_the_notebook_is_told_and_left_out(place: Path, tmp_path: Path):
    touch(place / "unit.ipynb", b"bytes")
    (place / "data.ipynb").symlink_to(secret(tmp_path))
    taken = collect(place, "unit")
    assert taken.notebook_bytes == b"bytes"
    assert taken.notes == ["'data.ipynb' is a link, not a file; it was left out."]


def test_the_students_folders_themselves_may_not_be_links(place: Path, tmp_path: Path):
    touch(tmp_path / "elsewhere" / "unit" / "unit.ipynb")
    (place.parent.parent / "eve").symlink_to(tmp_path / "elsewhere")
    assert "'eve' is a link" in collect(place.parent.parent / "eve" / "unit", "unit").problem
    (place.parent / "other").symlink_to(tmp_path / "elsewhere" / "unit")
    assert "'other' is a link" in collect(place.parent / "other", "unit").problem


def test_a_file_exchanged_after_it_was_listed_is_refused(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The student swaps the file for a link, or for another file, between look and open."""
    touch(place / "unit.ipynb", b"bytes")
    hidden = secret(tmp_path)
    choose = intake._choose

    def swap_to_link(*arguments: Any) -> Any:
        chosen = choose(*arguments)
        (place / "unit.ipynb").unlink()
        (place / "unit.ipynb").symlink_to(hidden)
        return chosen

    monkeypatch.setattr(intake, "_choose", swap_to_link)
    taken = collect(place, "unit")
    assert (taken.notebook_bytes, "could not be opened" in taken.problem) == (None, True)

    def swap_to_file(*arguments: Any) -> Any:
        chosen = choose(*arguments)
        os.rename(hidden, place / "unit.ipynb")
        return chosen

    (place / "unit.ipynb").unlink()
    touch(place / "unit.ipynb", b"bytes")
    monkeypatch.setattr(intake, "_choose", swap_to_file)
    taken = collect(place, "unit")
    assert (taken.notebook_bytes, "exchanged" in taken.problem) == (None, True)


def test_too_large_a_file_and_too_many_files_are_refused(place: Path, monkeypatch: pytest.MonkeyPatch):
    with touch(place / "unit.ipynb").open("r+b") as file:
        file.truncate(intake.MAX_BYTES + 1)
    taken = collect(place, "unit")
    assert (taken.notebook_bytes, "at most 64 MB" in taken.problem) == (None, True)
    monkeypatch.setattr(intake, "_MAX_ENTRIES", 3)
    for number in range(4):
        touch(place / f"{number}.txt")
    assert "more than 3 files" in collect(place, "unit").problem


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open anything")
def test_a_file_that_may_not_be_opened_is_a_problem(place: Path):
    touch(place / "unit.ipynb").chmod(0)
    assert "could not be opened" in collect(place, "unit").problem


def test_a_good_file_is_read_without_a_note_and_without_what_is_not_needed():
    parsed = parse(dump())
    assert sources(parsed) == SOURCES
    assert (parsed.notes, parsed.problem) == ([], "")
    assert parsed.notebook is not None
    first = parsed.notebook.cells[0]
    assert first.outputs == []
    assert first.execution_count is None
    assert first.metadata == {"nbgrader": {"grade_id": "a", "points": 2, "grade": True}}
    assert [cell.id for cell in parsed.notebook.cells] == ["first", "second", "third"]
    nbformat.validate(parsed.notebook)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xef\xbb\xbf" + dump(), "byte-order mark"),
        (dump().decode().encode("utf-16"), "byte-order mark"),
        (dump().decode().encode("utf-32"), "byte-order mark"),
        (dump().decode().encode("utf-16-le"), "UTF-16"),
        (dump().decode().encode("utf-16-be"), "UTF-16"),
        (dump().decode().encode("latin-1"), "not saved as UTF-8"),
        (dump().decode().encode("cp1252"), "not saved as UTF-8"),
        (b"  \n\n" + dump() + b"\n\n", None),
        (dump() + b"\x00\x00", "more text after the end"),
        (dump() + b"\n{}", "more text after the end"),
        (dump().replace(b"\n", b"\r\n"), None),
        (dump().replace(b"printed\\n", b"printed\n\t"), None),
        (dump({**BOOK, "nbformat_minor": 99}), None),
        (dump({**BOOK, "nbformat": 5}), "newer format (5)"),
        (dump({**BOOK, "nbformat": "four"}), None),
        (dump({key: BOOK[key] for key in ("cells",)}), None),
        (dump({**BOOK, "cells": dict(enumerate(BOOK["cells"]))}), "were no list"),
        (dump({**BOOK, "metadata": None}), None),
        (dump({**BOOK, "cells": [*BOOK["cells"], None, 5, "text"]}), "3 of the entries"),
        (dump({**BOOK, "n": int("9" * 4000)}, default=str), None),
        (dump().replace(b'"nbformat": 4', b'"nbformat": ' + b"9" * 5000), "newer format|older format"),
        (dump(changed(execution_count=float("nan"))), None),
    ],
)
def test_files_of_other_encodings_and_formats_give_the_same_cells(data: bytes, said: str | None):
    parsed = parse(data)
    assert sources(parsed) == SOURCES
    assert len(parsed.notes) == (said is not None)
    if said:
        assert any(part in parsed.notes[0] for part in said.split("|"))


def test_one_bad_byte_in_a_utf8_file_does_not_spoil_the_rest():
    parsed = parse(dump().replace(b"printed", b"prin\xffted"))
    assert sources(parsed) == SOURCES


@pytest.mark.parametrize("version", [1, 2, 3])
def test_formats_of_old_are_read_as_nbformat_itself_reads_them(version: int):
    lines = ["x = 1", "y"] if version == 2 else ["x = 1\n", "y"]  # format 2 left the ends of lines out
    cells = [
        {"cell_type": "code", "language": "python", "input": lines, "outputs": [], "prompt_number": 1},
        {"cell_type": "markdown", "source": "some *text*"},
        {"cell_type": "heading", "level": 2, "source": ["A head"]},
        {"cell_type": "code", "language": "python", "input": "z", "outputs": [], "collapsed": False},
    ]
    if version == 1:
        book: dict[str, Any] = {"cells": [{"cell_type": "code", "code": "x = 1\ny"}], "nbformat": 1}
        expected = [("code", "x = 1\ny")]
    else:
        book = {"metadata": {"name": ""}, "nbformat": version, "nbformat_minor": 0}
        book["worksheets"] = [{"cells": cells[: 4 if version == 3 else 2], "metadata": {}}]
        oracle = nbformat.reads(json.dumps(book), as_version=4)
        expected = [(cell.cell_type, cell.source) for cell in oracle.cells]
    parsed = parse(json.dumps(book).encode())
    assert parsed.notebook is not None
    assert [(cell.cell_type, cell.source) for cell in parsed.notebook.cells] == expected
    assert f"older format ({version})" in parsed.notes[0]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"source": "x"}, "x"),
        ({"source": ["a\n", "b"]}, "a\nb"),
        ({"source": ["a", "b"]}, "a\nb"),
        ({"source": ["a\n", 5, None, "b"]}, "a\nb"),
        ({"source": 5}, "5"),
        ({"source": True}, ""),
        ({"source": None}, ""),
        ({"source": {"a": "b"}}, ""),
        ({"source": "a\r\nb\rc"}, "a\nb\nc"),
        ({"source": "a\0b"}, "a\ufffdb"),
        ({"source": "a\ud800b"}, "a\ufffdb"),
        ({"source": "\ud83d\ude00"}, "\U0001f600"),
    ],
)
def test_a_cells_text_may_have_any_type(values: dict[str, Any], expected: str):
    parsed = parse(json.dumps(changed(**values)).encode())
    assert sources(parsed)[0] == expected
    json.dumps(parsed.notebook, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"cell_type": "Code "}, "code"),
        ({"cell_type": None}, "code"),
        ({"cell_type": "html"}, "markdown"),
        ({"cell_type": 7}, "code"),
        ({"cell_type": "Kode"}, "raw"),
        ({"metadata": None}, "code"),
        ({"metadata": {"nbgrader": [1]}}, "code"),
        ({"metadata": {"nbgrader": {"grade_id": {"a": 1}, "points": None}}}, "code"),
        ({"metadata": {"tags": "x"}}, "code"),
        ({"id": 7}, "code"),
        ({"id": "a b"}, "code"),
        ({"id": "x" * 70}, "code"),
        ({"outputs": "x", "execution_count": "y"}, "code"),
        ({"attachments": 5, "cell_type": "markdown"}, "markdown"),
    ],
)
def test_a_cells_other_fields_may_have_any_type(values: dict[str, Any], kind: str):
    parsed = parse(dump(changed(**values)))
    assert sources(parsed) == SOURCES
    assert parsed.notebook is not None
    assert parsed.notebook.cells[0].cell_type == kind
    assert isinstance(parsed.notebook.cells[0].metadata, NotebookNode)


def test_of_attached_pictures_only_those_without_code_are_kept():
    bundle = {
        "image/png": "aGk=",
        "image/svg+xml": "<svg onload=alert(1)>",
        "text/html": "<b>",
        "image/gif": '">x',
    }
    parsed = parse(
        dump(changed(cell_type="markdown", attachments={"a.png": bundle, "b.svg": {"text/html": "x"}}))
    )
    assert parsed.notebook is not None
    assert parsed.notebook.cells[0].attachments == {"a.png": {"image/png": "aGk="}}


def test_a_cut_file_gives_every_cell_that_is_whole():
    data = dump()
    ends = [data.index(b'"second"'), data.index(b'"third"')]
    seen = set()
    for length in range(len(data)):
        parsed = parse(data[:length])
        if parsed.notebook is None:
            assert parsed.problem
            assert length < ends[0]
            continue
        got = sources(parsed)
        seen.add(len(got))
        assert got == SOURCES[: len(got)]
        assert len(parsed.notes) == 1
        if len(got) < 3:
            assert f"up to the end of cell {len(got)} " in parsed.notes[0]
    assert seen == {1, 2, 3}


def test_a_file_damaged_in_the_middle_gives_the_cells_above():
    data = dump()
    place = data.index(b'"id": "third"')
    parsed = parse(data[:place] + b"\x01\x02}}" + data[place:])
    assert sources(parsed) == SOURCES[:2]
    assert "damaged" in parsed.notes[0]


def test_a_merge_conflict_is_named():
    data = dump().replace(b'"id": "third"', b'\n<<<<<<< HEAD\n"id": "third"\n=======\n>>>>>>> other\n')
    assert "merge conflict" in parse(data).notes[0]
    data = dump().replace(b'"cells"', b'\n<<<<<<< HEAD\n"cells"\n=======\n>>>>>>> other\n"cels"')
    assert parse(data).notebook is not None or "merge conflict" in parse(data).problem


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "empty (0 bytes)"),
        (b"\0" * 5000, "5,000 bytes, but all of them are blank"),
        (b" \n", "blank"),
        (b"PK\x03\x04....", "a zip archive"),
        (b"%PDF-1.7", "a PDF"),
        (b"\x1f\x8b\x08", "compressed"),
        (b"\x89PNG\r\n", "a picture"),
        (b"<!DOCTYPE html><html>", "a web page"),
        (b"<?xml version='1.0'?>", "a web page"),
        (b"import numpy as np\nx = 1\n", "a Python script"),
        (b"# my answer\n\ndef f():\n  pass\n", "a Python script"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git has not fetched"),
        (b"hello there", "begins 'hello there'"),
        (b"[1, 2]", "got a list"),
        (b'"text"', "got a text"),
        (b"5", "got a number"),
        (b"null", "got null"),
        (b"{}", "it has nothing"),
        (b'{"nbformat": 4, "metadata": {}}', "it has 'nbformat', 'metadata'"),
        (b'{"cells": 5}', "it has 'cells'"),
        (b'{"cells": [{"cell_type": "code", "sou', "before the end of its first cell"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"cells":[' * 100_000, "nested too deeply"),
        (b"[1] [2]", "begins '[1] [2]'"),
        (b"\xff\xfe", "begins ''|empty"),
    ],
)
def test_what_is_no_notebook_is_named_and_the_author_told_what_to_do(data: bytes, said: str):
    parsed = parse(data)
    assert parsed.notebook is None
    assert any(part in parsed.problem for part in said.split("|"))
    assert "Jupyter" in parsed.problem
    assert "\n" not in parsed.problem


def test_sixty_megabytes_of_saved_output_cost_no_marks():
    book = changed(outputs=[{"output_type": "stream", "text": ['1.5, "q" ]}\n', "x" * 1000] * 28_000}] * 2)
    data = dump(book)
    assert 55 * 2**20 < len(data) < intake.MAX_BYTES
    parsed = parse(data)
    assert sources(parsed) == SOURCES
    assert parsed.notes == [
        f"The file was large ({len(data.decode()) / 2**20:.0f} MB); its saved output was left out."
    ]


def test_a_large_file_cut_inside_its_output_gives_the_cells_above():
    book = copy.deepcopy(BOOK)
    book["cells"][2]["outputs"] = [{"output_type": "stream", "text": ["line\n" * 100] * (LARGE // 400)}]
    data = dump(book)
    parsed = parse(data[: len(data) - 10_000])
    assert sources(parsed) == SOURCES[:2]


def test_a_large_file_keeps_text_that_looks_like_output():
    source = 'x = {"outputs": [1, {"outputs": []}]}\n' + "# " + "y" * 100
    book = changed(source=source, metadata={"outputs": "none"})
    book["cells"][2]["outputs"] = [{"data": {"image/png": "A" * LARGE}, "outputs": [[["]"]]]}]
    assert sources(parse(dump(book))) == [source, *SOURCES[1:]]


@pytest.mark.parametrize(
    ("book", "said"),
    [
        ({**BOOK, "metadata": {"x": "y" * 9 * 2**20}}, "besides its saved output"),
        (changed(source="#" * (MAX_SOURCE + 1)), "characters of text"),
        ({**BOOK, "cells": [BOOK["cells"][1]] * (MAX_CELLS + 1)}, "cells; at most"),
        ({**BOOK, "cells": [[]] * 4_000_000}, "too many values"),
    ],
)
def test_what_would_fill_the_memory_is_refused(book: dict[str, Any], said: str):
    parsed = parse(json.dumps(book, separators=(",", ":")).encode())
    assert parsed.notebook is None
    assert said in parsed.problem


@given(st.binary(max_size=400))
@settings(max_examples=200, deadline=None)
def test_no_bytes_raise(data: bytes):
    parsed = parse(data)
    assert (parsed.notebook is None) == bool(parsed.problem)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_no_change_of_a_real_file_raises(data: st.DataObject):
    content = bytearray(dump())
    for _ in range(data.draw(st.integers(1, 5))):
        start = data.draw(st.integers(0, len(content)))
        stop = data.draw(st.integers(start, min(len(content), start + 40)))
        content[start:stop] = data.draw(st.binary(max_size=20))
    parsed = parse(bytes(content))
    assert (parsed.notebook is None) == bool(parsed.problem)
    json.dumps(parsed.notebook, ensure_ascii=False).encode()
