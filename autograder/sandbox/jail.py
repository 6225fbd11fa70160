"""What a sandbox process gives up before student code runs: the Linux calls behind it.

`prepare_root` is done once by the zygote: a read-only tree that holds the interpreter and the
libraries and nothing of the course. `change_root` and `shut` are done by every job: that tree as its
root, a small scratch folder, limits, no privileges, Landlock, a seccomp filter. The order matters.

Sources: the manual pages unshare(2), mount(2), pivot_root(2), setrlimit(2), seccomp(2), prctl(2).
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import sysconfig
from pathlib import Path

from autograder.sandbox import landlock
from autograder.sandbox.environment import Limits
from autograder.sandbox.layers import Layer

libc = ctypes.CDLL(None, use_errno=True)

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_NOATIME, MS_NODIRATIME, MS_RELATIME, MS_RELATIME_FLAG = 1024, 2048, 1 << 21, 4096
MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 4096, 16384, 1 << 18, 2
PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP, PR_SET_SECCOMP = 4, 38, 24, 22
PR_SET_PDEATHSIG = 1
SECCOMP_MODE_FILTER = 2
CAP_VERSION_3 = 0x20080522
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
SYS_CAPSET = {"x86_64": 126, "aarch64": 91}
NAMESPACES = ("pid", "mnt", "net", "ipc", "uts")
DEVICES = ("null", "zero", "urandom", "random")


def check(result: int, doing: str) -> None:
    """Raise `OSError` saying what was being done when a call of libc returned -1."""
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{os.strerror(number)}, while {doing}")


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    check(
        libc.mount(source.encode(), target.encode(), kind and kind.encode(), flags, options.encode()),
        f"mounting {source} on {target}",
    )


def unshare(flags: int) -> None:
    check(libc.unshare(flags), "making namespaces")


def own_user_namespace() -> None:
    """Become root of a new user namespace, so that an ordinary user can make the other namespaces."""
    uid, gid = os.getuid(), os.getgid()
    unshare(CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def visible_folders(packages: list[str]) -> list[str]:
    """The folders a job can read: the interpreter, its libraries, and the named packages' own folders.

    An editable install keeps a package inside the author's checkout, next to the solutions; so a
    package outside site-packages is bound alone, without the folder around it.
    """
    paths = sysconfig.get_paths()
    folders = {paths["stdlib"], paths["platstdlib"], paths["purelib"], paths["platlib"]}
    folders |= {str(Path(sys.base_prefix) / "lib")}
    folders |= {path for path in ("/lib", "/lib64", "/usr/lib", "/usr/lib64") if Path(path).is_dir()}
    folders |= {str(Path(package).resolve()) for package in packages}
    outer: list[str] = []
    for folder in sorted(folders):
        if not any(folder == other or folder.startswith(other + "/") for other in outer):
            outer.append(folder)
    return outer


def covered_folder(folders: list[str]) -> str:
    """A folder of the host to build the tree over: one that hides none of `folders`.

    It is covered in the zygote's own mount namespace only, so nothing is written to the disk and
    nothing is left behind, however the zygote ends.
    """
    for place in ("/mnt", "/media", "/srv", "/var/tmp", "/tmp"):
        if Path(place).is_dir() and not holds_any(place, folders):
            return place
    raise RuntimeError("every folder that the sandbox could be built over holds a part of the installation")


def scratch_folder(folders: list[str]) -> str:
    """Where a job may write: /tmp, unless the installation itself lies there and would be hidden."""
    return "/scratch" if holds_any("/tmp", folders) else "/tmp"


def holds_any(place: str, folders: list[str]) -> bool:
    return any((folder + "/").startswith(place + "/") for folder in folders)


def prepare_root(folders: list[str], scratch: str) -> tuple[str, str]:
    """Build the read-only tree in a mount namespace of the caller's own; return its root and a home."""
    unshare(CLONE_NEWNS)
    mount("none", "/", None, MS_REC | MS_PRIVATE)  # or the mounts below would show outside
    base = covered_folder(folders)
    mount("tmpfs", base, "tmpfs", MS_NOSUID | MS_NODEV, "size=16m,mode=755")
    root, home = f"{base}/root", f"{base}/home"
    os.mkdir(root)
    os.mkdir(home)
    mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755")
    for folder in folders:
        inside = Path(root + folder)
        if Path(folder).is_symlink():
            inside.parent.mkdir(parents=True, exist_ok=True)
            inside.symlink_to(os.readlink(folder))
            continue
        inside.mkdir(parents=True, exist_ok=True)
        bind_read_only(folder, str(inside))
    Path(root, "dev").mkdir()
    for device in DEVICES:
        Path(root, "dev", device).touch()
        mount(f"/dev/{device}", f"{root}/dev/{device}", None, MS_BIND)
    Path(root + scratch).mkdir()
    mount("none", root, None, MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, "size=1m,mode=755")
    return root, home


def bind_read_only(folder: str, inside: str) -> None:
    mount(folder, inside, None, MS_BIND | MS_REC)
    # In a user namespace a remount must repeat the flags that the outer mount has.
    kept = os.statvfs(folder).f_flag & (MS_NOEXEC | MS_NOATIME | MS_NODIRATIME | MS_RELATIME_FLAG)
    kept = (kept & ~MS_RELATIME_FLAG) | (MS_RELATIME if kept & MS_RELATIME_FLAG else 0)
    mount("none", inside, None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | kept)


def new_namespaces() -> None:
    """Leave the host's processes, network, message queues and names; the next fork is process 1."""
    unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)


def namespaces() -> dict[str, str]:
    """The namespaces of this process, each by the name that the kernel gives it."""
    return {name: os.readlink(f"/proc/self/ns/{name}") for name in (*NAMESPACES, "user")}


def namespace_layer(before: dict[str, str], now: dict[str, str]) -> Layer:
    """Which namespaces a process has of its own, from the kernel's names for them."""
    own = [name for name in (*NAMESPACES, "user") if before[name] != now[name]]
    shared = [name for name in NAMESPACES if name not in own]
    detail = f"own {', '.join(own)}" + (f"; shared with the machine: {', '.join(shared)}" if shared else "")
    return Layer("namespaces", not shared, detail)


def change_root(root: str, scratch: str, limits: Limits) -> None:
    """Make the read-only tree this process's root, with a scratch folder of its own in it."""
    options = f"size={limits.file_mb}m,nr_inodes={limits.files},mode=1777"
    mount("tmpfs", root + scratch, "tmpfs", MS_NOSUID | MS_NODEV, options)
    os.chdir(root)
    machine = os.uname().machine
    check(libc.syscall(SYS_PIVOT_ROOT[machine], b".", b"."), "changing the root folder")
    check(libc.umount2(b".", MNT_DETACH), "leaving the old root folder")
    os.chdir(scratch)
    libc.sethostname(b"sandbox", 7)


def shut(
    scratch: str, uid: int | None, keep_fd: int, limits: Limits, mapped: int, program: bytes
) -> list[Layer]:
    """Give everything up, in the process that will run student code. There is no way back.

    The mounts come before, since the interpreter may lie below a folder that only the owner can enter;
    the limits before the user is changed; the filter last, since it forbids all of this. `uid` is the
    user to become, or None inside a user namespace that has no other. Returns what then holds.
    """
    keep_only(keep_fd)
    set_limits(limits, mapped)
    drop_privileges(uid)
    # After the change of user, which would undo it.
    check(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "tying this job's life to its parent's")
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "giving up new privileges")
    version = landlock.restrict(["/"], [scratch], [f"/dev/{name}" for name in DEVICES])
    load_seccomp(program)
    return [
        Layer("privileges", True, f"user {os.getuid()} without capabilities, and no way to new ones"),
        Layer(
            "limits",
            True,
            f"{limits.memory_mb} MB of memory, {limits.cpu_seconds} s of processor time, {limits.file_mb} MB "
            f"of files, {limits.open_files} open files, {limits.threads} threads",
        ),
        Layer("seccomp", True, f"a list of allowed system calls, {len(program) // 8} instructions"),
        Layer(
            "Landlock",
            version > 0,
            f"version {version}: files to read below the root, to write in {scratch} alone"
            if version
            else "this kernel has none (Linux 5.13 or newer, with landlock among its security modules)",
            essential=False,
        ),
    ]


def keep_only(keep_fd: int) -> None:
    """Close every descriptor but `keep_fd`; standard input, output and error lead nowhere."""
    null = os.open("/dev/null", os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.closerange(3, keep_fd)
    os.closerange(keep_fd + 1, 65_536)


def mapped_bytes(pid: int | str = "self") -> int:
    """The address space that a process has mapped so far, in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()


def set_limits(limits: Limits, mapped: int) -> None:
    # RLIMIT_AS bounds what RLIMIT_DATA does not: shared anonymous mappings.
    memory = limits.memory_mb << 20
    size = limits.file_mb << 20
    for what, value in (
        (resource.RLIMIT_AS, mapped + memory),
        (resource.RLIMIT_DATA, mapped + memory),
        (resource.RLIMIT_CPU, limits.cpu_seconds),
        (resource.RLIMIT_FSIZE, size),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_NPROC, limits.threads),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
    ):
        resource.setrlimit(what, (value, value))


def drop_privileges(uid: int | None) -> None:
    """Become a user that owns nothing (as root), and hold no capability (always)."""
    for capability in range(64):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # fails past the last one, which is fine
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    header = (ctypes.c_uint32 * 2)(CAP_VERSION_3, 0)
    check(
        libc.syscall(SYS_CAPSET[os.uname().machine], header, (ctypes.c_uint32 * 6)()), "dropping capabilities"
    )
    check(libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "forbidding a memory dump")


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def load_seccomp(program: bytes) -> None:
    """Load a compiled filter (see `seccomp.compile_filter`); an instruction is 8 bytes."""
    buffer = ctypes.create_string_buffer(program, len(program))
    header = _Program(len(program) // 8, ctypes.addressof(buffer))
    check(
        libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(header), 0, 0),
        "loading the seccomp filter",
    )
