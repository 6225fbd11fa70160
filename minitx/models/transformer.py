"""The encoder, and the encoder-decoder of "Attention is all you need" (Vaswani et al. 2017)."""

from __future__ import annotations

from typing import Any

import numpy as np

import minitx.functional as F
from minitx.errors import DtypeError, shape_error
from minitx.nn import Block, Dropout, Embedding, Module, SinusoidalPositions
from minitx.randomness import generator
from minitx.tensor import Tensor, as_tensor


class Encoder(Module):
    """Blocks in which every token may read every other: x (B, n, d_model) -> the same shape.

    Takes embeddings, and leaves positions to the caller: a set of agents or polylines has none. `options`
    are those of `nn.Block` (norm, mlp, dropout, ...).
    """

    def __init__(
        self,
        n_layers: int,
        d_model: int,
        n_heads: int,
        d_ff: int | None = None,
        *,
        rng: np.random.Generator | int | None = None,
        **options: Any,
    ):
        rng = generator(rng)
        self.blocks = [
            Block(d_model, n_heads, d_ff=d_ff, causal=False, rng=rng, **options) for _ in range(n_layers)
        ]

    def forward(self, x: Tensor, mask: Any = None) -> Tensor:
        """mask (B, n): True = a real token, False = padding, which nobody reads."""
        x = as_tensor(x)
        for block in self.blocks:
            x = block(x, mask=_of_keys("mask", mask, x))
        return x


class Transformer(Module):
    """Encoder and decoder as published: post-norm, ReLU, sinusoidal positions, one matrix for all embeddings.

    Vaswani et al. 2017, arXiv:1706.03762; the head, too, is the matrix of the embeddings.

    Embeddings are multiplied by sqrt(d_model) (section 3.4); dropout acts on what each sublayer adds and on
    the sums of embeddings and positions (5.4). The defaults are the base model, which with a vocabulary of
    37,000 has 63,045,632 parameters (attention without biases).
    """

    def __init__(
        self,
        vocab_size: int,
        n_layers: int = 6,
        d_model: int = 512,
        n_heads: int = 8,
        d_ff: int = 2048,
        *,
        dropout: float = 0.1,
        attention_bias: bool = False,
        rng: np.random.Generator | int | None = None,
    ):
        rng = generator(rng)
        self.d_model = d_model
        self.tokens = Embedding(vocab_size, d_model, rng=rng)
        self.tokens.weight.array_to_update()[...] *= d_model**-0.5 / 0.02  # times sqrt(d_model): deviation 1
        self.positions = SinusoidalPositions(d_model)
        self.dropout = Dropout(dropout)
        options: dict[str, Any] = {
            "norm": "post",
            "mlp": "relu",
            "dropout": dropout,
            "attention_bias": attention_bias,
        }
        self.encoder = Encoder(n_layers, d_model, n_heads, d_ff, rng=rng, **options)
        self.decoder = [
            Block(d_model, n_heads, d_ff=d_ff, causal=True, cross=True, rng=rng, **options)
            for _ in range(n_layers)
        ]

    def encode(self, source: Any, source_mask: Any = None) -> Tensor:
        """Source ids (B, m) -> what the decoder reads (B, m, d_model); source_mask (B, m), True = real."""
        return self.encoder(self._embed("source", source), source_mask)

    def decode(self, target: Any, memory: Tensor, source_mask: Any = None) -> Tensor:
        """Target ids (B, n) and what `encode` gave -> logits (B, n, vocab_size) of the token after each."""
        x = self._embed("target", target)
        for block in self.decoder:
            x = block(x, memory, context_mask=_of_keys("source_mask", source_mask, memory))
        return F.linear(x, self.tokens.weight)

    def forward(self, source: Any, target: Any, source_mask: Any = None) -> Tensor:
        """Source ids (B, m) and target ids (B, n) -> logits (B, n, vocab_size)."""
        return self.decode(target, self.encode(source, source_mask), source_mask)

    def _embed(self, name: str, ids: Any) -> Tensor:
        array = np.asarray(ids)
        if array.ndim != 2:
            raise shape_error(name, "(B, n)", array.shape)
        x = self.tokens(array) * self.d_model**0.5
        return self.dropout(self.positions.embed(x, np.arange(array.shape[1])))


def _of_keys(name: str, mask: Any, x: Tensor) -> np.ndarray | None:
    """A mask of tokens (B, n) as one of attention's keys (B, 1, 1, n)."""
    if mask is None:
        return None
    allowed = np.asarray(mask)
    if allowed.shape != x.shape[:2]:
        raise shape_error(name, f"(B, n) = {x.shape[:2]}", allowed.shape)
    if allowed.dtype != np.bool_:
        raise DtypeError(f"{name} must be boolean, True = a real token, got {allowed.dtype}.")
    return allowed[:, None, None]
