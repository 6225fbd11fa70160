"""Several threads in one kernel, which take its tasks one by one until none is left.

Tasks are taken, not dealt out: a thread that the system holds up, because NumPy's BLAS or another
program has its core, takes fewer. The caller works too, and does not wait for a helper that has not
started by the time that all tasks are done.

The threads are Python's, and compiled code does not hold Python's lock. Numba's `prange` was left for
them: its workqueue layer aborts when two threads enter it, its OpenMP layer aborts in a forked child and
waits for every thread, and it compiles each kernel three times over.

To wake a thread takes as long as a small kernel, and so does passing Python's lock from one to another. So
a helper stays in compiled code from one call to the next (`board`), looks out for some hundred
microseconds, and only then goes to sleep.
"""

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core import config

from minitx.kernels import board
from minitx.kernels.compiler import compiled
from minitx.kernels.simd import give_way, read_number, relax, take_number

THREADS: int = config.NUMBA_NUM_THREADS  # pyright: ignore[reportAttributeAccessIssue]
LOOKS = 16_000  # at the board before sleeping, each some 12 ns
WOKEN = 200_000  # of one that was woken: its call is on the way, though the caller may have lost its core

LAUNCH = """
def {name}_on_all(board, workers, taken, arguments):
    everywhere({name}, board, workers, taken, arguments)
"""


def shared() -> Callable[[Callable[..., Any]], Any]:
    """Decorator: `compiled`, for a kernel(deal, *arguments) that `share` calls on several threads.

    What calls it everywhere is compiled for each kernel, beside it: so it comes from the cache on disk.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        kernel, name = compiled()(function), function.__name__
        names = {name: kernel, "everywhere": board.everywhere, "__name__": function.__module__}
        exec(compile(LAUNCH.format(name=name), function.__code__.co_filename, "exec"), names)
        kernel.on_all = compiled()(names[f"{name}_on_all"])
        return kernel

    return decorate


def share(kernel: Any, workers: int, *arguments: Any) -> None:
    """Call kernel((worker, taken), *arguments) on up to so many threads.

    Each works off next_task(deal, ...) until -1. The kernel is one decorated with `shared`.
    """
    if workers > 1:
        _crew.call(workers - 1)
    kernel.on_all(_crew.board, workers, np.zeros(workers, np.int64), arguments)


@compiled()
def next_task(deal, tasks):
    """The number of a task that no other thread has, or -1 if none is left.

    A thread first takes the tasks of its own share in order, so that it meets the same data in its own
    cache from call to call, and then those that others have not come to.
    """
    worker, taken = deal
    workers = taken.size
    for turn in range(workers):
        owner = (worker + turn) % workers
        first, last = owner * tasks // workers, (owner + 1) * tasks // workers
        if taken[owner] < last - first:
            task = first + take_number(taken, owner)
            if task < last:
                return task
    return -1


@compiled()
def help_for_a_while(places, looks):
    """Work for the calls that appear on the board, until none has come within so many looks."""
    looked = 0
    while looked < looks:
        if read_number(places, board.PLACES) > 0 and board.help_once(places):
            looked, looks = 0, LOOKS
        else:
            looked += 1
            if looked < LOOKS:
                relax()
            else:
                give_way()


class _Crew:
    """The helpers of this process, and the board where they find their work."""

    def __init__(self) -> None:
        self.board = np.zeros(board.SIZE, np.int64)
        self.helpers: list[threading.Thread] = []
        self.starting, self.bell = threading.Lock(), threading.Semaphore(0)

    def call(self, helpers: int) -> None:
        """See to it that so many helpers look at the board, or fewer where the system allows no more."""
        if len(self.helpers) < helpers:
            self.start(helpers)
        asleep = int(self.board[board.ASLEEP])
        if asleep:
            self.bell.release(min(asleep, helpers))

    def start(self, helpers: int) -> None:
        # Compiled here, not in several helpers at once.
        help_for_a_while(self.board, 0)
        with self.starting:
            try:
                while len(self.helpers) < helpers:
                    helper = threading.Thread(target=self.help, name="minitx", daemon=True)
                    helper.start()
                    self.helpers.append(helper)
            except RuntimeError:
                pass

    def help(self) -> None:
        places, looks = self.board, LOOKS
        while True:
            help_for_a_while(places, looks)
            # Said before the last look: a caller that comes now either rings or has its call seen. A bell
            # too many costs another round of looking.
            with self.starting:
                places[board.ASLEEP] += 1
            looks = LOOKS
            if not places[board.PLACES]:
                self.bell.acquire()
                looks = WOKEN
            with self.starting:
                places[board.ASLEEP] -= 1


_crew = _Crew()


def _forget() -> None:
    """A forked child has none of its parent's threads, and may find the board in use and locks taken."""
    global _crew  # noqa: PLW0603
    _crew = _Crew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
