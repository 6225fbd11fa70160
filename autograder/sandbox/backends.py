"""Where sandboxes come from: the back-ends, and the choice of one that holds on this machine."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict

from autograder.sandbox import probes, wire
from autograder.sandbox.client import (
    START_SECONDS,
    Backend,
    BackendLost,
    Ending,
    Sandbox,
    SandboxUnavailable,
    last_line,
)
from autograder.sandbox.environment import CHOICES, Limits, kept_variables
from autograder.sandbox.layers import Layer
from autograder.sandbox.processes import BwrapBackend, UnsafeBackend


class ZygoteBackend:
    """Sandboxes forked from a separately executed zygote (see `zygote`)."""

    name = "zygote"

    def __init__(self, limits: Limits | None = None) -> None:
        if sys.platform != "linux":
            raise SandboxUnavailable(f"this is {sys.platform}, not Linux")
        self.limits = limits or Limits()
        self.layers: tuple[Layer, ...] = ()
        self.jobs = 0
        self._start()

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-I", "-m", "autograder.sandbox.zygote"]
        command += [str(theirs.fileno()), json.dumps(asdict(self.limits))]
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            stdin=quiet,
            stdout=quiet,
            stderr=quiet,
            env=kept_variables(),
            cwd="/",
        )
        theirs.close()
        self.control = ours
        self.control.settimeout(START_SECONDS)
        self.ended: dict[int, Ending] = {}
        self.first_job = self.jobs + 1  # those before went down with an earlier zygote
        try:
            message = self._message()
        except BackendLost as error:
            self.close()
            raise SandboxUnavailable(str(error)) from error
        if message != "ready":
            self.close()
            raise SandboxUnavailable(last_line(message))

    def spawn(self) -> Sandbox:
        """A fresh sandbox, jailed and ready. Raises `SandboxUnavailable` when the jail does not shut.

        A zygote that was lost is started again: what it had forked is gone, and was told so.
        """
        if self.process.poll() is not None:
            self.close()
            self._start()
        self.jobs += 1
        ours, theirs = socket.socketpair()
        try:
            socket.send_fds(self.control, [f"spawn {self.jobs}".encode()], [theirs.fileno()])
        except OSError as error:
            ours.close()
            raise BackendLost("The sandboxes' parent process ended.") from error
        finally:
            theirs.close()
        sandbox = Sandbox(self, self.jobs, wire.Channel(ours))
        sandbox.wait_until_ready()
        return sandbox

    def kill(self, job: int) -> None:
        with contextlib.suppress(OSError):
            self.control.send(f"kill {job}".encode())

    def end_of(self, job: int) -> Ending:
        if job < self.first_job:
            raise BackendLost("The sandboxes' parent process ended.")
        while job not in self.ended:
            word, *rest = self._message().split()
            if word == "ended":
                self.ended[int(rest[0])] = Ending(int(rest[1]), int(rest[2]), float(rest[3]), rest[4] == "1")
        return self.ended.pop(job)

    def close(self) -> None:
        """End the zygote, which ends its jobs. One that does not answer is killed."""
        self.control.close()
        try:
            self.process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _message(self) -> str:
        try:
            data = self.control.recv(65_536)
        except OSError as error:
            self.process.kill()
            raise BackendLost(f"The sandboxes' parent process does not answer ({error}).") from error
        if not data:
            raise BackendLost("The sandboxes' parent process ended.")
        return data.decode()


def start(name: str, limits: Limits | None = None) -> Backend:
    """The back-end of this name, untried. Raises `SandboxUnavailable`."""
    kinds: dict[str, Callable[[Limits | None], Backend]] = {
        kind.name: kind for kind in (ZygoteBackend, BwrapBackend, UnsafeBackend)
    }
    if name not in kinds:
        raise SandboxUnavailable(f"there is none of this name; expected one of {', '.join(CHOICES)}")
    return kinds[name](limits)


def choose(name: str = "auto", limits: Limits | None = None) -> Backend:
    """A back-end that was asked for, or the first that holds here: `zygote`, then `bwrap`.

    "Holds" means that a sandbox started, all its essential layers were in force, and none of the things
    that student code must not do worked in it. Raises `SandboxUnavailable` with each one's reason.
    """
    if name == "none":
        return start(name, limits)
    reasons = []
    for kind in ("zygote", "bwrap") if name == "auto" else (name,):
        try:
            return _tried(start(kind, limits))
        except SandboxUnavailable as error:
            reasons.append(f"{kind}: {error}")
    raise SandboxUnavailable(
        "No sandbox holds on this machine, so nothing was graded. "
        f"{'; '.join(reasons)}. The grader needs Linux with namespaces and seccomp, as root or with user "
        "namespaces allowed to ordinary users; elsewhere, grade in a Linux virtual machine. "
        "--unsafe grades without a sandbox: only what you would run yourself."
    )


def _tried(backend: Backend) -> Backend:
    """The back-end, once a sandbox of it has refused everything it should."""
    try:
        sandbox = backend.spawn()
        backend.layers = sandbox.layers
        leaks = probes.leaks(sandbox)
        sandbox.close()
    except SandboxUnavailable:
        backend.close()
        raise
    if leaks:
        backend.close()
        raise SandboxUnavailable(f"student code can {', '.join(leaks)}")
    return backend
