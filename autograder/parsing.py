"""From a file's bytes to a notebook's cells, whatever the bytes are.

Nothing in the result is taken on trust: each cell is built anew from its type, its text, its id and the
few plain values of its nbgrader metadata; saved output is dropped. `repair` makes a valid notebook of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from nbformat import NotebookNode

from autograder.decoding import Unreadable, decode, load, what_to_do
from autograder.nodes import node

MAX_CELLS = 2_000
MAX_SOURCE = 1024 * 1024  # characters of all cells together; a finished notebook has some 20,000

_CELL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}$")
_IMAGE = re.compile(r"image/(png|jpeg|gif|webp)$")


@dataclass(frozen=True)
class Parsed:
    """The notebook, or a problem that says why there is none. Notes and problem are for the student."""

    notebook: NotebookNode | None
    notes: list[str] = field(default_factory=list)
    problem: str = ""


def parse(data: bytes) -> Parsed:
    """The cells in a notebook file of any age and in almost any state. Never raises for bad bytes.

    The notebook holds code, markdown and raw cells with text, and an `id` where there was a usable one;
    all other metadata but `nbgrader` and `tags` is gone. Nothing in it has been validated.
    """
    notes: list[str] = []
    try:
        return Parsed(_notebook(load(decode(data, notes), notes), notes), notes)
    except Unreadable as problem:
        return Parsed(None, notes, str(problem))


def _notebook(document: Any, notes: list[str]) -> NotebookNode:
    """A notebook of plain cells out of any JSON value."""
    raw = _raw_cells(document, notes)
    if len(raw) > MAX_CELLS:
        raise Unreadable(f"The notebook has {len(raw)} cells; at most {MAX_CELLS} are read. {what_to_do()}")
    cells = [_cell(cell) for cell in raw if isinstance(cell, dict)]
    if dropped := len(raw) - len(cells):
        notes.append(f"{dropped} of the entries in the list of cells were no cells and were left out.")
    size = sum(len(cell["source"]) for cell in cells)
    if size > MAX_SOURCE:
        raise Unreadable(
            f"The cells hold {size:,} characters of text; at most {MAX_SOURCE:,} are read. Remove the cell"
            " that holds data, and hand the notebook in again."
        )
    metadata = _metadata(document, ("kernelspec",))
    return node({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


def _raw_cells(document: Any, notes: list[str]) -> list[Any]:
    """The list of cells, wherever this version of the format keeps it."""
    if not isinstance(document, dict):
        raise Unreadable(
            f"The file is JSON, but no notebook: expected an object with a list of cells, got"
            f" {_type_name(document)}. {what_to_do()}"
        )
    version = document.get("nbformat")
    if isinstance(version, int) and version != 4:
        age = "an older" if version < 4 else "a newer"
        notes.append(f"The notebook was saved in {age} format ({version:.0f}); it was read as format 4.")
    cells = document.get("cells")
    if isinstance(cells, dict):
        notes.append("The notebook's cells were no list; they were taken in the order they stand in.")
        return list(cells.values())
    if isinstance(cells, list):
        return cells
    sheets = document.get("worksheets")
    if isinstance(sheets, list):
        found = [sheet.get("cells") for sheet in sheets if isinstance(sheet, dict)]
        return [cell for sheet in found if isinstance(sheet, list) for cell in sheet]
    keys = ", ".join(repr(_text(key)[:30]) for key in list(document)[:6]) or "nothing"
    raise Unreadable(
        f"The file is JSON, but no notebook: it has no list of cells; it has {keys}. {what_to_do()}"
    )


def _cell(raw: dict[str, Any]) -> dict[str, Any]:
    """One cell of format 1 to 5, built anew."""
    kind = raw.get("cell_type")
    kind = kind.strip().casefold() if isinstance(kind, str) else ""
    source = next((raw[key] for key in ("source", "input", "code") if key in raw), "")
    text = _source(source)
    if kind == "heading":
        level = raw.get("level")
        level = min(max(level, 1), 6) if isinstance(level, int) else 1
        kind, text = "markdown", "#" * level + " " + " ".join(text.split("\n"))
    if kind not in ("code", "markdown", "raw"):
        is_code = not kind and any(
            key in raw for key in ("outputs", "execution_count", "input", "prompt_number")
        )
        kind = {"html": "markdown", "text": "markdown"}.get(kind, "code" if is_code else "raw")
    cell: dict[str, Any] = {"cell_type": kind, "metadata": _metadata(raw, ("nbgrader",)), "source": text}
    tags = raw.get("metadata", {}).get("tags") if isinstance(raw.get("metadata"), dict) else None
    if isinstance(tags, list) and tags:
        cell["metadata"]["tags"] = [_text(tag)[:100] for tag in tags[:20] if isinstance(tag, str)]
    if isinstance(raw.get("id"), str) and _CELL_ID.match(raw["id"]):
        cell["id"] = raw["id"]
    if kind == "code":
        cell.update(outputs=[], execution_count=None)
    elif attachments := _attachments(raw.get("attachments")):
        cell["attachments"] = attachments
    return cell


def _source(value: Any) -> str:
    """A cell's text out of whatever stands in its place."""
    if isinstance(value, list):
        lines = [line for line in value if isinstance(line, str)]
        ended = any(line.endswith("\n") for line in lines)
        value = ("" if ended else "\n").join(lines)  # some tools leave the ends of lines out
    elif isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    text = _text(value if isinstance(value, str) else "")
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")


def _metadata(holder: Any, keys: tuple[str, ...]) -> dict[str, Any]:
    """Of the metadata, these keys, and of their values the plain and short ones."""
    metadata = holder.get("metadata") if isinstance(holder, dict) else None
    kept: dict[str, Any] = {}
    for key in keys:
        values = metadata.get(key) if isinstance(metadata, dict) else None
        if isinstance(values, dict):
            plain = {_text(name)[:50]: value for name, value in list(values.items())[:20]}
            kept[key] = {
                name: _text(value)[:200] if isinstance(value, str) else value
                for name, value in plain.items()
                if isinstance(value, str | int | float | bool)
            }
    return kept


def _attachments(value: Any) -> dict[str, Any]:
    """Pictures in a text cell: of the kinds that hold no code."""
    kept = {}
    for name, bundle in value.items() if isinstance(value, dict) else ():
        pictures = {
            kind: data
            for kind, data in (bundle.items() if isinstance(bundle, dict) else ())
            if _IMAGE.match(kind) and isinstance(data, str) and re.fullmatch(r"[A-Za-z0-9+/=\s]*", data)
        }
        if pictures:
            kept[_text(name)[:200]] = pictures
    return kept


def _text(value: str) -> str:
    """Text that can be written as UTF-8: JSON allows half of a surrogate pair."""
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _type_name(value: Any) -> str:
    names = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
