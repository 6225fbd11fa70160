"""The protocol between a test runner and a sandbox: framed JSON and raw array bytes.

A frame is two big-endian 32-bit lengths, a JSON header and a blob that holds the arrays' bytes one
after another. There is no pickle and no object array: a frame can carry plain data, numeric arrays
and numbered handles, so the worst a hostile peer can send is a wrong value. Everything that arrives
is checked before it is used, and a frame that does not fit raises `ProtocolError`.

Values: None, bool, int, float, str, bytes, complex, slice, Ellipsis, lists, tuples, dicts, sets,
NumPy arrays and scalars of kinds b, i, u, f, c. Exact types only: a subclass can lie about its
contents, so it is never unpacked. Anything else becomes a handle through the `handle` hook.
"""

from __future__ import annotations

import json
import math
import re
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

import numpy as np

LENGTHS = struct.Struct("!II")
MAX_HEADER = 16 << 20
MAX_BLOB = 64 << 20
MAX_DEPTH = 40
MAX_ITEMS = 1_000_000
MAX_SET = 10_000  # a set of colliding numbers takes time by the square, in C, where no alarm is heard
NUMERIC_KINDS = "biufc"
NUMERIC_DTYPE = re.compile(rf"[<>|][{NUMERIC_KINDS}]\d{{1,2}}")
NUMPY_SCALARS = {np.dtype(code).type for code in "?bhilqBHILQefdgFDG"}


class ProtocolError(Exception):
    """The peer sent something that is no frame, or no value."""


class TooLarge(ValueError):
    """A value that is too large or too deep to send."""


class Closed(Exception):
    """The peer is gone."""


class Late(Exception):
    """No whole frame arrived before the deadline."""


class Encoder:
    """Turns values into JSON and a blob. `handle(value)` returns the JSON node for an opaque object."""

    def __init__(self, handle: Callable[[Any], dict[str, Any]]) -> None:
        self.handle = handle
        self.blobs: list[bytes] = []
        self.size = 0
        self.items = 0

    def __call__(self, value: Any, depth: int = 0) -> Any:
        kind: Any = type(value)
        if value is None or kind in (bool, str, float):
            return value
        if kind is int:
            return value if -(2**63) <= value < 2**63 else {"t": "int", "v": self._big(value)}
        if kind in (list, tuple, set, frozenset, dict):
            return self._container(kind, value, depth)
        if kind is np.ndarray and value.dtype.kind in NUMERIC_KINDS:
            return self._array("array", value)
        if kind in NUMPY_SCALARS:
            return self._array("scalar", np.asarray(value))
        return self._rare(kind, value, depth)

    def _rare(self, kind: type, value: Any, depth: int) -> dict[str, Any]:
        if kind is bytes:
            return {"t": "bytes", "v": self._blob(value)}
        if kind is complex:
            return {"t": "complex", "v": [value.real, value.imag]}
        if kind is slice:
            return {
                "t": "slice",
                "v": [self(part, depth + 1) for part in (value.start, value.stop, value.step)],
            }
        if value is Ellipsis:
            return {"t": "ellipsis"}
        return self.handle(value)

    def _big(self, value: int) -> str:
        if value.bit_length() > 65_536:
            raise TooLarge("an integer of more than 65,536 bits")
        return hex(value)

    def _container(self, kind: type, value: Any, depth: int) -> dict[str, Any]:
        self.items += len(value)
        if depth >= MAX_DEPTH:
            raise TooLarge(f"a {kind.__name__} nested more than {MAX_DEPTH} deep")
        if self.items > MAX_ITEMS:
            raise TooLarge(f"more than {MAX_ITEMS:,} items; return an array instead")
        if kind in (set, frozenset) and len(value) > MAX_SET:
            raise TooLarge(f"a {kind.__name__} of more than {MAX_SET:,} items; return a list instead")
        if kind is dict:
            parts = [[self(key, depth + 1), self(item, depth + 1)] for key, item in value.items()]
        else:
            parts = [self(item, depth + 1) for item in value]
        return {"t": kind.__name__, "v": parts}

    def _array(self, tag: str, value: np.ndarray) -> dict[str, Any]:
        if value.nbytes + self.size > MAX_BLOB:
            raise TooLarge(f"{value.nbytes + self.size:,} bytes of arrays; at most {MAX_BLOB:,} are taken")
        return {"t": tag, "d": value.dtype.str, "s": list(value.shape), "v": self._blob(value.tobytes())}

    def _blob(self, data: bytes) -> list[int]:
        start = self.size
        self.size += len(data)
        if self.size > MAX_BLOB:
            raise TooLarge(f"{self.size:,} bytes; at most {MAX_BLOB:,} are taken")
        self.blobs.append(data)
        return [start, len(data)]


class Decoder:
    """Turns JSON and a blob back into values. `handle(node)` resolves the nodes that it is given."""

    def __init__(self, blob: bytes, handle: Callable[[dict[str, Any]], Any]) -> None:
        self.blob = blob
        self.handle = handle
        self.items = 0

    def __call__(self, node: Any, depth: int = 0) -> Any:
        if node is None or type(node) in (bool, int, float):
            return node
        if type(node) is str:
            return clean(node)
        if type(node) is not dict or depth > MAX_DEPTH + 2:
            raise ProtocolError("a value is neither plain data nor a tagged node")
        tag = node.get("t")
        if tag in ("array", "scalar"):
            array = self._array(node)
            if tag == "scalar" and array.shape != ():
                raise ProtocolError("a scalar has a shape")
            return array if tag == "array" else array[()]
        if tag in ("list", "tuple", "set", "frozenset", "dict", "slice"):
            return self._container(str(tag), node.get("v"), depth)
        return self._rare(node, tag)

    def _rare(self, node: dict[str, Any], tag: Any) -> Any:
        if tag == "bytes":
            return self._bytes(node)
        if tag == "ellipsis":
            return Ellipsis
        if tag in ("int", "complex"):
            return self._number(str(tag), node.get("v"))
        return self.handle(node)

    def _number(self, tag: str, value: Any) -> int | complex:
        if tag == "int" and type(value) is str and len(value) <= 20_000:
            try:
                return int(value, 16)
            except ValueError as error:
                raise ProtocolError("a long integer is not written in hexadecimal") from error
        if tag == "complex" and type(value) is list and len(value) == 2 and _all_numbers(value):
            return complex(*value)
        raise ProtocolError(f"a damaged {tag}")

    def _container(self, tag: str, parts: Any, depth: int) -> Any:
        if type(parts) is not list:
            raise ProtocolError(f"the items of a {tag} are not a list")
        self.items += len(parts)
        if self.items > MAX_ITEMS or (tag in ("set", "frozenset") and len(parts) > MAX_SET):
            raise ProtocolError(f"a {tag} of too many items")
        try:
            if tag == "dict":
                return {self(key, depth + 1): self(item, depth + 1) for key, item in parts}
            items = [self(item, depth + 1) for item in parts]
            if tag == "slice":
                start, stop, step = items
                return slice(start, stop, step)
            return {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[tag](items)
        except (TypeError, ValueError) as error:
            raise ProtocolError(f"a damaged {tag}: {error}") from error

    def _bytes(self, node: dict[str, Any]) -> bytes:
        span = node.get("v")
        if type(span) is not list or len(span) != 2 or not all(type(x) is int and x >= 0 for x in span):
            raise ProtocolError("a value does not say where its bytes lie")
        start, length = span
        if start + length > len(self.blob):
            raise ProtocolError("a value's bytes lie outside the frame")
        return self.blob[start : start + length]

    def _array(self, node: dict[str, Any]) -> np.ndarray:
        name, shape = node.get("d"), node.get("s")
        if type(name) is not str or not NUMERIC_DTYPE.fullmatch(name):
            raise ProtocolError("an array's dtype is not numeric")
        if type(shape) is not list or len(shape) > 32 or not all(type(x) is int and x >= 0 for x in shape):
            raise ProtocolError("an array's shape is not a list of sizes")
        try:
            dtype = np.dtype(name)
        except TypeError as error:
            raise ProtocolError("an array's dtype is unknown") from error
        data = self._bytes(node)
        if math.prod(shape) * dtype.itemsize != len(data):
            raise ProtocolError("an array's shape does not fit its bytes")
        try:
            return np.frombuffer(data, dtype).reshape(shape).copy()
        except ValueError as error:
            raise ProtocolError(f"a damaged array: {error}") from error


def clean(text: str) -> str:
    """The text with a mark in place of every half of a surrogate pair, which no file can hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _all_numbers(values: list[Any]) -> bool:
    return all(type(value) in (int, float) for value in values)


def pack(header: dict[str, Any], blobs: list[bytes]) -> bytes:
    """One frame as bytes. Raises `TooLarge` when the header is over the limit."""
    text = json.dumps(header, separators=(",", ":")).encode("utf-8", "surrogatepass")
    if len(text) > MAX_HEADER:
        raise TooLarge(f"{len(text):,} bytes of plain data; at most {MAX_HEADER:,} are taken")
    return b"".join([LENGTHS.pack(len(text), sum(map(len, blobs))), text, *blobs])


def unpack_header(text: bytes) -> dict[str, Any]:
    """The header of a frame. Raises `ProtocolError` for anything that is not a JSON object."""
    try:
        header = json.loads(text.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise ProtocolError("a frame's header is not JSON") from error
    if type(header) is not dict:
        raise ProtocolError("a frame's header is not a JSON object")
    return header


class Channel:
    """Frames over a stream socket, with a deadline on `time.monotonic()` for every read and write."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def send(self, frame: bytes, deadline: float | None = None) -> None:
        """Send a frame made by `pack`. Raises `Late` or `Closed`."""
        self._arm(deadline)
        try:
            self.sock.sendall(frame)
        except TimeoutError as error:
            raise Late from error
        except OSError as error:
            raise Closed from error

    def receive(self, deadline: float | None = None) -> tuple[dict[str, Any], bytes]:
        """The next frame's header and blob. Raises `Late`, `Closed` or `ProtocolError`."""
        header_size, blob_size = LENGTHS.unpack(self._exactly(LENGTHS.size, deadline))
        if header_size > MAX_HEADER or blob_size > MAX_BLOB:
            raise ProtocolError("a frame is larger than the limit")
        header = unpack_header(self._exactly(header_size, deadline))
        return header, self._exactly(blob_size, deadline)

    def close(self) -> None:
        self.sock.close()

    def _arm(self, deadline: float | None) -> None:
        if deadline is None:
            self.sock.settimeout(None)
            return
        left = deadline - time.monotonic()
        if left <= 0:
            raise Late
        self.sock.settimeout(left)

    def _exactly(self, size: int, deadline: float | None) -> bytes:
        data = bytearray()
        while len(data) < size:
            self._arm(deadline)
            try:
                part = self.sock.recv(min(size - len(data), 1 << 20))
            except TimeoutError as error:
                raise Late from error
            except OSError as error:
                raise Closed from error
            if not part:
                raise Closed
            data += part
        return bytes(data)
