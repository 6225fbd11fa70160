"""Layers with one weight matrix: linear and embedding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import minitx.functional as F
from minitx.nn.module import Module, Parameter
from minitx.randomness import generator
from minitx.tensor import Tensor


class Linear(Module):
    """x W^T + b, with W (out_features, in_features) and b (out_features,).

    Both start uniform in +-1 / sqrt(in_features). `rng`: a NumPy generator or a seed.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        rng: np.random.Generator | int | None = None,
    ):
        rng = generator(rng)
        bound = 1 / math.sqrt(in_features)
        self.weight = Parameter(rng.uniform(-bound, bound, (out_features, in_features)).astype(np.float32))
        self.bias = Parameter(rng.uniform(-bound, bound, out_features).astype(np.float32)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """x (..., in_features) -> (..., out_features)."""
        return F.linear(x, self.weight, self.bias)


class Embedding(Module):
    """A table of vectors W (vocabulary, d), one looked up for each id. Starts normal with deviation 0.02."""

    def __init__(self, vocabulary: int, d: int, *, rng: np.random.Generator | int | None = None):
        self.weight = Parameter((0.02 * generator(rng).standard_normal((vocabulary, d))).astype(np.float32))

    def forward(self, ids: Any) -> Tensor:
        """ids (...) integers -> (..., d)."""
        return F.embedding(ids, self.weight)
