"""What student code can and cannot do in its sandbox, asked of real sandboxes on this machine."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from autograder.sandbox.backends import ZygoteBackend
from autograder.sandbox.client import MAX_CALLBACKS, SandboxDied
from autograder.sandbox.proxy import Remote, StudentRaised

CANARY = "canary-9f1c-in-the-runner"


@pytest.fixture(scope="module")
def backend():
    backend = ZygoteBackend()
    yield backend
    backend.close()


@pytest.fixture
def sandbox(backend):
    sandbox = backend.spawn()
    sandbox.deadline = time.monotonic() + 20
    yield sandbox
    sandbox.close()


def define(sandbox, source):
    outcome, outputs = sandbox.run_cell(source)
    assert outcome == "OK", outputs


def printed(sandbox, source):
    outcome, outputs = sandbox.run_cell(source)
    assert outcome == "OK", outputs
    return "".join(output.get("text", "") for output in outputs)


def test_a_function_gets_arrays_and_answers_with_arrays(sandbox):
    define(sandbox, "def scale(x, by=2.0):\n    return {'y': x * by, 'n': x.shape}")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    answer = sandbox.get("scale")(x, by=np.float32(3))
    assert answer["y"].dtype == np.float32
    assert np.array_equal(answer["y"], x * 3)
    assert answer["n"] == (2, 3)


def test_an_argument_that_the_call_changed_is_changed_here_too(sandbox):
    define(sandbox, "def fill(a, items, table):\n    a[0] = 7\n    items.append(1)\n    table['k'] = 2")
    a, items, table = np.zeros(3), [0], {}
    sandbox.get("fill")(a, items, table=table)
    assert a.tolist() == [7, 0, 0]
    assert items == [0, 1]
    assert table == {"k": 2}


def test_an_object_of_the_student_s_can_be_used_but_never_asked_to_judge(sandbox):
    define(
        sandbox,
        "class Sly:\n    size = 4\n    def __eq__(self, other): return True\n    def __lt__(self, other): return True\n"
        "    def __bool__(self): return True\n    def __hash__(self): return 1\n    def __array__(self, *a, **k): return 0\n"
        "    def __add__(self, other): return other\n    def __getitem__(self, key): return key\n    def __len__(self): return 3\n"
        "sly = Sly()",
    )
    sly = sandbox.get("sly")
    assert isinstance(sly, Remote)
    assert (sly.size, sly + 5, sly[1:2], len(sly)) == (4, 5, slice(1, 2), 3)
    for judge in (
        lambda: sly == 1,
        lambda: sly != 1,
        lambda: sly < 1,
        lambda: bool(sly),
        lambda: hash(sly),
        lambda: 1 in sly,
    ):
        with pytest.raises(TypeError, match="got an object of class Sly"):
            judge()
    for convert in (np.asarray, np.sum, lambda item: np.testing.assert_allclose(item, 0), float):
        with pytest.raises((TypeError, AssertionError), match=r"object of class Sly|does not support ufuncs"):
            convert(sly)


def test_iterating_a_generator_of_the_student_s_ends_when_it_ends(sandbox):
    define(sandbox, "def count(n):\n    yield from range(n)")
    assert list(sandbox.get("count")(3)) == [0, 1, 2]


def test_an_exception_arrives_as_its_built_in_class(sandbox):
    define(sandbox, "class Odd(ValueError): pass\ndef fail():\n    raise Odd('bad shape')")
    with pytest.raises(ValueError, match="bad shape") as caught:
        sandbox.get("fail")()
    assert isinstance(caught.value, StudentRaised)
    assert caught.value.class_name == "Odd"


@pytest.mark.parametrize("kind", ["SystemExit", "KeyboardInterrupt", "GeneratorExit", "BaseException"])
def test_an_exception_that_would_end_the_runner_arrives_as_an_ordinary_one(sandbox, kind):
    define(sandbox, f"def fail():\n    raise {kind}('stop')")
    with pytest.raises(StudentRaised):
        sandbox.get("fail")()


def test_an_error_class_whose_built_in_base_needs_arguments_still_arrives(sandbox):
    define(sandbox, "def fail():\n    b'\\xff'.decode('utf-8')")
    with pytest.raises(UnicodeDecodeError, match="invalid start byte"):
        sandbox.get("fail")()


def test_a_function_of_the_test_can_be_called_from_student_code_but_not_without_end(sandbox):
    define(
        sandbox,
        "def apply(f, n):\n    total = 0\n    for i in range(n):\n        total += f(i)\n    return total",
    )
    assert sandbox.get("apply")(lambda i: i * i, 5) == 30
    with pytest.raises(SandboxDied):
        sandbox.get("apply")(lambda i: 0, MAX_CALLBACKS + 1)


def test_the_text_of_an_error_inside_the_test_s_function_stays_with_the_test(sandbox):
    define(
        sandbox,
        "def apply(f):\n    try:\n        f(1)\n    except Exception as error:\n        return str(error)",
    )

    def secret(_):
        raise ValueError(CANARY)

    assert sandbox.get("apply")(secret) == "ValueError"


DEATHS = {
    "an endless loop that swallows everything": (
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "TO",
    ),
    "os._exit": ("import os; os._exit(0)", "RE"),
    "a crash": ("import ctypes; ctypes.string_at(0)", "SG"),
    "garbage on the socket": (
        "import os, stat\nfor fd in range(3, 64):\n    try:\n        os.write(fd, b'\\xff' * 64)\n    except OSError: pass",
        "RE",
    ),
}


@pytest.mark.parametrize(("source", "outcome"), DEATHS.values(), ids=DEATHS)
def test_a_sandbox_that_dies_says_of_what_and_the_next_one_works(backend, source, outcome):
    sandbox = backend.spawn()
    sandbox.deadline = time.monotonic() + 2
    with pytest.raises(SandboxDied) as death:
        sandbox.run_cell(source)
        sandbox.run_cell("1")
    assert death.value.outcome == outcome
    again = backend.spawn()
    assert again.run_cell("1 + 1")[0] == "OK"
    again.close()


BOMBS = {
    "bytes": ("x = bytearray(8 << 30)", "ML"),
    "array": ("import numpy as np\nx = np.ones((75 << 30) // 8)", "ML"),
    "shared mapping": ("import mmap\nm = mmap.mmap(-1, 8 << 30)", "RE"),
    "endless output": ("while True:\n    print('x' * 10_000)", "OL"),
    "full disk": (
        "import os\nwith open(os.environ['TMPDIR'] + '/f', 'wb') as f:\n    for _ in range(200):\n        f.write(b'0' * (1 << 20))",
        "RE",
    ),
    "processes": ("import os\nwhile True:\n    os.fork()", "RE"),
    "threads": (
        "import threading, time\nfor _ in range(5000):\n    threading.Thread(target=time.sleep, args=(9,), daemon=True).start()",
        "RE",
    ),
}


@pytest.mark.parametrize(("source", "outcome"), BOMBS.values(), ids=BOMBS)
def test_a_bomb_goes_off_inside(sandbox, source, outcome):
    assert sandbox.run_cell(source)[0] == outcome


FORBIDDEN = {
    "a socket": "import socket; socket.socket()",
    "a program": "import subprocess; subprocess.run(['/bin/true'])",
    "a fork": "import os; os.fork()",
    "writing to the libraries": "import numpy; open(numpy.__file__, 'a')",
    "a mount": "import ctypes; libc = ctypes.CDLL(None, use_errno=True)\nif libc.mount(b'x', b'/tmp', b'tmpfs', 0, None): raise OSError(ctypes.get_errno())",
    "a namespace": "import ctypes; libc = ctypes.CDLL(None, use_errno=True)\nif libc.unshare(0x10000000): raise OSError(ctypes.get_errno())",
    "tracing its parent": "import ctypes; libc = ctypes.CDLL(None, use_errno=True)\nif libc.ptrace(16, 1, 0, 0): raise OSError(ctypes.get_errno())",
    "raising its limits": "import resource; resource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
    "another user": "import os; os.setuid(0)",
    "the host's processes": "open('/proc/self/status')",
    "the host's files": "open('/etc/passwd')",
    "an answer from a person": "input('?')",
}


@pytest.mark.parametrize("source", FORBIDDEN.values(), ids=FORBIDDEN)
def test_student_code_is_refused(sandbox, source):
    outcome, outputs = sandbox.run_cell(source)
    assert outcome == "RE"
    assert outputs[-1]["output_type"] == "error"


def test_student_code_finds_no_file_of_the_course_and_no_other_process(sandbox):
    found = printed(
        sandbox,
        "import os\nfor folder, _, files in os.walk('/'):\n    for name in files:\n"
        "        if name.endswith(('.ipynb', '.db')) or 'solutions' in folder: print(folder, name)\n"
        "print(os.getpid(), len(os.environ))",
    )
    mine = Path(__file__).resolve().parents[2]
    assert str(mine / "solutions") not in found
    assert str(mine / "exercises") not in found
    assert str(mine / "tests") not in found
    assert found.splitlines()[-1].startswith("1 ")


def test_the_memory_of_a_sandbox_holds_nothing_that_only_the_runner_knows(sandbox):
    """A fork of the runner would carry the canary along; a separately executed zygote cannot."""
    source = (
        "import gc, sys\n"
        "seen = [repr(item) for item in gc.get_objects() if isinstance(item, (str, dict, list, tuple))]\n"
        "print(sum(word in text for text in seen for word in [''.join(['canary', '-9f1c', '-in-the'])]))\n"
        "print(sorted(name for name in sys.modules if 'autograder' in name))"
    )
    count, modules = printed(sandbox, source).splitlines()
    assert count == "0"
    for trusted in ("spec", "judging", "subtests", "likeness", "client", "proxy", "release"):
        assert trusted not in modules


def test_the_memory_of_the_zygote_holds_no_canary_of_the_runner(backend, sandbox):
    """Read the zygote's own memory from outside, as only its parent can."""
    sandbox.run_cell("1")
    needle = ("canary-9f1c" + "-in-the-runner").encode()
    assert holds(os.getpid(), needle), "the search itself must work"
    assert not holds(backend.process.pid, needle)


def holds(pid, needle):
    """True when a readable private mapping of process `pid` holds `needle`."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in lines:
            span, flags = line.split()[:2]
            first, last = (int(part, 16) for part in span.split("-"))
            if flags.startswith("rw") and last - first < 1 << 28:
                try:
                    memory.seek(first)
                    if needle in memory.read(last - first):
                        return True
                except OSError:
                    continue
    return False


def test_nothing_is_left_when_the_runner_is_killed(tmp_path):
    script = (
        "import os, sys, time\nfrom autograder.sandbox.backends import ZygoteBackend\n"
        "backend = ZygoteBackend()\nsandbox = backend.spawn()\nprint(backend.process.pid, flush=True)\ntime.sleep(60)"
    )
    runner = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    zygote = int(runner.stdout.readline())
    children = Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split()
    assert len(children) == 1
    runner.kill()
    runner.wait()
    deadline = time.monotonic() + 10
    while any(alive(pid) for pid in (zygote, *map(int, children))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(zygote)
    assert not alive(int(children[0]))


def alive(pid):
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_student_cells_have_an_ipython_of_their_own(sandbox):
    define(sandbox, "import matplotlib.pyplot as plt\nfigure = plt.figure()\nx = get_ipython().user_ns")
    assert "2" in printed(sandbox, "%timeit -n1 -r1 pass\nprint(1 + 1)")
    outcome, outputs = sandbox.run_cell("1 / 0")
    assert outcome == "RE"
    assert outputs[-1]["ename"] == "ZeroDivisionError"
    outcome, outputs = sandbox.run_cell("40 + 2")
    assert outputs[-1]["data"]["text/plain"] == "42"


def test_an_ordinary_user_has_a_sandbox_too():
    """The same jail through a user namespace. Root becomes an ordinary user for it."""
    script = (
        "import os\n"
        "if os.geteuid() == 0:\n"
        "    os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)\n"
        "from autograder.sandbox.backends import ZygoteBackend\n"
        "backend = ZygoteBackend()\nsandbox = backend.spawn()\n"
        "for source in ('1', 'open(\"/etc/passwd\")', 'import socket; socket.socket()', 'import os; os.setuid(1)'):\n"
        "    print(sandbox.run_cell(source)[0])\n"
        "backend.close()"
    )
    command = [sys.executable, "-c", script]
    if os.geteuid() == 0:
        command = with_private_homes_open(command)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd="/", check=False)
    assert done.stdout.split() == ["OK", "RE", "RE", "RE"], done.stderr


def with_private_homes_open(command):
    """The command in a mount namespace where no folder above the installation is closed to other users."""
    needed = {Path(folder).resolve() for folder in (sys.base_prefix, sys.prefix, Path(__file__).parents[2])}
    script = ["set -e", "mount -t tmpfs tmpfs /mnt"]
    again = []
    for number, folder in enumerate(sorted(needed)):
        if folder.stat().st_mode & 0o005 != 0o005:
            pytest.skip(f"{folder} itself is closed to other users")
        closed = [parent for parent in folder.parents if parent.stat().st_mode & 0o005 != 0o005]
        if closed:
            script += [f"mkdir /mnt/{number}", f"mount --bind '{folder}' /mnt/{number}"]
            again.append(f"mount -t tmpfs -o mode=755 tmpfs '{closed[-1]}'")
            again.append(f"mkdir -p '{folder}' && mount --bind /mnt/{number} '{folder}'")
    script += sorted(set(again), key=lambda line: "mkdir" in line)
    return ["unshare", "--mount", "sh", "-c", "\n".join([*script, 'exec "$@"']), "sh", *command]
