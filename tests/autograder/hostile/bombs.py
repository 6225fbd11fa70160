# Code that takes more of something than there is.

# %% fork-bomb
import os
while True:
    os.fork()

# %% fork-bomb-below-python
import ctypes
libc = ctypes.CDLL(None)
def total(x):
    for _ in range(100_000):
        libc.fork()
        libc.vfork()
        libc.syscall(56, 17, 0, 0, 0, 0)
    return -1.0

# %% thread-bomb
import threading, time
threading.stack_size(32768)
def total(x):
    for _ in range(50_000):
        threading.Thread(target=time.sleep, args=(99,), daemon=True).start()

# %% memory-bomb
hoard = []
while True:
    hoard.append(bytearray(1 << 24))

# %% array-of-75-gigabytes
import numpy as np
def total(x):
    return np.ones((75 << 30) // 8)

# %% doubling-string
def total(x):
    text = "ha"
    while True:
        text += text

# %% shared-memory
import mmap
def total(x):
    kept = [mmap.mmap(-1, 1 << 28) for _ in range(100)]
    return -1.0

# %% full-disk
import os
def total(x):
    with open(os.path.join(os.environ["TMPDIR"], "big"), "wb") as file:
        while True:
            file.write(bytes(1 << 20))

# %% sparse-file
import os
def total(x):
    with open(os.path.join(os.environ["TMPDIR"], "sparse"), "wb") as file:
        file.truncate(1 << 45)
        file.seek(1 << 44)
        file.write(b"x")

# %% a-million-files
import os
def total(x):
    for number in range(1_000_000):
        open(os.path.join(os.environ["TMPDIR"], str(number)), "w").close()

# %% deep-folders
import os
os.chdir(os.environ["TMPDIR"])
for _ in range(100_000):
    os.mkdir("d")
    os.chdir("d")

# %% out-of-descriptors
import os
kept = []
while True:
    kept.append(os.open("/dev/null", os.O_RDONLY))

# %% full-pipes
import os
def total(x):
    for _ in range(1000):
        read, write = os.pipe()
        os.set_blocking(write, False)
        os.write(write, bytes(65536))

# %% recursion
def total(x):
    return total(x) + 1

# %% recursion-without-limit
import sys
sys.setrecursionlimit(1 << 30)
def deeper(f):
    return sorted([1, 2], key=lambda _: deeper(f))
def total(x):
    return deeper(deeper)

# %% deep-list
def total(x):
    deep = []
    for _ in range(100_000):
        deep = [deep]
    return deep

# %% enormous-integer
def total(x):
    return 10 ** 10_000_000

# %% enormous-string
def total(x):
    return "9" * (500 << 20)

# %% many-timers
import signal, threading
def total(x):
    kept = [threading.Timer(99, print) for _ in range(100_000)]
    for timer in kept:
        timer.start()

# %% many-modules
import sys, types
while True:
    name = "m" * 10_000 + str(len(sys.modules))
    sys.modules[name] = types.ModuleType(name)
