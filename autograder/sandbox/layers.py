"""The layers of the fence around student code, each with what is in force or why it is missing.

A sandbox reports them when it is ready, which is before any student code has run in it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Layer:
    """One layer. Without an essential one there is no sandbox; the others make a hole in one harmless."""

    name: str
    holds: bool
    detail: str
    essential: bool = True

    def to_node(self) -> dict[str, Any]:
        return asdict(self)


def from_nodes(nodes: Any) -> tuple[Layer, ...]:
    """The layers of a ready frame."""
    return tuple(Layer(**node) for node in nodes or ())


def in_short(layers: tuple[Layer, ...]) -> str:
    """For one line of a terminal: what holds, then what is missing."""
    holding = ", ".join(layer.name for layer in layers if layer.holds)
    missing = ", ".join(layer.name for layer in layers if not layer.holds)
    return f"{holding}; missing: {missing}" if missing else holding
