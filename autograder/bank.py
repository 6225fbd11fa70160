"""The bank of known wrong answers, and of right answers in other styles: text files with one cell an entry.

    # %% no-scale
    # belief: Scaling is cosmetic: softmax
    #   normalises anyway.
    # advice: What is the variance of a dot product of d_k terms?
    # replaces: attention
    # caught by: weights stay soft when d_k grows
    def attention(query, key, value): ...

An entry begins at `# %% name`; its `# key: value` lines follow at once, and go on in lines that begin
with `#` and two or more spaces; the rest is code. What stands above the first entry is the file's own
introduction.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path

from autograder.errors import ReleaseError
from autograder.spec import Misconception

_ENTRY = re.compile(r"#\s?%%(?P<name>.*)$")
_KEY = re.compile(r"# (?P<key>[a-z][a-z ]*):(?P<value>.*)$")
_MORE = re.compile(r"#\s{2,}(?P<value>\S.*)$")
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*$")


@dataclass(frozen=True)
class Style:
    """A right answer written differently: code by the solution cell that it replaces."""

    name: str
    note: str
    codes: dict[str, str]


@dataclass
class _Entry:
    name: str
    line: int  # in the file, counted from 1
    fields: dict[str, str] = field(default_factory=dict)
    code: list[str] = field(default_factory=list)
    code_line: int = 0


def read_misconceptions(path: Path) -> tuple[Misconception, ...]:
    """The named wrong answers in a file, in its order. Raises `ReleaseError` naming file and line."""
    found: dict[str, Misconception] = {}
    for entry in _entries(path, required=("belief", "advice", "replaces", "caught by")):
        if entry.name in found:
            raise ReleaseError(f"{path}:{entry.line}: the misconception {entry.name!r} is there twice.")
        found[entry.name] = Misconception(
            name=entry.name,
            belief=entry.fields["belief"],
            advice=entry.fields["advice"],
            replaces=entry.fields["replaces"],
            caught_by=entry.fields["caught by"],
            code=_code(path, entry),
        )
    return tuple(found.values())


def read_styles(path: Path) -> dict[str, Style]:
    """Right answers in other styles, by name. Entries of one name, each for another cell, are one style.

    Raises `ReleaseError` naming file and line.
    """
    styles: dict[str, Style] = {}
    for entry in _entries(path, required=("replaces",), optional=("note",)):
        style = styles.setdefault(entry.name, Style(entry.name, "", {}))
        replaces = entry.fields["replaces"]
        if replaces in style.codes:
            raise ReleaseError(
                f"{path}:{entry.line}: the style {entry.name!r} replaces {replaces!r} a second time."
            )
        note = " ".join(part for part in (style.note, entry.fields.get("note", "")) if part)
        styles[entry.name] = Style(entry.name, note, {**style.codes, replaces: _code(path, entry)})
    return styles


def _entries(path: Path, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> list[_Entry]:
    """The file's entries, each with all of `required` and nothing but these fields."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ReleaseError(f"{path} cannot be read: {error}.") from None
    entries: list[_Entry] = []
    introduction: list[str] = []
    for number, line in enumerate(lines, 1):
        if match := _ENTRY.match(line):
            name = match["name"].strip()
            if not _NAME.match(name):
                raise ReleaseError(
                    f"{path}:{number}: expected an entry's name in small letters, digits and hyphens,"
                    f" as in '# %% no-scale'; got {name!r}."
                )
            entries.append(_Entry(name, number))
        elif entries:
            _take_line(entries[-1], line, number, path)
        else:
            introduction.append(line)
    _check_introduction(path, introduction)
    for entry in entries:
        _check_fields(path, entry, required, optional)
    return entries


def _take_line(entry: _Entry, line: str, number: int, path: Path) -> None:
    """Add one line to an entry: a field, more of the last field, or code."""
    if not entry.code:
        if match := _KEY.match(line):
            key = match["key"]
            if key in entry.fields:
                raise ReleaseError(f"{path}:{number}: '# {key}:' is given twice for {entry.name!r}.")
            entry.fields[key] = match["value"].strip()
            return
        if entry.fields and (match := _MORE.match(line)):
            key = list(entry.fields)[-1]
            entry.fields[key] = f"{entry.fields[key]} {match['value'].strip()}".strip()
            return
        entry.code_line = number
    entry.code.append(line)


def _check_fields(path: Path, entry: _Entry, required: tuple[str, ...], optional: tuple[str, ...]) -> None:
    for key in required:
        if not entry.fields.get(key):
            raise ReleaseError(
                f"{path}:{entry.line}: the entry {entry.name!r} has no '# {key}: ...' line below its name"
                f" (it has {', '.join(entry.fields) or 'none'})."
            )
    for key in entry.fields:
        if key not in (*required, *optional):
            raise ReleaseError(
                f"{path}:{entry.line}: the entry {entry.name!r} has an unknown line '# {key}:';"
                f" known are {', '.join((*required, *optional))}."
            )


def _code(path: Path, entry: _Entry) -> str:
    """The entry's code, without the empty lines around it. It must parse and must not be empty."""
    if not _parse(path, "\n".join(entry.code), entry.code_line).body:
        raise ReleaseError(f"{path}:{entry.line}: the entry {entry.name!r} has no code.")
    return "\n".join(entry.code).strip("\n").rstrip()


def _check_introduction(path: Path, lines: list[str]) -> None:
    """Above the first entry stand a docstring and comments, nothing that would be lost."""
    for node in _parse(path, "\n".join(lines), 1).body:
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            raise ReleaseError(
                f"{path}:{node.lineno}: code above the first '# %% name' line belongs to no entry."
            )


def _parse(path: Path, code: str, first_line: int) -> ast.Module:
    try:
        return ast.parse(code)
    except SyntaxError as error:
        line = first_line + (error.lineno or 1) - 1
        raise ReleaseError(f"{path}:{line}: no valid Python: {error.msg}.") from None
