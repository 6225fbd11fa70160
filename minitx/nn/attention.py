"""Multi-head attention: projections around `F.attention`, with positions, grouped queries and a cache."""

from __future__ import annotations

from typing import Any

import numpy as np

import minitx.functional as F
from minitx.attention import self_attention
from minitx.cache import KVCache
from minitx.errors import shape_error
from minitx.graph import is_recording
from minitx.nn.linear import Linear
from minitx.nn.module import Module
from minitx.nn.positions import Positions
from minitx.randomness import generator
from minitx.recorded import RecordedCache
from minitx.tensor import Tensor, as_tensor


class MultiHeadAttention(Module):
    """Concat(head_1 ... head_H) W_o, head_h = attention(x W_q, c W_k, c W_v) (Vaswani et al. 2017, 3.2.2).

    Args:
        d_model: width of the input and of the output.
        n_heads: heads of queries.
        n_kv_heads: heads of keys and values, a divisor of n_heads, by default as many: each serves
            n_heads / n_kv_heads heads of queries in a row (grouped queries).
        bias: whether the four projections have one.
        positions: rotary positions or ALiBi, shared by the layers of a model.
        head_dim: d_model / n_heads by default.
        rng: generator or seed of the initial weights.

    The projections are `q_proj`, `k_proj`, `v_proj` and `out_proj`. Raises ValueError where the heads do
    not divide as they must.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int | None = None,
        bias: bool = True,
        positions: Positions | None = None,
        *,
        head_dim: int | None = None,
        rng: np.random.Generator | int | None = None,
    ):
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        if n_heads < 1 or n_kv_heads < 1 or n_heads % n_kv_heads:
            raise ValueError(
                f"n_heads must be a multiple of n_kv_heads, got {n_heads} and {n_kv_heads}: each head of "
                "keys serves the same number of heads of queries."
            )
        if head_dim is None and d_model % n_heads:
            raise ValueError(f"d_model {d_model} does not divide into {n_heads} heads; give head_dim.")
        rng = generator(rng)
        self.d_model, self.n_heads, self.n_kv_heads = d_model, n_heads, n_kv_heads
        self.head_dim = d_model // n_heads if head_dim is None else head_dim
        self.q_proj = Linear(d_model, n_heads * self.head_dim, bias, rng=rng)
        self.k_proj = Linear(d_model, n_kv_heads * self.head_dim, bias, rng=rng)
        self.v_proj = Linear(d_model, n_kv_heads * self.head_dim, bias, rng=rng)
        self.out_proj = Linear(n_heads * self.head_dim, d_model, bias, rng=rng)
        self.positions = positions

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        mask: Any = None,
        causal: bool = False,
        positions: np.ndarray | None = None,
        cache: KVCache | None = None,
        layer: int = 0,
        return_weights: bool = False,
    ) -> Any:
        """x (B, n, d_model) -> the same shape; with return_weights also the weights (B, H, n, m).

        Args:
            context: (B, m, d_model) that keys and values are made of (cross-attention); x by default.
            mask: boolean, True = may attend, broadcastable to (B, H, n, m).
            causal: query i of n may see the keys up to i + (m - n).
            positions: of the n tokens, (n,) or (B, n); 0 ... n - 1 by default, behind a cache its lengths on.
            cache, layer: keys and values are appended to this layer, and all that it holds are attended to.
                In a cache no gradient is kept: one flows to the new keys and values only. The caller masks
                what lies beyond a shorter row's end, and advances the cache.

        Raises ValueError for a wrong shape, and for a context together with a cache.
        """
        x = self._check("x", x)
        source = x if context is None else self._check("context", context)
        if context is not None and cache is not None:
            raise ValueError("A context is not cached: pass either context or cache.")
        if context is None and cache is None and self.positions is None and not return_weights:
            return self_attention(
                x, self._projections(), self.n_heads, self.n_kv_heads, mask=mask, causal=causal
            )
        q = self._split(self.q_proj(x), self.n_heads)
        k = self._split(self.k_proj(source), self.n_kv_heads)
        v = self._split(self.v_proj(source), self.n_kv_heads)
        if context is None:
            q, k, v = self._place(q, k, v, positions, cache, layer)
        scale = self.head_dim**-0.5
        if self.positions is not None and context is None:
            q, k = self.positions.extend(q, k, causal)
        options: dict[str, Any] = {"mask": mask, "causal": causal, "scale": scale}
        if return_weights:
            heads, weights = F.scaled_dot_product_attention(q, k, v, **options)
            return self.out_proj(_merge(heads)), weights
        return self.out_proj(_merge(F.attention(q, k, v, **options)))

    def _projections(self) -> list[tuple[Tensor, Tensor | None]]:
        layers = (self.q_proj, self.k_proj, self.v_proj, self.out_proj)
        return [(layer.weight, layer.bias) for layer in layers]

    def _place(self, q, k, v, positions, cache, layer):
        """Queries and keys at their positions, and the keys and values of the cache before the new ones."""
        n, turn = q.shape[2], self.positions
        if positions is None:
            positions = np.arange(n) if cache is None else cache.lengths[:, None] + np.arange(n)
        if turn is not None:
            q = turn.rotate(q, positions)
        # In a window a key moves when older ones leave: it is kept as it is, and turned when it is read.
        moving = cache is not None and cache.window is not None
        if turn is not None and not moving:
            k = turn.rotate(k, positions)
        if cache is not None:
            k, v = _through_cache(cache, layer, k, v)
        if turn is not None and moving:
            k = turn.rotate(k, np.arange(k.shape[2]))
        return q, k, v

    def _check(self, name: str, x: Any) -> Tensor:
        x = as_tensor(x)
        if x.ndim != 3 or x.shape[2] != self.d_model:
            raise shape_error(name, f"(B, {'n' if name == 'x' else 'm'}, d_model = {self.d_model})", x.shape)
        return x

    def _split(self, x: Tensor, heads: int) -> Tensor:
        """(B, n, heads * head_dim) -> (B, heads, n, head_dim)."""
        return x.reshape(x.shape[0], x.shape[1], heads, self.head_dim).permute(0, 2, 1, 3)


def _merge(x: Tensor) -> Tensor:
    """(B, H, n, head_dim) -> (B, n, H * head_dim)."""
    batch, heads, n, head_dim = x.shape
    return x.permute(0, 2, 1, 3).reshape(batch, n, heads * head_dim)


def _through_cache(cache: KVCache, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """All keys and values that the layer now holds; those that are new with their gradients, where wanted."""
    if isinstance(cache, RecordedCache):
        return cache.join(layer, k, v)
    keys, values = cache.append(layer, k._array, v._array)
    if not is_recording() or not (k.requires_grad or v.requires_grad):
        return Tensor(keys, copy=False), Tensor(values, copy=False)
    if cache.is_ragged:
        raise ValueError(
            "Gradients through a cache need rows of one length, got lengths "
            f"{cache.lengths.tolist()}. Run inside minitx.no_grad(), or without the cache."
        )
    old = cache.length
    kept_k, kept_v = (Tensor(array[:, :, :old]) for array in (keys, values))
    return F.concatenate([kept_k, k], axis=2), F.concatenate([kept_v, v], axis=2)
