"""The forward pass, one tile of queries at a time. See `attention` for the arguments.

Scores are kept in units of log 2: the factor log2(e) goes into the queries, and exp becomes exp2.

The usual online softmax looks for the largest score of every block before it takes a power. Here a
guess stands in for it: the largest of the first few scores. Any shift gives the same quotients as long
as nothing overflows, and a total that is too large shows it afterwards. So nearly every block takes
the short way, where scores become weights while they are still in registers; a block that fails the
test, or one with an uneven mask, takes the long way.
"""

import numpy as np

from minitx.kernels.blocks import log_sums, row_weights
from minitx.kernels.compiler import compiled
from minitx.kernels.crew import next_task, shared
from minitx.kernels.masks import (
    CLEAR,
    HIDDEN,
    MIXED,
    TILE,
    fill_future,
    fill_hidden,
    keys_in_reach,
    kind_of_block,
)
from minitx.kernels.simd import ahead, pointer
from minitx.kernels.tiles import cut, gather_queries, score_keys, scratch, turn_in, turn_out, weigh_keys

KEYS = 128  # keys of a block
SAMPLE = 6  # keys whose scores make the guess
LARGEST_TOTAL = 2.0**40  # far from overflow, with room for large values
NO_GAP = -(1 << 30)


@compiled()
def _guess_top(keys, d, turned, count, gap, weights, top):
    """top[i] = the largest of the first scores of query i; -> whether every query has one."""
    score_keys(keys, d, pointer(turned), count, pointer(weights))
    fill_future(gap, count, weights)
    for i in range(TILE):
        top[i] = weights[0, i]
    for j in range(1, count):
        for i in range(TILE):
            top[i] = weights[j, i] if weights[j, i] > top[i] else top[i]
    settled = _all_finite(top)
    if not settled:
        for i in range(TILE):
            top[i] = -np.inf
    return settled


@compiled()
def _all_finite(top):
    low, high = top.dtype.type(-np.inf), top.dtype.type(np.inf)
    good = 0
    for i in range(TILE):
        good += 1 if low < top[i] < high else 0
    return good == TILE


@compiled()
def _all_moderate(total):
    limit = total.dtype.type(LARGEST_TOTAL)
    good = 0
    for i in range(TILE):
        good += 1 if total[i] <= limit else 0  # not so for NaN
    return good == TILE


@compiled()
def _online_softmax(scores, count, top, total, shift, rescale):
    """Scores to weights in place, by a shift that is the largest score so far; rescales the total."""
    low, zero = top.dtype.type(-np.inf), top.dtype.type(0)
    for i in range(TILE):
        shift[i] = top[i]
    for j in range(count):
        for i in range(TILE):
            shift[i] = scores[j, i] if scores[j, i] > shift[i] else shift[i]
    for i in range(TILE):
        best = shift[i]
        # -inf - -inf would be NaN; with 0 the weights of a query that has seen no key are 0.
        shift[i] = best if best > low else zero
        rescale[i] = top[i] - shift[i]
        top[i] = best
    start, move, into = pointer(scores), pointer(shift), pointer(total)
    _power(rescale, total)
    for j in range(count):
        row_weights(ahead(start, j * TILE), move, into)


@compiled()
def _power(rescale, total):
    """rescale = 2**rescale, and total times that."""
    for i in range(TILE):
        rescale[i] = np.exp2(rescale[i])
        total[i] *= rescale[i]


@compiled()
def _weigh_by_guess(keys, d, turned, weights, count, gap, top, total, kept):
    """The short way: weights and totals by the shift at hand; -> False, totals kept, if these are large."""
    for i in range(TILE):
        kept[i] = total[i]
    weigh_keys(keys, d, turned, count, pointer(top), gap, weights, pointer(total))
    if _all_moderate(total):
        return True
    for i in range(TILE):
        total[i] = kept[i]
    return False


@compiled()
def _rescale(gathered, rescale):
    for c in range(gathered.shape[0]):
        for i in range(TILE):
            gathered[c, i] *= rescale[i]


@compiled()
def _forward_tile(b, h, first, q, k, v, mask, masked, causal, offset, factor, out, log_sum, space):
    n, d = q.shape[2], q.shape[3]
    m, d_v = v.shape[2], v.shape[3]
    kv = h // (q.shape[1] // k.shape[1])
    rows = min(n, first + TILE) - first
    turned, space = cut(space, d)
    weights, space = cut(space, np.intp(KEYS))
    gathered, space = cut(space, d_v)  # the output, transposed
    lanes_of, space = cut(space, np.intp(5))
    top, total, kept, shift, rescale = lanes_of[0], lanes_of[1], lanes_of[2], lanes_of[3], lanes_of[4]
    turn_in(q[b, h, first : first + rows], factor, turned)
    queries, w = pointer(turned), pointer(weights)
    end = max(0, min(m, first + rows + offset)) if causal else m
    begin, end = keys_in_reach(mask, masked, b, h, 0, end)
    visited, settled = np.bool_(False), np.bool_(False)
    for i in range(TILE):
        top[i], total[i] = -np.inf, 0
    for start in range(begin, end, KEYS):
        stop = min(end, start + KEYS)
        count = stop - start
        kind = kind_of_block(mask, masked, b, h, first, rows, start, stop)
        if kind == HIDDEN:
            continue
        gap = start - (first + offset) if causal else NO_GAP
        keys = pointer(k[b, kv, start:])
        if kind == CLEAR and not visited:
            settled = _guess_top(keys, d, turned, min(SAMPLE, count), gap, weights, top)
        short = kind == CLEAR and settled
        if not (short and _weigh_by_guess(keys, d, queries, w, count, gap, top, total, kept)):
            score_keys(keys, d, queries, count, w)
            fill_future(gap, count, weights)
            if kind == MIXED:
                fill_hidden(mask, b, h, first, rows, start, stop, weights, top.dtype.type(-np.inf))
            _online_softmax(weights, count, top, total, shift, rescale)
            settled = _all_finite(top)
            if visited:
                _rescale(gathered, rescale)
        values = pointer(v[b, kv, start:])
        gather_queries(values, d_v, w, count, gap, pointer(gathered), visited)
        visited = np.bool_(True)
    if not visited:
        gathered[:] = 0
    _finish_tile(
        gathered, top, total, rescale, out[b, h, first : first + rows], log_sum[b, h, first : first + rows]
    )


@compiled()
def _finish_tile(gathered, top, total, rescale, out, log_sum):
    """Divides by the totals and writes a tile's output and its log-sum-exp."""
    dtype = total.dtype
    for i in range(TILE):
        # total is 0 only where no key was allowed; a NaN score makes it NaN, which must stay seen.
        rescale[i] = dtype.type(1) / (total[i] if total[i] != 0 else dtype.type(1))
    _rescale(gathered, rescale)
    turn_out(gathered, out)
    log_sums(pointer(top), pointer(total))
    for i in range(log_sum.size):
        log_sum[i] = top[i] if total[i] != 0 else dtype.type(np.inf)


@shared()
def forward_tasks(deal, q, k, v, mask, masked, causal, offset, factor, out, log_sum):
    """Works off tiles until none is left. The last tiles of a head, long under `causal`, come first."""
    batch, heads, n, d = q.shape
    space = scratch((d + v.shape[3] + KEYS + 5) * TILE, q)
    tiles = (n + TILE - 1) // TILE
    while True:
        task = next_task(deal, batch * heads * tiles)
        if task < 0:
            return
        head, first = task // tiles, TILE * (tiles - 1 - task % tiles)
        b, h = head // heads, head % heads
        _forward_tile(b, h, first, q, k, v, mask, masked, causal, offset, factor, out, log_sum, space)
