"""Where a token stands: four ways of telling attention, which cannot know it by itself."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

import minitx.functional as F
from minitx.errors import shape_error
from minitx.nn.module import Module, Parameter
from minitx.randomness import generator
from minitx.tensor import Tensor, as_tensor


class Positions(Module):
    """A way of telling positions. Each of its three hooks does nothing unless a subclass says otherwise.

    A model calls `embed` once, at its input; each attention layer calls `rotate` for its queries and for
    its new keys, and `extend` right before attention, for its queries and for all keys.
    """

    movable = False  # whether a cached token may take another position, as in a sliding window

    def embed(self, x: Tensor, positions: np.ndarray) -> Tensor:
        """x (B, n, d) with what `positions` (n,) or (B, n) add to it."""
        return x

    def rotate(self, x: Tensor, positions: np.ndarray) -> Tensor:
        """Queries or keys x (B, H, n, head_dim), turned by their positions (n,) or (B, n)."""
        return x

    def extend(self, q: Tensor, k: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
        """Queries (B, H, n, head_dim) and keys (B, Hkv, m, head_dim), made to carry a bias of their scores.

        Key j stands at position j.
        """
        return q, k


class SinusoidalPositions(Positions):
    """Adds sin(p / 10000^(2 i / d)) at 2 i and its cosine at 2 i + 1 (Vaswani et al. 2017, section 3.5).

    d_model must be even. Has nothing to learn and no last position.
    """

    def __init__(self, d_model: int):
        if d_model < 2 or d_model % 2:
            raise ValueError(f"d_model must be even, got {d_model}: sines and cosines come in pairs.")
        self.d_model = d_model

    def table(self, positions: Any) -> np.ndarray:
        """The vectors of positions (...) as float64 (..., d_model)."""
        rates = 10000.0 ** (-np.arange(0, self.d_model, 2) / self.d_model)
        angles = np.asarray(positions)[..., None] * rates
        return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(*angles.shape[:-1], self.d_model)

    def embed(self, x: Tensor, positions: np.ndarray) -> Tensor:
        return x + self.table(positions).astype(x.dtype)


class LearnedPositions(Positions):
    """Adds a vector of its own for each of the positions 0 ... context - 1, as GPT-2 does."""

    def __init__(self, context: int, d_model: int, *, rng: np.random.Generator | int | None = None):
        table = 0.02 * generator(rng).standard_normal((context, d_model))
        self.weight = Parameter(table.astype(np.float32))

    def embed(self, x: Tensor, positions: np.ndarray) -> Tensor:
        context, last = self.weight.shape[0], int(np.max(positions, initial=0))
        if last >= context:
            raise ValueError(
                f"Position {last} lies beyond the table of learned positions, which ends at {context - 1} "
                f"(context = {context}). Shorten the sequence, or use positions that have no end."
            )
        return x + F.embedding(positions, self.weight)


class RotaryPositions(Positions):
    """Turns pair i of queries and keys by p * base^(-2 i / head_dim) (Su et al. 2021, arXiv:2104.09864).

    Products of queries and keys then depend on the difference of their positions. The layout says which
    numbers make a pair, see `F.rotary`: a checkpoint needs the one that it was trained with.
    """

    movable = True

    def __init__(self, head_dim: int, base: float = 10000.0, layout: Literal["half", "interleaved"] = "half"):
        if head_dim < 2 or head_dim % 2:
            raise ValueError(f"head_dim must be even, got {head_dim}: numbers turn in pairs.")
        if layout not in ("half", "interleaved"):
            raise ValueError(f'layout must be "half" or "interleaved", got {layout!r}.')
        self.head_dim, self.base = head_dim, float(base)
        self.layout: Literal["half", "interleaved"] = layout

    def rotate(self, x: Tensor, positions: np.ndarray) -> Tensor:
        if x.shape[-1] != self.head_dim:
            raise shape_error("x", f"(B, H, n, head_dim = {self.head_dim})", x.shape)
        return F.rotary(x, positions, self.base, self.layout)


class ALiBi(Positions):
    """Lowers the score of key j for query i by slope_h * (i - j) (Press et al. 2022, arXiv:2108.12409).

    The slopes of n_heads = 2^k heads are 2^(-8 h / n_heads), h = 1 ... n_heads; other numbers of heads take
    the slopes of the next smaller power of two, and every other one of the next larger. Defined for causal
    attention.

    Since softmax does not see what is added to a whole row, the bias is slope_h * (j - m + 1): one number
    more in each query (slope_h * sqrt(head_dim)) and key (j - m + 1) makes it, and fused attention serves.
    """

    movable = True

    def __init__(self, n_heads: int):
        if n_heads < 1:
            raise ValueError(f"n_heads must be at least 1, got {n_heads}.")
        self.slopes = _slopes(n_heads)

    def extend(self, q: Tensor, k: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
        if not causal:
            raise ValueError("ALiBi lowers the scores of earlier keys: it needs causal attention.")
        batch, heads, n, head_dim = q.shape
        if heads != len(self.slopes):
            raise shape_error("q", f"(B, H = {len(self.slopes)}, n, head_dim)", q.shape)
        m = k.shape[2]
        slopes = np.broadcast_to((self.slopes * head_dim**0.5)[None, :, None, None], (batch, heads, n, 1))
        behind = np.broadcast_to(np.arange(1 - m, 1)[:, None], (*k.shape[:3], 1))
        more_q, more_k = (as_tensor(extra.astype(q.dtype)) for extra in (slopes, behind))
        return F.concatenate([q, more_q], axis=3), F.concatenate([k, more_k], axis=3)


def _slopes(n_heads: int) -> np.ndarray:
    whole = 1 << (n_heads.bit_length() - 1)
    slopes = 2.0 ** (-8 * np.arange(1, whole + 1) / whole)
    if whole < n_heads:
        slopes = np.concatenate([slopes, _slopes(2 * whole)[0::2][: n_heads - whole]])
    return slopes
