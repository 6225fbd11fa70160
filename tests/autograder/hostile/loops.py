# Code that never ends, in every place where code can run.

# %% loop-in-cell
while True:
    pass

# %% loop-that-swallows-everything
def total(x):
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass

# %% loop-in-c
import itertools
def total(x):
    return any(itertools.repeat(0))

# %% huge-power
def total(x):
    return 9 ** 9 ** 9 % 7

# %% slow-pattern
import re
def total(x):
    return re.match(r"(a+)+$", "a" * 60 + "b")

# %% ignoring-signals
import signal
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
while True:
    pass

# %% loop-in-del
class Sticky:
    def __del__(self):
        while True:
            pass
def total(x):
    Sticky()
    return 0

# %% loop-at-exit
import atexit, os, sys
def forever():
    while True:
        pass
atexit.register(forever)
def total(x):
    forever_thread.join()
import threading
forever_thread = threading.Thread(target=forever)
forever_thread.start()
sys.exit(0)

# %% threads-that-spin
import threading
def spin():
    while True:
        pass
for _ in range(8):
    threading.Thread(target=spin, daemon=True).start()
def total(x):
    return -1.0

# %% sleeping
import time
def total(x):
    time.sleep(10_000)

# %% deadlock
import threading
lock = threading.Lock()
lock.acquire()
def total(x):
    lock.acquire()

# %% endless-iterator
class Endless:
    def __iter__(self):
        return self
    def __next__(self):
        return 1.0
    def __getitem__(self, place):
        return 1.0
def total(x):
    return Endless()
scaled = lambda x, by: (1.0 for _ in iter(int, 1))

# %% loop-in-repr
class Slow:
    def __repr__(self):
        while True:
            pass
Slow()

# %% loop-in-import
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        while True:
            pass
sys.meta_path.insert(0, Finder())
import colorsys

# %% busy-alarm
import signal
def again(*_):
    signal.setitimer(signal.ITIMER_REAL, 0.0001)
signal.signal(signal.SIGALRM, again)
again()
def total(x):
    while True:
        pass
