"""A kernel of several phases, each of which begins when all work of the one before is done.

Every worker goes through all phases. In each it takes chunks until none is left, and then waits until those
that others took are finished. Nobody waits for a worker that has not come: one alone does everything, and
one that comes late finds the first phases done and joins at the current one. So the threads of `crew.share`
can be used as they are, on one core, with the other core taken, or with no second thread at all.

`progress` counts, for each phase, the chunks taken of each worker's share and those finished; each counter
has a cache line of its own.
"""

import numpy as np
from numba import types

from minitx.kernels.compiler import compiled
from minitx.kernels.simd import give_way, intrinsic, read_number, relax, take_number

APART = 8  # counters, of 8 bytes each
LOOKS = 2000  # before the core is offered to another thread


def counters(phases: int, workers: int) -> np.ndarray:
    """Fresh counters for one call."""
    return np.zeros(phases * (workers + 1) * APART, np.int64)


@intrinsic
def add_number(typingctx, counters, index, amount):
    """counters[index] += amount; what was written before is seen by whoever reads the new count."""

    def codegen(context, builder, signature, args):
        start = context.make_array(counters)(context, builder, args[0]).data
        builder.atomic_rmw("add", builder.gep(start, [args[1]]), args[2], "acq_rel")
        return context.get_dummy_value()

    return types.void(counters, types.intp, types.intp), codegen


@compiled()
def take(progress, phase, worker, workers, chunks):
    """The number of a chunk of this phase that no other worker has, or -1: first those of its own share."""
    for turn in range(workers):
        owner = (worker + turn) % workers
        first, last = owner * chunks // workers, (owner + 1) * chunks // workers
        place = (phase * (workers + 1) + owner) * APART
        if read_number(progress, place) < last - first:
            chunk = first + take_number(progress, place)
            if chunk < last:
                return chunk
    return -1


@compiled()
def finish(progress, phase, workers, chunks, done):
    """Adds the chunks that this worker has done, and returns when all of the phase are."""
    place = (phase * (workers + 1) + workers) * APART
    if done:
        add_number(progress, place, done)
    looks = 0
    while read_number(progress, place) < chunks:
        looks += 1
        if looks < LOOKS:
            relax()
        else:
            give_way()
