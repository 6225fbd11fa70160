"""What a kind of mangling is, and how the modules name theirs."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Book = dict[str, Any]
Folder = dict[str, bytes] | Callable[[Path], None]
UNIT = "tiny"


@dataclass(frozen=True)
class Kind:
    name: str
    make: Callable[[Book], Folder]
    told: str = ""  # a pattern


def dump(book: Any, **options: Any) -> bytes:
    return json.dumps(book, **{"indent": 1, "ensure_ascii": False, **options}).encode(
        "utf-8", "surrogatepass"
    )


def as_bytes(name: str, change: Callable[[bytes], bytes], told: str = "") -> Kind:
    """The file's bytes were changed."""
    return Kind(name, lambda book: {f"{UNIT}.ipynb": change(dump(book))}, told)


def as_json(name: str, change: Callable[[Book], Any], told: str = "") -> Kind:
    """The notebook was changed: in place, or into what the function returns."""

    def make(book: Book) -> Folder:
        book = copy.deepcopy(book)
        changed = change(book)
        return {f"{UNIT}.ipynb": dump(book if changed is None else changed)}

    return Kind(name, make, told)


def as_cells(name: str, change: Callable[[list[Book]], Any], told: str = "") -> Kind:
    """The list of cells was changed: in place, or into the list that the function returns."""

    def on_book(book: Book) -> None:
        changed = change(book["cells"])
        if isinstance(changed, list):
            book["cells"] = changed

    return as_json(name, on_book, told)


def each(name: str, change: Callable[[Book], Any], told: str = "") -> Kind:
    """Every cell was changed, in place."""

    def on_cells(cells: list[Book]) -> None:
        for cell in cells:
            change(cell)

    return as_cells(name, on_cells, told)


def find(cells: list[Book], grade_id: str) -> int:
    return next(i for i, cell in enumerate(cells) if cell.get("id") == grade_id)


def code(source: str) -> Book:
    return {"cell_type": "code", "source": source, "metadata": {}, "outputs": [], "execution_count": None}


def text(source: str) -> Book:
    return {"cell_type": "markdown", "source": source, "metadata": {}}
