"""The file itself: cut, damaged, in another encoding, or no notebook at all."""

from __future__ import annotations

import gzip
import io
import json
import zipfile

from mangled.kind import UNIT, Book, Folder, Kind, as_bytes, dump

NO_NOTEBOOK = "not a notebook: expected JSON with a list of cells, got "


def cut(share: float):
    return lambda data: data[: int(len(data) * share)]


def zipped(data: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{UNIT}.ipynb", data)
    return file.getvalue()


def script(data: bytes) -> bytes:
    cells = json.loads(data)["cells"]
    return "\n\n".join(cell["source"] for cell in cells if cell["cell_type"] == "code").encode()


def conflict(data: bytes) -> bytes:
    """git's markers around the last cell: both sides are whole."""
    head, mark, tail = data.rpartition(b'  {\n   "cell_type"')
    return head + b"<<<<<<< HEAD\n" + mark + tail + b"=======\n" + mark + tail + b">>>>>>> theirs\n"


def conflict_in_an_answer(data: bytes) -> bytes:
    """git's markers inside the cell of the second answer."""
    place = data.index(b'"id": "spread"')
    line = data.index(b"\n", place) + 1
    end = data.index(b"\n", line) + 1
    both = data[line:end]
    return data[:line] + b"<<<<<<< HEAD\n" + both + b"=======\n" + both + b">>>>>>> theirs\n" + data[end:]


def accents(book: Book, encoding: str) -> Folder:
    """A comment with letters that the encoding has, in a file of that encoding."""
    cell = next(cell for cell in book["cells"] if cell.get("id") == "halve")
    changed = {**cell, "source": "# Größe: hälfte, été, señor\n" + cell["source"]}
    cells = [changed if one is cell else one for one in book["cells"]]
    return {f"{UNIT}.ipynb": dump({**book, "cells": cells}).decode().encode(encoding)}


def duplicate_keys(data: bytes) -> bytes:
    """Each key "source" is there twice; the last one counts."""
    return data.replace(b'"source":', b'"source": "old", "source":')


KINDS = [
    Kind("empty", lambda book: {f"{UNIT}.ipynb": b""}, r"The file is empty \(0 bytes\)"),
    Kind("blank", lambda book: {f"{UNIT}.ipynb": b"\n" * 50}, "all of them are blank"),
    Kind("nul-bytes", lambda book: {f"{UNIT}.ipynb": bytes(4096)}, "all of them are blank"),
    as_bytes(
        "cut-at-a-tenth", cut(0.1), "(read up to the end of cell|damaged before the end of its first cell)"
    ),
    as_bytes("cut-in-the-middle", cut(0.5), "read up to the end of cell .* cut off"),
    as_bytes("cut-at-nine-tenths", cut(0.9), "read up to the end of cell|end of the file is missing"),
    as_bytes("last-byte-missing", lambda data: data.rstrip()[:-1]),
    as_bytes(
        "cut-inside-a-letter", lambda data: data[: data.rindex(b"\n  }")] + "\n  }\n ]\n}é".encode()[:-1]
    ),
    as_bytes("byte-order-mark", lambda data: b"\xef\xbb\xbf" + data),
    as_bytes("utf-16", lambda data: data.decode().encode("utf-16")),
    as_bytes("utf-16-without-mark", lambda data: data.decode().encode("utf-16-le")),
    as_bytes("utf-32", lambda data: data.decode().encode("utf-32")),
    Kind("latin-1", lambda book: accents(book, "latin-1")),
    Kind("windows-1252", lambda book: accents(book, "cp1252")),
    as_bytes("a-few-bad-bytes", lambda data: data.replace(b'"Python 3', b'"Pyth\xff\xfeon 3')),
    as_bytes("windows-line-ends", lambda data: data.replace(b"\n", b"\r\n")),
    as_bytes("blank-before-and-after", lambda data: b"\n\n  \t" + data + b"\n\n\n"),
    as_bytes("more-after-the-end", lambda data: data + b"\nand a line that a chat program added"),
    as_bytes("twice-in-one-file", lambda data: data + data),
    as_bytes("one-line", lambda data: dump(json.loads(data), indent=None)),
    as_bytes("escaped-letters", lambda data: dump(json.loads(data), ensure_ascii=True)),
    as_bytes("trailing-comma", lambda data: data.rstrip()[:-1].rstrip() + b",\n}\n"),
    as_bytes("merge-conflict", conflict),
    as_bytes("merge-conflict-in-an-answer", conflict_in_an_answer, "git left a merge conflict in it"),
    as_bytes("duplicate-keys", duplicate_keys),
    as_bytes(
        "not-a-number",
        lambda data: data.replace(b'"nbformat": 4', b'"x": NaN, "y": -Infinity, "nbformat": 4'),
    ),
    as_bytes(
        "endless-number",
        lambda data: data.replace(b'"nbformat_minor": 5', b'"nbformat_minor": ' + b"9" * 9000),
    ),
    as_bytes("raw-line-breaks-in-strings", lambda data: data.replace(b"\\n", b"\n")),
    as_bytes(
        "a-web-page",
        lambda data: b"<!DOCTYPE html><html><body>Sign in</body></html>",
        NO_NOTEBOOK + "a web page",
    ),
    as_bytes("a-script", script, NO_NOTEBOOK + "a Python script"),
    as_bytes("a-pdf", lambda data: b"%PDF-1.7\n" + data, NO_NOTEBOOK + "a PDF"),
    as_bytes("a-zip", zipped, NO_NOTEBOOK + "a zip archive; unpack it first"),
    as_bytes("a-gzip", gzip.compress, NO_NOTEBOOK + "a compressed archive"),
    as_bytes(
        "git-lfs",
        lambda data: b"version https://git-lfs.github.com/spec/v1\noid sha256:0",
        "git has not fetched",
    ),
    as_bytes(
        "prose",
        lambda data: b"Dear sir, my notebook does not work.",
        NO_NOTEBOOK + "text that begins 'Dear sir",
    ),
    as_bytes("nested-too-deeply", lambda data: b"[" * 100_000, "nested too deeply|not a notebook"),
    as_bytes("json-list", lambda data: b"[1, 2]", "JSON, but no notebook.*a list"),
    as_bytes("json-text", lambda data: b'"hello"', "JSON, but no notebook"),
    as_bytes(
        "json-of-something-else",
        lambda data: b'{"name": "x", "version": 1}',
        "no list of cells; it has 'name'",
    ),
]
