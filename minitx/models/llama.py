"""Llama: RMS norm, rotary positions, grouped queries, SwiGLU, no biases (Touvron et al. 2023)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

import minitx.functional as F
from minitx.models.decoder import Decoder, check_heads
from minitx.nn import Block, Dropout, Embedding, Linear, RMSNorm, RotaryPositions
from minitx.randomness import generator
from minitx.tensor import Tensor


@dataclass(frozen=True)
class LlamaConfig:
    """The sizes of a Llama-type model.

    Args:
        vocab_size, context: how many tokens there are, and how many a sequence may have.
        n_layers, n_heads, n_kv_heads, d_model, d_ff: blocks, heads of queries, heads of keys, widths.
        rope_base, rope_layout: rotary positions; files in GGUF hold Llama's weights interleaved.
        tied: the head is the token embeddings.
        eps: of the RMS norms.
        head_dim: d_model / n_heads by default.
    """

    vocab_size: int
    context: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    d_model: int
    d_ff: int
    rope_base: float = 10000.0
    rope_layout: Literal["half", "interleaved"] = "half"
    tied: bool = False
    eps: float = 1e-5
    head_dim: int | None = None

    def __post_init__(self):
        check_heads(self)

    def as_dict(self) -> dict[str, Any]:
        """What makes this configuration again: LlamaConfig(**config.as_dict())."""
        return asdict(self)


class Llama(Decoder):
    """Token embeddings, pre-norm causal blocks, a last RMS norm, a head of its own or the embeddings again.

    All weights start normal with deviation 0.02. Parameters: `tokens`, `blocks.N`, `norm`, and `head` unless
    tied. `model(ids)`: see `Decoder.forward`.
    """

    def __init__(self, config: LlamaConfig, *, rng: np.random.Generator | int | None = None):
        rng = generator(rng)
        self.config = config
        head_dim = config.head_dim or config.d_model // config.n_heads
        self.tokens = Embedding(config.vocab_size, config.d_model, rng=rng)
        self.positions = RotaryPositions(head_dim, config.rope_base, config.rope_layout)
        self.dropout = Dropout(0.0)
        self.blocks = [
            Block(
                config.d_model,
                config.n_heads,
                config.n_kv_heads,
                config.d_ff,
                norm_kind="rms",
                mlp="swiglu",
                bias=False,
                positions=self.positions,
                eps=config.eps,
                head_dim=head_dim,
                rng=rng,
            )
            for _ in range(config.n_layers)
        ]
        self.norm = RMSNorm(config.d_model, config.eps)
        self.head = None if config.tied else Linear(config.d_model, config.vocab_size, bias=False, rng=rng)
        for module in self.modules():
            if isinstance(module, Linear):
                weight = module.weight.array_to_update()
                weight[...] = 0.02 * rng.standard_normal(weight.shape)

    def logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.tokens.weight) if self.head is None else self.head(hidden)
