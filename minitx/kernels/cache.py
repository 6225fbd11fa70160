"""A cache of keys and values, changed in place in Numba: append, truncate, evict, fork.

Arrays of all functions, as in the NumPy twin:
    keys (B, Hkv, capacity, d_k), values (B, Hkv, capacity, d_v), float32 or float64, one dtype
    lengths (B,) int64: row b holds positions 0 ... lengths[b] - 1; what lies beyond is never read

Everything is checked before the first number is written, so an error leaves all of it as it was: ValueError
for a shape, a length or a write beyond the capacity, DtypeError for a dtype; each names the argument.
Arrays that are not contiguous (a slice along the capacity) are served by the twin.
"""

import math

import numpy as np

from minitx.kernels import cache_numpy
from minitx.kernels.cache_numpy import check_append, check_cache, check_rows, check_window, truncate
from minitx.kernels.compiler import compiled
from minitx.kernels.crew import THREADS, next_task, share, shared
from minitx.kernels.pieces import PARALLEL_FROM, ready
from minitx.kernels.rope import rotate_row

__all__ = ["append", "evict", "fork", "truncate"]


def append(keys, values, lengths, new_keys, new_values, *, angles=None, positions=None, interleaved=False):
    """Write new_keys (B, Hkv, n, d_k) and new_values (B, Hkv, n, d_v) behind each row's end.

    With `angles`, a table of `rope.table`, keys are rotated on the way in: by `positions` (B, n), or by the
    place where they come to stand.
    """
    if not _plain(keys, values):
        cache_numpy.append(
            keys,
            values,
            lengths,
            new_keys,
            new_values,
            angles=angles,
            positions=positions,
            interleaved=interleaved,
        )
        return
    places = check_append(keys, values, lengths, new_keys, new_values, angles, positions)
    dtype, n, half = keys.dtype, new_keys.shape[2], keys.shape[3] // 2
    row = None if angles is None else (half, 2) if interleaved else (2, half)
    if new_keys.size + new_values.size:
        share(
            append_tasks,
            _workers(keys, new_keys.size + new_values.size),
            _rows(keys, row),
            _rows(values),
            ready(lengths, np.int64),
            _rows(ready(new_keys, dtype), row),
            _rows(ready(new_values, dtype)),
            np.empty((0, 2, 0), dtype) if angles is None else ready(angles, dtype),
            ready(places, np.int64),
            keys.shape[:3],
            angles is not None,
            bool(interleaved),
        )
    lengths += n


def evict(keys, values, lengths, sinks, window):
    """Keep the first `sinks` and the last `window` positions of each row that is longer, side by side.

    Attention sinks (Xiao et al. 2023, arXiv:2309.17453). Lengths are changed in place.
    """
    if not _plain(keys, values):
        cache_numpy.evict(keys, values, lengths, sinks, window)
        return
    check_cache(keys, values, lengths)
    check_window(sinks, window)
    moved = int(window * np.count_nonzero(lengths > sinks + window)) * keys.shape[1]
    if moved:
        arrays = _rows(keys), _rows(values), ready(lengths, np.int64)
        workers = _workers(keys, moved * (keys.shape[3] + values.shape[3]))
        share(evict_tasks, workers, *arrays, keys.shape[:3], int(sinks), int(window))
    np.minimum(lengths, sinks + window, out=lengths)


def fork(keys, values, lengths, rows):
    """-> new keys, values and lengths whose row i is a copy of row rows[i]; a row may be taken several times.

    Beyond their lengths the new rows are 0.
    """
    if not _plain(keys, values):
        return cache_numpy.fork(keys, values, lengths, rows)
    check_cache(keys, values, lengths)
    taken = check_rows(rows, len(lengths))
    new_keys = np.zeros((taken.size, *keys.shape[1:]), keys.dtype)
    new_values = np.zeros((taken.size, *values.shape[1:]), keys.dtype)
    new_lengths = lengths[taken]
    moved = int(new_lengths.sum()) * keys.shape[1] * (keys.shape[3] + values.shape[3])
    if moved:
        arrays = _rows(keys), _rows(values), new_lengths, taken, _rows(new_keys), _rows(new_values)
        share(fork_tasks, _workers(new_keys, moved), *arrays, keys.shape[:3])
    return new_keys, new_values, new_lengths


def _plain(keys, values):
    return keys.flags.carray and values.flags.carray


def _workers(keys, moved):
    return min(THREADS, max(1, keys.shape[0] * keys.shape[1])) if moved >= PARALLEL_FROM else 1


def _rows(array, row=None):
    """All positions of all heads as rows (rows, 1, d) or (rows, *row), which a kernel can number."""
    return array.reshape(math.prod(array.shape[:3]), *(row or (1, array.shape[3])))


@compiled()
def _copy(source, row, target, target_row):
    for c in range(source.shape[2]):
        target[target_row, 0, c] = source[row, 0, c]


@shared()
def append_tasks(
    deal, keys, values, lengths, new_keys, new_values, angles, positions, shape, rotated, interleaved
):
    batch, heads, capacity = shape
    n, forward = positions.shape[1], keys.dtype.type(1)
    while True:
        task = next_task(deal, batch * heads)
        if task < 0:
            return
        b = task // heads
        row, target = task * n, task * capacity + lengths[b]
        for i in range(n):
            if rotated:
                position = positions[b, i]
                rotate_row(new_keys, row + i, angles, position, interleaved, forward, keys, target + i)
            else:
                _copy(new_keys, row + i, keys, target + i)
            _copy(new_values, row + i, values, target + i)


@shared()
def evict_tasks(deal, keys, values, lengths, shape, sinks, window):
    batch, heads, capacity = shape
    while True:
        task = next_task(deal, batch * heads)
        if task < 0:
            return
        moved = lengths[task // heads] - window - sinks
        if moved > 0:
            # Every position moves to a smaller one, so in rising order none is overwritten before it is read.
            for target in range(task * capacity + sinks, task * capacity + sinks + window):
                _copy(keys, target + moved, keys, target)
                _copy(values, target + moved, values, target)


@shared()
def fork_tasks(deal, keys, values, lengths, rows, new_keys, new_values, shape):
    _, heads, capacity = shape
    while True:
        task = next_task(deal, rows.size * heads)
        if task < 0:
            return
        b, h = task // heads, task % heads
        row, target = (rows[b] * heads + h) * capacity, task * capacity
        for i in range(lengths[b]):
            _copy(keys, row + i, new_keys, target + i)
            _copy(values, row + i, new_values, target + i)
