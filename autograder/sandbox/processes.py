"""Back-ends that start one program for each sandbox: bubblewrap's, and none at all.

Slower than the zygote, since each program loads Python and the libraries anew. The next one is
therefore started while the last is in use.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autograder.sandbox import wire
from autograder.sandbox.client import START_SECONDS, Ending, Sandbox, SandboxUnavailable
from autograder.sandbox.environment import Limits, environment, package_folder
from autograder.sandbox.layers import Layer

PROGRAM = ("-I", "-m", "autograder.sandbox.inside")
INFO_BYTES = 4096
NO_LAYER = Layer("sandbox", False, "none: this code can do whatever you can", essential=False)


@dataclass
class Started:
    """A program that loads, or has loaded, what a sandbox needs, and waits for the word to go."""

    job: int
    process: subprocess.Popen[bytes]
    channel: wire.Channel
    info: dict[str, Any]  # what bubblewrap tells of the process inside
    errors: Any
    floor: int  # kilobytes: a program's peak of memory counts that of the process which started it


class ProcessBackend:
    """What both have in common. A subclass says how the program is started and what holds around it."""

    name = ""
    program = b""  # the seccomp filter
    tells = False  # whether the program writes about the process inside, and then closes the file

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.layers: tuple[Layer, ...] = ()
        self.jobs = 0
        self.running: dict[int, Started] = {}
        self.spare: Started | None = self._start()

    def spawn(self) -> Sandbox:
        """A fresh sandbox, shut and ready. Raises `SandboxUnavailable` when it cannot be made."""
        started = self.spare or self._start()
        self.spare = None
        self.running[started.job] = started
        sandbox = Sandbox(self, started.job, started.channel)
        try:
            self._loaded(started)
            order = wire.pack(self._order(started), [self.program])
            started.channel.send(order, time.monotonic() + START_SECONDS)
            sandbox.wait_until_ready()
        except (SandboxUnavailable, wire.Late, wire.Closed, OSError) as error:
            self.kill(started.job)
            self.end_of(started.job)
            why = f"{error}".rstrip(".") or type(error).__name__
            raise SandboxUnavailable(f"{why} ({_last_words(started)})") from error
        self.spare = self._start()
        return sandbox

    def kill(self, job: int) -> None:
        started = self.running.get(job)
        if started is not None and started.process.returncode is None:
            # The process inside first: what started it then tells how it ended.
            for pid in (started.info.get("child-pid"), None if started.info else started.process.pid):
                if pid is not None:
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)

    def end_of(self, job: int) -> Ending:
        started = self.running.pop(job)
        _, status, usage = os.wait4(started.process.pid, 0)
        started.process.returncode = os.waitstatus_to_exitcode(status)
        code = started.process.returncode
        if code > 128:  # as a shell, bubblewrap tells a signal by its exit code
            status = code - 128
        peak = usage.ru_maxrss if usage.ru_maxrss > started.floor else 0
        return Ending(status, peak, usage.ru_utime + usage.ru_stime, self._ran_out(job))

    def close(self) -> None:
        """End every program, the spare one too."""
        if self.spare is not None:
            self.running[self.spare.job] = self.spare
            self.spare = None
        for job in list(self.running):
            self.running[job].channel.close()
            self.running[job].process.kill()
            self.end_of(job)

    def _command(self, fd: int, info: int) -> list[str]:
        raise NotImplementedError

    def _order(self, started: Started) -> dict[str, Any]:
        """The word to go: what the program cannot know from inside."""
        raise NotImplementedError

    def _environment(self) -> dict[str, str]:
        raise NotImplementedError

    def _ran_out(self, job: int) -> bool:
        return False

    def _start(self) -> Started:
        self.jobs += 1
        ours, theirs = socket.socketpair()
        told, tell = os.pipe()
        errors = tempfile.TemporaryFile()
        process = subprocess.Popen(
            self._command(theirs.fileno(), tell),
            pass_fds=[theirs.fileno(), *([tell] if self.tells else [])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=self._environment(),
            cwd="/",
        )
        theirs.close()
        os.close(tell)
        with os.fdopen(told, "rb") as file:
            info = file.read(INFO_BYTES)
        floor = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        heard = json.loads(info) if info else {}
        return Started(self.jobs, process, wire.Channel(ours), heard, errors, floor)

    def _loaded(self, started: Started) -> None:
        header, _ = started.channel.receive(time.monotonic() + START_SECONDS)
        if "loaded" not in header:
            raise SandboxUnavailable(str(header.get("jail", "")).strip().splitlines()[-1])


class BwrapBackend(ProcessBackend):
    """Sandboxes made by bubblewrap, for machines where an ordinary user may only make them through it."""

    name = "bwrap"
    tells = True

    def __init__(self, limits: Limits | None = None) -> None:
        if sys.platform != "linux":
            raise SandboxUnavailable(f"this is {sys.platform}, not Linux")
        self.bwrap = shutil.which("bwrap") or ""
        if not self.bwrap:
            raise SandboxUnavailable("bubblewrap (the program bwrap) is not installed")
        from autograder.sandbox import cgroup, jail, seccomp

        self.jail = jail
        self.program = seccomp.compile_filter()  # here, since it asks the system where libseccomp lies
        self.outside = jail.namespaces()
        packages = [package_folder(name) for name in ("minitx", "autograder.sandbox")]
        self.folders = jail.visible_folders(packages)
        self.scratch = jail.scratch_folder(self.folders)
        self.groups = cgroup.Groups(limits or Limits())
        super().__init__(limits)

    def _environment(self) -> dict[str, str]:
        # Without /proc the loader cannot find a library by where the interpreter lies.
        kept = environment(self.scratch)
        library = str(Path(sys.base_prefix) / "lib")
        return {**kept, "LD_LIBRARY_PATH": ":".join([library, *filter(None, [kept.get("LD_LIBRARY_PATH")])])}

    def _command(self, fd: int, info: int) -> list[str]:
        # As root, --unshare-all alone would keep every capability.
        shut = "--unshare-all --unshare-user --cap-drop ALL --disable-userns --die-with-parent --new-session"
        command = [self.bwrap, *shut.split(), "--as-pid-1", "--hostname", "sandbox", "--info-fd", str(info)]
        for folder in self.folders:
            if Path(folder).is_symlink():
                command += ["--symlink", os.readlink(folder), folder]
            else:
                command += ["--ro-bind", folder, folder]
        command += self._interpreter()
        command += ["--ro-bind", *[str(Path(package_folder("autograder"), "__init__.py"))] * 2]
        for device in self.jail.DEVICES:
            command += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
        command += ["--size", str(self.limits.file_mb << 20), "--perms", "1777", "--tmpfs", self.scratch]
        command += ["--chdir", self.scratch, "--remount-ro", "/"]
        return [*command, sys.executable, *PROGRAM, str(fd), "jail"]

    def _interpreter(self) -> list[str]:
        """The interpreter itself, and the file by which it knows its virtual environment."""
        real = os.path.realpath(sys.executable)
        shown = ["--ro-bind", real, real]
        if real != sys.executable:
            shown += ["--symlink", real, sys.executable]
        for folder in Path(sys.executable).parents[:2]:
            if (folder / "pyvenv.cfg").is_file():
                shown += ["--ro-bind", *[str(folder / "pyvenv.cfg")] * 2]
        return shown

    def _order(self, started: Started) -> dict[str, Any]:
        pid = int(started.info["child-pid"])
        self.groups.make(started.job)
        self.groups.join(started.job, pid)
        now = {
            name: f"{name}:[{number}]"
            for name in self.jail.NAMESPACES
            if (number := started.info.get(f"{name}-namespace")) is not None
        }
        layers = [
            self.jail.namespace_layer(self.outside, {**self.outside, **now, "user": "bubblewrap's own"}),
            Layer("cgroup", not self.groups.missing, self.groups.describe(), essential=False),
        ]
        return {
            "limits": asdict(self.limits),
            "mapped": self.jail.mapped_bytes(pid),
            "scratch": self.scratch,
            "layers": [layer.to_node() for layer in layers],
        }

    def _ran_out(self, job: int) -> bool:
        ran_out = self.groups.ran_out(job)
        self.groups.remove(job)
        return ran_out


class UnsafeBackend(ProcessBackend):
    """No fence at all: student code can do whatever the caller can. For one's own code, and by request."""

    name = "none"

    def __init__(self, limits: Limits | None = None) -> None:
        if os.name != "posix":
            raise SandboxUnavailable(
                "the test runner needs Linux or macOS; on Windows, grade in its Linux subsystem (WSL)"
            )
        self.home = tempfile.TemporaryDirectory(prefix="autograder-unsafe-")
        super().__init__(limits)
        self.layers = (NO_LAYER,)

    def _environment(self) -> dict[str, str]:
        return {**environment(self.home.name), "PATH": os.environ.get("PATH", os.defpath)}

    def _command(self, fd: int, info: int) -> list[str]:
        return [sys.executable, *PROGRAM, str(fd), "open"]

    def _order(self, started: Started) -> dict[str, Any]:
        return {"limits": asdict(self.limits), "layers": [NO_LAYER.to_node()]}

    def close(self) -> None:
        super().close()
        self.home.cleanup()


def _last_words(started: Started) -> str:
    started.errors.seek(0)
    lines = started.errors.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
