"""The block of a transformer, attention and then an MLP, in every arrangement; and the two kinds of MLP."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

import minitx.functional as F
from minitx.cache import KVCache
from minitx.nn.attention import MultiHeadAttention
from minitx.nn.linear import Linear
from minitx.nn.module import Module
from minitx.nn.norms import Dropout, LayerNorm, RMSNorm
from minitx.nn.positions import Positions
from minitx.randomness import generator
from minitx.tensor import Tensor

Activation = Literal["gelu_tanh", "gelu", "relu"]
ACTIVATIONS = {"gelu_tanh": F.gelu, "gelu": lambda x: F.gelu(x, "none"), "relu": F.relu}


class MLP(Module):
    """W_down f(W_up x + b) + b on each token; f is GPT-2's GELU, the exact one ("gelu"), or ReLU.

    d_ff is 4 d_model by default. Raises ValueError for another activation.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int | None = None,
        activation: Activation = "gelu_tanh",
        bias: bool = True,
        *,
        rng: np.random.Generator | int | None = None,
    ):
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {activation!r}.")
        rng = generator(rng)
        d_ff = 4 * d_model if d_ff is None else d_ff
        self.activation: Activation = activation
        self.up = Linear(d_model, d_ff, bias, rng=rng)
        self.down = Linear(d_ff, d_model, bias, rng=rng)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., d_model) -> the same shape."""
        return self.down(ACTIVATIONS[self.activation](self.up(x)))


class SwiGLU(Module):
    """W_down (silu(W_gate x) * W_up x) on each token, without biases (Shazeer 2020, arXiv:2002.05202)."""

    def __init__(self, d_model: int, d_ff: int, *, rng: np.random.Generator | int | None = None):
        rng = generator(rng)
        self.gate = Linear(d_model, d_ff, bias=False, rng=rng)
        self.up = Linear(d_model, d_ff, bias=False, rng=rng)
        self.down = Linear(d_ff, d_model, bias=False, rng=rng)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., d_model) -> the same shape."""
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(Module):
    """Self-attention, cross-attention if asked for, and an MLP, each with a norm and a residual.

    norm="pre":  x + Sublayer(Norm(x)), as in GPT-2 and Llama
    norm="post": Norm(x + Sublayer(x)), as in Vaswani et al. 2017 (section 3.1) and BERT

    Encoder: causal=False. Decoder: causal=True. Decoder that reads an encoder: cross=True.

    Args:
        d_ff: width inside the MLP, 4 d_model by default.
        norm_kind: "layer" or "rms".
        mlp: "gelu_tanh", "gelu", "relu", or "swiglu".
        bias: of linear layers (SwiGLU has none) and layer norms (RMS norms have none).
        attention_bias: of attention's four projections, the same as `bias` by default.
        dropout: probability, on what each sublayer adds.
        positions: rotary positions or ALiBi for the self-attention.
        eps: of the norms.

    Raises ValueError for an unknown choice. See `MultiHeadAttention` for the heads.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int | None = None,
        d_ff: int | None = None,
        *,
        norm: Literal["pre", "post"] = "pre",
        norm_kind: Literal["layer", "rms"] = "layer",
        mlp: Activation | Literal["swiglu"] = "gelu_tanh",
        causal: bool = True,
        cross: bool = False,
        bias: bool = True,
        attention_bias: bool | None = None,
        dropout: float = 0.0,
        positions: Positions | None = None,
        eps: float = 1e-5,
        head_dim: int | None = None,
        rng: np.random.Generator | int | None = None,
    ):
        if norm not in ("pre", "post"):
            raise ValueError(f'norm must be "pre" or "post", got {norm!r}.')
        if norm_kind not in ("layer", "rms"):
            raise ValueError(f'norm_kind must be "layer" or "rms", got {norm_kind!r}.')
        rng = generator(rng)

        def new_norm() -> LayerNorm | RMSNorm:
            return LayerNorm(d_model, eps, bias) if norm_kind == "layer" else RMSNorm(d_model, eps)

        def new_attention(positions: Positions | None) -> MultiHeadAttention:
            biased = bias if attention_bias is None else attention_bias
            return MultiHeadAttention(
                d_model, n_heads, n_kv_heads, biased, positions, head_dim=head_dim, rng=rng
            )

        d_ff = 4 * d_model if d_ff is None else d_ff
        self.pre, self.causal = norm == "pre", causal
        self.attention_norm, self.attention = new_norm(), new_attention(positions)
        self.cross_norm = new_norm() if cross else None
        self.cross_attention = new_attention(None) if cross else None
        self.mlp_norm = new_norm()
        if mlp == "swiglu":
            self.mlp: MLP | SwiGLU = SwiGLU(d_model, d_ff, rng=rng)
        else:
            self.mlp = MLP(d_model, d_ff, mlp, bias, rng=rng)
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        mask: Any = None,
        context_mask: Any = None,
        positions: np.ndarray | None = None,
        cache: KVCache | None = None,
        layer: int = 0,
        return_weights: bool = False,
    ) -> Any:
        """x (B, n, d_model) -> the same shape; with return_weights also the self-attention's (B, H, n, m).

        Args:
            context: (B, m, d_model), what cross-attention reads.
            mask, context_mask: of self- and cross-attention, boolean, True = may attend.
            positions, cache, layer: see `MultiHeadAttention`.

        Raises ValueError where context and cross=True do not go together.
        """
        self._check_context(context)
        options = {"mask": mask, "positions": positions, "cache": cache, "layer": layer}
        kept: list[Tensor] = []

        def attend(y: Tensor) -> Tensor:
            if not return_weights:
                return self.attention(y, causal=self.causal, **options)
            out, weights = self.attention(y, causal=self.causal, return_weights=True, **options)
            kept.append(weights)
            return out

        x = self._add(x, self.attention_norm, attend)
        cross = self.cross_attention
        if cross is not None and self.cross_norm is not None:
            x = self._add(x, self.cross_norm, lambda y: cross(y, context, mask=context_mask))
        x = self._add(x, self.mlp_norm, self.mlp)
        return (x, *kept) if return_weights else x

    def _add(self, x: Tensor, norm: Module, sublayer: Any) -> Tensor:
        if self.pre:
            return x + self.dropout(sublayer(norm(x)))
        return norm(x + self.dropout(sublayer(x)))

    def _check_context(self, context: Tensor | None) -> None:
        if (context is None) != (self.cross_attention is None):
            reads = "was made with cross=True and needs a context (B, m, d_model)"
            lacks = "was made without cross=True and cannot read a context"
            raise ValueError(f"This block {lacks if self.cross_attention is None else reads}.")
