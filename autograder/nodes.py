"""nbformat's tree of a notebook, with types: `from_dict` promises less than it returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from nbformat import NotebookNode, from_dict


def node(data: Mapping[str, Any]) -> NotebookNode:
    """A notebook, a cell or an output as nbformat has it, from plain dictionaries and lists."""
    return cast(NotebookNode, from_dict(data))


def nodes(data: Iterable[Mapping[str, Any]]) -> list[NotebookNode]:
    """Several of them."""
    return [node(one) for one in data]
