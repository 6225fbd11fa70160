"""A program that has never seen a test: it loads the libraries once and forks a sandbox per job.

Run as `python -I -m autograder.sandbox.zygote FD`, FD being one end of a socket pair. The other end
sends `spawn N` together with the job's own socket, or `kill N`; the zygote answers `ready` or
`failed WHY` once, `spawned N`, and `ended N STATUS KILOBYTES` when a job is gone (its wait status and
peak memory). It must be a program of its own: a fork of the process that holds the tests would carry
them along in its memory, whatever the namespaces say.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import os
import selectors
import signal
import socket
import sys
import traceback
from typing import Any

from autograder.sandbox import jail

PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG = 36, 1
FIRST_UID, UIDS = 200_000, 50_000
HOMES = ("HOME", "TMPDIR", "IPYTHONDIR", "MPLCONFIGDIR")
KEPT_VARIABLES = ("OPENBLAS_CORETYPE", "LD_LIBRARY_PATH")  # how this machine finds and runs its libraries
PRELOADED = ("matplotlib.pyplot", "minitx.functional", "minitx.figures", "minitx.course.check")
THREAD_COUNTS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def environment(home: str) -> dict[str, str]:
    """The clean environment of the zygote and of every job."""
    return {
        "PATH": "/usr/bin:/bin",
        **dict.fromkeys(HOMES, home),
        "MPLBACKEND": "agg",
        "LANG": "C.UTF-8",
        "MINITX_KERNELS": "numpy",  # a job is too short to compile in, and may not fork threads
        **dict.fromkeys(THREAD_COUNTS, "1"),
        **{name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ},
    }


class Zygote:
    """Forks jobs, tells of their end, and leaves no process behind."""

    def __init__(self, control: socket.socket, limits: jail.Limits) -> None:
        self.control = control
        self.limits = limits
        self.jobs: dict[int, int] = {}  # job -> process id
        self.names: dict[int, int] = {}  # process id -> job
        self.change_user = os.geteuid() == 0

    def prepare(self) -> None:
        """Namespaces first (a user namespace wants a single thread), then the libraries."""
        if not self.change_user:
            jail.own_user_namespace()
        folders = jail.visible_folders([package_folder("minitx")])
        self.scratch = jail.scratch_folder(folders)
        self.root, home = jail.prepare_root(folders, self.scratch)
        os.environ.update(environment(home))
        jail.check(jail.libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "adopting orphaned jobs")
        for name in PRELOADED:
            importlib.import_module(name)
        from autograder.sandbox import seccomp, server, shell

        self.program = seccomp.compile_filter()
        self.shell = shell.make_shell()
        self.serve_job = server.serve_job
        os.environ.update(environment(self.scratch))

    def run(self) -> None:
        """Serve until the other end hangs up; then end every job."""
        wake, alarm = socket.socketpair()
        for end in (wake, alarm):
            end.setblocking(False)
        signal.set_wakeup_fd(alarm.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        selector = selectors.DefaultSelector()
        selector.register(self.control, selectors.EVENT_READ)
        selector.register(wake, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is wake:
                    with contextlib.suppress(BlockingIOError):
                        wake.recv(4096)
                elif not self.obey():
                    return
            self.reap()

    def obey(self) -> bool:
        """Carry out one order; False when there will be no more."""
        data, descriptors, _, _ = socket.recv_fds(self.control, 4096, 1)
        if not data:
            return False
        verb, _, number = data.decode().partition(" ")
        job = int(number)
        if verb == "spawn":
            self.spawn(job, socket.socket(fileno=descriptors[0]))
        elif verb == "kill" and job in self.jobs:
            os.kill(self.jobs[job], signal.SIGKILL)
        return True

    def spawn(self, job: int, sock: socket.socket) -> None:
        """Fork twice: the first child makes the namespaces, the second is process 1 in them.

        The first ends at once, so the second becomes the zygote's own child (it is a subreaper).
        """
        read, write = os.pipe()
        first = os.fork()
        if first == 0:
            with _last_words(sock):
                jail.new_namespaces()
                second = os.fork()
                if second == 0:
                    self.become(job, sock)
                os.write(write, second.to_bytes(4, "little"))
                os._exit(0)
        os.close(write)
        sock.close()
        pid = int.from_bytes(os.read(read, 4), "little")
        os.close(read)
        os.waitpid(first, 0)
        if pid:
            self.jobs[job], self.names[pid] = pid, job
            self.tell(f"spawned {job}")
        else:
            self.tell(f"ended {job} {1 << 8} 0")

    def become(self, job: int, sock: socket.socket) -> None:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        uid = FIRST_UID + job % UIDS if self.change_user else None
        jail.enter(self.root, self.scratch, uid, sock.fileno(), self.limits, self.program)
        self.serve_job(sock, self.shell)
        os._exit(0)

    def reap(self) -> None:
        while self.names:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                return
            job = self.names.pop(pid, None)
            if job is not None:
                del self.jobs[job]
                self.tell(f"ended {job} {status} {usage.ru_maxrss}")

    def tell(self, text: str) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.control.send(text.encode())


@contextlib.contextmanager
def _last_words(sock: socket.socket) -> Any:
    """A job that cannot be jailed says why on its own socket and ends; it never runs student code."""
    try:
        yield
    except BaseException:
        from autograder.sandbox import wire

        wire.Channel(sock).send(wire.pack({"id": -1, "jail": traceback.format_exc()}, []))
    finally:
        os._exit(1)


def package_folder(name: str) -> str:
    """Where a package lies, found without importing it."""
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise RuntimeError(f"the package {name} is not installed beside the grader")
    return next(iter(found.submodule_search_locations))


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # no zygote outlives its runner
    kept = environment("/")
    os.environ.clear()
    os.environ.update(kept)
    zygote = Zygote(control, jail.Limits())
    try:
        zygote.prepare()
    except Exception:
        zygote.tell("failed " + traceback.format_exc())
        return
    zygote.tell("ready")
    try:
        zygote.run()
    finally:
        for pid in zygote.names:
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
