"""How things are timed: two sides in turn, medians, and the machine's own limits in the same run.

Two pools of threads on few cores disturb each other: PyTorch's wait for work in a busy loop for a while.
So each side warms up with one untimed call, after a pause in which the other side's threads fall asleep.
"""

import functools
import statistics
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from minitx.kernels.crew import THREADS, next_task, share, shared
from minitx.kernels.rows import dot_rows
from minitx.kernels.simd import pointer
from minitx.kernels.tiles import TILE, add_product

PAUSE = 0.03  # seconds until another pool's threads sleep
ROUNDS = 7
SECONDS = 0.15  # for each side in each round


@functools.cache
def torch() -> Any:
    """PyTorch, imported only where it is measured."""
    return import_module("torch")


def as_row(workload, size, minitx_ms, peer, peer_ms, goal, limit_share, max_error) -> dict[str, Any]:
    """One row of the table; a goal, a limit or an error that there is none of is None."""
    return {
        "workload": workload,
        "size": size,
        "minitx_ms": minitx_ms,
        "peer": peer,
        "peer_ms": peer_ms,
        "ratio": peer_ms / minitx_ms,
        "goal": goal,
        "limit_share": limit_share,
        "max_error": max_error,
    }


def in_turn(ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int = ROUNDS) -> tuple[float, float]:
    """Median milliseconds of each, from rounds of several calls of one and then several of the other."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for call, kept in zip((theirs, ours), (times[1], times[0]), strict=True):
            time.sleep(PAUSE)
            call()
            end = time.perf_counter() + SECONDS
            while True:
                start = time.perf_counter()
                call()
                now = time.perf_counter()
                kept.append(1e3 * (now - start))
                if now > end:
                    break
    return statistics.median(times[0]), statistics.median(times[1])


@shared()
def _multiply_add(deal, tasks, a, b, c):
    one, step, fresh = np.intp(1), np.intp(TILE), np.bool_(False)
    rows, inner = a.shape
    left, right, into = pointer(a), pointer(b), pointer(c)
    while next_task(deal, tasks) >= 0:
        add_product(left, inner, one, right, step, into, step, rows, step, inner, fresh)


@shared()
def _read(deal, x, query, sums):
    """sums[task] = products of the rows of x[task] with a query: the fastest reading at hand."""
    while True:
        task = next_task(deal, x.shape[0])
        if task < 0:
            return
        dot_rows(pointer(x[task]), x.shape[2], pointer(query), x.shape[1], pointer(sums[task]))


_peaks: list[float] = []


def peak_flops() -> float:
    """Multiply-adds (counted twice) a second of all cores, in products that stay in the first cache.

    Measured anew at every call; the result is the most that was seen in this run, since other programs
    can only make it look lower.
    """
    tasks, (rows, inner) = 4000, (24, 256)
    a, b, c = (np.ones(shape, np.float32) for shape in ((rows, inner), (inner, TILE), (rows, TILE)))
    seconds = _fastest(lambda: share(_multiply_add, THREADS, tasks, a, b, c))
    _peaks.append(2.0 * tasks * rows * inner * TILE / seconds)
    return max(_peaks)


def read_speed(size: int) -> float:
    """Bytes a second at which all cores read an array of `size` bytes, again and again."""
    x = np.ones((16, size // 16 // 256, 64), np.float32)
    query, sums = np.ones(64, np.float32), np.empty(x.shape[:2], np.float32)
    return x.nbytes / _fastest(lambda: share(_read, THREADS, x, query, sums))


def _fastest(call: Callable[[], Any], bursts: int = 10, repetitions: int = 6) -> float:
    """Seconds of the fastest call; in bursts, since other programs may hold a core for a while."""
    times = []
    for _ in range(bursts):
        time.sleep(PAUSE)
        for _ in range(repetitions):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
    return min(times)
