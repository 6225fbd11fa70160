"""Several threads in one kernel, which take its tasks one by one until none is left.

Tasks are taken, not dealt out: a thread that the system holds up, because NumPy's BLAS or another
program has its core, takes fewer. The caller works too, and does not wait for a helper that has not
started by the time that all tasks are done.

The threads are Python's, and compiled code does not hold Python's lock. Numba's `prange` was left for
them: its workqueue layer aborts when two threads enter it, its OpenMP layer aborts in a forked child and
waits for every thread, and it compiles each kernel three times over.
"""

import functools
import os
import threading
from queue import SimpleQueue
from typing import Any

import numpy as np
from numba.core import config

from minitx.kernels.compiler import compiled
from minitx.kernels.simd import take_number

THREADS: int = config.NUMBA_NUM_THREADS  # pyright: ignore[reportAttributeAccessIssue]


class _Job:
    """A call that either a helper starts or the caller takes back."""

    def __init__(self, kernel: Any, arguments: tuple[Any, ...]):
        self.kernel, self.arguments = kernel, arguments
        self.unclaimed, self.done = threading.Lock(), threading.Lock()
        self.error: BaseException | None = None
        self.done.acquire()

    def run(self) -> None:
        if self.unclaimed.acquire(blocking=False):
            try:
                self.kernel(*self.arguments)
            except BaseException as error:  # handed to the caller
                self.error = error
            self.done.release()

    def finish(self) -> None:
        if not self.unclaimed.acquire(blocking=False):
            self.done.acquire()
            if self.error is not None:
                raise self.error


def share(kernel: Any, workers: int, *arguments: Any) -> None:
    """Call kernel(worker, taken, *arguments) on so many threads; each works off `next_task` until -1."""
    taken = np.zeros(workers, np.int64)
    jobs = [_Job(kernel, (worker, taken, *arguments)) for worker in range(1, workers)]
    if jobs:
        queue = _helpers(len(jobs))
        for job in jobs:
            queue.put(job)
    kernel(0, taken, *arguments)
    for job in jobs:
        job.finish()


@compiled()
def next_task(worker, taken, tasks):
    """The number of a task that no other thread has, or -1 if none is left.

    A thread first takes the tasks of its own share in order, so that it meets the same data in its own
    cache from call to call, and then those that others have not come to.
    """
    workers = taken.size
    for turn in range(workers):
        owner = (worker + turn) % workers
        first, last = owner * tasks // workers, (owner + 1) * tasks // workers
        if taken[owner] < last - first:
            task = first + take_number(taken, owner)
            if task < last:
                return task
    return -1


@functools.cache
def _queue() -> SimpleQueue[_Job]:
    return SimpleQueue()


_started: list[threading.Thread] = []
_starting = threading.Lock()


def _helpers(count: int) -> SimpleQueue[_Job]:
    """The queue that at least `count` helpers wait at, or fewer where the system allows no more."""
    queue = _queue()
    if len(_started) < count:
        with _starting:
            try:
                while len(_started) < count:
                    helper = threading.Thread(target=_help, args=(queue,), name="minitx", daemon=True)
                    helper.start()
                    _started.append(helper)
            except RuntimeError:
                pass
    return queue


def _help(queue: SimpleQueue[_Job]) -> None:
    while True:
        queue.get().run()


def _forget() -> None:
    """A forked child has none of its parent's threads, and may find its locks taken."""
    global _starting  # noqa: PLW0603
    _started.clear()
    _queue.cache_clear()
    _starting = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
