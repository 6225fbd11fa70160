"""The trusted end: start the zygote, get sandboxes from it, and ask them questions.

A sandbox is used until it dies: of a time-out, a signal, too much memory. Whoever holds it then gets
`SandboxDied`, takes a new sandbox and replays the cells that had worked.
"""

from __future__ import annotations

import copy
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from autograder.sandbox import wire
from autograder.sandbox.proxy import Remote, student_raised
from autograder.verdict import Outcome

START_SECONDS = 60.0
MAX_CALLBACKS = 20_000


class SandboxUnavailable(RuntimeError):
    """The sandbox cannot be made on this machine; nothing may be graded."""


class SandboxDied(BaseException):
    """A sandbox ended before it answered. No `Exception`, so that no test catches it by mistake."""

    def __init__(self, outcome: Outcome, message: str) -> None:
        super().__init__(message)
        self.outcome: Outcome = outcome
        self.message = message


@dataclass(frozen=True)
class Call:
    """One call of a student's function, as the test made it: for comparing with known wrong answers."""

    name: str
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    result: Any  # the value, or the exception
    after: tuple[tuple[Any, ...], dict[str, Any]]  # the arguments as the call left them


class Backend(Protocol):
    """What makes and ends sandbox processes."""

    name: str

    def spawn(self) -> Sandbox: ...

    def kill(self, job: int) -> None: ...

    def end_of(self, job: int) -> tuple[int, int]: ...

    def close(self) -> None: ...


class ZygoteBackend:
    """Sandboxes forked from a separately executed zygote (see `zygote`)."""

    name = "zygote"

    def __init__(self) -> None:
        if sys.platform != "linux":
            raise SandboxUnavailable(_why_not(f"this is {sys.platform}, not Linux"))
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-I", "-m", "autograder.sandbox.zygote", str(theirs.fileno())]
        kept = {
            name: os.environ[name] for name in ("OPENBLAS_CORETYPE", "LD_LIBRARY_PATH") if name in os.environ
        }
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], stdin=quiet, stdout=quiet, stderr=quiet, env=kept, cwd="/"
        )
        theirs.close()
        self.control = ours
        self.control.settimeout(START_SECONDS)
        self.ended: dict[int, tuple[int, int]] = {}
        self.jobs = 0
        message = self._message()
        if message != "ready":
            self.close()
            raise SandboxUnavailable(_why_not(message))

    def spawn(self) -> Sandbox:
        """A fresh sandbox, jailed and ready. Raises `SandboxUnavailable` when the jail does not shut."""
        self.jobs += 1
        ours, theirs = socket.socketpair()
        socket.send_fds(self.control, [f"spawn {self.jobs}".encode()], [theirs.fileno()])
        theirs.close()
        sandbox = Sandbox(self, self.jobs, wire.Channel(ours))
        sandbox.wait_until_ready()
        return sandbox

    def kill(self, job: int) -> None:
        self.control.send(f"kill {job}".encode())

    def end_of(self, job: int) -> tuple[int, int]:
        """Wait for a job's end; return its wait status and its peak memory in kilobytes."""
        while job not in self.ended:
            word, *rest = self._message().split(maxsplit=3)
            if word == "ended":
                self.ended[int(rest[0])] = int(rest[1]), int(rest[2])
        return self.ended.pop(job)

    def close(self) -> None:
        self.control.close()
        self.process.wait()

    def _message(self) -> str:
        try:
            data = self.control.recv(65_536)
        except (TimeoutError, OSError) as error:
            raise SandboxUnavailable(f"The sandbox's parent process does not answer ({error}).") from error
        if not data:
            raise SandboxUnavailable("The sandbox's parent process ended.")
        return data.decode()


def _why_not(message: str) -> str:
    lines = message.strip().splitlines()
    return (
        "No sandbox can be made on this machine, so nothing was graded. "
        f"The reason given was: {lines[-1] if lines else 'none'}. The grader needs Linux with namespaces and "
        "seccomp, as root or with user namespaces allowed to ordinary users."
    )


@dataclass
class Sandbox:
    """One process of student code. Values that it sends are checked; objects stay there as `Remote`s."""

    backend: Backend
    job: int
    channel: wire.Channel
    deadline: float | None = None  # on time.monotonic(), for every request until it is set anew
    log: list[Call] = field(default_factory=list)
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
            raise SandboxUnavailable(_why_not(str(header.get("jail", ""))))

    def run_cell(self, source: str) -> tuple[Outcome, list[dict[str, Any]]]:
        """Run a student cell in the sandbox's IPython; return what became of it and its outputs."""
        header, _ = self._request({"op": "exec", "source": source})
        outputs = header.get("outputs")
        if type(outputs) is not list or not all(type(output) is dict for output in outputs):
            raise self._broken()
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
        if not _plain([arguments, named]):
            return lambda result: None
        before = copy.deepcopy((arguments, named))

        def record(result: Any) -> None:
            after = copy.deepcopy((arguments, named))
            if isinstance(result, Exception):
                self.log.append(Call(name, *before, result, after))
            elif _plain(result):
                self.log.append(Call(name, *before, copy.deepcopy(result), after))

        return record

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self.channel.close()
        if self.dead is None:
            self.backend.kill(self.job)
            self.backend.end_of(self.job)
            self.dead = SandboxDied("RE", "the sandbox was closed")

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
            return self._died("OL", f"your code sent or printed too much: {str(raised.get('text'))[:200]}")
        bases = [base for base in raised["bases"] if type(base) is str]
        return student_raised(str(raised.get("class"))[:80], bases, str(raised.get("text"))[:2000])

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
                self._call_back(reply, blob)
        except wire.Late:
            self._kill()
            raise self._died("TO", "your code took too long and was stopped") from None
        except wire.Closed:
            raise self._ended() from None
        except wire.ProtocolError as error:
            raise self._broken() from error

    def _call_back(self, reply: dict[str, Any], blob: bytes) -> None:
        """Student code called a function that the test gave it."""
        self.callback_count += 1
        which, nodes = reply["callback"], reply.get("args")
        known = type(which) is int and 0 <= which < len(self.callbacks)
        if not known or type(nodes) is not list or self.callback_count > MAX_CALLBACKS:
            raise wire.ProtocolError("a callback that was not offered, or too many")
        decode = wire.Decoder(blob, lambda node: self._receive_handle(node, ""))
        arguments = [decode(node) for node in nodes]
        encode = wire.Encoder(self._send_handle)
        try:
            answer = {"value": encode(self.callbacks[which](*arguments))}
        except Exception as error:  # its text may hold what the test knows; its class may not
            answer = {"raised": type(error).__name__}
        self.channel.send(wire.pack({**answer, "id": self.number}, encode.blobs), self.deadline)

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
        return Remote(self, number, str(node.get("class"))[:80], name)

    def _kill(self) -> None:
        self.backend.kill(self.job)
        self.backend.end_of(self.job)

    def _broken(self) -> SandboxDied:
        self._kill()
        return self._died("RE", "your code disturbed its connection to the grader")

    def _ended(self) -> SandboxDied:
        status, _ = self.backend.end_of(self.job)
        if not os.WIFSIGNALED(status):
            return self._died("RE", "your code ended the whole Python process")
        number = os.WTERMSIG(status)
        if number == signal.SIGXCPU:
            return self._died("TO", "your code used up its processor time")
        if number == signal.SIGKILL:
            return self._died(
                "ML", "your code was ended by the system, most likely for using too much memory"
            )
        return self._died("SG", f"your code crashed the Python process ({signal.Signals(number).name})")

    def _died(self, outcome: Outcome, message: str) -> SandboxDied:
        self.dead = SandboxDied(outcome, message)
        self.channel.close()
        return self.dead


def _plain(value: Any) -> bool:
    """True for data that can be kept and compared: no object of the sandbox, no function."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(_plain(item) for item in value)
    if isinstance(value, dict):
        return all(_plain(item) for item in value.values())
    return value is None or isinstance(
        value, (bool, int, float, complex, str, bytes, slice, np.ndarray, np.generic)
    )


def _overwrite(original: Any, new: Any) -> None:
    """Make a changed argument here equal to its copy in the sandbox."""
    if type(original) is not type(new):
        raise wire.ProtocolError("a changed argument of another kind")
    if isinstance(original, np.ndarray):
        if original.shape != new.shape or original.dtype != new.dtype:
            raise wire.ProtocolError("a changed array of another shape")
        original[...] = new
    elif isinstance(original, list):
        original[:] = new
    elif isinstance(original, dict):
        original.clear()
        original.update(new)
    else:
        raise wire.ProtocolError("a changed argument that cannot change")
