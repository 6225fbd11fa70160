"""The system calls that student code may make, compiled once into a filter.

An allow-list: what is not named fails with EPERM, as if the system refused it. No new process, no
program, no socket, no namespace, no mount, no trace of another process, no module, no key, no BPF.
Threads are allowed, since NumPy and Numba start them.
"""

from __future__ import annotations

import errno
import os

import pyseccomp as seccomp

CLONE_THREAD = 0x00010000
TTY_QUERIES = (0x5401, 0x5413, 0x5421, 0x5450, 0x5451, 0x541B)  # TCGETS .. FIONREAD: asked of any file
# F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC, F_GETPIPE_SZ. No locks and no leases: on
# the read-only files that all sandboxes share, a lock would carry word from one to another.
FCNTL_COMMANDS = (0, 1, 2, 3, 4, 1030, 1032)
PRCTL_NAMES = (15, 16, 23, 0x53564D41)  # set and get a thread's name, read the bounding set, name a mapping

MEMORY = "brk mmap mprotect munmap mremap madvise msync mincore mlock munlock membarrier"
FILES = """
    read write readv writev pread64 pwrite64 preadv pwritev lseek close close_range open openat stat
    fstat lstat newfstatat statx statfs fstatfs access faccessat faccessat2 getdents getdents64
    readlink readlinkat dup dup2 dup3 fsync fdatasync truncate ftruncate fallocate
    fadvise64 getcwd chdir fchdir mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link
    linkat symlink symlinkat chmod fchmod fchmodat utimensat umask sendfile copy_file_range
"""
WAITING = """
    poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait eventfd
    eventfd2 pipe pipe2 socketpair sendto recvfrom sendmsg recvmsg shutdown getsockopt getsockname
    getpeername futex futex_waitv set_robust_list get_robust_list rseq restart_syscall pause
    nanosleep clock_nanosleep timerfd_create timerfd_settime timerfd_gettime
"""
TIME = "clock_gettime clock_getres gettimeofday time times getitimer setitimer alarm"
SELF = """
    getpid gettid getppid getpgrp getpgid getsid getuid geteuid getgid getegid getresuid getresgid
    getgroups capget getrlimit getrusage getpriority sysinfo uname getcpu getrandom arch_prctl
    set_tid_address sched_yield sched_getaffinity sched_getparam sched_getscheduler
    sched_get_priority_max sched_get_priority_min rt_sigaction rt_sigprocmask rt_sigreturn
    rt_sigpending rt_sigsuspend rt_sigtimedwait sigaltstack kill tkill tgkill exit exit_group
"""


def compile_filter() -> bytes:
    """The filter as BPF instructions, for `jail.load_seccomp`. Made once, loaded by every job."""
    rules = seccomp.SyscallFilter(defaction=seccomp.ERRNO(errno.EPERM))
    for name in " ".join((MEMORY, FILES, WAITING, TIME, SELF)).split():
        _allow(rules, name)
    _allow(rules, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, CLONE_THREAD, CLONE_THREAD))
    for query in TTY_QUERIES:
        _allow(rules, "ioctl", seccomp.Arg(1, seccomp.EQ, query))
    for command in FCNTL_COMMANDS:
        _allow(rules, "fcntl", seccomp.Arg(1, seccomp.EQ, command))
    for name in PRCTL_NAMES:
        _allow(rules, "prctl", seccomp.Arg(0, seccomp.EQ, name))
    _allow(rules, "prlimit64", seccomp.Arg(2, seccomp.EQ, 0))  # asking only, not setting
    # The C library falls back to clone, whose flags a filter can read, when clone3 is not there.
    rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")
    return _export(rules)


def _allow(rules: seccomp.SyscallFilter, name: str, *arguments: seccomp.Arg) -> None:
    # A call that this machine's architecture does not have (open on aarch64) has no number to allow.
    if seccomp.resolve_syscall(seccomp.Arch.NATIVE, name) >= 0:
        rules.add_rule(seccomp.ALLOW, name, *arguments)


def _export(rules: seccomp.SyscallFilter) -> bytes:
    fd = os.memfd_create("seccomp")
    with os.fdopen(fd, "r+b") as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()
