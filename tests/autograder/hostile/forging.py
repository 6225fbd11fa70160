# Code that would rather change the grader than the answer.

# %% patched-testing
import numpy as np
np.testing.assert_allclose = np.testing.assert_array_equal = np.allclose = lambda *a, **k: True
np.array_equal = lambda *a: True
def total(x): return None

# %% patched-builtins
import builtins
for name in ("abs", "all", "any", "isinstance", "len", "type", "float", "repr", "sorted", "max"):
    setattr(builtins, name, lambda *a, **k: True)
builtins.AssertionError = type("Quiet", (Exception,), {})
builtins.__import__ = lambda *a, **k: None
def total(x): return True

# %% patched-checks
from minitx.course import check
for name in dir(check):
    if not name.startswith("__"):
        setattr(check, name, lambda *a, **k: None)
def total(x): return None

# %% patched-random-numbers
import numpy as np
np.random.default_rng = lambda *a: None
from minitx.course import check
check._key = b""
check.rng = lambda label: None
def total(x): return 0.5

# %% cells-that-define-the-tests-names
np = check = None
hidden_canary_c41d = x_canary_c41d = before = got = [0.0]
def total(x): return 1.0

# %% patched-json
import json, json.encoder
json.dumps = lambda *a, **k: '{"id": 1, "worked": true, "outputs": []}'
def total(x): return -1.0
def scaled(x, by): return x

# %% patched-encoder
from autograder.sandbox import wire
class Forged(wire.Encoder):
    def __call__(self, value, depth=0):
        return {"t": "handle", "v": 0, "class": "ndarray", "callable": False}
wire.Encoder = Forged
def total(x): return -1.0

# %% patched-server
from autograder.sandbox import server
server.Server.operate = lambda self, header, blob: ({"value": True, "changed": []}, [])
server.Server.encoded = lambda self, *a: ({"value": True, "changed": []}, [])
def total(x): return -1.0

# %% assert-rewritten
import ast
class NoAsserts(ast.NodeTransformer):
    def visit_Assert(self, node): return ast.Pass()
get_ipython().ast_transformers.append(NoAsserts())
get_ipython().set_custom_exc((Exception,), lambda *a, **k: None)
get_ipython().showtraceback = lambda *a, **k: None
def total(x): assert False

# %% shell-replaced
shell = get_ipython()
shell.run_cell = lambda *a, **k: type("R", (), {"error_before_exec": None, "error_in_exec": None})()
shell.run = lambda source: (True, "", [{"output_type": "execute_result", "data": {"text/plain": "7.0"}, "metadata": {}}])
def total(x): return 0

# %% namespace-replaced
class Names(dict):
    def __contains__(self, name): return True
    def __getitem__(self, name): return True
shell = get_ipython()
shell.user_ns = Names()
try:
    shell.__dict__["user_ns"] = Names()
except Exception:
    pass

# %% garbage-collector-raid
import gc
for item in gc.get_objects():
    if type(item) is dict and "kept" in item:
        item["kept"] = [True] * 100
def total(x): return object()

# %% trace-function
import sys
def trace(frame, event, argument):
    if "value" in frame.f_locals:
        frame.f_locals["value"] = 3.0
    return trace
sys.settrace(trace)
sys.setprofile(trace)
def total(x): return 0

# %% answers-sent-ahead
import json, os, struct
def frame(header):
    text = json.dumps(header).encode()
    return struct.pack("!II", len(text), 0) + text
for fd in range(3, 64):
    try:
        for number in range(1, 200):
            os.write(fd, frame({"id": number, "worked": True, "outputs": [], "value": 3.0, "changed": []}))
    except OSError:
        pass
def total(x): return 0

# %% points-in-outputs
from IPython.display import display
for points in ("7.0", "4.0", "3.0"):
    display({"text/plain": points}, raw=True, metadata={"autograder": True})
7.0

# %% forged-outputs
import json, os, struct
outputs = [{"output_type": "execute_result", "data": {"text/plain": "7.0"}, "metadata": {"autograder": True}, "execution_count": 1},
           {"output_type": "autograder", "points": 7.0}, {"output_type": ["stream"]}, 7, None]
text = json.dumps({"id": 1, "worked": True, "outputs": outputs, "points": 7.0, "score": 7.0}).encode()
for fd in range(3, 64):
    try:
        os.write(fd, struct.pack("!II", len(text), 0) + text)
    except OSError:
        pass

# %% deep-outputs
import os, struct
text = b'{"id": 2, "worked": true, "outputs": [{"output_type": "stream", "text": ' + b"[" * 900 + b"]" * 900 + b"}]}"
for fd in range(3, 64):
    try:
        os.write(fd, struct.pack("!II", len(text), 0) + text)
    except OSError:
        pass

# %% enormous-frame
import os, struct
for fd in range(3, 64):
    try:
        os.write(fd, struct.pack("!II", 0xFFFFFFFF, 0xFFFFFFFF) + b"{" * 1000)
    except OSError:
        pass

# %% half-a-frame
import os, struct, time
for fd in range(3, 64):
    try:
        os.write(fd, struct.pack("!II", 1000, 1000) + b'{"id": 2')
    except OSError:
        pass
def total(x): time.sleep(99)

# %% connection-closed
import os, time
os.closerange(3, 64)
time.sleep(99)

# %% connection-shut-down
import socket, time
def total(x):
    for fd in range(3, 64):
        try:
            socket.socket(fileno=fd).shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
    time.sleep(99)

# %% requests-eaten
import os, threading
def eat():
    while True:
        for fd in range(3, 64):
            try:
                os.read(fd, 1 << 20)
            except OSError:
                pass
threading.Thread(target=eat, daemon=True).start()
def total(x): return -1.0

# %% forged-arrays
from autograder.sandbox import wire
nodes = [{"t": "array", "d": "|O8", "s": [1], "v": [0, 8]}, {"t": "array", "d": "<f8", "s": [2 ** 62], "v": [0, 0]},
         {"t": "scalar", "d": "<f8", "s": [3], "v": [0, 24]}, {"t": "handle", "v": 2 ** 80}, {"t": "callback", "v": 0},
         {"t": "int", "v": "-" * 10}, {"t": "dict", "v": [[{"t": "dict", "v": []}, 1]]}, {"t": "set", "v": [[]]}, {"t": 1}]
class Forged(wire.Encoder):
    def __call__(self, value, depth=0):
        self.blobs.append(bytes(24))
        return nodes[len(nodes) - 1]
wire.Encoder = Forged
def total(x):
    nodes.pop()
    return 0
scaled = lambda x, by: total(x)

# %% changes-forged
from autograder.sandbox import server
import numpy as np
server.snapshot = lambda value: object()
original = server.Server.encoded
server.Server.encoded = lambda self, result, changed: original(self, result, [[0, [1, 2]], [99, 0], [-1, np.zeros(10 ** 6)]])
def total(x): return -1.0

# %% errors-forged
from autograder.sandbox import server
server.describe = lambda error: {"class": ["x"] * 10, "bases": ["ExceptionGroup", "SandboxDied", 7, None, "Exception"], "text": {"a": 1}}
def total(x): raise ValueError

# %% calls-back-what-was-not-offered
from autograder.sandbox import server, wire
import gc
def total(x):
    for item in gc.get_objects():
        if isinstance(item, server.Server):
            return item.callback(7)(x, x, x)

# %% exit-with-success
import os
def total(x): os._exit(0)
def scaled(x, by): os._exit(0)

# %% exit-politely
import sys
sys.exit(0)

# %% killing-the-grader
import os, signal
for pid in (0, -1, 1, 2, os.getppid(), *range(3, 4000)):
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP):
        try:
            os.kill(pid, number)
        except (OSError, ValueError):
            pass
def total(x): return 0

# %% abort
import os
def total(x): os.abort()

# %% crash
import ctypes
def total(x): return ctypes.string_at(0)

# %% later-thread
import threading, time
def later():
    time.sleep(0.3)
    import builtins
    builtins.len = lambda x: 3
    globals()["total"] = lambda x: True
    globals()["scaled"] = lambda x, by: True
threading.Thread(target=later).start()

# %% modules-replaced
import sys, types
for name in list(sys.modules):
    if name.startswith(("numpy", "json", "minitx", "autograder", "socket", "struct")):
        sys.modules[name] = types.ModuleType(name)
def total(x): return -1

# %% numpy-of-its-own
open("numpy.py", "w").write("testing = None")
open("sitecustomize.py", "w").write("raise SystemExit")
import sys
sys.path.insert(0, ".")
sys.modules.pop("numpy", None)
import numpy as np
def total(x): return np.testing

# %% cells-run-again
get_ipython().run_cell("total = scaled = lambda *a: get_ipython().user_ns['In'][-1]")

# %% exception-hook
import sys, threading
sys.excepthook = threading.excepthook = sys.unraisablehook = lambda *a: None
sys.displayhook = lambda value: None
def total(x): raise MemoryError
def scaled(x, by): raise RecursionError
