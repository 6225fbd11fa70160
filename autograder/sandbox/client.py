"""The trusted end: ask a sandbox questions, and believe nothing of what it says but its values.

A sandbox is used until it dies: of a time-out, a signal, too much memory. Whoever holds it then gets
`SandboxDied`, takes a new sandbox and replays the cells that had worked. Sandboxes come from `backends`.
"""

from __future__ import annotations

import copy
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from autograder.sandbox import wire
from autograder.sandbox.environment import Limits
from autograder.sandbox.layers import Layer, from_nodes
from autograder.sandbox.outputs import checked
from autograder.sandbox.proxy import Remote, student_raised
from autograder.verdict import Outcome

START_SECONDS = 60.0
MAX_CALLBACKS = 20_000
MAX_LOG = 16 << 20  # bytes of arguments and results on record; the tests' own are a small part of it


class SandboxUnavailable(RuntimeError):
    """The sandbox cannot be made on this machine; nothing may be graded."""


class BackendLost(BaseException):
    """What makes the sandboxes is gone: a fault of the grader's, never a submission's. No `Exception`,
    so that no test takes it for a wrong answer.
    """


class SandboxDied(BaseException):
    """A sandbox ended before it answered. No `Exception`, so that no test catches it by mistake."""

    def __init__(self, outcome: Outcome, message: str, unexplained: bool = False) -> None:
        super().__init__(message)
        self.outcome: Outcome = outcome
        self.message = message
        self.unexplained = unexplained  # killed, and no limit of the job's says why: perhaps from outside


@dataclass(frozen=True)
class Call:
    """One call of a student's function, as the test made it: for comparing with known wrong answers."""

    name: str
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    result: Any  # the value, or the exception
    after: tuple[tuple[Any, ...], dict[str, Any]]  # the arguments as the call left them


@dataclass(frozen=True)
class Ending:
    """How a sandbox process ended."""

    status: int  # as from os.wait
    kilobytes: int = 0  # of memory, at its peak
    cpu_seconds: float = 0.0
    out_of_memory: bool = False  # the kernel ended it, and says so


class Backend(Protocol):
    """What makes and ends sandbox processes."""

    name: str
    limits: Limits
    layers: tuple[Layer, ...]  # what held in its first sandbox

    def spawn(self) -> Sandbox: ...

    def kill(self, job: int) -> None:
        """Have a job killed, if it is still there. Never raises."""
        ...

    def end_of(self, job: int) -> Ending:
        """Wait for a job's end. Raises `BackendLost`."""
        ...

    def close(self) -> None: ...


@dataclass
class Sandbox:
    """One process of student code. Values that it sends are checked; objects stay there as `Remote`s."""

    backend: Backend
    job: int
    channel: wire.Channel
    deadline: float | None = None  # on time.monotonic(), for every request until it is set anew
    layers: tuple[Layer, ...] = ()  # what held when it was ready
    log: list[Call] = field(default_factory=list)
    logged: int = 0
    callbacks: list[Callable[..., Any]] = field(default_factory=list)
    callback_count: int = 0
    number: int = 0
    dead: SandboxDied | None = None

    def wait_until_ready(self) -> None:
        """Wait until the jail is shut. Only before this is the other end to be believed about the jail."""
        try:
            header, _ = self.channel.receive(time.monotonic() + START_SECONDS)
        except (wire.Late, wire.Closed) as error:
            raise SandboxUnavailable("A sandbox process ended before it was ready.") from error
        if "ready" not in header:
            raise SandboxUnavailable(last_line(str(header.get("jail", ""))))
        self.layers = from_nodes(header.get("layers"))
        for layer in self.layers:
            if layer.essential and not layer.holds:
                raise SandboxUnavailable(f"{layer.name}: {layer.detail}")

    def run_cell(self, source: str) -> tuple[Outcome, list[dict[str, Any]]]:
        """Run a student cell in the sandbox's IPython; return what became of it and its outputs."""
        header, _ = self._request({"op": "exec", "source": source})
        try:
            outputs = checked(header.get("outputs"))
        except wire.ProtocolError as error:
            raise self._broken() from error
        if header.get("worked") is True:
            return "OK", outputs
        outcomes: dict[str, Outcome] = {"MemoryError": "ML", "OutputLimit": "OL"}
        return outcomes.get(str(header.get("error")), "RE"), outputs

    def get(self, name: str) -> Any:
        """The value of a name that student cells defined; raises the sandbox's NameError."""
        return self._value({"op": "get", "name": name}, [], name=name)

    def operate(self, operation: str, *arguments: Any) -> Any:
        encode = wire.Encoder(self._send_handle)
        nodes = [encode(argument) for argument in arguments]
        return self._value({"op": operation, "args": nodes}, encode.blobs)

    def call(self, function: Remote, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call a student's function; arrays, lists and dicts that it changed are changed here too."""
        encode = wire.Encoder(self._send_handle)
        nodes = [encode(argument) for argument in (function, *arguments)]
        header = {"op": "call", "args": nodes, "kwargs": {key: encode(value) for key, value in named.items()}}
        record = self._recorder(function._name, arguments, named)
        try:
            result = self._value(header, encode.blobs, passed=[*arguments, *named.values()])
        except Exception as error:
            record(error)
            raise
        record(result)
        return result

    def _recorder(
        self, name: str, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Callable[[Any], None]:
        """What puts a call into the log: with the arguments as they are now, and as they will be then."""
        size = _size([arguments, named])
        if size is None or self.logged + 2 * size > MAX_LOG:
            return lambda result: None
        before = copy.deepcopy((arguments, named))

        def record(result: Any) -> None:
            size = 0 if isinstance(result, Exception) else _size(result)
            after = _size([arguments, named])
            if size is None or after is None or self.logged + size + 2 * after > MAX_LOG:
                return
            self.logged += size + 2 * after
            kept = result if isinstance(result, Exception) else copy.deepcopy(result)
            self.log.append(Call(name, *before, kept, copy.deepcopy((arguments, named))))

        return record

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self.channel.close()
        if self.dead is None:
            self.dead = SandboxDied("RE", "the sandbox was closed")
            self._kill()

    def _value(
        self, header: dict[str, Any], blobs: list[bytes], passed: list[Any] | None = None, name: str = ""
    ) -> Any:
        reply, blob = self._request(header, blobs)
        if "raised" in reply:
            raise self._raised(reply)
        decode = wire.Decoder(blob, lambda node: self._receive_handle(node, name))
        try:
            value = decode(reply.get("value"))
            self._copy_back(passed or [], reply.get("changed"), decode)
        except wire.ProtocolError as error:
            raise self._broken() from error
        return value

    def _raised(self, reply: dict[str, Any]) -> BaseException:
        raised = reply["raised"]
        if type(raised) is not dict or type(raised.get("bases")) is not list:
            return self._broken()
        if reply.get("limit") in ("memory", "output"):
            self._kill()
            if reply["limit"] == "memory":
                return self._died("ML", "your code needed more memory than it is given")
            return self._died("OL", f"your code sent or printed too much: {_text(raised.get('text'), 200)}")
        bases = [base for base in raised["bases"] if type(base) is str]
        return student_raised(_text(raised.get("class"), 80), bases, _text(raised.get("text"), 2000))

    def _copy_back(self, passed: list[Any], changed: Any, decode: wire.Decoder) -> None:
        if type(changed) is not list:
            raise wire.ProtocolError("no list of changed arguments")
        for item in changed:
            if (
                type(item) is not list
                or len(item) != 2
                or type(item[0]) is not int
                or not 0 <= item[0] < len(passed)
            ):
                raise wire.ProtocolError("a changed argument that was not passed")
            _overwrite(passed[item[0]], decode(item[1]))

    def _request(
        self, header: dict[str, Any], blobs: list[bytes] | None = None
    ) -> tuple[dict[str, Any], bytes]:
        if self.dead is not None:
            raise self.dead
        self.number += 1
        number = self.number
        try:
            self.channel.send(wire.pack({**header, "id": number}, blobs or []), self.deadline)
            while True:
                reply, blob = self.channel.receive(self.deadline)
                if reply.get("id") != number:
                    raise wire.ProtocolError("an answer to another question")
                if "callback" not in reply:
                    return reply, blob
                self._call_back(reply, blob, number)
        except wire.Late:
            self._kill()
            raise self._died("TO", "your code took too long and was stopped") from None
        except wire.Closed:
            raise self._ended() from None
        except wire.ProtocolError as error:
            raise self._broken() from error

    def _call_back(self, reply: dict[str, Any], blob: bytes, number: int) -> None:
        """Student code called a function that the test gave it; that may ask the sandbox things, too."""
        self.callback_count += 1
        which, nodes = reply["callback"], reply.get("args")
        known = type(which) is int and 0 <= which < len(self.callbacks)
        if not known or type(nodes) is not list or self.callback_count > MAX_CALLBACKS:
            raise wire.ProtocolError("a callback that was not offered, or too many")
        decode = wire.Decoder(blob, lambda node: self._receive_handle(node, ""))
        arguments = [decode(node) for node in nodes]
        encode = wire.Encoder(self._send_handle)
        try:
            answer = {"value": encode(self.callbacks[which](*arguments)), "id": number}
            frame = wire.pack(answer, encode.blobs)
        except Exception as error:  # its text may hold what the test knows; its class may not
            frame = wire.pack({"raised": type(error).__name__, "id": number}, [])
        self.channel.send(frame, self.deadline)

    def _send_handle(self, value: Any) -> dict[str, Any]:
        if isinstance(value, Remote):
            if value._link is not self:
                raise TypeError("an object of a sandbox that has ended was used again")
            return {"t": "handle", "v": value._number}
        if callable(value):
            self.callbacks.append(value)
            return {"t": "callback", "v": len(self.callbacks) - 1}
        raise TypeError(f"a test cannot send an object of class {type(value).__name__} to student code")

    def _receive_handle(self, node: dict[str, Any], name: str) -> Remote:
        number = node.get("v")
        if node.get("t") != "handle" or type(number) is not int:
            raise wire.ProtocolError("an unknown kind of value")
        return Remote(self, number, _text(node.get("class"), 80), name)

    def _kill(self) -> None:
        self.backend.kill(self.job)
        self.backend.end_of(self.job)

    def _broken(self) -> SandboxDied:
        self._kill()
        return self._died("RE", "your code disturbed its connection to the grader")

    def _ended(self) -> SandboxDied:
        self.backend.kill(self.job)  # it may have closed the connection and live on
        end = self.backend.end_of(self.job)
        large = end.kilobytes > self.backend.limits.memory_mb << 9  # half of what it may have
        if end.out_of_memory:
            # A small one may have been chosen for the machine's want of memory, not for its own.
            return self._died("ML", "your code was ended by the system for using too much memory", not large)
        if end.cpu_seconds >= self.backend.limits.cpu_seconds - 1:
            return self._died("TO", "your code used up its processor time")
        if not os.WIFSIGNALED(end.status):
            return self._died("RE", "your code ended the whole Python process")
        number = os.WTERMSIG(end.status)
        if number == signal.SIGKILL and large:
            return self._died("ML", "your code was ended by the system, most likely for its memory")
        if number == signal.SIGKILL:
            return self._died("RE", "your code ended its process or its connection to the grader", True)
        return self._died("SG", f"your code crashed the Python process ({_signal_name(number)})")

    def _died(self, outcome: Outcome, message: str, unexplained: bool = False) -> SandboxDied:
        self.dead = SandboxDied(outcome, message, unexplained)
        self.channel.close()
        return self.dead


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no reason was given"


def _signal_name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def _text(value: Any, length: int) -> str:
    """A text of the sandbox's, fit for a report."""
    return wire.clean(value[:length]) if type(value) is str else ""


def _size(value: Any) -> int | None:
    """About how many bytes data that can be kept and compared takes; None for objects and functions."""
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, (list, tuple, set, frozenset)):
        sizes = [_size(item) for item in value]
        return None if None in sizes else 8 * len(sizes) + sum(size for size in sizes if size is not None)
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, (str, bytes)):
        return len(value)
    known = value is None or isinstance(value, (bool, int, float, complex, slice, np.generic))
    return 32 if known else None


def _overwrite(original: Any, new: Any) -> None:
    """Make a changed argument here equal to its copy in the sandbox."""
    if type(original) is not type(new):
        raise wire.ProtocolError("a changed argument of another kind")
    if isinstance(original, np.ndarray):
        fits = original.shape == new.shape and original.dtype == new.dtype
        if not fits or not original.flags.writeable:
            raise wire.ProtocolError("a changed array of another shape, or one that cannot change")
        original[...] = new
    elif isinstance(original, list):
        original[:] = new
    elif isinstance(original, dict):
        original.clear()
        for (
            key,
            value,
        ) in new.items():  # not update, which would compare colliding keys where no alarm is heard
            original[key] = value
    else:
        raise wire.ProtocolError("a changed argument that cannot change")
