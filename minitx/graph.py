"""The graph behind `backward`: what each operation keeps, and the walk back through it.

A tensor that an operation made holds a `Node`; a node holds its parents and nothing else that leads
back to it, so a graph that is dropped is gone at once, without the cyclic garbage collector.
"""

import itertools
import linecache
import os
import sys
import threading
import weakref
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from minitx.errors import GraphError
from minitx.ops.table import Op

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep

Place = tuple[str, int] | None


class _Mode(threading.local):
    recording = True


_mode = _Mode()


@contextmanager
def no_grad() -> Iterator[None]:
    """Inside, operations keep nothing for `backward`. Works as a context and as a decorator."""
    before, _mode.recording = _mode.recording, False
    try:
        yield
    finally:
        _mode.recording = before


def is_recording() -> bool:
    """Whether operations are being recorded for `backward` in this thread."""
    return _mode.recording


def calling_line() -> Place:
    """File and line of the innermost caller outside this package."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame else None


def describe_line(place: Place) -> str:
    """`file.py:12 (x = Tensor(a))`, for messages."""
    if place is None:
        return "an unknown line"
    text = linecache.getline(*place).strip()
    return f"{place[0]}:{place[1]}" + (f" ({text})" if text else "")


_changes = itertools.count(1)


class Storage:
    """The memory behind a tensor and all its views: where it was made, and whether it has changed.

    Only code that was handed the array itself can change it. While nobody was, a version number that
    the engine's own in-place updates raise tells everything at no cost. From the moment `Tensor.data`
    hands it out, a checksum of the whole memory stands beside the version, which sees a change through
    any view. (Read-only flags would leave open every view taken before they were set.)
    """

    __slots__ = (
        "changed_at",
        "checksum_when_handed_out",
        "guarded",
        "handed_out",
        "made_at",
        "root",
        "version",
    )
    latest = 0  # another number after each change of any memory: while it stays, nothing has changed

    def __init__(self, array: np.ndarray, made_at: Place):
        Storage.latest = next(_changes)
        self.root = root_of(array)
        self.made_at = made_at
        self.changed_at: Place = None
        self.version = 0
        self.handed_out = False
        self.guarded = False
        self.checksum_when_handed_out: int | None = None

    def hand_out(self) -> None:
        """Note that the caller is about to hold the array itself."""
        if self.guarded and not self.handed_out:
            self.checksum_when_handed_out = self.checksum()
        self.handed_out = True
        self.changed_at = calling_line()
        Storage.latest = next(_changes)

    def note_change(self) -> None:
        """Note an update in place by the engine itself (an optimiser)."""
        self.version += 1
        self.changed_at = calling_line()
        Storage.latest = next(_changes)

    def checksum(self) -> int:
        root = self.root
        if not root.flags.c_contiguous:
            root = root.T if root.flags.f_contiguous else np.ascontiguousarray(root)
        return zlib.crc32(root.reshape(-1).view(np.uint8).data)

    def state(self) -> tuple[int, int | None]:
        """What `has_changed_since` compares with: the version, and the checksum where it can differ."""
        self.guarded = True
        return self.version, self.checksum() if self.handed_out else None

    def has_changed_since(self, state: tuple[int, int | None]) -> bool:
        version, checksum = state
        if version != self.version or not self.handed_out:
            return version != self.version
        return self.checksum() != (self.checksum_when_handed_out if checksum is None else checksum)


def root_of(array: np.ndarray) -> np.ndarray:
    """The array that owns the memory of which `array` is a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


class Source(Protocol):
    """What the graph needs of a tensor: its memory, and, where the user made it, where its gradient goes."""

    _array: np.ndarray
    _storage: Storage
    _node: "Node | None"

    def accumulate(self, gradient: np.ndarray, fresh: bool) -> None: ...


class Node:
    """One operation that was carried out: its parents, and the values that its rules will need.

    A parent is the node of an input, or the input itself where the user made it, or None where no
    gradient is wanted.
    """

    __slots__ = ("__weakref__", "guards", "op", "parents", "specs", "values", "watcher")

    def __init__(
        self,
        op: Op,
        inputs: tuple[Any, ...],
        wanted: tuple[bool, ...],
        out: Source,
        extras: dict[str, Any],
    ):
        self.op = op
        self.parents: tuple[Node | Source | None, ...] = tuple(
            [(x._node or x) if want else None for x, want in zip(inputs, wanted, strict=True)]
        )
        self.specs = tuple(
            [
                (x._array.shape, x._array.dtype) if want else None
                for x, want in zip(inputs, wanted, strict=True)
            ]
        )
        self.watcher: weakref.ref[Source] | None = None
        self.guards: list[tuple[Storage, tuple[int, int | None]]] = []
        self.values: dict[str, Any] | None = {}
        for name, place in op.needs(wanted).items():
            if place is not None:
                self.values[name] = self._guarded(inputs[place])
            elif name == "out":
                self.values[name] = self._guarded(out)
            elif name == "shapes":
                self.values[name] = tuple([None if x is None else x._array.shape for x in inputs])
            elif name == "wanted":
                self.values[name] = wanted
            else:
                self.values[name] = extras[name]

    def _guarded(self, x: Source | None) -> np.ndarray | None:
        if x is None:
            return None
        self.guards.append((x._storage, x._storage.state()))
        return x._array

    def check(self) -> None:
        """Raises GraphError where the gradient could not be right."""
        if self.values is None:
            raise GraphError(
                f"backward() has already gone through the operation '{self.op.name}' and freed what it "
                "kept. A second backward() through the same graph would count its gradients twice. "
                "Run the forward pass again, or add the losses up and call backward() once on the sum."
            )
        for storage, state in self.guards:
            if storage.has_changed_since(state):
                changed = f" Its array was last taken at {describe_line(storage.changed_at)}."
                raise GraphError(
                    f"A tensor made at {describe_line(storage.made_at)} has been changed in place since the "
                    f"operation '{self.op.name}' kept it for its gradient, which would now be wrong."
                    f"{changed if storage.changed_at else ''} "
                    "Make a new tensor instead (y = x * 2, not x.data *= 2), or change it after backward()."
                )

    def pull_back(self, grad: np.ndarray) -> list[np.ndarray | None]:
        """The gradient of each parent, of that parent's shape and dtype."""
        values = {**(self.values or {}), "grad": grad}
        if self.op.joint:
            found = self.op.joint(values)
        else:
            rules = zip(self.op.rules, self.specs, strict=True)
            found = [rule(values) if rule and spec else None for rule, spec in rules]
        return [
            fit(gradient, *spec) if spec and gradient is not None else None
            for gradient, spec in zip(found, self.specs, strict=True)
        ]

    def free(self) -> None:
        self.values, self.parents, self.guards = None, (), []


def fit(gradient: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Sum a gradient over the axes along which its input was broadcast, in the input's dtype."""
    gradient = np.asarray(gradient)
    if gradient.shape != shape:
        extra = gradient.ndim - len(shape)
        stretched = [extra + i for i, size in enumerate(shape) if size == 1 != gradient.shape[extra + i]]
        gradient = gradient.sum(axis=(*range(extra), *stretched), keepdims=True).reshape(shape)
    return gradient.astype(dtype, copy=False)


def order_from(root: Node) -> list[Node]:
    """Every node once, parents before children. Iterative: a graph may be deeper than Python's stack."""
    order: list[Node] = []
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, parents_done = stack.pop()
        if parents_done:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((parent, False) for parent in node.parents if isinstance(parent, Node))
    return order


def run_backward(root: Node, gradient: np.ndarray) -> None:
    """Carry `gradient` from the root to every leaf, freeing each node behind."""
    order = order_from(root)
    for node in order:
        node.check()  # all before the first, so that a refusal leaves no half-made gradients
    gradients: dict[int, np.ndarray] = {id(root): gradient}
    owned: set[int] = set()  # nodes whose gradient is a sum made here, safe to add to in place
    while order:
        node = order.pop()
        grad = gradients.pop(id(node), None)
        if grad is not None:
            _visit(node, grad, gradients, owned)
        node.free()


def _visit(node: Node, grad: np.ndarray, gradients: dict[int, np.ndarray], owned: set[int]) -> None:
    watcher = node.watcher and node.watcher()
    if watcher is not None:
        watcher.accumulate(grad, fresh=False)
    contributions = node.pull_back(grad)
    others = [id(other) for other in (grad, *(node.values or {}).values(), *contributions)]
    for parent, found in zip(node.parents, contributions, strict=True):
        if parent is None or found is None:
            continue
        if not isinstance(parent, Node):
            # A leaf may keep the array itself only where nothing else holds it.
            alone = found.base is None and others.count(id(found)) == 1
            parent.accumulate(found, fresh=alone)
        elif id(parent) not in gradients:
            gradients[id(parent)] = found
        elif id(parent) in owned:
            gradients[id(parent)] += found
        else:
            gradients[id(parent)] = gradients[id(parent)] + found
            owned.add(id(parent))
