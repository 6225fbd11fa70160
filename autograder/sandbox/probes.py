"""Things that student code must not be able to do, each as a few lines that try it.

They are asked of the first sandbox of every grading run: if one of them works, nothing is graded.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from textwrap import indent

from autograder.sandbox.client import Sandbox, SandboxDied

SECONDS = 20.0

# Before each: what a system call that the filter refuses answers, told from one that merely failed.
PRELUDE = """
import ctypes, errno, fcntl, mmap, os, platform, resource, socket, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
NUMBERS = {
    "execve": (59, 221), "ptrace": (101, 117), "mount": (165, 40), "unshare": (272, 97), "setns": (308, 268),
    "bpf": (321, 280), "keyctl": (250, 219), "io_uring_setup": (425, 425), "userfaultfd": (323, 282),
    "perf_event_open": (298, 241), "process_vm_readv": (310, 270), "pidfd_open": (434, 434),
    "open_by_handle_at": (304, 265), "init_module": (175, 105), "kexec_load": (246, 104), "chroot": (161, 51),
    "setuid": (105, 146), "memfd_create": (319, 279), "shmget": (29, 194), "msgget": (68, 186),
    "personality": (135, 92), "mknodat": (259, 33), "swapon": (167, 224), "add_key": (248, 217),
}
column = ["x86_64", "aarch64"].index(platform.machine())
def call(name):
    if libc.syscall(NUMBERS[name][column], 0, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != errno.EPERM:
        return
    raise PermissionError(name)
"""

PROBES = {
    "read the machine's files": "open('/etc/passwd')",
    "see the machine's processes": "os.listdir('/proc/1')",
    "write into the libraries": "import numpy; open(numpy.__file__, 'a')",
    "write outside its scratch folder": "open('/dev/outside', 'w')",
    "make a process": "if os.fork() == 0: os._exit(0)",
    "start a program": "call('execve')",
    "open an internet socket": "socket.socket(socket.AF_INET)",
    "open a local socket": "socket.socket(socket.AF_UNIX)",
    "watch another process": "call('ptrace')",
    "read another process's memory": "call('process_vm_readv')",
    "get hold of another process": "call('pidfd_open')",
    "mount": "call('mount')",
    "change its root folder": "call('chroot')",
    "make namespaces": "call('unshare')",
    "enter a namespace": "call('setns')",
    "open files by number": "call('open_by_handle_at')",
    "become another user": "call('setuid')",
    "load a program into the kernel": "call('bpf')",
    "load a kernel module": "call('init_module')",
    "start another kernel": "call('kexec_load')",
    "reach the kernel's keys": "call('keyctl')\ncall('add_key')",
    "use io_uring": "call('io_uring_setup')",
    "handle page faults": "call('userfaultfd')",
    "count events of the machine": "call('perf_event_open')",
    "share memory": "call('shmget')",
    "send messages": "call('msgget')",
    "make files that no limit counts": "call('memfd_create')",
    "make devices": "call('mknodat')",
    "change how memory is laid out": "call('personality')",
    "lock a file that other sandboxes read": "fcntl.flock(open(os.__file__), fcntl.LOCK_SH)",
    "raise its limits": "resource.setrlimit(resource.RLIMIT_NOFILE, (9999, 9999))",
    "use more memory than it is given": "bytearray(LIMIT_BYTES)",
    "map more memory than it is given": "mmap.mmap(-1, LIMIT_BYTES)",
    "find another open file": (
        "def is_open(fd):\n    try:\n        return bool(os.fstat(fd))\n"
        "    except OSError:\n        return False\n"
        "if sum(map(is_open, range(3, 1024))) <= 1: raise LookupError"
    ),
    "find a module of the grader that knows tests": (
        "if not {'autograder.' + name for name in ('spec', 'judging', 'runner', 'cells')} & {*sys.modules}:\n"
        "    raise LookupError"
    ),
}


def leaks(sandbox: Sandbox) -> list[str]:
    """What a fresh sandbox lets student code do that it must not; the sandbox may die of it."""
    sandbox.deadline = time.monotonic() + SECONDS
    try:
        outcome, outputs = sandbox.run_cell(script(sandbox.backend.limits.memory_mb))
        if outcome != "OK":
            return [f"stop the check of the sandbox ({outputs})"]
        return list(sandbox.get("worked"))
    except SandboxDied as death:
        return [f"end the check of the sandbox ({death.message})"]


def script(memory_mb: int, probes: Mapping[str, str] = PROBES) -> str:
    """One cell that tries them all, and leaves the names of those that worked in `worked`."""
    parts = [PRELUDE, f"LIMIT_BYTES = {memory_mb << 21}", "worked = []"]
    for name, source in probes.items():
        parts += ["def probe():", indent(source, "    "), "try:", "    probe()"]
        parts += ["except Exception: pass", f"else: worked.append({name!r})"]
    return "\n".join(parts)
