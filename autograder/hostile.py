"""The kinds of hostile code that `autograder selftest` tries on a machine, and a small unit to try them on.

A kind is one short submission. The corpus of the test suite has several of each and many more.
"""

from __future__ import annotations

from dataclasses import dataclass

from autograder.spec import Spec, SpecCell

# In the hidden tests; looked for in everything that a student would see. The last is a hidden input.
CANARY = ("canary_7e5f", "canary-7e5f", "4242.0625")


@dataclass(frozen=True)
class Kind:
    """One hostile submission. `ends` are the outcomes of which at least one must be met, if any are given.

    A patient one is given the time of a right answer: stopped early, it would have shown nothing.
    """

    name: str
    source: str
    ends: tuple[str, ...] = ()
    patient: bool = False


_ANSWER = '''def total(x):
    """The sum of the numbers in `x`."""
    return x.sum()
'''
_TEST = """### Test: the sum of two numbers (1 point)
assert total(np.array([1.0, 2.5])) == 3.5
### BEGIN HIDDEN TESTS
### Test: the sum of a table (2 points)
canary_7e5f = np.array([[1.0, 4242.0625], [2.0, -3.0]])  # canary-7e5f
expected = canary_7e5f.sum()
# strict: without it an empty array is close to every number.
np.testing.assert_allclose(np.asarray(total(canary_7e5f)), expected, err_msg="canary-7e5f", strict=True)
### END HIDDEN TESTS
"""
SPEC = Spec(
    "selftest",
    (
        SpecCell("imports", "provided", "code", "import numpy as np", "import numpy as np"),
        SpecCell("answer", "solution", "code", _ANSWER, "def total(x):\n    raise NotImplementedError()\n"),
        SpecCell("test-total", "test", "code", _TEST, _TEST.partition("### BEGIN")[0], 3.0),
    ),
)

_LOOK = """
import gc, inspect, linecache, os
def look(*_):
    texts = [repr(linecache.cache), repr(dict(os.environ)), repr(get_ipython().user_ns.get("In"))]
    frame = inspect.currentframe()
    while frame is not None:
        texts += map(repr, [*frame.f_locals.values(), *frame.f_globals.values()])
        frame = frame.f_back
    texts += [item for item in gc.get_objects() if isinstance(item, str)]
    for folder, _, files in os.walk("/"):
        if "site-packages" not in folder and "/usr" not in folder:
            for name in files:
                try:
                    texts.append(open(os.path.join(folder, name), errors="replace").read(1 << 20))
                except OSError:
                    pass
    # The words are put together only here: a list of them would be found among the variables.
    found = [text for text in texts for mark in "-_" if "canary" + mark + "7e5f" in text]
    print("found", found)
    return found
"""

KINDS = (
    Kind(
        "an endless loop",
        "def total(x):\n    while True:\n        try:\n            while True: pass\n"
        "        except BaseException: pass",
        ("TO",),
    ),
    Kind("an endless loop in C", "import itertools\ndef total(x): return any(itertools.repeat(0))", ("TO",)),
    Kind(
        "ignored signals",
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: pass",
        ("TO",),
    ),
    Kind(
        "a finalizer that never ends",
        "class Sticky:\n    def __del__(self):\n        while True: pass\ndef total(x):\n    Sticky()",
        ("TO",),
    ),
    Kind("a memory bomb", "hoard = []\nwhile True: hoard.append(bytearray(1 << 26))", ("ML", "TO")),
    Kind("an array of 75 GB", "def total(x): return np.ones((75 << 30) // 8)", ("ML",)),
    Kind("a fork bomb", "import os\nwhile True: os.fork()", ("RE",)),
    Kind(
        "a thread bomb",
        "import threading, time\nthreading.stack_size(32768)\nfor _ in range(50_000):\n"
        "    threading.Thread(target=time.sleep, args=(99,), daemon=True).start()",
        ("RE", "ML", "TO"),
    ),
    Kind(
        "a full disk",
        "import os\nwith open(os.environ['TMPDIR'] + '/f', 'wb') as file:\n"
        "    while True: file.write(bytes(1 << 20))",
        ("RE",),
    ),
    Kind(
        "a million files",
        "import os\nfor number in range(1_000_000): open(f\"{os.environ['TMPDIR']}/{number}\", 'w').close()",
        ("RE", "ML", "TO"),
    ),
    Kind(
        "no file descriptors left",
        "import os\nkept = []\nwhile True: kept.append(os.open('/dev/null', 0))",
        ("RE",),
    ),
    Kind("an output flood", "def total(x):\n    while True: print('x' * 100_000)", ("OL",)),
    Kind("an answer too large to send", "def total(x): return np.zeros(70 << 20, dtype=np.uint8)", ("OL",)),
    Kind("a list 100,000 deep", "def total(x):\n    for _ in range(100_000): x = [x]\n    return x"),
    Kind("deep recursion", "import sys\nsys.setrecursionlimit(1 << 30)\ndef total(x): return [total(x)]"),
    Kind("a crash", "import ctypes\ndef total(x): return ctypes.string_at(0)", ("SG",)),
    Kind("a sudden exit", "import os\ndef total(x): os._exit(0)", ("RE",)),
    Kind("a polite exit", "import sys\ndef total(x): sys.exit(0)\nsys.exit(0)", ("RE",)),
    Kind(
        "the whole machine's processes killed",
        "import os\nos.kill(-1, 9)\ndef total(x): os.kill(os.getppid(), 9)",
    ),
    Kind(
        "an object that is equal to everything",
        "class Equal:\n    def __eq__(self, other): return True\n    def __bool__(self): return True\n"
        "    def __array__(self, *a, **k): return np.zeros(1)\ndef total(x): return Equal()",
        ("WA",),
    ),
    Kind(
        "an array that lies",
        "class Sly(np.ndarray):\n    def __eq__(self, other): return np.True_\n"
        "    def __array_function__(self, *a): return True\ndef total(x): return np.zeros(()).view(Sly)",
        ("WA",),
    ),
    Kind(
        "a number that lies",
        "class Float(float):\n    def __eq__(self, other): return True\n    __hash__ = float.__hash__\n"
        "def total(x): return Float(1)",
        ("WA",),
    ),
    Kind(
        "NumPy's tests replaced",
        "np.testing.assert_allclose = lambda *a, **k: True\n"
        "import builtins\nbuiltins.isinstance = lambda *a: True\ndef total(x): return None",
    ),
    Kind(
        "answers forged on the socket",
        "import json, os, struct\nfor fd in range(3, 64):\n    for number in range(1, 99):\n"
        "        text = json.dumps({'id': number, 'worked': True, 'outputs': [], 'value': 7.0}).encode()\n"
        "        try: os.write(fd, struct.pack('!II', len(text), 0) + text)\n        except OSError: pass",
    ),
    Kind(
        "garbage on the socket",
        "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'\\xff' * 4096)\n"
        "    except OSError: pass",
    ),
    Kind("the socket closed", "import os\nos.closerange(3, 64)\nwhile True: pass"),
    Kind(
        "the sandbox's own code replaced",
        "from autograder.sandbox import server\n"
        "server.Server.operate = lambda *a: ({'value': True, 'changed': []}, [])",
    ),
    Kind(
        "a thread that acts later",
        "import threading, time\ndef later():\n    time.sleep(0.2)\n    globals()['total'] = lambda x: True\n"
        "threading.Thread(target=later).start()",
    ),
    Kind("an empty answer", "def total(x): return []", ("WA",)),
    Kind("a search for hidden tests", _LOOK + "total = look\nlook()", ("WA",), patient=True),
    Kind(
        "a hidden input remembered and printed",
        "seen = []\ndef total(x):\n    seen.append(x.tolist())\n    print(seen)\n"
        "    raise type('E' + str(seen), (ValueError,), {})(seen)",
        ("RE",),
    ),
    Kind(
        "the network",
        "import socket\ndef total(x): return socket.create_connection(('127.0.0.1', 22))",
        ("RE",),
    ),
    Kind(
        "another program",
        "import subprocess\ndef total(x): return subprocess.check_output(['ls', '/'])",
        ("RE",),
    ),
    Kind(
        "writing into the libraries",
        "import os\ndef total(x):\n    with open(np.__file__, 'a') as file: file.write('#')\n    return -1.0",
        ("RE",),
    ),
    Kind(
        "links to the outside",
        "import os\nos.symlink('/etc/passwd', 'link')\ndef total(x): return open('link').read()",
        ("RE",),
    ),
    Kind(
        "calls of another architecture",
        "import ctypes, mmap\npage = mmap.mmap(-1, 4096, prot=7)\n"
        "page.write(bytes([184, 20, 0, 0, 0, 205, 128, 195]))\n"
        "def total(x):\n    at = ctypes.addressof(ctypes.c_char.from_buffer(page))\n"
        "    return [ctypes.CFUNCTYPE(ctypes.c_int)(at)()]",
    ),
    Kind(
        "scripts and terminal codes",
        "from IPython.display import HTML, display\ndisplay(HTML('<script>alert(1)</script>'))\n"
        "print('\\x1b[2J\\x00\\ud800')\ndef total(x): raise ValueError('\\ud800\\x1b[2J')",
        ("RE",),
    ),
)
