"""nbgrader's labels, ids and tags: gone, changed, forged."""

from __future__ import annotations

from typing import Any

from mangled.kind import Book, Kind, as_cells, as_json, each, find


def relabel(which: str, **values: Any):
    def change(cells: list[Book]) -> None:
        cells[find(cells, which)]["metadata"]["nbgrader"].update(values)

    return change


def every_label(**values: Any):
    return lambda cell: cell["metadata"].get("nbgrader", {}).update(values)


def all_gone(cell: Book) -> None:
    cell["metadata"] = {}
    cell.pop("id", None)


def numbered(cells: list[Book]) -> None:
    """Every label and every id is another one."""
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
        cell["metadata"]["nbgrader"]["grade_id"] = f"cell-{number}"


def all_alike(cells: list[Book]) -> None:
    for cell in cells:
        cell["id"] = "same"
        cell["metadata"]["nbgrader"]["grade_id"] = "halve"


def exchanged(cells: list[Book]) -> None:
    one, other = cells[find(cells, "halve")], cells[find(cells, "spread")]
    one["metadata"], other["metadata"] = other["metadata"], one["metadata"]
    one["id"], other["id"] = other["id"], one["id"]


def older_schema(cell: Book) -> None:
    """As nbgrader 0.4 wrote them."""
    label = cell["metadata"].get("nbgrader", {})
    label.pop("cell_type", None)
    label.pop("task", None)
    label["schema_version"] = 1


KINDS: list[Kind] = [
    each("no-metadata", lambda cell: cell.update(metadata={})),
    each("no-metadata-key", lambda cell: cell.pop("metadata")),
    each("no-ids", lambda cell: cell.pop("id", None)),
    each("no-metadata-and-no-ids", all_gone),
    each("metadata-is-null", lambda cell: cell.update(metadata=None)),
    each("label-is-text", lambda cell: cell["metadata"].update(nbgrader="halve")),
    as_cells("all-renamed", numbered),
    as_cells("all-labelled-alike", all_alike),
    as_cells("labels-exchanged", exchanged),
    as_cells("points-500", relabel("test-halve", points=500)),
    as_cells("points-abc", relabel("test-halve", points="abc")),
    as_cells("points-negative", relabel("test-spread", points=-1)),
    as_cells("grade-false", relabel("test-halve", grade=False)),
    as_cells("test-made-a-solution", relabel("test-spread", solution=True, grade=False)),
    as_cells("solution-made-a-test", relabel("halve", solution=False, grade=True, points=100, locked=True)),
    each("everything-locked", every_label(locked=True)),
    each("nothing-locked", every_label(locked=False)),
    each("everything-a-task", every_label(task=True)),
    each("schema-4", every_label(schema_version=4)),
    each("schema-1", older_schema),
    each("schema-an-object", every_label(schema_version={"a": [1]})),
    each("checksums-wrong", every_label(checksum="0" * 32)),
    each(
        "tags",
        lambda cell: cell["metadata"].update(tags=["skip-execution", "raises-exception", "remove-cell"]),
    ),
    each("tags-nonsense", lambda cell: cell["metadata"].update(tags={"a": 1}, editable="no", deletable=3)),
    each(
        "hidden-cells", lambda cell: cell["metadata"].update(jupyter={"source_hidden": True}, collapsed=True)
    ),
    as_json(
        "another-kernel", lambda book: book["metadata"].update(kernelspec={"name": "ir", "language": "R"})
    ),
    as_json("kernel-nonsense", lambda book: book["metadata"].update(kernelspec=["python"], language_info=7)),
    as_json("colab", lambda book: book["metadata"].update(colab={"provenance": []}, accelerator="GPU")),
]
