"""Rotary positions: queries and keys turned by an angle that grows with their position."""

import numpy as np

from minitx import kernels
from minitx.ops.table import define


def rotary_forward(x, positions, base, layout):
    """x (..., n, head_dim), positions (n,) or (B, n) with B the first axis of x."""
    return _rotate(x, positions, base, layout, False)


def rotary_rule(grad, positions, base, layout):
    return _rotate(grad, positions, base, layout, True)


def _rotate(x: np.ndarray, positions: np.ndarray, base: float, layout: str, inverse: bool) -> np.ndarray:
    rope = kernels.family("rope")
    n, head_dim = x.shape[-2:]
    batch = x.shape[0] if positions.ndim == 2 else 1
    angles, places = rope.table_for(positions.reshape(-1, n), head_dim, base, x.dtype)
    heads = x.size // max(1, batch * n * head_dim)
    out = rope.rotate(x.reshape(batch, heads, n, head_dim), angles, places, layout == "interleaved", inverse)
    return out.reshape(x.shape)


define("rotary", rotary_forward, x=rotary_rule, positions=None)
