"""The arguments of attention in the one layout that its kernels are compiled for."""

from typing import Any

import numpy as np

from minitx.kernels.compiler import plain
from minitx.kernels.simd import VECTOR_BYTES

LOG2_E = 1.4426950408889634
LN_2 = 0.6931471805599453

NO_MASK = np.ones((1, 1, 1, 1), np.bool_)


def arguments_of(q, k, v, mask, causal, offset) -> tuple[Any, ...]:
    """q, k, v, mask, whether there is a mask, causal, offset: each of one type, whatever came."""
    dtype = q.dtype
    allowed = NO_MASK if mask is None else plain(mask, np.bool_)
    return (
        plain(q, dtype),
        plain(k, dtype),
        plain(v, dtype),
        allowed,
        mask is not None,
        bool(causal),
        int(offset),
    )


def fits_lanes(x: np.ndarray) -> bool:
    """Whether the last axis is a multiple of a vector's lanes."""
    return x.shape[-1] * x.itemsize % VECTOR_BYTES == 0


def padded(x: np.ndarray, dtype: Any) -> np.ndarray:
    """x with zeros after its last axis, up to a multiple of the lanes: they change no product."""
    if fits_lanes(x):
        return plain(x, dtype)
    width = VECTOR_BYTES // dtype.itemsize
    wide = np.zeros((*x.shape[:-1], -(-x.shape[-1] // width) * width), dtype)
    wide[..., : x.shape[-1]] = x
    return wide
