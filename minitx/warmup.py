"""Compile every kernel ahead of its first use: what `minitx warmup` does.

Compiled code is kept on disk, so this is needed once for each machine and version. Without it the first
call of each kernel compiles it, which takes about a second a kernel.
"""

from collections.abc import Callable, Iterator

import numpy as np

import minitx.functional as F
from minitx import kernels, models
from minitx.decoding import CompiledStep
from minitx.optim import AdamW
from minitx.tensor import Tensor
from minitx.training import Recipe, Trainer


def steps() -> Iterator[tuple[str, Callable[[], None]]]:
    """What to call so that all kernels are compiled, each with a name to show. Uses the back-end in use."""
    for dtype in (np.float32, np.float64):
        bits = np.dtype(dtype).name
        yield f"attention, {bits}", lambda dtype=dtype: attention(dtype)
        yield f"decode, {bits}", lambda dtype=dtype: decode(dtype)
        yield f"layers and loss, {bits}", lambda dtype=dtype: layers(dtype)
        yield f"optimiser, {bits}", lambda dtype=dtype: optimiser(dtype)
        yield f"training step, {bits}", lambda dtype=dtype: training_step(dtype)
        yield f"rotary positions and cache, {bits}", lambda dtype=dtype: cache(dtype)
        yield f"decode step, {bits}", lambda dtype=dtype: decode_step(dtype)
    yield "decode step, int8", lambda: decode_step(np.float32, "int8")


def attention(dtype: type) -> None:
    """Forward and backward, with and without a mask, for one thread and for several."""
    for size in (3, 130):
        for mask in (None, np.ones((1, 1, 1, size), np.bool_)):
            q, k, v = (made(dtype, 2, 4, size, 16) for _ in range(3))
            F.attention(q, k, v, mask=mask, causal=True).sum().backward()


def decode(dtype: type) -> None:
    for size in (3, 2100):
        for mask in (None, np.ones((1, 1, 1, size), np.bool_)):
            q, k, v = made(dtype, 1, 4, 1, 32), made(dtype, 1, 4, size, 32), made(dtype, 1, 4, size, 32)
            F.attention(q.detach(), k.detach(), v.detach(), mask=mask, causal=True)


def layers(dtype: type) -> None:
    for rows in (3, 2048):
        x = made(dtype, rows, 160)
        weight, bias = made(dtype, 160), made(dtype, 160)
        y = F.layer_norm(x, weight, bias) + F.rms_norm(x, weight) + F.gelu(x) + F.gelu(x, approximate="none")
        F.cross_entropy(F.softmax(y), np.zeros(rows, np.int64)).backward()


def optimiser(dtype: type) -> None:
    for size in (7, 1 << 18):
        parameter = made(dtype, size)
        parameter.sum().backward()
        AdamW([parameter], lr=0.0).step()


def training_step(dtype: type) -> None:
    """Products, heads, loss, clipping and the optimiser as a training calls them."""
    model = models.GPT(models.GPTConfig(vocab_size=8, context=16, n_layers=1, n_heads=2, d_model=16), rng=0)
    model.astype(dtype)
    ids = np.zeros((2, 16), np.int64)
    Trainer(model, Recipe(steps=2, batch=2, clip=1e-9)).advance((ids, ids))


def cache(dtype: type) -> None:
    positions, added = np.arange(3), np.ones((1, 2, 3, 4), dtype)
    for layout in ("half", "interleaved"):
        F.rotary(made(dtype, 1, 2, 3, 4), positions, layout=layout).sum().backward()
    family, rope = kernels.family("cache"), kernels.family("rope")
    keys, values, lengths = (
        np.zeros((1, 2, 9, 4), dtype),
        np.zeros((1, 2, 9, 4), dtype),
        np.zeros(1, np.int64),
    )
    for angles in (None, rope.table(9, 4, 10000.0, np.dtype(dtype))):
        family.append(keys, values, lengths, added, added, angles=angles)
    family.evict(keys, values, lengths, 1, 2)
    family.fork(keys, values, lengths, [0])


def decode_step(dtype: type, weights: str | None = None) -> None:
    """The kernels are the same for every model."""
    model = models.GPT(models.GPTConfig(vocab_size=8, context=4, n_layers=1, n_heads=1, d_model=16), rng=0)
    model.astype(dtype)
    CompiledStep(model, weights)([0], model.new_cache(1))


def made(dtype: type, *shape: int) -> Tensor:
    return Tensor(np.ones(shape, dtype), requires_grad=True)
