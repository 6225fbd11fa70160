"""From bytes to a JSON value: encodings, cut and damaged files, and files that are something else."""

from __future__ import annotations

import codecs
import json
import re
from typing import Any

LARGE = 2 * 1024 * 1024  # characters: beyond it saved output is dropped before anything is built
MAX_WITHOUT_OUTPUT = 8 * 1024 * 1024
_MAX_TOKENS = 3_000_000

_BOMS = (
    (codecs.BOM_UTF8, "utf-8", "UTF-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le", "UTF-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16"),
)
_MAGIC = (
    (b"PK\x03\x04", "a zip archive; unpack it first"),
    (b"%PDF", "a PDF"),
    (b"\x1f\x8b", "a compressed archive; unpack it first"),
    (b"7z\xbc\xaf", "a compressed archive; unpack it first"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"\xd0\xcf\x11\xe0", "an Office document"),
)
_LOOKS_LIKE = (
    (re.compile(r"\A\s*<(!doctype|html|\?xml)", re.IGNORECASE), "a web page"),
    (re.compile(r"\Aversion https://git-lfs"), "a pointer to a file that git has not fetched"),
    (re.compile(r"^[ \t]*(import|from|def|class) +\w", re.MULTILINE), "a Python script"),
)
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
_OPENING = re.compile(r"\s*:\s*(?=\[)")
_CELLS = re.compile(r'"cells"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")


class Unreadable(Exception):
    """There is no notebook in these bytes. The text is for the student: what was expected, what came."""


def what_to_do() -> str:
    return "Open your notebook in Jupyter, see that your answers are in it, save it, and hand that file in."


def decode(data: bytes, notes: list[str]) -> str:
    """The file's text. Raises `Unreadable` for an empty file or one of a kind that is known."""
    if not data:
        raise Unreadable(f"The file is empty (0 bytes). {what_to_do()}")
    if not data.strip(b"\0 \t\r\n"):
        raise Unreadable(
            f"The file has {len(data):,} bytes, but all of them are blank, as after an interrupted copy."
            f" {what_to_do()}"
        )
    for magic, what in _MAGIC:
        if data.startswith(magic):
            raise _not_a_notebook(what)
    for mark, encoding, name in _BOMS:
        if data.startswith(mark):
            notes.append(f"The file begins with a byte-order mark ({name}); it was read all the same.")
            return data[len(mark) :].decode(encoding, "replace")
    if data[:2].count(0) == 1:
        notes.append("The file was saved as UTF-16, not as UTF-8; it was read all the same.")
        return data.decode("utf-16-le" if data[1] == 0 else "utf-16-be", "replace")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if error.start >= len(data) - 3:  # the file was cut inside a character
            return data[: error.start].decode()
    notes.append("The file was not saved as UTF-8; letters with accents may look wrong.")
    text = data.decode("utf-8", "replace")
    wrong = text.count("\ufffd")
    if sum(letter > "\x7f" for letter in text) - wrong > wrong:
        return text  # UTF-8 with a few bad bytes
    return data.decode("cp1252", "replace")


def load(text: str, notes: list[str]) -> Any:
    """The JSON value in `text`, or as much of a notebook's cells as is whole. Raises `Unreadable`."""
    if len(text) > LARGE:
        size, text = len(text), _without_outputs(text)
        if len(text) > MAX_WITHOUT_OUTPUT:
            raise Unreadable(
                f"The notebook holds {len(text) / 2**20:.0f} MB besides its saved output; at most"
                f" {MAX_WITHOUT_OUTPUT // 2**20} MB are read. Remove pictures and data from its cells, and"
                " hand it in again."
            )
        notes.append(f"The file was large ({size / 2**20:.0f} MB); its saved output was left out.")
    start = len(text) - len(text.lstrip())
    try:
        value, end = _DECODER.raw_decode(text, start)
    except RecursionError:
        raise Unreadable(f"The file is nested too deeply for a notebook. {what_to_do()}") from None
    except ValueError as error:
        return _salvage(text, str(error), notes)
    if text[end:].strip():
        if not isinstance(value, dict):
            return _salvage(text, "more than one value", notes)
        notes.append("There was more text after the end of the notebook; it was left out.")
    return value


def _salvage(text: str, error: str, notes: list[str]) -> dict[str, Any]:
    """The complete cells before the place where a file is cut or damaged."""
    for number, match in enumerate(_CELLS.finditer(text)):
        if number == 20:
            break
        cells, position, whole = [], match.end(), False
        while not whole:
            position = _BETWEEN.match(text, position).end()  # type: ignore[union-attr]
            whole = text[position : position + 1] == "]"
            try:
                cell, position = (None, position) if whole else _DECODER.raw_decode(text, position)
            except (ValueError, RecursionError):
                break
            cells += [cell] if isinstance(cell, dict) else []
        if cells:
            notes.append(_how_far(text, len(cells), whole))
            return {"cells": cells}
    if re.search(r"^<<<<<<< .*^>>>>>>> ", text, re.DOTALL | re.MULTILINE):
        raise _not_a_notebook("a file with a merge conflict that git left in it")
    for pattern, what in _LOOKS_LIKE:
        if pattern.search(text[:5_000]):
            raise _not_a_notebook(what)
    begins = " ".join(text[:200].split())[:40]
    if begins.startswith("{"):
        raise Unreadable(
            f"The notebook is damaged before the end of its first cell, so nothing could be read"
            f" ({error[:80]}). {what_to_do()}"
        )
    raise _not_a_notebook(f"text that begins {begins!r}")


def _how_far(text: str, cells: int, whole: bool) -> str:
    if whole:
        return f"The end of the file is missing or damaged, but all of its {cells} cells could be read."
    conflict = re.search(r"^<<<<<<< ", text, re.MULTILINE)
    reason = "git left a merge conflict in it" if conflict else "it is cut off or damaged there"
    return f"The file could be read up to the end of cell {cells} and not after that: {reason}."


def _without_outputs(text: str) -> str:
    """The same JSON with `"outputs": []` everywhere, found without building anything.

    A file of 64 MB can be ten times that in memory once it is Python objects.
    """
    pieces: list[str] = []
    start, depth, inside = 0, 0, False
    for count, match in enumerate(_TOKEN.finditer(text)):
        if count > _MAX_TOKENS:
            raise Unreadable(f"The file holds too many values for a notebook. {what_to_do()}")
        begin, end = match.span()
        if inside:
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(text[begin], 0)
            if depth <= 0:
                inside, start = False, begin
        elif end - begin == 9 and match[0] == '"outputs"' and (opening := _OPENING.match(text, end)):
            pieces += [text[start : opening.end()], "["]
            inside, depth = True, 0
    return "".join(pieces) + ("" if inside else text[start:])


def _not_a_notebook(what: str) -> Unreadable:
    return Unreadable(
        f"The file is not a notebook: expected JSON with a list of cells, got {what}. {what_to_do()}"
    )


def _integer(digits: str) -> int:
    """Python refuses to read very long numbers, and no number in a notebook matters here."""
    return int(digits) if len(digits) < 20 else 0


_DECODER = json.JSONDecoder(strict=False, parse_int=_integer)
