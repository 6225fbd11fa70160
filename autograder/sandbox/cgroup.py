"""A control group for each job: its memory and its processes, counted by the kernel all together.

The limits of `jail` hold for what one process maps; a group counts also what the kernel keeps for it
(pages of the scratch folder, page tables, sockets). Where the caller may not make groups, `Groups` says
why, and grading goes on with the other limits.

Version 1 has a tree for each controller, version 2 one tree in which a group with members cannot hand
controllers on; there the group is made below the nearest ancestor that does.

Sources: the kernel's admin-guide/cgroup-v1 and admin-guide/cgroup-v2.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from dataclasses import dataclass
from pathlib import Path

from autograder.sandbox.environment import Limits

PREFIX = "minitx"
WANTED = ("memory", "pids")
_serial = itertools.count(1)  # two back-ends of one process have groups of their own
HEADROOM_MB = 256  # pages shared with the zygote that the job writes to are counted, too


@dataclass(frozen=True)
class Place:
    """A group below which groups for jobs can be made."""

    folder: Path
    controllers: tuple[str, ...]
    version: int

    @property
    def members(self) -> str:
        # In version 1 a thread that moves itself needs no lock over all processes of the machine.
        return "tasks" if self.version == 1 else "cgroup.procs"


class Groups:
    """Makes, joins and removes the groups of one sandbox program's jobs."""

    def __init__(self, limits: Limits, proc: Path = Path("/proc/self")) -> None:
        self.limits = limits
        self.owner = f"{os.getpid()}-{next(_serial)}"
        self.missing: dict[str, str] = {}  # controller -> why there is none
        self.places: list[Place] = []
        for place in self._found(proc):
            remove_abandoned(place)
            try:
                self._make(place, 0)
                self._folder(place, 0).rmdir()
            except OSError as error:
                self.missing |= dict.fromkeys(
                    place.controllers, f"{place.folder}: {error.strerror or error}".strip()
                )
            else:
                self.places.append(place)

    def describe(self) -> str:
        """What is limited, and what is not and why."""
        held = []
        for place in self.places:
            if "memory" in place.controllers:
                held.append(f"v{place.version} memory {self.memory >> 20} MB")
            if "pids" in place.controllers:
                held.append(f"v{place.version} {self.limits.threads} processes and threads")
        return "; ".join([*held, *(f"no {name}: {why}" for name, why in self.missing.items())])

    @property
    def memory(self) -> int:
        return (self.limits.memory_mb + self.limits.file_mb + HEADROOM_MB) << 20

    def make(self, job: int) -> None:
        for place in self.places:
            self._make(place, job)

    def join(self, job: int, pid: int = 0) -> None:
        """Move a process, by default this one, into its job's groups; what it forks will be in them too."""
        for place in self.places:
            self._write(place, job, place.members, str(pid))

    def ran_out(self, job: int) -> bool:
        """True when the kernel ended a process of the job for want of memory."""
        for place in self.places:
            if "memory" in place.controllers:
                name = "memory.oom_control" if place.version == 1 else "memory.events"
                with contextlib.suppress(OSError):
                    for line in (self._folder(place, job) / name).read_text().splitlines():
                        if line.startswith("oom_kill "):
                            return int(line.split()[1]) > 0
        return False

    def remove(self, job: int) -> None:
        """Remove a job's groups. Its processes are gone by then; a group that is not is left to the next."""
        for place in self.places:
            with contextlib.suppress(OSError):
                self._folder(place, job).rmdir()

    def _make(self, place: Place, job: int) -> None:
        folder = self._folder(place, job)
        with contextlib.suppress(FileNotFoundError):
            folder.rmdir()  # of a killed program that had the same process id
        folder.mkdir()
        try:
            self._limit(place, job)
        except OSError:
            folder.rmdir()
            raise

    def _limit(self, place: Place, job: int) -> None:
        if "pids" in place.controllers:
            self._write(place, job, "pids.max", str(self.limits.threads))
        if "memory" in place.controllers and place.version == 1:
            self._write(place, job, "memory.limit_in_bytes", str(self.memory))
            with contextlib.suppress(OSError):  # there only where the kernel counts swapped pages
                self._write(place, job, "memory.memsw.limit_in_bytes", str(self.memory))
        elif "memory" in place.controllers:
            self._write(place, job, "memory.max", str(self.memory))
            with contextlib.suppress(OSError):
                self._write(place, job, "memory.swap.max", "0")

    def _folder(self, place: Place, job: int) -> Path:
        return place.folder / f"{PREFIX}-{self.owner}-{job}"

    def _write(self, place: Place, job: int, name: str, text: str) -> None:
        # Never create: in a folder that is no control group a file would appear, and limit nothing.
        descriptor = os.open(self._folder(place, job) / name, os.O_WRONLY)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def _found(self, proc: Path) -> list[Place]:
        """Where groups could be made for each wanted controller; notes in `missing` what there is not."""
        mounts = _mounts(proc)
        groups = [line.split(":", 2) for line in _lines(proc / "cgroup")]
        places = []
        left: set[str] = set(WANTED)
        for _, names, group in groups:
            mine = tuple(sorted(left & set(names.split(","))))
            if mine and mine[0] in mounts:
                places.append(Place(_inside(mounts[mine[0]], group), mine, 1))
                left -= set(mine)
        for _, names, group in groups:
            if names == "" and "" in mounts and left:
                place = _handing_on(_inside(mounts[""], group), mounts[""][0], left)
                if place is not None:
                    places.append(place)
                    left -= set(place.controllers)
        self.missing |= dict.fromkeys(sorted(left), "no group that is mounted here hands it on")
        return places


def remove_abandoned(place: Place) -> None:
    """Remove the empty groups of programs that were killed before they could."""
    for folder in place.folder.glob(f"{PREFIX}-*-*-*"):
        owner = folder.name.split("-")[1]
        if owner.isdigit() and not Path("/proc", owner).exists():
            with contextlib.suppress(OSError):
                folder.rmdir()


def _handing_on(folder: Path, top: Path, wanted: set[str]) -> Place | None:
    """The nearest group, from one's own upwards, that hands wanted controllers on to new groups."""
    while True:
        given = set(" ".join(_lines(folder / "cgroup.subtree_control")).split()) & wanted
        if given:
            return Place(folder, tuple(sorted(given)), 2)
        if folder in (top, folder.parent):
            return None
        folder = folder.parent


def _mounts(proc: Path) -> dict[str, tuple[Path, str]]:
    """Controller -> (mount point, the group that is its root); version 2 under the name ""."""
    found: dict[str, tuple[Path, str]] = {}
    for line in _lines(proc / "mountinfo"):
        before, _, after = line.partition(" - ")
        root, point = before.split()[3:5]
        kind, _, *options = after.split()
        if kind == "cgroup2":
            found[""] = Path(point), root
        elif kind == "cgroup" and options:
            found |= {name: (Path(point), root) for name in options[-1].split(",") if name in WANTED}
    return found


def _inside(mounted: tuple[Path, str], group: str) -> Path:
    """The folder of a group; a container may have only a part of the tree mounted."""
    point, root = mounted
    relative = group.removeprefix(root.rstrip("/")) if root != "/" else group
    return point / relative.lstrip("/")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
