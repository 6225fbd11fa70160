"""Landlock: a fence around files, TCP and signals that a process puts up around itself (Linux 5.13).

It stands behind the mounts: were a mount missing or writable by mistake, a job could still read no more
than its root folder, write nowhere but in its scratch folder, and start no program.

Source: the manual page landlock(7) and the kernel's userspace-api/landlock.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterable

SYS_CREATE_RULESET, SYS_ADD_RULE, SYS_RESTRICT_SELF = 444, 445, 446  # alike on every architecture
CREATE_VERSION, RULE_PATH_BENEATH = 1, 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (1 << bit for bit in range(6))
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = (1 << bit for bit in range(6, 13))
REFER, TRUNCATE, IOCTL_DEV = (1 << bit for bit in range(13, 16))
FILES_OF_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
ALL_FILES = (1 << 16) - 1  # version 5 and newer
ALL_TCP = 0b11  # bind, connect; version 4 and newer
ALL_SCOPES = 0b11  # abstract sockets and signals of processes outside; version 6 and newer

READ = READ_FILE | READ_DIR
CHANGE = WRITE_FILE | TRUNCATE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SYM | REFER

libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("tcp", ctypes.c_uint64), ("scopes", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def version() -> int:
    """The kernel's Landlock version; 0 where there is none."""
    found = libc.syscall(SYS_CREATE_RULESET, None, ctypes.c_size_t(0), CREATE_VERSION)
    if found < 0 and ctypes.get_errno() not in (errno.ENOSYS, errno.EOPNOTSUPP):
        _check(found, "asking for its version")
    return max(found, 0)


def restrict(readable: Iterable[str], changeable: Iterable[str], writable: Iterable[str]) -> int:
    """Give up all access to files but this; return the version that is in force, 0 for none.

    `readable` and `changeable` are folders, `writable` single files. Needs PR_SET_NO_NEW_PRIVS before.
    """
    found = version()
    if found == 0:
        return 0
    handled = FILES_OF_VERSION.get(found, ALL_FILES)
    rules = _Ruleset(handled, ALL_TCP if found >= 4 else 0, ALL_SCOPES if found >= 6 else 0)
    size = 24 if found >= 6 else 16 if found >= 4 else 8  # an older kernel refuses fields it does not know
    ruleset = _check(
        libc.syscall(SYS_CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(size), 0), "making the rules"
    )
    try:
        for folders, allowed in ((readable, READ), (changeable, READ | CHANGE)):
            for folder in folders:
                _allow(ruleset, folder, allowed & handled)
        for file in writable:
            _allow(ruleset, file, (READ_FILE | WRITE_FILE) & handled)
        _check(libc.syscall(SYS_RESTRICT_SELF, ruleset, 0), "putting the rules into force")
    finally:
        os.close(ruleset)
    return found


def _allow(ruleset: int, path: str, allowed: int) -> None:
    parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = _PathBeneath(allowed, parent)
        _check(
            libc.syscall(SYS_ADD_RULE, ruleset, RULE_PATH_BENEATH, ctypes.byref(rule), 0), f"allowing {path}"
        )
    finally:
        os.close(parent)


def _check(result: int, doing: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{os.strerror(number)}, while Landlock was {doing}")
    return result
