"""GPT: GPT-2's architecture by configuration (Radford et al. 2019), with a choice of positions."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

import minitx.functional as F
from minitx.models.decoder import Decoder, check_heads
from minitx.nn import (
    ALiBi,
    Block,
    Dropout,
    Embedding,
    LayerNorm,
    LearnedPositions,
    Linear,
    Positions,
    RotaryPositions,
    SinusoidalPositions,
)
from minitx.nn.blocks import Activation
from minitx.randomness import generator
from minitx.tensor import Tensor

PositionKind = Literal["learned", "sinusoidal", "rotary", "alibi"]


@dataclass(frozen=True)
class GPTConfig:
    """The sizes and choices of a GPT. The defaults are those of GPT-2.

    Args:
        vocab_size, context: how many tokens there are, and how many a sequence may have.
        n_layers, n_heads, d_model: blocks, heads of queries, width.
        n_kv_heads, d_ff, head_dim: n_heads, 4 d_model and d_model / n_heads by default.
        dropout: on the embeddings and on what each sublayer adds.
        bias: of all linear layers and layer norms.
        positions: learned and sinusoidal ones are added to the embeddings, rotary ones and ALiBi act in
            each attention.
        rope_base, rope_layout: of rotary positions.
        activation: of the MLP.
        eps: of the layer norms.
    """

    vocab_size: int
    context: int
    n_layers: int
    n_heads: int
    d_model: int
    n_kv_heads: int | None = None
    d_ff: int | None = None
    dropout: float = 0.0
    bias: bool = True
    positions: PositionKind = "learned"
    rope_base: float = 10000.0
    rope_layout: Literal["half", "interleaved"] = "half"
    activation: Activation = "gelu_tanh"
    eps: float = 1e-5
    head_dim: int | None = None

    def __post_init__(self):
        check_heads(self)
        if self.positions not in ("learned", "sinusoidal", "rotary", "alibi"):
            raise ValueError(
                f'positions must be "learned", "sinusoidal", "rotary" or "alibi", got {self.positions!r}.'
            )

    def as_dict(self) -> dict[str, Any]:
        """What makes this configuration again: GPTConfig(**config.as_dict())."""
        return asdict(self)


class GPT(Decoder):
    """Token embeddings, pre-norm causal blocks, a last layer norm, and the embeddings again as the head.

    Weights start normal with deviation 0.02; the projections that write to the residual stream (attention's
    output, the MLP's second) with 0.02 / sqrt(2 n_layers), so that the sum of their contributions does not
    grow with the depth. Biases start at 0. The loss starts near ln(vocab_size).

    Parameters: `tokens`, `positions`, `blocks.N`, `norm`; the head is `tokens.weight`. `model(ids)`: see
    `Decoder.forward`.
    """

    def __init__(self, config: GPTConfig, *, rng: np.random.Generator | int | None = None):
        rng = generator(rng)
        self.config = config
        self.tokens = Embedding(config.vocab_size, config.d_model, rng=rng)
        self.positions = _positions(config, rng)
        inside = self.positions if config.positions in ("rotary", "alibi") else None
        self.dropout = Dropout(config.dropout)
        self.blocks = [
            Block(
                config.d_model,
                config.n_heads,
                config.n_kv_heads,
                config.d_ff,
                mlp=config.activation,
                bias=config.bias,
                dropout=config.dropout,
                positions=inside,
                eps=config.eps,
                head_dim=config.head_dim,
                rng=rng,
            )
            for _ in range(config.n_layers)
        ]
        self.norm = LayerNorm(config.d_model, config.eps, config.bias)
        self._init_weights(rng)

    @classmethod
    def from_checkpoint(cls, path: str | os.PathLike[str], *, n_heads: int | None = None) -> GPT:
        """The model of a safetensors file: minitx's own, or in GPT-2's layout, alone or in its folder.

        GPT-2's layout (wte, wpe, h.N.attn.c_attn, ..., with or without "transformer." before) takes its sizes
        from config.json beside it, or else from the shapes; `n_heads`, which they do not tell, is then
        d_model / 64 with a warning, unless it is given. float16 and bfloat16 become float32.

        Raises CheckpointError naming every key that is missing, unexpected or wrongly shaped.
        """
        from minitx.checkpoints import load_as  # noqa: PLC0415 (checkpoints know the models)

        return load_as(cls, path, n_heads=n_heads)

    def logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.tokens.weight)

    def _init_weights(self, rng: np.random.Generator) -> None:
        writers = {id(block.attention.out_proj) for block in self.blocks}
        writers |= {id(block.mlp.down) for block in self.blocks}
        for module in self.modules():
            if isinstance(module, Linear):
                deviation = 0.02 / (2 * self.config.n_layers) ** 0.5 if id(module) in writers else 0.02
                weight = module.weight.array_to_update()
                weight[...] = deviation * rng.standard_normal(weight.shape)
                if module.bias is not None:
                    module.bias.array_to_update()[...] = 0


def _positions(config: GPTConfig, rng: np.random.Generator) -> Positions:
    if config.positions == "learned":
        return LearnedPositions(config.context, config.d_model, rng=rng)
    if config.positions == "sinusoidal":
        return SinusoidalPositions(config.d_model)
    if config.positions == "alibi":
        return ALiBi(config.n_heads)
    head_dim = config.head_dim or config.d_model // config.n_heads
    return RotaryPositions(head_dim, config.rope_base, config.rope_layout)
