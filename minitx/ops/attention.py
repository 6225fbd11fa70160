"""Fused attention: the kernels' forward and backward passes as one operation."""

import numpy as np

from minitx import kernels
from minitx.ops.table import define_joint


def attention_forward(q, k, v, mask, causal, offset, scale):
    """q (B, H, n, d_k), k (B, Hkv, m, d_k), v (B, Hkv, m, d_v) -> output (B, H, n, d_v), log-sum-exp."""
    q, k, v = _one_dtype(q, k, v)
    return kernels.family("attention").forward(q, k, v, mask, causal, offset, scale)


def attention_rule(grad, q, k, v, mask, out, kept, causal, offset, scale):
    q, k, v = _one_dtype(q, k, v)
    run = kernels.family("attention").backward
    return (*run(q, k, v, mask, causal, offset, scale, out, kept, grad), None)


def _one_dtype(*arrays: np.ndarray) -> list[np.ndarray]:
    dtype = np.result_type(*arrays)
    return [array.astype(dtype, copy=False) for array in arrays]


define_joint("attention", attention_forward, "q k v mask?", attention_rule)
