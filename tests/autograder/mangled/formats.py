"""The notebook format: older, newer, half of it missing, parts in another form."""

from __future__ import annotations

from typing import Any

from mangled.kind import Book, Kind, as_json, each


def version_3(book: Book) -> Book:
    """As IPython 2 wrote it: worksheets, `input` in place of `source`, no ids."""
    cells = []
    for cell in book["cells"]:
        old = {key: value for key, value in cell.items() if key not in ("id", "source", "execution_count")}
        if cell["cell_type"] == "code":
            old.update(input=cell["source"], prompt_number=3, language="python", outputs=[], collapsed=False)
        else:
            old["source"] = cell["source"]
        cells.append(old)
    return {"metadata": {"name": ""}, "nbformat": 3, "nbformat_minor": 0, "worksheets": [{"cells": cells}]}


def two_worksheets(book: Book) -> Book:
    old = version_3(book)
    cells = old["worksheets"][0]["cells"]
    return {**old, "worksheets": [{"cells": cells[:4]}, {"cells": cells[4:]}]}


def heading_cells(book: Book) -> Book:
    old = version_3(book)
    for cell in old["worksheets"][0]["cells"]:
        if cell["source" if "source" in cell else "input"].startswith("# "):
            cell.update(cell_type="heading", level=1, source=cell["source"][2:])
    return old


def setting(**values: Any):
    return lambda book: book.update(values)


def without(*keys: str):
    return lambda book: {key: value for key, value in book.items() if key not in keys}


def strange_cells(book: Book) -> None:
    for place, junk in enumerate([None, 3, "a cell", [], {}, {"cell_type": "code"}, {"source": None}]):
        book["cells"].insert(2 * place, junk)


def lines(end: str):
    def change(cell: Book) -> None:
        parts = cell["source"].split("\n")
        cell["source"] = [part + end for part in parts[:-1]] + parts[-1:]

    return change


KINDS: list[Kind] = [
    as_json("version-3", version_3),
    as_json("version-3-two-sheets", two_worksheets),
    as_json("version-3-headings", heading_cells),
    as_json("version-2", lambda book: {**version_3(book), "nbformat": 2}),
    as_json("version-5", setting(nbformat=5, nbformat_minor=0)),
    as_json("minor-version-99", setting(nbformat_minor=99)),
    as_json("version-as-text", setting(nbformat="4", nbformat_minor="five")),
    as_json("no-version", without("nbformat", "nbformat_minor")),
    as_json("nothing-but-cells", without("nbformat", "nbformat_minor", "metadata")),
    as_json("cells-by-number", lambda book: book.update(cells=dict(enumerate(book["cells"])))),
    as_json("no-cells", setting(cells=[]), "The notebook has no cells"),
    as_json("cells-null", setting(cells=None), "no list of cells"),
    as_json("metadata-null", setting(metadata=None)),
    as_json("metadata-a-list", setting(metadata=["kernelspec"])),
    as_json("strange-entries-among-the-cells", strange_cells),
    each("source-as-lines", lines("\n")),
    each("source-as-lines-without-ends", lines("")),
    each("windows-line-ends-in-cells", lambda cell: cell.update(source=cell["source"].replace("\n", "\r\n"))),
    each("old-mac-line-ends-in-cells", lambda cell: cell.update(source=cell["source"].replace("\n", "\r"))),
    each("type-in-capitals", lambda cell: cell.update(cell_type=cell["cell_type"].upper())),
    each("no-type", lambda cell: cell.pop("cell_type")),
    each("unknown-keys", lambda cell: cell.update(colour="red", author={"name": ["x"] * 9}, vscode={})),
    each("outputs-a-text", lambda cell: cell.update(outputs="lost", execution_count="many")),
    each("half-a-surrogate-pair", lambda cell: cell.update(source=cell["source"] + "\n# \ud83d")
         if cell["cell_type"] == "code" else None),
]  # fmt: skip
