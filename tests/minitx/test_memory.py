"""Freed memory that is kept for the next arrays: what a training step asks for again and again."""

import platform
import subprocess
import sys

import pytest

# Ten arrays of 2 MB at a time, as a step has them; prints how many pages the system had to hand out afterwards.
PROGRAM = """
import resource, sys
import numpy as np
from minitx.memory import keep_freed_memory

def step():
    for array in [np.empty(1 << 18) for _ in range(10)]:
        array.fill(1)

if sys.argv[1] == "keep":
    assert keep_freed_memory() and keep_freed_memory()
step(), step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def pages(how):
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_arrays_of_the_same_sizes_get_the_memory_of_those_before_them():
    assert pages("keep") < 200 < pages("leave")


def test_where_the_c_library_is_another_nothing_happens(monkeypatch):
    from minitx import memory

    monkeypatch.setattr(memory.sys, "platform", "darwin")
    assert memory.keep_freed_memory.__wrapped__() is False
