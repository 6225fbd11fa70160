"""A training step beside PyTorch's, of the same GPT with the same weights: `minitx bench train`.

A step is zeroing the gradients, forward, backward, clipping and AdamW. Both sides are what a user writes:
here a `training.Trainer`, there eager PyTorch with its fused attention, one product for queries, keys and
values, and AdamW as it comes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import minitx
from minitx.bench.timing import as_row, in_turn, peak_flops, torch
from minitx.models import GPT, GPTConfig
from minitx.training import Batch, Recipe, Trainer

VOCABULARY = 83  # characters of the public corpus


@dataclass(frozen=True)
class Workload:
    """A model, a batch, and the ratio aimed at."""

    n_layers: int
    n_heads: int
    d_model: int
    context: int
    batch: int
    goal: float

    @property
    def size(self) -> str:
        return f"{self.n_layers} x {self.d_model}, context {self.context}, batch {self.batch}"

    def model(self) -> GPT:
        minitx.manual_seed(0)
        return GPT(GPTConfig(VOCABULARY, self.context, self.n_layers, self.n_heads, self.d_model))

    @property
    def flops(self) -> float:
        """Multiply-adds, counted twice, of all products; backward has two for each of the forward pass."""
        weights = self.n_layers * 12 * self.d_model**2 + VOCABULARY * self.d_model
        attention = self.n_layers * self.context * self.d_model  # 2 products over half of the keys
        return 3.0 * 2.0 * self.batch * self.context * (weights + attention)


WORKLOADS = (Workload(4, 4, 128, 64, 12, 1.5), Workload(6, 6, 384, 256, 8, 1.25))


def steps() -> list[tuple[str, Callable[[], list[dict[str, Any]]]]]:
    """Every workload: its name, and what measures it."""
    return [(f"train step {work.size}", partial(measure, work)) for work in WORKLOADS]


def measure(work: Workload) -> list[dict[str, Any]]:
    """One row; its error is the largest difference of the losses of the first three steps."""
    recipe = Recipe(steps=1_000_000, batch=work.batch)
    trainer = Trainer(work.model(), recipe)
    peer = Peer(work.model(), recipe)
    rng = np.random.default_rng(0)
    ids, targets = rng.integers(0, VOCABULARY, (2, work.batch, work.context))
    error = max(abs(trainer.advance((ids, targets)) - peer.advance((ids, targets))) for _ in range(3))
    ours, theirs = in_turn(lambda: trainer.advance((ids, targets)), lambda: peer.advance((ids, targets)))
    share = work.flops / (ours / 1e3) / peak_flops()
    return [as_row("train step", work.size, ours, "torch", theirs, work.goal, share, error)]


class Peer:
    """The same model, weights and recipe in PyTorch."""

    def __init__(self, model: GPT, recipe: Recipe):
        self.recipe, self.step = recipe, 0
        self.weights, self.run = torch_gpt(model)
        matrices = [w for w in self.weights if w.ndim >= 2]
        vectors = [w for w in self.weights if w.ndim < 2]
        groups = [
            {"params": matrices, "weight_decay": recipe.weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ]
        self.optimizer = torch().optim.AdamW(groups, lr=recipe.peak, betas=recipe.betas)

    def loss(self, batch: Batch) -> Any:
        ids, targets = (torch().from_numpy(part) for part in batch)
        logits = self.run(ids)
        return torch().nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def advance(self, batch: Batch) -> float:
        """One step on a batch; returns its loss."""
        self.step += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.rate(self.step)
        loss = self.loss(batch)
        self.optimizer.zero_grad()
        loss.backward()
        torch().nn.utils.clip_grad_norm_(self.weights, self.recipe.clip)
        self.optimizer.step()
        return loss.item()


def torch_gpt(model: GPT) -> tuple[list[Any], Callable[..., Any]]:
    """The parameters of `model` as PyTorch's, and its forward pass in PyTorch's functions."""
    F, config = torch().nn.functional, model.config
    parameter = torch().nn.Parameter
    own = {name: torch().tensor(array) for name, array in model.state_dict().items()}
    tokens, places = parameter(own["tokens.weight"]), parameter(own["positions.weight"])
    blocks = [_block_of(own, f"blocks.{i}.") for i in range(config.n_layers)]
    last = parameter(own["norm.weight"]), parameter(own["norm.bias"])
    heads, d, p = config.n_heads, config.d_model, config.dropout

    def forward(ids, training=True):
        batch, n = ids.shape
        x = F.dropout(F.embedding(ids, tokens) + places[:n], p, training)
        for norm, qkv, out, second_norm, up, down in blocks:
            y = F.linear(F.layer_norm(x, (d,), *norm), *qkv)
            q, k, v = y.view(batch, n, 3, heads, d // heads).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            y = F.linear(y.transpose(1, 2).reshape(batch, n, d), *out)
            x = x + F.dropout(y, p, training)
            y = F.gelu(F.linear(F.layer_norm(x, (d,), *second_norm), *up), approximate="tanh")
            x = x + F.dropout(F.linear(y, *down), p, training)
        return F.linear(F.layer_norm(x, (d,), *last), tokens)

    weights = [tokens, places, *last, *(w for block in blocks for pair in block for w in pair)]
    return weights, forward


def _block_of(own: dict[str, Any], prefix: str) -> list[tuple[Any, Any]]:
    """Weight and bias of each layer of a block, queries, keys and values as one."""
    names = ("attention_norm", "attention.{}_proj", "attention.out_proj", "mlp_norm", "mlp.up", "mlp.down")
    pairs = []
    for name in names:
        parts = [name.format(part) for part in "qkv"] if "{}" in name else [name]
        pair = (torch().cat([own[f"{prefix}{part}.{kind}"] for part in parts]) for kind in ("weight", "bias"))
        pairs.append(tuple(torch().nn.Parameter(tensor) for tensor in pair))
    return pairs
