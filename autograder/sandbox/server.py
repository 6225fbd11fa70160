"""The loop inside a sandbox: run student cells, and do one operation at a time on what they define.

Nothing here is trusted once a student cell has run: student code can change every object of this
process, this loop included. All that it can gain is to answer a question with a value of its choice.
"""

from __future__ import annotations

import operator
import socket
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autograder.sandbox import wire
from autograder.sandbox.layers import Layer
from autograder.sandbox.shell import OutputLimit, StudentShell, Tape

ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "neg", "pos", "abs")
LOGIC = ("and_", "or_", "xor", "invert")
OPERATIONS: dict[str, Callable[..., Any]] = {
    "getattr": getattr,
    "setattr": setattr,
    "getitem": operator.getitem,
    "setitem": operator.setitem,
    "len": len,
    "iter": iter,
    "next": next,
    **{name: getattr(operator, name) for name in ARITHMETIC + LOGIC},
}


class Server:
    """Answers the frames on one channel. Objects that cannot be sent are kept and numbered."""

    def __init__(self, channel: wire.Channel, shell: StudentShell) -> None:
        self.channel = channel
        self.shell = shell
        self.kept: list[Any] = []
        self.request = 0

    def serve(self) -> None:
        """Answer until the other end hangs up."""
        while True:
            try:
                header, blob = self.channel.receive()
            except wire.Closed:
                return
            self.request = header["id"]
            self.reply(*self.answer(header, blob))

    def answer(self, header: dict[str, Any], blob: bytes) -> tuple[dict[str, Any], list[bytes]]:
        if header["op"] == "exec":
            worked, error, outputs = self.shell.run(header["source"])
            return {"worked": worked, "error": error, "outputs": outputs}, []
        self.shell.tape = Tape()
        try:
            return self.operate(header, blob)
        except (OutputLimit, wire.TooLarge) as error:
            return {"limit": "output", "raised": describe(error)}, []
        except MemoryError as error:
            return {"limit": "memory", "raised": describe(error)}, []
        except BaseException as error:  # student code may raise anything, SystemExit included
            return {"raised": describe(error)}, []

    def operate(self, header: dict[str, Any], blob: bytes) -> tuple[dict[str, Any], list[bytes]]:
        decode = wire.Decoder(blob, self.resolve)
        if header["op"] == "get":
            return self.encoded(self.lookup(header["name"]), [])
        arguments = [decode(node) for node in header["args"]]
        if header["op"] != "call":
            return self.encoded(OPERATIONS[header["op"]](*arguments), [])
        named = {name: decode(node) for name, node in header["kwargs"].items()}
        function, *arguments = arguments
        passed = [*arguments, *named.values()]
        before = [snapshot(value) for value in passed]
        result = function(*arguments, **named)
        changed = [
            [place, value]
            for place, value in enumerate(passed)
            if before[place] is not None and snapshot(value) != before[place]
        ]
        return self.encoded(result, changed)

    def lookup(self, name: str) -> Any:
        if name not in self.shell.user_ns:
            raise NameError(
                f"name '{name}' is not defined: the cell that defines it is missing or raised an error"
            )
        return self.shell.user_ns[name]

    def encoded(self, result: Any, changed: list[Any]) -> tuple[dict[str, Any], list[bytes]]:
        encode = wire.Encoder(self.keep)
        value = encode(result)
        return {"value": value, "changed": [[place, encode(item)] for place, item in changed]}, encode.blobs

    def keep(self, value: Any) -> dict[str, Any]:
        self.kept.append(value)
        return {
            "t": "handle",
            "v": len(self.kept) - 1,
            "class": type(value).__name__[:80],
            "callable": callable(value),
        }

    def resolve(self, node: dict[str, Any]) -> Any:
        if node["t"] == "handle":
            return self.kept[node["v"]]
        if node["t"] == "callback":
            return self.callback(node["v"])
        raise wire.ProtocolError(f"an unknown kind of value: {node['t']}")

    def callback(self, number: int) -> Callable[..., Any]:
        """A function of the test, as student code sees it."""

        def call(*arguments: Any) -> Any:
            encode = wire.Encoder(self.keep)
            nodes = [encode(argument) for argument in arguments]
            self.channel.send(
                wire.pack({"id": self.request, "callback": number, "args": nodes}, encode.blobs)
            )
            header, blob = self.after_callback()
            if "raised" in header:
                raise RuntimeError(header["raised"])
            return wire.Decoder(blob, self.resolve)(header["value"])

        return call

    def after_callback(self) -> tuple[dict[str, Any], bytes]:
        """What the test's function answered. Before it did, it may have asked things itself."""
        outer = self.request
        while True:
            header, blob = self.channel.receive()
            if "op" not in header:
                return header, blob
            self.request = header["id"]
            self.reply(*self.answer(header, blob))
            self.request = outer

    def reply(self, header: dict[str, Any], blobs: list[bytes]) -> None:
        header["id"] = self.request
        try:
            frame = wire.pack(header, blobs)
        except wire.TooLarge as error:
            frame = wire.pack({"id": self.request, "limit": "output", "raised": describe(error)}, [])
        self.channel.send(frame)


def snapshot(value: Any) -> Any:
    """A comparable picture of an argument that a call could change; None for all others."""
    if type(value) is np.ndarray:
        return value.dtype.str, value.shape, value.tobytes()
    if type(value) in (list, dict):
        encode = wire.Encoder(lambda item: {"t": "object", "v": id(item)})
        return encode(value), tuple(encode.blobs)
    return None


def describe(error: BaseException) -> dict[str, Any]:
    """An exception as plain data: its class, the built-in classes it derives from, its text."""
    try:
        text = str(error)[:2000]
    except Exception:  # its __str__ is student code
        text = ""
    kind = type(error)
    bases = [base.__name__ for base in kind.__mro__ if base.__module__ == "builtins"]
    return {"class": kind.__name__[:80], "bases": bases, "text": text}


def serve_job(sock: socket.socket, shell: StudentShell, layers: Sequence[Layer]) -> None:
    """The whole life of one sandbox process, after the jail is shut; `layers` say what holds."""
    server = Server(wire.Channel(sock), shell)
    server.reply({"ready": True, "layers": [layer.to_node() for layer in layers]}, [])
    server.serve()
