# Code that behaves by who asks, how often and when, to get a point or to carry a hidden input out.

# %% remembers-and-prints
seen = []
def total(x):
    seen.append(x.tolist())
    print("SEEN", seen)
    return str(seen)
def scaled(x, by):
    print("SEEN", x.tolist())
    return str(seen)

# %% remembers-in-names
import numpy as np
def total(x):
    raise type("E" + "_".join(map(str, np.ravel(x))), (ValueError,), {})(str(x.tolist()))
def scaled(x, by):
    kind = type("C" + "_".join(map(str, np.ravel(x))), (), {})
    return kind()

# %% remembers-in-files
import json, os
place = os.path.join(os.environ["TMPDIR"], "seen")
if os.path.exists(place):
    print(open(place).read())
def total(x):
    with open(place, "a") as file:
        file.write(str(x.tolist()))
    return open(place).read()

# %% remembers-in-display
from IPython.display import display
kept = []
def total(x):
    display({"text/plain": str(x.tolist())}, raw=True)
    kept.append(display("start", display_id=True))
    kept[-1].update(str(x.tolist()))
    return str(x.tolist())

# %% remembers-in-later-cells
shell = get_ipython()
def total(x):
    shell.user_ns["In"].append(str(x.tolist()))
    shell.events.trigger("post_run_cell", None)
    shell.set_next_input(str(x.tolist()))
    shell.payload_manager.write_payload({"source": "page", "data": str(x.tolist())})
    return -1
shell.events.register("post_run_cell", lambda result: print(shell.user_ns["In"]))

# %% by-count-of-calls
calls = 0
def total(x):
    global calls
    calls += 1
    if calls > 3:
        raise SystemExit(str(x.tolist()))
    return calls - 10.5

# %% time-bomb
import time
born = time.monotonic()
def total(x):
    if time.monotonic() - born > 0.05:
        import os
        os.abort()
    return -0.5

# %% by-caller
import sys
def total(x):
    frame, names = sys._getframe(), []
    while frame:
        names.append(frame.f_code.co_filename + ":" + frame.f_code.co_name)
        frame = frame.f_back
    if any("test" in name or "hidden" in name for name in names):
        return x.sum()
    return names

# %% by-input
def total(x):
    if x.size > 2:
        print(x.tolist())
        return {"inputs": x.tolist()}
    return x.size - 5.0

# %% says-it-by-time
import time
def total(x):
    time.sleep(min(0.3, abs(float(x.ravel()[0])) / 20 if x.size else 0))
    return -2.5

# %% counts-the-tests
import gc
def total(x):
    server = [item for item in gc.get_objects() if type(item).__name__ == "Server"][0]
    print("request", server.request)
    return {"request": server.request + 0.25, "x": x.tolist()}
scaled = lambda x, by: total(x)

# %% fails-by-how-it-fails
def total(x):
    kinds = [ValueError, KeyError, MemoryError, RecursionError, OSError]
    raise kinds[int(abs(x.ravel()[-1]) * 10 if x.size else 0) % 5](f"{x.tolist()}")
def scaled(x, by):
    return total(x)
