"""Attention of one decode step: new keys and values into the cache, and each head over what it then holds.

A task is one head of keys and one part of its positions; the last part has the new one and writes it. Each
part keeps its largest score, its sum of exponentials and what it gathered, as in `decode`.
"""

import numpy as np

from minitx.kernels.compiler import compiled
from minitx.kernels.layout import LOG2_E
from minitx.kernels.pointwise import place_head
from minitx.kernels.rows import CHUNK, add_weighted_rows, dot_rows, largest, weigh_chunk
from minitx.kernels.simd import ahead, lanes, pointer


@compiled()
def score(keys, d, query, count, slope, first, scores):
    """scores[j] = query . key j + slope (first + j) for j < count, and -inf for the rest of a chunk."""
    number = scores.dtype.type
    s = pointer(scores)
    if d % lanes(s) == 0:
        dot_rows(keys, d, query, count, s)
    else:
        for j in range(count):
            total = number(0)
            for c in range(d):
                total += keys[j * d + c] * query[c]
            scores[j] = total
    if slope != 0:
        for j in range(count):
            scores[j] += slope * number(first + j)
    for j in range(count, CHUNK):
        scores[j] = number(-np.inf)


@compiled()
def add_keys(keys, values, d, query, count, slope, first, scores, gathered, top, total):
    """One chunk of keys for one query; -> the largest score and the total so far."""
    number = scores.dtype.type
    score(keys, d, query, count, slope, first, scores)
    s = pointer(scores)
    best = largest(s)
    if best > top:
        rescale = np.exp2(top - best)
        total *= rescale
        for c in range(d):
            gathered[c] *= rescale
        top = best
    # -inf - -inf would be NaN
    total += weigh_chunk(s, top if top > number(-np.inf) else number(0))
    if d % lanes(s) == 0:
        add_weighted_rows(values, d, s, count, gathered)
    else:
        for j in range(count):
            for c in range(d):
                gathered[c] += scores[j] * values[j * d + c]
    return top, total


@compiled()
def attend(task, shape, layer, starts, vectors, sums, cache, own, parts):
    """Works off task `task` of (B, Hkv, parts).

    `sums` are the products, for one head of keys after another: its queries, its key, its value. starts =
    (biases, angles, slopes) are places among the vectors, -1 for none; cache = (keys, values, lengths), own =
    (queries, scores), and parts = (gathered (B, H, parts, head_dim), top and total (B, H, parts)) is where
    the result goes.
    """
    biases, angles, slopes = starts
    keys, values, lengths = cache
    queries, scores = own
    gathered, tops, totals = parts
    number, d, kv_heads, count = sums.dtype.type, shape.head_dim, shape.n_kv_heads, tops.shape[2]
    group = shape.n_heads // kv_heads
    b, g, part = task // count // kv_heads, task // count % kv_heads, task % count
    p = lengths[b]
    begin, end = part * (p + 1) // count, (part + 1) * (p + 1) // count
    row = ((layer * keys.shape[1] + b) * keys.shape[2] + g) * keys.shape[3]
    k, v = ahead(pointer(keys), row * d), ahead(pointer(values), row * d)
    turn, column = angles + p * d, g * (group + 2) * d
    if part == count - 1:
        last, one = column + group * d, number(1)
        place_head(sums, b, last, d, vectors, biases, turn, shape.rotary, one, k, p * d)
        place_head(sums, b, last + d, d, vectors, biases, turn, np.intp(0), one, v, p * d)
    factor, query = number(d**-0.5 * LOG2_E), pointer(queries)
    for r in range(group):
        h = g * group + r
        place_head(sums, b, column + r * d, d, vectors, biases, turn, shape.rotary, factor, query, r * d)
        tops[b, h, part], totals[b, h, part] = number(-np.inf), number(0)
        for c in range(d):
            gathered[b, h, part, c] = 0
    for start in range(begin, end, CHUNK):
        size = min(CHUNK, end - start)
        for r in range(group):
            h = g * group + r
            slope = vectors[slopes + h] * number(LOG2_E) if slopes >= 0 else number(0)
            into = ahead(pointer(gathered), ((b * shape.n_heads + h) * count + part) * d)
            tops[b, h, part], totals[b, h, part] = add_keys(
                ahead(k, start * d), ahead(v, start * d), d, ahead(query, r * d), size, slope, start - p,
                scores, into, tops[b, h, part], totals[b, h, part],
            )  # fmt: skip


@compiled()
def combine(parts, shape, begin, end, heads):
    """heads[b, h head_dim + c]: the parts of each head from `begin` to `end` put together."""
    gathered, tops, totals = parts
    number, d = heads.dtype.type, shape.head_dim
    for b in range(tops.shape[0]):
        for h in range(begin, end):
            best, total = number(-np.inf), number(0)
            for part in range(tops.shape[2]):
                best = max(best, tops[b, h, part])
            shift = best if best > number(-np.inf) else number(0)
            for c in range(d):
                heads[b, h * d + c] = 0
            for part in range(tops.shape[2]):
                weight = np.exp2(tops[b, h, part] - shift)
                total += weight * totals[b, h, part]
                for c in range(d):
                    heads[b, h * d + c] += weight * gathered[b, h, part, c]
            inverse = number(1) / (total if total != 0 else number(1))
            for c in range(d):
                heads[b, h * d + c] *= inverse
