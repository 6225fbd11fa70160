"""Self-attention with its four projections as one operation.

It does what its parts would do one by one, with fewer passes: one product makes queries, keys and values, and
heads are brought into one piece once, for both passes of the attention kernels.
"""

import numpy as np

from minitx import kernels
from minitx.ops.products import rows
from minitx.ops.table import define_joint, floats


def self_attention_forward(x, wq, bq, wk, bk, wv, bv, wo, bo, mask, n_heads, n_kv_heads, causal, scale):
    """x (B, n, d) -> (B, n, d); keeps the joined weights, the heads, their output and log-sum-exp."""
    x, wq, bq, wk, bk, wv, bv, wo, bo = floats(x, wq, bq, wk, bk, wv, bv, wo, bo)
    run, counts = kernels.family("products"), (n_heads, n_kv_heads, n_kv_heads)
    weight = np.concatenate([wq, wk, wv])
    bias = None if bq is None else np.concatenate([bq, bk, bv])
    joined = run.linear(rows(x), weight, bias).reshape(*x.shape[:2], -1)
    q, k, v = run.split_heads(joined, counts)
    out, log_sum = kernels.family("attention").forward(q, k, v, mask, causal, 0, scale)
    merged = rows(run.merge_heads((out,)))
    return run.linear(merged, wo, bo).reshape(x.shape), (weight, q, k, v, out, log_sum, merged)


def self_attention_rule(grad, x, wo, mask, kept, n_heads, causal, scale):
    x, wo = floats(x, wo, like=grad)
    weight, q, k, v, out, log_sum, merged = kept
    run, slopes = kernels.family("products"), rows(grad)
    grad_wo, grad_bo = run.weight_backward(slopes, merged)
    pulled = run.linear_backward(slopes, wo).reshape(*x.shape[:2], -1)
    (pulled,) = run.split_heads(pulled, (n_heads,))
    parts = kernels.family("attention").backward(q, k, v, mask, causal, 0, scale, out, log_sum, pulled)
    joined = rows(run.merge_heads(parts))
    grad_x = run.linear_backward(joined, weight).reshape(x.shape)
    grad_weight, grad_bias = run.weight_backward(joined, rows(x))
    ends = [len(wo[0]), len(wo[0]) + k.shape[1] * k.shape[3]]
    pairs = zip(np.split(grad_weight, ends), np.split(grad_bias, ends), strict=True)
    return grad_x, *[array for pair in pairs for array in pair], grad_wo, grad_bo, None


define_joint("self_attention", self_attention_forward, "x wq bq wk bk wv bv wo bo mask?", self_attention_rule)
