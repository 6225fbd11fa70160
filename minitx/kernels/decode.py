"""Attention of one or a few queries to many keys in Numba: decoding with a cache.

Every key and value is read once and used a few times, so the speed is that of memory. The keys of a head
are split over threads; each part keeps its largest score, its sum of exponentials and what it gathered,
and the parts are put together by their log-sum-exp ("Flash-Decoding", Dao et al. 2023).

The arguments are those of `attention.forward`.
"""

import numpy as np

from minitx.kernels.compiler import compiled
from minitx.kernels.crew import THREADS, next_task, share, shared
from minitx.kernels.layout import LN_2, LOG2_E, arguments_of, fits_lanes
from minitx.kernels.masks import row_of_mask, trim
from minitx.kernels.rows import CHUNK, add_weighted_rows, dot_rows, largest, weigh_chunk
from minitx.kernels.simd import pointer

MOST_QUERIES = 8  # more fill the lanes of a tile well enough
PART = 256  # fewest keys worth a part of their own
PARALLEL_FROM = 1 << 18  # numbers of keys and values below which one thread is as fast


def suits(q, v) -> bool:
    """Whether these queries are better served here than by tiles of queries."""
    return q.shape[2] <= MOST_QUERIES and fits_lanes(q) and fits_lanes(v)


def forward(q, k, v, mask, causal, offset, scale):
    """-> output (B, H, n, d_v) and each query's log-sum-exp (B, H, n), +inf for one without keys."""
    batch, kv_heads, m, _ = k.shape
    workers = THREADS if k.size + v.size >= PARALLEL_FROM else 1
    parts = max(1, min(-(-4 * workers // max(1, batch * kv_heads)), m // PART)) if workers > 1 else 1
    gathered = np.empty((*q.shape[:3], parts, v.shape[3]), q.dtype)
    top, total = np.empty(gathered.shape[:4], q.dtype), np.empty(gathered.shape[:4], q.dtype)
    arguments = arguments_of(q, k, v, mask, causal, offset)
    share(decode_tasks, workers, *arguments, q.dtype.type(scale * LOG2_E), gathered, top, total)
    out, log_sum = np.empty((*q.shape[:3], v.shape[3]), q.dtype), np.empty(q.shape[:3], q.dtype)
    combine(gathered, top, total, out, log_sum)
    return out, log_sum


@compiled()
def _add_keys(query, keys, values, allowed, scores, gathered, top, total):
    """One chunk of keys for one query; -> the largest score and the total so far."""
    dtype = query.dtype
    low, count = dtype.type(-np.inf), keys.shape[0]
    s = pointer(scores)
    dot_rows(pointer(keys), keys.shape[1], pointer(query), count, s)
    for j in range(count, CHUNK):
        scores[j] = low
    if allowed.size == count:
        for j in range(count):
            if not allowed[j]:
                scores[j] = low
    best = largest(s)
    if best > top:
        rescale = np.exp2(top - best)
        total *= rescale
        for c in range(gathered.size):
            gathered[c] *= rescale
        top = best
    # -inf - -inf would be NaN; with 0 the weights of a query that has seen no key are 0.
    total += weigh_chunk(s, top if top > low else dtype.type(0))
    add_weighted_rows(pointer(values), values.shape[1], s, count, pointer(gathered))
    return top, total


@shared()
def decode_tasks(deal, q, k, v, mask, masked, causal, offset, factor, gathered, top, total):
    """Works off parts of the keys of each head until none is left."""
    batch, kv_heads, m, d = k.shape
    group, n, parts = q.shape[1] // kv_heads, q.shape[2], top.shape[3]
    length = (m + parts - 1) // parts
    queries, scores = np.empty((group * n, d), q.dtype), np.empty(CHUNK, q.dtype)
    nothing = np.empty(0, np.bool_)
    while True:
        task = next_task(deal, batch * kv_heads * parts)
        if task < 0:
            return
        head, part = task // parts, task % parts
        b, kv = head // kv_heads, head % kv_heads
        for r in range(group * n):
            h, i = kv * group + r // n, r % n
            for c in range(d):
                queries[r, c] = q[b, h, i, c] * factor
            for c in range(v.shape[3]):
                gathered[b, h, i, part, c] = 0
            top[b, h, i, part], total[b, h, i, part] = -np.inf, 0
        last = min(m, (part + 1) * length)
        for start in range(part * length, last, CHUNK):
            for r in range(group * n):
                h, i = kv * group + r // n, r % n
                begin, end = start, min(last, start + CHUNK)
                if causal:
                    end = min(end, i + offset + 1)
                allowed = nothing
                if masked:
                    row = row_of_mask(mask, b, h, i)
                    begin, end = trim(row, begin, end)
                    if row.size > 1:
                        allowed = row[begin : max(begin, end)]
                if begin < end:
                    top[b, h, i, part], total[b, h, i, part] = _add_keys(
                        queries[r],
                        k[b, kv, begin:end],
                        v[b, kv, begin:end],
                        allowed,
                        scores,
                        gathered[b, h, i, part],
                        top[b, h, i, part],
                        total[b, h, i, part],
                    )


@compiled()
def combine(gathered, top, total, out, log_sum):
    """Puts the parts of each query's keys together."""
    batch, heads, n, parts, d_v = gathered.shape
    dtype = out.dtype
    for b, h, i in np.ndindex((batch, heads, n)):
        best, summed = top[b, h, i].max(), dtype.type(0)
        shift = best if best > -np.inf else dtype.type(0)
        for c in range(d_v):
            out[b, h, i, c] = 0
        for part in range(parts):
            weight = np.exp2(top[b, h, i, part] - shift)
            summed += weight * total[b, h, i, part]
            for c in range(d_v):
                out[b, h, i, c] += weight * gathered[b, h, i, part, c]
        # summed is 0 only where no key was allowed; a NaN score makes it NaN, which must stay seen.
        divisor = summed if summed != 0 else dtype.type(1)
        for c in range(d_v):
            out[b, h, i, c] /= divisor
        log_sum[b, h, i] = (best + np.log2(summed)) * dtype.type(LN_2) if summed != 0 else np.inf
