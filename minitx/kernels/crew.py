"""Several threads in one kernel, which take its tasks one by one until none is left.

Tasks are taken, not dealt out: a thread that the system holds up, because NumPy's BLAS or another
program has its core, takes fewer. The caller works too, and does not wait for a helper that has not
started by the time that all tasks are done.

The threads are Python's, and compiled code does not hold Python's lock. Numba's `prange` was left for
them: its workqueue layer aborts when two threads enter it, its OpenMP layer aborts in a forked child and
waits for every thread, and it compiles each kernel three times over.

To wake a thread takes as long as a small kernel. So a helper that has finished looks out for the next
call for some tens of microseconds before it sleeps, and so does the caller for its helpers' end.
"""

import functools
import os
import threading
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
from numba.core import config

from minitx.kernels.compiler import compiled
from minitx.kernels.simd import read_number, relax, take_number

THREADS: int = config.NUMBA_NUM_THREADS  # pyright: ignore[reportAttributeAccessIssue]
LOOKS = 4000  # at a flag before sleeping, each up to 50 ns
_bell = np.zeros(1, np.int64)  # rung by a caller that has begun


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

    def taken_back(self) -> bool:
        return self.unclaimed.acquire(blocking=False)

    def wait(self) -> None:
        self.done.acquire()
        if self.error is not None:
            raise self.error


def share(kernel: Any, workers: int, *arguments: Any) -> None:
    """Call kernel(deal, *arguments) on so many threads; each works off next_task(deal, ...) until -1."""
    taken = np.zeros(workers + 1, np.int64)  # tasks of each share; threads that have found no more
    jobs = [_Job(kernel, ((worker, taken, _bell), *arguments)) for worker in range(1, workers)]
    if jobs:
        queue = _helpers(len(jobs))
        for job in jobs:
            queue.put(job)
    kernel((0, taken, _bell), *arguments)
    started = [job for job in jobs if not job.taken_back()]
    if started and not wait_for(taken, workers, len(started) + 1, LOOKS):
        for job in started:
            job.wait()


@compiled()
def next_task(deal, tasks):
    """The number of a task that no other thread has, or -1 if none is left.

    A thread first takes the tasks of its own share in order, so that it meets the same data in its own
    cache from call to call, and then those that others have not come to.
    """
    worker, taken, bell = deal
    workers = taken.size - 1
    if worker == 0 and workers > 1 and taken[0] == 0:
        take_number(bell, 0)  # not before: a helper needs Python's lock, which the caller now has let go
    for turn in range(workers):
        owner = (worker + turn) % workers
        first, last = owner * tasks // workers, (owner + 1) * tasks // workers
        if taken[owner] < last - first:
            task = first + take_number(taken, owner)
            if task < last:
                return task
    take_number(taken, workers)
    return -1


@compiled()
def wait_for(flags, index, value, looks):
    """Whether flags[index] reaches `value` within so many looks."""
    for _ in range(looks):
        if read_number(flags, index) >= value:
            return True
        relax()
    return False


@functools.cache
def _queue() -> SimpleQueue[_Job]:
    wait_for(_bell, 0, 0, 1)  # compiled here, not in several helpers at once
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
        rung = int(_bell[0])
        try:
            job = queue.get_nowait()
        except Empty:
            if wait_for(_bell, 0, rung + 1, LOOKS):
                continue
            job = queue.get()
        job.run()


def _forget() -> None:
    """A forked child has none of its parent's threads, and may find its locks taken."""
    global _starting  # noqa: PLW0603
    _started.clear()
    _queue.cache_clear()
    _starting = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
