"""Fused attention in Numba: softmax(q k^T scale) v and its gradients, without ever holding n * m scores.

FlashAttention (Dao et al. 2022, arXiv:2205.14135; Dao 2023, arXiv:2307.08691): keys are visited a block
at a time; each query carries a shift and its sum of exponentials so far, and what it has gathered is
scaled down whenever the shift must rise (online softmax, Milakov and Gimelshein 2018, arXiv:1805.02867).
The backward pass computes the weights again from the saved log-sum-exp.

A tile is kept transposed, scores[key, query], with TILE queries side by side in the lanes: maximum and
sum run down the rows, and neither keys nor values need be copied or turned.

Arguments of both functions, as in the NumPy twin:
    q (B, H, n, d), k (B, Hkv, m, d), v (B, Hkv, m, d_v); head h reads keys and values h // (H // Hkv)
    mask    None, or boolean with four axes, each 1 or that of (B, H, n, m); True = may attend
    causal  query i may see the keys up to i + offset
    scale   factor of the scores
"""

import numpy as np

from minitx.kernels import decode
from minitx.kernels.attention_backward import KEYS, backward_tasks
from minitx.kernels.attention_forward import forward_tasks
from minitx.kernels.blocks import TILE
from minitx.kernels.compiler import plain
from minitx.kernels.crew import THREADS, share
from minitx.kernels.layout import LOG2_E, arguments_of, padded

PARALLEL_FROM = 1 << 19  # multiply-adds below which one thread is faster than waking the others


def forward(q, k, v, mask, causal, offset, scale):
    """-> output (B, H, n, d_v) and each query's log-sum-exp (B, H, n), +inf for one without keys."""
    if decode.suits(q, v):
        return decode.forward(q, k, v, mask, causal, offset, scale)
    out = np.empty((*q.shape[:3], v.shape[3]), q.dtype)
    log_sum = np.empty(q.shape[:3], q.dtype)
    arguments = arguments_of(q, k, v, mask, causal, offset)
    tasks = q.shape[0] * q.shape[1] * -(-q.shape[2] // TILE)
    share(forward_tasks, _workers(tasks, q, k, v), *arguments, q.dtype.type(scale * LOG2_E), out, log_sum)
    return out, log_sum


def backward(q, k, v, mask, causal, offset, scale, out, log_sum, grad):
    """-> gradients of q, k and v, with the weights computed again from the log-sum-exp."""
    d, d_v = q.shape[3], v.shape[3]
    q, k, v, out, grad = (padded(x, q.dtype) for x in (q, k, v, out, grad))
    heads = k.shape[0] * k.shape[1]
    workers = _workers(heads * -(-k.shape[2] // KEYS), q, k, v)
    splits = _splits(heads, workers)
    parts_q = np.empty((splits, *q.shape), q.dtype)
    grad_k, grad_v = np.empty(k.shape, q.dtype), np.empty(v.shape, q.dtype)
    arguments = arguments_of(q, k, v, mask, causal, offset)
    results = (out, plain(log_sum, q.dtype), grad, parts_q, grad_k, grad_v)
    share(backward_tasks, min(workers, heads * splits), *arguments, q.dtype.type(scale), *results)
    grad_q = parts_q[0] if splits == 1 else parts_q.sum(axis=0)
    return grad_q[..., :d], grad_k[..., :d], grad_v[..., :d_v]


def _workers(tasks, q, k, v) -> int:
    batch, heads, n, d = q.shape
    work = batch * heads * n * k.shape[2] * (d + v.shape[3])
    return max(1, min(tasks, THREADS)) if work >= PARALLEL_FROM else 1


def _splits(heads: int, workers: int) -> int:
    """In how many parts to deal out each head's keys, so that all threads find work.

    One part needs no copies of the queries' gradients to be added up in the end.
    """
    for splits in range(1, workers):
        if heads * splits % workers == 0 or heads * splits >= 4 * workers:
            return splits
    return workers
