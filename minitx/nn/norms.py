"""Normalisation layers, and dropout."""

from __future__ import annotations

import numpy as np

import minitx.functional as F
from minitx.nn.module import Module, Parameter
from minitx.tensor import Tensor


class LayerNorm(Module):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last axis, of size d."""

    def __init__(self, d: int, eps: float = 1e-5, bias: bool = True):
        self.eps = eps
        self.weight = Parameter(np.ones(d, np.float32))
        self.bias = Parameter(np.zeros(d, np.float32)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """x (..., d) -> the same shape."""
        return F.layer_norm(x, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """x / sqrt(mean(x^2) + eps) * weight over the last axis, of size d."""

    def __init__(self, d: int, eps: float = 1e-5):
        self.eps = eps
        self.weight = Parameter(np.ones(d, np.float32))

    def forward(self, x: Tensor) -> Tensor:
        """x (..., d) -> the same shape."""
        return F.rms_norm(x, self.weight, self.eps)


class Dropout(Module):
    """In training, each element 0 with probability p and the others divided by 1 - p; else x itself."""

    def __init__(self, p: float = 0.1, *, rng: np.random.Generator | int | None = None):
        self.p = p
        self.rng = None if rng is None else np.random.default_rng(rng)

    def forward(self, x: Tensor) -> Tensor:
        """x of any shape -> the same shape."""
        return F.dropout(x, self.p, self.training, rng=self.rng)
