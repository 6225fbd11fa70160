"""A program that has never seen a test: it loads the libraries once and forks a sandbox per job.

Run as `python -I -m autograder.sandbox.zygote FD LIMITS`, FD being one end of a socket pair and LIMITS
JSON. The other end sends `spawn N` together with the job's own socket, or `kill N`; the zygote answers
`ready` or `failed WHY` once, and `ended N STATUS KILOBYTES CPU_SECONDS OUT_OF_MEMORY` when a job is gone
(its wait status, its peak memory, and whether the kernel ended it for want of memory). It must be a
program of its own: a fork of the process that holds the tests would carry them along in its memory,
whatever the namespaces say.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import selectors
import signal
import socket
import sys
import traceback
from typing import Any

from autograder.sandbox import cgroup, jail
from autograder.sandbox.environment import Limits, environment, package_folder, preload
from autograder.sandbox.layers import Layer

PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG = 36, 1
FIRST_UID, UIDS = 200_000, 50_000


class Zygote:
    """Forks jobs, tells of their end, and leaves no process behind."""

    def __init__(self, control: socket.socket, limits: Limits) -> None:
        self.control = control
        self.limits = limits
        self.jobs: dict[int, int] = {}  # job -> process id
        self.names: dict[int, int] = {}  # process id -> job
        self.change_user = os.geteuid() == 0

    def prepare(self) -> None:
        """Namespaces first (a user namespace wants a single thread), then the libraries."""
        self.outside = jail.namespaces()
        self.groups = cgroup.Groups(self.limits)
        if not self.change_user:
            jail.own_user_namespace()
        folders = jail.visible_folders([package_folder("minitx")])
        self.scratch = jail.scratch_folder(folders)
        self.root, home = jail.prepare_root(folders, self.scratch)
        os.environ.update(environment(home))
        jail.check(jail.libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "adopting orphaned jobs")
        preload()
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
        """Start a job, or say that it has ended where the system has no room for one."""
        try:
            self.groups.make(job)
            pid = self.fork_twice(job, sock)
        except OSError:
            with _last_words(sock, leave=False):
                raise
            pid = 0
        sock.close()
        if pid:
            self.jobs[job], self.names[pid] = pid, job
        else:
            self.groups.remove(job)
            self.tell(f"ended {job} {1 << 8} 0 0 0")

    def fork_twice(self, job: int, sock: socket.socket) -> int:
        """The first child makes the namespaces and joins the groups; the second is process 1 in them.

        The first ends at once, so the second becomes the zygote's own child (it is a subreaper). Only
        then does it go on: it ends with its parent, which must not be the first. Returns its id, or 0.
        """
        read, write = os.pipe()
        go, let_go = os.pipe()
        first = os.fork()
        if first == 0:
            with _last_words(sock):
                jail.new_namespaces()
                self.groups.join(job)
                second = os.fork()
                if second == 0:
                    os.close(let_go)
                    if os.read(go, 1):
                        self.become(job, sock)
                    os._exit(1)
                os.write(write, second.to_bytes(4, "little"))
                os._exit(0)
        for end in (write, go):
            os.close(end)
        pid = int.from_bytes(os.read(read, 4), "little")
        os.waitpid(first, 0)
        with contextlib.suppress(BrokenPipeError):
            os.write(let_go, b".")
        for end in (read, let_go):
            os.close(end)
        return pid

    def become(self, job: int, sock: socket.socket) -> None:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        uid = FIRST_UID + job % UIDS if self.change_user else None
        mapped, now = jail.mapped_bytes(), jail.namespaces()  # while /proc is still there
        jail.change_root(self.root, self.scratch, self.limits)
        layers = [
            jail.namespace_layer(self.outside, now),
            *jail.shut(self.scratch, uid, sock.fileno(), self.limits, mapped, self.program),
            Layer("cgroup", not self.groups.missing, self.groups.describe(), essential=False),
        ]
        self.serve_job(sock, self.shell, layers)
        os._exit(0)

    def reap(self) -> None:
        while self.names:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                return
            job = self.names.pop(pid, None)
            if job is not None:
                del self.jobs[job]
                ran_out = self.groups.ran_out(job)
                self.groups.remove(job)
                seconds = usage.ru_utime + usage.ru_stime
                self.tell(f"ended {job} {status} {usage.ru_maxrss} {seconds:.3f} {ran_out:d}")

    def stop(self) -> None:
        """End every job and wait until it is gone."""
        for pid in self.names:
            os.kill(pid, signal.SIGKILL)
        for pid, job in self.names.items():
            os.waitpid(pid, 0)
            self.groups.remove(job)

    def tell(self, text: str) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.control.send(text.encode())


@contextlib.contextmanager
def _last_words(sock: socket.socket, leave: bool = True) -> Any:
    """A job that cannot be jailed says why on its own socket and ends; it never runs student code."""
    try:
        yield
    except BaseException:
        from autograder.sandbox import wire

        with contextlib.suppress(wire.Closed):
            wire.Channel(sock).send(wire.pack({"id": -1, "jail": traceback.format_exc()}, []))
    finally:
        if leave:
            os._exit(1)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # no zygote outlives its runner
    kept = environment("/")
    os.environ.clear()
    os.environ.update(kept)
    zygote = Zygote(control, Limits(**json.loads(sys.argv[2])))
    try:
        zygote.prepare()
    except Exception:
        zygote.tell("failed " + traceback.format_exc())
        return
    zygote.tell("ready")
    try:
        zygote.run()
    finally:
        zygote.stop()


if __name__ == "__main__":
    main()
