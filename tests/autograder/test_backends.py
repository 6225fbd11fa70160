"""The kinds of sandbox: each holds alike, one that does not is refused, and a lost one is no one's fault."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from autograder.judging import Judge
from autograder.release import build
from autograder.runner import judged
from autograder.sandbox import backends, probes, wire
from autograder.sandbox.client import BackendLost, SandboxDied, SandboxUnavailable
from autograder.sandbox.environment import Limits

UNIT = Path(__file__).parent / "hostile" / "unit" / "guarded"
ESSENTIAL = {"namespaces", "privileges", "limits", "seccomp"}


def needs(name):
    if name == "bwrap" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed (Debian: apt-get install bubblewrap)")
    return name


@pytest.fixture(scope="module", params=["zygote", "bwrap"])
def backend(request):
    backend = backends.start(needs(request.param))
    yield backend
    backend.close()


@pytest.fixture
def sandbox(backend):
    sandbox = backend.spawn()
    sandbox.deadline = time.monotonic() + 60
    yield sandbox
    sandbox.close()


def test_every_essential_layer_is_in_force_before_student_code_runs(sandbox):
    layers = {layer.name: layer for layer in sandbox.layers}
    assert {*layers, "Landlock", "cgroup"} >= ESSENTIAL | {"Landlock", "cgroup"}
    for name in ESSENTIAL:
        assert layers[name].holds, layers[name]
    for layer in layers.values():
        assert layer.detail, "what is in force, or what is missing"


def test_the_kernel_says_the_same_of_the_process(backend, sandbox):
    """What a job reports of itself is compared with what its parent's /proc has."""
    if backend.name != "zygote":
        pytest.skip("only the zygote's children are found from outside without bubblewrap's word")
    (pid,) = Path(f"/proc/{backend.process.pid}/task/{backend.process.pid}/children").read_text().split()
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    assert status["NoNewPrivs"].strip() == "1"
    assert status["Seccomp"].strip() == "2"
    for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[kind], 16) == 0
    if os.geteuid() == 0:
        assert all(int(uid) >= 200_000 for uid in status["Uid"].split())
        for name in ("pid", "mnt", "net", "ipc", "uts"):
            assert os.readlink(f"/proc/{pid}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}")


def test_nothing_that_is_probed_works(sandbox):
    assert probes.leaks(sandbox) == []


def test_a_function_answers_and_its_folder_is_its_own(backend, sandbox):
    sandbox.run_cell("def double(x):\n    open('note', 'a').write('x')\n    return 2 * x")
    assert np.array_equal(sandbox.get("double")(np.arange(3.0)), [0, 2, 4])
    other = backend.spawn()
    other.deadline = time.monotonic() + 60
    assert other.run_cell("open('note')")[0] == "RE"
    other.close()


def test_a_program_of_libraries_works_inside(sandbox):
    source = (
        "import matplotlib.pyplot as plt, minitx, sqlite3, tempfile\n"
        "plt.plot([1, 2]); plt.savefig('figure.png')\nsqlite3.connect(':memory:').execute('select 1')\n"
        "tempfile.NamedTemporaryFile().write(b'x')"
    )
    outcome, outputs = sandbox.run_cell(source)
    assert outcome == "OK", outputs


IN_A_LARGE_PROCESS = """
import time
import numpy as np
from autograder.sandbox.backends import start
from autograder.sandbox.client import SandboxDied
large = np.ones(700 << 17)  # 700 MB: what a runner with many libraries may come to
backend = start("bwrap")
sandbox = backend.spawn()
sandbox.deadline = time.monotonic() + 4
try:
    sandbox.run_cell("import os\\nos.closerange(3, 64)\\nwhile True: pass")
except SandboxDied as death:
    print(death.outcome)
backend.close()
"""


def test_the_memory_of_the_grader_is_not_taken_for_that_of_the_student():
    needs("bwrap")
    command = [sys.executable, "-c", IN_A_LARGE_PROCESS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "RE\n", done.stderr


@pytest.mark.parametrize(
    ("source", "outcome"),
    [
        ("import os; os._exit(0)", "RE"),
        ("import ctypes; ctypes.string_at(0)", "SG"),
        ("while True: pass", "TO"),
        ("import os\nos.closerange(3, 64)\nwhile True: pass", "RE"),
        ("import os; os.abort()", "SG"),
    ],
)
def test_a_death_is_told_by_its_kind(backend, source, outcome):
    sandbox = backend.spawn()
    sandbox.deadline = time.monotonic() + 4
    with pytest.raises(SandboxDied) as death:
        sandbox.run_cell(source)
    assert death.value.outcome == outcome
    assert death.value.message


def test_a_job_that_uses_up_its_processor_time_is_told_so():
    """Process 1 of a namespace is not sent SIGXCPU, only killed: it must not be taken for a lack of memory."""
    backend = backends.start("zygote", Limits(cpu_seconds=2))
    sandbox = backend.spawn()
    sandbox.deadline = time.monotonic() + 60
    with pytest.raises(SandboxDied, match="processor time") as death:
        sandbox.run_cell("while True: pass")
    assert death.value.outcome == "TO"
    backend.close()


def test_the_number_of_files_is_limited_since_the_kernel_keeps_a_record_of_each():
    backend = backends.start("zygote", Limits(files=100))
    sandbox = backend.spawn()
    outcome, outputs = sandbox.run_cell("for number in range(200): open(str(number), 'w').close()")
    assert outcome == "RE"
    assert "No space left" in outputs[-1]["evalue"]
    backend.close()


def test_a_test_s_function_may_ask_the_sandbox_things_while_it_is_called_from_there(sandbox):
    sandbox.run_cell("def apply(f):\n    return f(2) + 1\ndef double(x):\n    return 2 * x")
    double = sandbox.get("double")
    assert sandbox.get("apply")(lambda x: double(x) * 10) == 41


# ---- a parent process that is lost


@pytest.fixture
def zygote():
    backend = backends.start("zygote")
    yield backend
    backend.close()


def test_a_lost_zygote_is_a_fault_of_the_grader_s_and_the_next_sandbox_has_a_new_one(zygote):
    sandbox = zygote.spawn()
    sandbox.deadline = time.monotonic() + 20
    (pid,) = Path(f"/proc/{zygote.process.pid}/task/{zygote.process.pid}/children").read_text().split()
    os.kill(zygote.process.pid, signal.SIGKILL)
    wait_until(lambda: not running(pid))
    with pytest.raises(BackendLost):
        sandbox.run_cell("1")
    sandbox.channel.close()
    again = zygote.spawn()
    assert again.run_cell("1 + 1")[0] == "OK"
    again.close()


def test_code_that_never_ends_goes_down_with_the_zygote(zygote):
    sandbox = zygote.spawn()
    (pid,) = Path(f"/proc/{zygote.process.pid}/task/{zygote.process.pid}/children").read_text().split()
    sandbox.channel.send(wire.pack({"op": "exec", "source": "while True: pass", "id": 1}, []))
    wait_until(lambda: cpu_ticks(pid) > 5)
    os.kill(zygote.process.pid, signal.SIGKILL)
    wait_until(lambda: not running(pid))


def test_a_submission_whose_zygote_was_lost_is_judged_again(zygote):
    """Never 0 points, never an error that a test could take for the student's."""
    built = build(UNIT)
    judge = Judge(built.spec, zygote)
    source = "import time\ntime.sleep(1.5)\n" + built.spec.cell("answer").source
    cells = [{"id": "imports", "kind": "student", "source": built.spec.cell("imports").source}]
    cells += [{"id": "answer", "kind": "student", "source": source}]
    cells += [{"id": name, "kind": "test", "source": ""} for name in ("test-total", "test-scaled")]
    first = zygote.process.pid
    killer = threading.Timer(0.5, os.kill, (first, signal.SIGKILL))
    killer.start()
    verdict = judged(judge, {"cells": cells, "seed": b"k".hex()})
    assert zygote.process.pid != first
    assert verdict.needs_review == ""
    assert verdict.total == 7


def test_a_zygote_that_is_lost_again_and_again_leaves_the_submission_to_a_person(zygote, monkeypatch):
    def lost(*_):
        raise BackendLost("The sandboxes' parent process ended.")

    monkeypatch.setattr(zygote, "spawn", lost)
    verdict = judged(Judge(build(UNIT).spec, zygote), {"cells": [], "seed": ""})
    assert "parent process ended" in verdict.needs_review


def wait_until(holds, seconds=20):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def running(pid):
    try:
        return "State:\tZ" not in Path("/proc", pid, "status").read_text()
    except OSError:
        return False


def cpu_ticks(pid):
    return int(Path("/proc", pid, "stat").read_text().rsplit(")", 1)[1].split()[11])


# ---- the choice


def test_a_sandbox_that_lets_something_through_is_not_chosen(monkeypatch):
    monkeypatch.setattr(probes, "script", lambda memory_mb: "worked = ['read minds']")
    with pytest.raises(SandboxUnavailable, match="zygote: student code can read minds"):
        backends.choose("zygote")


def test_the_second_is_taken_where_the_first_cannot_be_made(monkeypatch):
    needs("bwrap")

    def impossible(limits=None):
        raise SandboxUnavailable("no namespaces here")

    impossible.name = "zygote"
    monkeypatch.setattr(backends, "ZygoteBackend", impossible)
    backend = backends.choose()
    assert backend.name == "bwrap"
    backend.close()
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SandboxUnavailable, match=r"no namespaces here.*bwrap.*not installed.*--unsafe"):
        backends.choose()


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_elsewhere_than_on_linux_the_refusal_says_so(monkeypatch, platform):
    monkeypatch.setattr(sys, "platform", platform)
    with pytest.raises(SandboxUnavailable, match=f"this is {platform}, not Linux.*--unsafe"):
        backends.choose()


def test_an_essential_layer_that_does_not_hold_is_a_refusal(monkeypatch):
    """As where the kernel made no network namespace: the job says so, and is not used."""
    from autograder.sandbox import client
    from autograder.sandbox.layers import Layer

    hole = (Layer("namespaces", False, "shared with the machine: net"),)
    monkeypatch.setattr(client, "from_nodes", lambda nodes: hole)
    with pytest.raises(SandboxUnavailable, match="shared with the machine: net"):
        backends.choose("zygote")


def test_no_sandbox_at_all_runs_code_and_says_what_it_is():
    backend = backends.choose("none")
    sandbox = backend.spawn()
    assert sandbox.run_cell("open('/etc/passwd')")[0] == "OK"
    assert [layer.holds for layer in sandbox.layers] == [False]
    sandbox.close()
    backend.close()
    assert not Path(backend.home.name).exists()


# What any user may do on an ordinary machine, without leaving a trace there.
EVERYDAY = (
    "read the machine's files",
    "see the machine's processes",
    "make a process",
    "start a program",
    "open an internet socket",
    "open a local socket",
    "get hold of another process",
    "share memory",
    "send messages",
    "make files that no limit counts",
    "lock a file that other sandboxes read",
    "use more memory than it is given",
    "map more memory than it is given",
    "find another open file",
    "make devices",
)


def test_the_probes_work_where_nothing_holds_them():
    """A probe that fails for a reason of its own would report a sandbox that holds everywhere."""
    assert set(EVERYDAY) <= set(probes.PROBES)
    tried = {name: probes.PROBES[name] for name in EVERYDAY}
    code = "import os\nfiles = [os.open('/dev/null', 0) for _ in range(3)]\n" + probes.script(64, tried)
    done = subprocess.run(
        [sys.executable, "-c", code + "\nprint(worked)"], capture_output=True, text=True, check=True
    )
    assert set(eval(done.stdout)) == set(EVERYDAY)
