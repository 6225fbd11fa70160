"""Decoding with whole models beside the same models in PyTorch: rows of `minitx bench decode`.

Each side writes a few greedy tokens from the middle of the context, and the times are for one of them. The
limit is the time in which a product of a vector with a matrix as large as all weights is found, raised by
the share that reading the cache adds; `max_error` is the largest difference of the logits over the largest
logit, on the same tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from minitx.bench.timing import as_row, in_turn, torch
from minitx.decoding import CompiledStep, compile_step
from minitx.kernels.crew import THREADS, next_task, share, shared
from minitx.kernels.decoder_numpy import GROUP
from minitx.kernels.matvec import multiply_panels
from minitx.kernels.packing import Packed
from minitx.kernels.simd import ahead, pointer
from minitx.models import GPT, Decoder, GPTConfig, Llama, LlamaConfig
from minitx.nn import RotaryPositions, SwiGLU

Row = dict[str, Any]
TOKENS = 16  # written in one call
PEER = "the same in torch, preallocated cache"


@dataclass(frozen=True)
class Workload:
    name: str
    config: GPTConfig | LlamaConfig
    used: int  # positions of the context up to which text is written
    goal: float
    int8_goal: float | None = None

    def model(self) -> Decoder:
        return GPT(self.config, rng=0) if isinstance(self.config, GPTConfig) else Llama(self.config, rng=0)


SMOLLM2 = LlamaConfig(49152, 8192, 30, 9, 3, 576, 1536, 100000.0, "interleaved", tied=True)
WORKLOADS = [
    Workload("4 layers x 128, context 64", GPTConfig(96, 64, 4, 4, 128), 64, 6.0),
    Workload("6 layers x 384, context 256", GPTConfig(96, 256, 6, 6, 384), 256, 2.0),
    Workload("GPT-2 small, context 1024", GPTConfig(50257, 1024, 12, 12, 768), 1024, 1.35, 3.0),
    Workload("SmolLM2-135M's shape, context 1024", SMOLLM2, 1024, 1.5),
]


def steps() -> Iterator[tuple[str, Callable[[], list[Row]]]]:
    """Every workload: its name, and what measures it."""
    for work in WORKLOADS:
        yield f"decode step, {work.name}", partial(measure, work)


def measure(work: Workload) -> list[Row]:
    """The rows of one workload: with the weights as they are, and with int8 weights."""
    model = work.model()
    model.eval()
    start = work.used // 2 - TOKENS // 2
    peer, rows = Peer(model, work.used), []
    for int8, goal in ((False, work.goal), (True, work.int8_goal)):
        step = compile_step(model, weights="int8" if int8 else None)
        ours, theirs = Writer(model, step, work.used), partial(peer.write, start, TOKENS)
        minitx_ms, peer_ms = in_turn(partial(ours.write, start, TOKENS), theirs)
        error = difference(ours.logits(start), peer.logits(start))
        limit = limit_ms(step, start + TOKENS // 2)
        name = "decode step, int8" if int8 else "decode step"
        times = minitx_ms / TOKENS, PEER, peer_ms / TOKENS
        rows.append(as_row(name, work.name, *times, goal, limit * TOKENS / minitx_ms, error))
    return rows


def difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


class Writer:
    """Our side: greedy text by compiled steps, behind a cache of zeros."""

    def __init__(self, model: Decoder, step: CompiledStep, capacity: int):
        self.step, self.cache = step, model.new_cache(1, capacity)

    def write(self, start: int, tokens: int) -> list[int]:
        ids, written = np.array([1]), []
        self._go_to(start)
        for _ in range(tokens):
            ids = self.step(ids, self.cache).argmax(axis=1)
            written.append(int(ids[0]))
        return written

    def logits(self, start: int) -> np.ndarray:
        """Of a few tokens that do not depend on what is written."""
        self._go_to(start)
        return np.stack([self.step([number], self.cache)[0] for number in range(TOKENS)])

    def _go_to(self, start: int) -> None:
        self.cache.truncate(min(start, self.cache.length))
        self.cache.advance(start - self.cache.length)


class Peer:
    """The same model in eager PyTorch, written for speed: joined projections and a cache made once."""

    def __init__(self, model: Any, capacity: int):
        to, block = torch().from_numpy, model.blocks[0]
        attention = block.attention
        self.heads, self.kv_heads, self.d = attention.n_heads, attention.n_kv_heads, attention.head_dim
        self.layers = [_Layer(block) for block in model.blocks]
        self.tokens, self.norm = to(model.tokens.weight._array), _norm_of(model.norm)
        turn, learned = attention.positions, getattr(model.positions, "weight", None)
        self.table = None if learned is None else to(learned._array)
        self.turns = None
        if isinstance(turn, RotaryPositions):
            rates = turn.base ** (-torch().arange(0, self.d, 2, dtype=torch().float64) / self.d)
            angles = torch().arange(capacity)[:, None] * rates
            self.turns = torch().polar(torch().ones_like(angles), angles).to(torch().complex64)
        size = (len(self.layers), 1, self.kv_heads, capacity, self.d)
        self.keys, self.values = torch().zeros(size), torch().zeros(size)

    def write(self, start: int, tokens: int) -> list[int]:
        with torch().inference_mode():
            ids, written = torch().tensor([[1]]), []
            for position in range(start, start + tokens):
                ids = self._step(ids, position).argmax(dim=-1)
                written.append(int(ids))
            return written

    def logits(self, start: int) -> np.ndarray:
        with torch().inference_mode():
            found = [self._step(torch().tensor([[n]]), start + n)[0, 0] for n in range(TOKENS)]
            return torch().stack(found).numpy()

    def _step(self, ids: Any, position: int) -> Any:
        """ids (1, 1) -> logits (1, 1, vocab_size)."""
        x = torch().nn.functional.embedding(ids, self.tokens)
        if self.table is not None:
            x = x + self.table[position]
        for number, layer in enumerate(self.layers):
            x = x + layer.out(self._attend(layer.qkv(layer.attention_norm(x)), number, position))
            x = x + layer.mlp(layer.mlp_norm(x))
        return torch().nn.functional.linear(self.norm(x), self.tokens)

    def _attend(self, mixed: Any, number: int, position: int) -> Any:
        heads = mixed.view(1, -1, 1, self.d)  # one token: heads need no transposition
        turned, v = heads[:, : self.heads + self.kv_heads], heads[:, self.heads + self.kv_heads :]
        if self.turns is not None:
            pairs = torch().view_as_complex(turned.unflatten(-1, (-1, 2))) * self.turns[position]
            turned = torch().view_as_real(pairs).flatten(-2)
        keys, values = self.keys[number], self.values[number]
        keys[:, :, position] = turned[:, self.heads :, 0]
        values[:, :, position] = v[:, :, 0]
        seen = slice(0, position + 1)
        attend = torch().nn.functional.scaled_dot_product_attention
        grouped = self.heads != self.kv_heads
        q = turned[:, : self.heads]
        return attend(q, keys[:, :, seen], values[:, :, seen], enable_gqa=grouped).view(1, 1, -1)


class _Layer:
    """A block's functions in PyTorch, on the block's own memory where nothing is joined."""

    def __init__(self, block: Any):
        attention, mlp, T = block.attention, block.mlp, torch().nn.functional
        self.attention_norm, self.mlp_norm = _norm_of(block.attention_norm), _norm_of(block.mlp_norm)
        self.qkv = _linear_of(attention.q_proj, attention.k_proj, attention.v_proj)
        self.out, down = _linear_of(attention.out_proj), _linear_of(mlp.down)
        if isinstance(mlp, SwiGLU):
            both = _linear_of(mlp.gate, mlp.up)

            def gated(x: Any) -> Any:
                gate, up = both(x).chunk(2, dim=-1)
                return down(T.silu(gate) * up)

            self.mlp = gated
        else:
            up = _linear_of(mlp.up)
            self.mlp = lambda x: down(T.gelu(up(x), approximate="tanh"))


def _linear_of(*layers: Any) -> Callable[[Any], Any]:
    weights = [layer.weight._array for layer in layers]
    weight = torch().from_numpy(weights[0] if len(weights) == 1 else np.concatenate(weights))
    bias = None
    if layers[0].bias is not None:
        bias = torch().from_numpy(np.concatenate([layer.bias._array for layer in layers]))
    return lambda x: torch().nn.functional.linear(x, weight, bias)


def _norm_of(norm: Any) -> Callable[[Any], Any]:
    weight, size = torch().from_numpy(norm.weight._array), norm.weight.shape
    if not hasattr(norm, "bias"):
        return lambda x: torch().nn.functional.rms_norm(x, size, weight, norm.eps)
    bias = None if norm.bias is None else torch().from_numpy(norm.bias._array)
    return lambda x: torch().nn.functional.layer_norm(x, size, weight, bias, norm.eps)


@shared()
def _pass(deal, tasks, numbers, factors, rows, inner, x, out):
    """out = W x for the panels in `numbers`, all of one width."""
    panels = out.shape[1] // rows
    while True:
        task = next_task(deal, tasks)
        if task < 0:
            return
        first, last = task * panels // tasks, (task + 1) * panels // tasks
        multiply_panels(
            ahead(pointer(numbers), first * rows * inner),
            ahead(pointer(factors), first * rows * inner // GROUP),
            last - first,
            inner,
            pointer(x),
            x.shape[1],
            x.shape[0],
            ahead(pointer(out), first * rows),
            out.shape[1],
        )


def limit_ms(step: CompiledStep, length: int) -> float:
    """What reading the weights takes as one matrix, and the same a byte for `length` keys and values."""
    packed: Packed = step.packed
    inner = 8 * packed.step
    panels = packed.numbers.size // (packed.rows * inner)
    x, out = np.ones((1, inner), np.float32), np.empty((1, panels * packed.rows), np.float32)
    tasks = max(1, min(panels, packed.numbers.nbytes >> 16))
    arrays = (packed.numbers, packed.factors, packed.rows, inner, x, out)
    read = partial(share, _pass, THREADS, tasks, *arrays)
    shape, reading_ms = packed.shape, min(in_turn(read, read, rounds=3))
    cached = 2 * shape.n_layers * shape.n_kv_heads * shape.head_dim * length * 4
    return reading_ms * (1 + cached / (packed.numbers.nbytes + packed.factors.nbytes))
