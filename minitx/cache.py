"""The cache of keys and values: what each layer need not compute again for the tokens that have been read."""

from __future__ import annotations

from typing import Any

import numpy as np

from minitx import kernels


class KVCache:
    """Room for the keys and values of every layer, made once; each row of the batch has its own length.

    Args:
        n_layers, batch, n_kv_heads, capacity, head_dim: the axes of `keys` and `values`.
        dtype: float32 or float64, that of the model.
        window, sinks: with a window, a row that is full drops its oldest positions and keeps its first
            `sinks` and its newest `window` ("attention sinks", Xiao et al. 2023, arXiv:2309.17453). The
            capacity must then be sinks + window. A token's position is its place inside the cache.

    A forward pass calls `append` once a layer, which writes behind each row's length, and `advance` at its
    end: a pass that fails on the way leaves the lengths, and with them the contents, as they were.

    Raises ValueError for sizes that are not positive or do not fit together, and in `append` where more
    is written than there is room for, before anything is written.
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
        window: int | None = None,
        sinks: int = 0,
    ):
        sizes = {
            "n_layers": n_layers,
            "batch": batch,
            "n_kv_heads": n_kv_heads,
            "capacity": capacity,
            "head_dim": head_dim,
        }
        for name, size in sizes.items():
            if size < 1:
                raise ValueError(f"{name} must be at least 1, got {size}.")
        if window is not None and (window < 1 or sinks < 0 or sinks + window != capacity):
            raise ValueError(
                f"A cache with a window has capacity = sinks + window, got capacity {capacity}, "
                f"sinks {sinks} and window {window}."
            )
        if window is None and sinks:
            raise ValueError(f"sinks ({sinks}) are what a sliding window keeps: give a window as well.")
        shape = (n_layers, batch, n_kv_heads, capacity, head_dim)
        self.keys, self.values = np.zeros(shape, dtype), np.zeros(shape, dtype)
        self.window, self.sinks = window, sinks
        self._lengths = np.zeros(batch, np.int64)

    @property
    def n_layers(self) -> int:
        return self.keys.shape[0]

    @property
    def batch(self) -> int:
        return self.keys.shape[1]

    @property
    def capacity(self) -> int:
        return self.keys.shape[3]

    @property
    def dtype(self) -> np.dtype:
        return self.keys.dtype

    @property
    def lengths(self) -> np.ndarray:
        """How many positions each row holds, (B,); a copy."""
        return self._lengths.copy()

    @property
    def length(self) -> int:
        """How many positions the longest row holds."""
        return int(self._lengths.max())

    @property
    def is_ragged(self) -> bool:
        """Whether rows differ in length."""
        return bool((self._lengths != self._lengths[0]).any())

    @property
    def nbytes(self) -> int:
        """The memory of all keys and values, used or not."""
        return self.keys.nbytes + self.values.nbytes

    @property
    def bytes_per_token(self) -> int:
        """2 * n_layers * n_kv_heads * head_dim * bytes of a number: what one position of one row takes."""
        return self.nbytes // (self.batch * self.capacity)

    def check_room(self, n: int) -> None:
        """Raise ValueError unless n more positions fit into every row."""
        if self.length + n > self.capacity:
            row = int(self._lengths.argmax())
            raise ValueError(
                f"The cache is full: row {row} holds {self.length} of {self.capacity} positions, and {n} "
                "more do not fit. Make the cache larger, truncate it, or give it a window."
            )

    def append(self, layer: int, k: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Write k and v (B, Hkv, n, head_dim) behind each row's length.

        Returns views of the layer's keys and values (B, Hkv, m, head_dim), m = length + n: in a row that is
        shorter than the longest, what lies beyond its own end must be masked.
        """
        store = kernels.family("cache").append
        store(self.keys[layer], self.values[layer], self._lengths.copy(), k, v)
        m = self.length + k.shape[2]
        return self.keys[layer, :, :, :m], self.values[layer, :, :, :m]

    def advance(self, counts: int | np.ndarray) -> None:
        """What was appended to all layers now belongs to the rows: one count for all, or (B,)."""
        longer = self._lengths + counts
        fewest = counts if isinstance(counts, int) else np.min(counts)
        if max(longer.tolist()) > self.capacity or fewest < 0:
            raise ValueError(
                f"Rows of lengths {self._lengths} cannot grow by {counts} within {self.capacity}."
            )
        self._lengths[...] = longer

    def make_room(self, n: int) -> None:
        """With a window: drop the oldest positions behind the sinks, until n more fit into every row."""
        if self.window is None:
            return
        for layer in range(self.n_layers):
            lengths = self._lengths.copy()
            evict = kernels.family("cache").evict
            evict(self.keys[layer], self.values[layer], lengths, self.sinks, max(0, self.window - n))
        np.minimum(self._lengths, self.sinks + max(0, self.window - n), out=self._lengths)

    def row(self, b: int) -> KVCache:
        """Row b alone, sharing its memory: what is written to one is written to both."""
        return self._of(self.keys[:, b : b + 1], self.values[:, b : b + 1], self._lengths[b : b + 1])

    def truncate(self, limits: int | np.ndarray) -> None:
        """Forget everything behind position `limits`, one number for all rows or (B,)."""
        kernels.family("cache").truncate(self._lengths, limits)

    def fork(self, rows: Any = None) -> KVCache:
        """A cache of its own whose row i is a copy of row rows[i]; all rows by default.

        Two continuations of one prompt: `cache.fork([0, 0])`.
        """
        taken = np.arange(self.batch) if rows is None else np.asarray(rows)
        parts = [
            kernels.family("cache").fork(self.keys[layer], self.values[layer], self._lengths, taken)
            for layer in range(self.n_layers)
        ]
        keys, values = (np.stack([part[which] for part in parts]) for which in (0, 1))
        return self._of(keys, values, parts[0][2])

    def _of(self, keys: np.ndarray, values: np.ndarray, lengths: np.ndarray) -> KVCache:
        other = object.__new__(KVCache)
        other.keys, other.values, other._lengths = keys, values, lengths
        other.window, other.sinks = self.window, self.sinks
        return other

    def allowed(self, n: int, causal: bool, counts: np.ndarray | None = None) -> np.ndarray | None:
        """The mask (B, 1, n, m) for n new queries a row, True = may attend; None where none is needed.

        Query i of row b stands at position lengths[b] + i; of a row's n new keys the first counts[b] are
        real.
        """
        if not self.is_ragged and (causal or counts is None):
            return None
        m = self.length + n
        if causal:
            last = self._lengths[:, None] + np.arange(n)  # (B, n)
        else:
            new = np.full(self.batch, n) if counts is None else counts
            last = np.broadcast_to((self._lengths + new - 1)[:, None], (self.batch, n))
        return (np.arange(m) <= last[:, :, None])[:, None]

    def __repr__(self) -> str:
        layers, batch, heads, capacity, head_dim = self.keys.shape
        return (
            f"KVCache(n_layers={layers}, batch={batch}, n_kv_heads={heads}, capacity={capacity}, "
            f"head_dim={head_dim}, lengths={self._lengths.tolist()})"
        )
