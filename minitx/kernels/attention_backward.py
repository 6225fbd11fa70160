"""The backward pass, one head of keys and values at a time. See `attention` for the arguments.

With the weights W = exp(S - log_sum) computed again, tile by tile, and D = rowsum(dO * O):

    dV = W^T dO        dS = W * (dO V^T - D) * scale        dQ = dS K        dK = dS^T Q

Weights and slopes dS lie transposed, [key, query]. All five products then read their left side one
number at a time and their right side by rows as they are in memory; only q and dO are turned, once a
tile. A task owns its keys, so no two threads add to the same gradients of keys and values.
"""

import numpy as np

from minitx.kernels.compiler import compiled
from minitx.kernels.crew import next_task, shared
from minitx.kernels.masks import HIDDEN, MIXED, TILE, fill_hidden, keys_in_reach, kind_of_block
from minitx.kernels.simd import pointer
from minitx.kernels.tiles import (
    cut,
    gather_keys,
    gather_queries,
    scratch,
    slope_keys,
    turn_in,
    turn_out,
    weigh_keys,
)

KEYS = 96  # keys of a block
LOG2_E = 1.4426950408889634
NO_GAP = -(1 << 30)


@compiled()
def _pull(grad, out, log_sum, scale, shift, pull):
    """shift = log_sum in units of log 2, pull = scale * rowsum(grad * out); none beyond the last row."""
    for i in range(TILE):
        shift[i], pull[i] = np.inf, 0
    for i in range(log_sum.size):
        shift[i] = log_sum[i] * shift.dtype.type(LOG2_E)
        summed = pull.dtype.type(0)
        for c in range(grad.shape[1]):
            summed += grad[i, c] * out[i, c]
        pull[i] = summed * scale


@compiled()
def _backward_tile(
    b,
    h,
    first,
    split,
    q,
    k,
    v,
    mask,
    masked,
    causal,
    offset,
    scale,
    out,
    log_sum,
    grad,
    parts_q,
    grad_k,
    grad_v,
    space,
):
    n, d = q.shape[2], q.shape[3]
    m, d_v = v.shape[2], v.shape[3]
    kv = h // (q.shape[1] // k.shape[1])
    rows = min(n, first + TILE) - first
    turned, space = cut(space, d)
    turned_grad, space = cut(space, d_v)
    gathered, space = cut(space, d)  # the gradient of q, transposed
    weights, space = cut(space, np.intp(KEYS))
    slopes, space = cut(space, np.intp(KEYS))
    lanes_of, space = cut(space, np.intp(3))
    shift, pull, ignored = lanes_of[0], lanes_of[1], lanes_of[2]
    queries, gradients = q[b, h, first : first + rows], grad[b, h, first : first + rows]
    turn_in(queries, turned.dtype.type(scale * LOG2_E), turned)
    turn_in(gradients, scale, turned_grad)
    _pull(gradients, out[b, h, first : first + rows], log_sum[b, h, first : first + rows], scale, shift, pull)
    end = max(0, min(m, first + rows + offset)) if causal else m
    begin, end = keys_in_reach(mask, masked, b, h, 0, end)
    splits = parts_q.shape[0]
    visited = np.bool_(False)
    w, s = pointer(weights), pointer(slopes)
    block = begin // KEYS
    block += (split - block) % splits
    for start in range(block * KEYS, end, splits * KEYS):
        low, stop = max(begin, start), min(end, start + KEYS)
        count = stop - low
        kind = kind_of_block(mask, masked, b, h, first, rows, low, stop)
        if kind == HIDDEN:
            continue
        gap = low - (first + offset) if causal else NO_GAP
        keys, values = pointer(k[b, kv, low:]), pointer(v[b, kv, low:])
        weigh_keys(keys, d, pointer(turned), count, pointer(shift), gap, w, pointer(ignored))
        if kind == MIXED:
            fill_hidden(mask, b, h, first, rows, low, stop, weights, shift.dtype.type(0))
        slope_keys(values, d_v, pointer(turned_grad), count, pointer(pull), gap, w, s)
        gather_keys(w, count, gap, pointer(gradients), d_v, pointer(grad_v[b, kv, low:]), rows)
        gather_keys(s, count, gap, pointer(queries), d, pointer(grad_k[b, kv, low:]), rows)
        gather_queries(keys, d, s, count, gap, pointer(gathered), visited)
        visited = np.bool_(True)
    if not visited:
        gathered[:] = 0
    turn_out(gathered, parts_q[split, b, h, first : first + rows])


@shared()
def backward_tasks(
    deal, q, k, v, mask, masked, causal, offset, scale, out, log_sum, grad, parts_q, grad_k, grad_v
):
    """Works off heads of keys, or every splits-th block of one, until none is left."""
    batch, kv_heads, m, d = k.shape
    d_v, splits, group = v.shape[3], parts_q.shape[0], q.shape[1] // k.shape[1]
    space = scratch((2 * d + d_v + 2 * KEYS + 3) * TILE, q)
    while True:
        task = next_task(deal, batch * kv_heads * splits)
        if task < 0:
            return
        head, split = task // splits, task % splits
        b, kv = head // kv_heads, head % kv_heads
        for start in range(split * KEYS, m, splits * KEYS):
            grad_k[b, kv, start : start + KEYS] = 0
            grad_v[b, kv, start : start + KEYS] = 0
        for h in range(kv * group, (kv + 1) * group):
            for first in range(0, q.shape[2], TILE):
                _backward_tile(
                    b,
                    h,
                    first,
                    split,
                    q,
                    k,
                    v,
                    mask,
                    masked,
                    causal,
                    offset,
                    scale,
                    out,
                    log_sum,
                    grad,
                    parts_q,
                    grad_k,
                    grad_v,
                    space,
                )
