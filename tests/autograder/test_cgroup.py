"""Control groups: found, limited, joined and removed, on this machine and in trees made up for the test."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autograder.sandbox import cgroup
from autograder.sandbox.environment import Limits

LIMITS = Limits(memory_mb=100, file_mb=8, threads=16)


def machine(folder, mounts, groups):
    """A made-up /proc/self."""
    (folder / "proc").mkdir()
    (folder / "proc/mountinfo").write_text(mounts.replace("@", str(folder)))
    (folder / "proc/cgroup").write_text(groups)
    return folder / "proc"


V2 = "30 20 0:26 / @/sys rw - cgroup2 cgroup2 rw\n"


def controllers(folder, text):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cgroup.subtree_control").write_text(text)


@pytest.fixture
def files_appear(monkeypatch):
    """Make a folder a control group: the kernel fills each with its files."""
    make = Path.mkdir

    def mkdir(self, *arguments, **more):
        make(self, *arguments, **more)
        if self.name.startswith(cgroup.PREFIX):
            for name in (
                "memory.max",
                "memory.swap.max",
                "memory.events",
                "pids.max",
                "cgroup.procs",
                "tasks",
            ):
                (self / name).write_text("")

    def rmdir(self):
        for file in self.iterdir():
            file.unlink()
        os.rmdir(self)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    monkeypatch.setattr(Path, "rmdir", rmdir)


def test_in_version_2_a_group_is_made_below_the_nearest_one_that_hands_controllers_on(tmp_path, files_appear):
    proc = machine(tmp_path, V2, "0::/user/session/scope\n")
    controllers(tmp_path / "sys", "memory pids cpu")
    controllers(tmp_path / "sys/user", "memory pids")
    controllers(tmp_path / "sys/user/session", "")
    groups = cgroup.Groups(LIMITS, proc)
    assert [(place.folder, place.controllers) for place in groups.places] == [
        (tmp_path / "sys/user", ("memory", "pids"))
    ]
    assert groups.missing == {}
    groups.make(7)
    folder = tmp_path / "sys/user" / f"minitx-{groups.owner}-7"
    assert (folder / "memory.max").read_text() == str((100 + 8 + cgroup.HEADROOM_MB) << 20)
    assert (folder / "memory.swap.max").read_text() == "0"
    assert (folder / "pids.max").read_text() == "16"
    groups.join(7, 123)
    assert (folder / "cgroup.procs").read_text() == "123"
    assert not groups.ran_out(7)
    (folder / "memory.events").write_text("oom 3\noom_kill 1\noom_group_kill 0\n")
    assert groups.ran_out(7)
    groups.remove(7)
    assert not folder.exists()


def test_a_controller_that_no_group_hands_on_is_named_and_not_only_left_out(tmp_path, files_appear):
    proc = machine(tmp_path, V2, "0::/scope\n")
    controllers(tmp_path / "sys", "memory")
    groups = cgroup.Groups(LIMITS, proc)
    assert set(groups.missing) == {"pids"}
    assert "v2 memory" in groups.describe()
    assert "no pids" in groups.describe()


def test_a_folder_that_is_no_control_group_is_not_taken_for_one(tmp_path):
    """Without the kernel behind it, a file that were written would limit nothing."""
    proc = machine(tmp_path, V2, "0::/\n")
    controllers(tmp_path / "sys", "memory pids")
    groups = cgroup.Groups(LIMITS, proc)
    assert groups.places == []
    assert set(groups.missing) == {"memory", "pids"}
    assert sorted(path.name for path in (tmp_path / "sys").iterdir()) == ["cgroup.subtree_control"]


def test_where_nothing_is_mounted_both_are_named(tmp_path):
    groups = cgroup.Groups(LIMITS, machine(tmp_path, "", "0::/\n"))
    assert set(groups.missing) == {"memory", "pids"}
    groups.make(1)
    groups.join(1)
    groups.remove(1)


def test_a_container_sees_only_its_part_of_the_tree(tmp_path, files_appear):
    mounts = "40 20 0:30 /box/a @/mem rw - cgroup cgroup rw,memory\n41 20 0:31 / @/pids rw - cgroup cgroup rw,pids\n"
    proc = machine(tmp_path, mounts, "5:memory:/box/a/inner\n4:pids:/\n")
    assert [
        str(place.folder.relative_to(tmp_path)) for place in cgroup.Groups(LIMITS, proc)._found(proc)
    ] == ["mem/inner", "pids"]


def test_groups_of_a_program_that_was_killed_are_removed_by_the_next(tmp_path, files_appear):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    proc = machine(tmp_path, V2, "0::/\n")
    controllers(tmp_path / "sys", "memory pids")
    abandoned = tmp_path / "sys" / f"minitx-{gone.pid}-1-3"
    ours = tmp_path / "sys" / f"minitx-{os.getpid()}-1-3"
    for folder in (abandoned, ours):
        folder.mkdir()
    cgroup.Groups(LIMITS, proc)
    assert not abandoned.exists()
    assert ours.exists()


@pytest.fixture
def real():
    groups = cgroup.Groups(LIMITS)
    if groups.missing:
        pytest.skip(f"control groups of this machine: {groups.describe()}")
    groups.make(1)
    yield groups
    groups.remove(1)


def run_in(groups, code):
    """Run Python in the job's groups; its wait status and what it printed."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        groups.join(1)
        os.dup2(write, 1)
        os.execv(sys.executable, [sys.executable, "-I", "-c", code])
    os.close(write)
    with os.fdopen(read) as file:
        printed = file.read()
    return os.waitpid(pid, 0)[1], printed


def test_memory_over_the_limit_ends_the_process_and_says_so(real):
    status, _ = run_in(real, f"hoard = [bytes([1]) * (1 << 20) for _ in range({2 * real.memory >> 20})]")
    assert os.WIFSIGNALED(status)
    assert real.ran_out(1)


FORKS = """
import os
read, write = os.pipe()
made = 0
try:
    for made in range(500):
        if os.fork() == 0:
            os.close(write)
            os.read(read, 1)  # until the parent is gone
            os._exit(0)
except OSError:
    print(made)
"""


def test_a_process_over_the_limit_is_not_made(real):
    _, printed = run_in(real, FORKS)
    assert 0 < int(printed.split()[0]) < 16
    while any((real._folder(place, 1) / "cgroup.procs").read_text() for place in real.places):
        time.sleep(0.01)


def test_a_job_s_groups_are_gone_when_the_job_is(real):
    from autograder.sandbox.backends import ZygoteBackend

    backend = ZygoteBackend()
    sandbox = backend.spawn()
    folders = [place.folder for place in real.places]
    pattern = f"minitx-{backend.process.pid}-*"
    assert all(len(list(folder.glob(pattern))) == 1 for folder in folders)
    members = [(next(folder.glob(pattern)) / "cgroup.procs").read_text().split() for folder in folders]
    assert members[0] == members[1]
    assert len(members[0]) == 1
    sandbox.close()
    assert not [path for folder in folders for path in folder.glob(pattern)]
    backend.close()
