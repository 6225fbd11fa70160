"""Memory that is freed and soon asked for again, kept in the process."""

from __future__ import annotations

import ctypes
import functools
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's numbers for mallopt
_LARGEST = 32 << 20  # the most that glibc lets _MMAP_THRESHOLD be
_KEPT = 1 << 30


@functools.cache
def keep_freed_memory() -> bool:
    """Let the C library keep freed arrays of up to 32 MB for the next ones, up to 1 GB; whether it can.

    Each training step frees some hundred arrays and asks for as many of the same sizes. Left to itself, glibc
    hands large ones back to the system, which has to clear every page that it gives out again: a quarter of a
    step of a small GPT. Other C libraries than glibc are left as they are.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _LARGEST) and mallopt(_TRIM_THRESHOLD, _KEPT))
