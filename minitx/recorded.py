"""A cache on the graph: for training a model that reads what another model's layers have computed."""

from __future__ import annotations

from typing import Any

import numpy as np

import minitx.functional as F
from minitx.cache import KVCache
from minitx.tensor import Tensor

Pair = tuple[Tensor, Tensor]  # keys and values of a layer, (B, Hkv, n, head_dim)


class RecordedCache(KVCache):
    """A `KVCache` whose keys and values stay tensors, so that gradients flow back through them.

    Attention joins its new keys and values to those held (`join`) in place of `append`. Where a KVCache
    writes behind each row's end, here new ones stand behind the padding of shorter rows, which is masked
    instead. `detach()` gives the same without the gradients, as when a second model is trained on the first
    one's cache and must not change it.
    """

    def __init__(
        self,
        n_layers: int,
        batch: int,
        n_kv_heads: int,
        capacity: int,
        head_dim: int,
        *,
        dtype: Any = np.float32,
    ):
        super().__init__(n_layers, batch, n_kv_heads, 1, head_dim, dtype=dtype)
        shape = (n_layers, batch, n_kv_heads, capacity, head_dim)
        # No memory of its own: whoever reads the arrays in place of the tensors sees NaN, and cannot write.
        self.keys = self.values = np.broadcast_to(np.array(np.nan, dtype), shape)
        self.held: list[Pair | None] = [None] * n_layers
        self._joined: list[Pair | None] = [None] * n_layers  # by a pass that is not over
        self.real = np.zeros((batch, 0), bool)  # which columns of the held are no padding

    def join(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """k and v (B, Hkv, n, head_dim) behind what the layer holds; kept once the cache is advanced."""
        held = self.held[layer]
        both = (k, v) if held is None else (F.concatenate([held[0], k], 2), F.concatenate([held[1], v], 2))
        self._joined[layer] = both
        return both

    def advance(self, counts: int | np.ndarray) -> None:
        joined = self._joined[0]
        if joined is None:
            raise ValueError("Nothing has been joined to this cache: run a model with it first.")
        n = joined[0].shape[2] - self.real.shape[1]
        super().advance(counts)
        new = np.arange(n) < np.broadcast_to(counts, self.batch)[:, None]
        self.held, self.real = self._joined, np.concatenate([self.real, new], axis=1)
        self._joined = [None] * self.n_layers

    def allowed(self, n: int, causal: bool, counts: np.ndarray | None = None) -> np.ndarray | None:
        held = self.real.shape[1]
        if causal and not held:
            return None
        new = np.ones((self.batch, n), bool) if counts is None else np.arange(n) < counts[:, None]
        pairs = new[:, None] & (np.tri(n, dtype=bool) if causal else np.ones((n, n), bool))
        before = np.broadcast_to(self.real[:, None], (self.batch, n, held))
        return np.concatenate([before, pairs], axis=2)[:, None]

    def truncate(self, limits: int | np.ndarray) -> None:
        super().truncate(limits)
        self.real = self.real & (np.cumsum(self.real, axis=1) <= self._lengths[:, None])
        width = int(np.flatnonzero(self.real.any(axis=0)).max(initial=-1)) + 1
        self.real = self.real[:, :width]
        self.held = [pair and (pair[0][:, :, :width], pair[1][:, :, :width]) for pair in self.held]
        self._joined = [None] * self.n_layers

    def detach(self) -> RecordedCache:
        """The same keys and values, cut off from the graph."""
        heads, capacity, head_dim = self.keys.shape[2:]
        other = RecordedCache(self.n_layers, self.batch, heads, capacity, head_dim, dtype=self.dtype)
        other.held = [pair and (pair[0].detach(), pair[1].detach()) for pair in self.held]
        other.real, other._lengths = self.real.copy(), self.lengths
        return other

    def append(self, layer: int, k: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        raise TypeError("A RecordedCache takes tensors: join(layer, k, v).")

    def row(self, b: int) -> KVCache:
        raise TypeError("Rows of a RecordedCache cannot be taken apart; a KVCache's can.")

    def fork(self, rows: Any = None) -> KVCache:
        raise TypeError("A RecordedCache cannot be forked; a KVCache can.")
