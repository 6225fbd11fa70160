"""Fused attention beside PyTorch's and NumPy's: `minitx bench attention` and `minitx bench decode`."""

import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import minitx.functional as F
from minitx.bench.timing import as_row, in_turn, peak_flops, read_speed, torch
from minitx.kernels import attention
from minitx.tensor import Tensor

Row = dict[str, Any]
Call = Callable[[], tuple[np.ndarray, ...]]
PEER = "torch.scaled_dot_product_attention"


@dataclass(frozen=True)
class Workload:
    name: str
    shape: tuple[int, int, int, int, int, int]  # (B, H, Hkv, n, m, d)
    forward_goal: float
    both_goal: float | None  # forward + backward; None: not measured
    causal: bool = False
    padded: bool = False  # half of the keys

    @property
    def size(self) -> str:
        batch, heads, kv_heads, n, m, d = self.shape
        shared = f", {kv_heads} kv heads" if kv_heads != heads else ""
        return f"({batch}, {heads}, {n}, {d})" + (f", {m} keys" if m != n else "") + shared

    @property
    def pairs(self) -> float:
        """Pairs of a query and a key that it attends to."""
        batch, heads, _, n, m, _ = self.shape
        return batch * heads * (n * (n + 1) / 2 if self.causal else n * m / (2 if self.padded else 1))


def _self_attention(
    name: str, sizes: list[tuple[int, ...]], goals: list[tuple[float, float]], **options: bool
):
    return [
        Workload(name, (batch, heads, heads, n, n, d), forward, both, **options)
        for (batch, heads, n, d), (forward, both) in zip(sizes, goals, strict=True)
    ]


THREE = [(1, 8, 512, 64), (4, 8, 1024, 64), (1, 8, 4096, 64)]
SMALL = [(8, 4, 128, 32), (32, 4, 64, 16), (12, 4, 64, 32)]
WORKLOADS = [
    *_self_attention("causal", THREE, [(2.2, 2.0), (1.6, 1.5), (1.3, 1.2)], causal=True),
    *_self_attention("no mask", THREE, [(1.15, 1.1)] * 3),
    *_self_attention("causal, small", SMALL, [(1.5, 1.5)] * 3, causal=True),
    *_self_attention("half the keys padded", THREE[1:2], [(1.8, 1.8)], padded=True),
    Workload("grouped query, causal", (1, 16, 2, 1024, 1024, 64), 1.6, 1.5, causal=True),
    *(
        Workload("decode", (batch, heads, heads, 1, m, 64), 1.2, None)
        for batch, heads, m in [(1, 8, 1024), (1, 12, 1024), (1, 8, 8192), (8, 8, 1024)]
    ),
]


def inputs(work: Workload) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """q, k, v, the gradient of the output, and the mask."""
    batch, heads, kv_heads, n, m, d = work.shape
    rng = np.random.default_rng(0)
    shapes = [(batch, heads, n, d), (batch, kv_heads, m, d), (batch, kv_heads, m, d), (batch, heads, n, d)]
    q, k, v, grad = (rng.standard_normal(shape, np.float32) for shape in shapes)
    mask = np.broadcast_to(np.arange(m) < m // 2, (batch, 1, 1, m)).copy() if work.padded else None
    return q, k, v, grad, mask


class Pair:
    """One workload on both sides, on the same arrays."""

    def __init__(self, work: Workload) -> None:
        self.work = work
        self.q, self.k, self.v, self.grad, self.mask = inputs(work)
        offset, scale = self.k.shape[2] - self.q.shape[2], 1 / math.sqrt(self.q.shape[3])
        self.arguments = (self.q, self.k, self.v, self.mask, work.causal, offset, scale)
        self.leaves = [torch().from_numpy(x).requires_grad_() for x in (self.q, self.k, self.v)]
        self.torch_grad = torch().from_numpy(self.grad)
        mask = None if self.mask is None else torch().from_numpy(self.mask)
        grouped = self.q.shape[1] != self.k.shape[1]
        self.attend = partial(
            torch().nn.functional.scaled_dot_product_attention,
            attn_mask=mask,
            is_causal=work.causal,
            enable_gqa=grouped,
        )

    def ours(self) -> tuple[np.ndarray, ...]:
        return (attention.forward(*self.arguments)[0],)

    def theirs(self) -> tuple[np.ndarray, ...]:
        with torch().no_grad():
            return (self.attend(*self.leaves).numpy(),)

    def ours_both(self) -> tuple[np.ndarray, ...]:
        out, log_sum = attention.forward(*self.arguments)
        return attention.backward(*self.arguments, out, log_sum, self.grad)

    def ours_functional(self) -> tuple[np.ndarray, ...]:
        tensors = [Tensor(x, requires_grad=True) for x in (self.q, self.k, self.v)]
        F.attention(*tensors, mask=self.mask, causal=self.work.causal).backward(self.grad)
        return tuple(np.asarray(tensor.grad) for tensor in tensors)

    def theirs_both(self) -> tuple[np.ndarray, ...]:
        for leaf in self.leaves:
            leaf.grad = None
        self.attend(*self.leaves).backward(self.torch_grad)
        return tuple(leaf.grad.numpy() for leaf in self.leaves)

    def row(self, name: str, goal: float, limit_ms: float, ours: Call, theirs: Call) -> Row:
        """`limit_ms` is what the machine's limit alone would take."""
        minitx_ms, peer_ms = in_turn(ours, theirs)
        error = max(float(abs(x - y).max()) for x, y in zip(ours(), theirs(), strict=True))
        title = f"{self.work.name}, {name}"
        return as_row(title, self.work.size, minitx_ms, PEER, peer_ms, goal, limit_ms / minitx_ms, error)


def measure(work: Workload) -> list[Row]:
    """The rows of one workload: forward; forward + backward; for causal ones, the same through `F` too."""
    pair = Pair(work)
    if work.both_goal is None:
        size = pair.k.nbytes + pair.v.nbytes
        reading_ms = 1e3 * size / read_speed(size)
        return [pair.row("forward", work.forward_goal, reading_ms, pair.ours, pair.theirs)]
    product_ms = 1e3 * 2 * work.pairs * pair.q.shape[3] / peak_flops()  # one product of queries and keys
    both = ("forward + backward", work.both_goal, 7 * product_ms)
    rows = [
        pair.row("forward", work.forward_goal, 2 * product_ms, pair.ours, pair.theirs),
        pair.row(*both, pair.ours_both, pair.theirs_both),
    ]
    if work.name == "causal":
        rows.append(
            pair.row("both through minitx.functional", *both[1:], pair.ours_functional, pair.theirs_both)
        )
    return rows


def four_lines(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
    """Attention as a tutorial writes it, in float32 throughout."""
    scores = q @ k.swapaxes(-1, -2) / np.float32(math.sqrt(q.shape[-1]))
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, np.float32(-np.inf))
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights @ v


def measure_four_lines(n: int = 8192) -> list[Row]:
    """Against NumPy: speed, and the peak of memory beyond inputs and outputs against 2 % of n * m floats."""
    rows = []
    for causal in (False, True):
        work = Workload("causal" if causal else "no mask", (1, 1, 1, n, n, 64), 8.0, None, causal=causal)
        q, k, v, _, _ = inputs(work)
        ours = partial(attention.forward, q, k, v, None, causal, 0, 0.125)
        theirs = partial(four_lines, q, k, v, causal)
        minitx_ms, peer_ms = in_turn(ours, theirs, rounds=3)
        error = float(abs(ours()[0] - theirs()).max())
        limit = 1e3 * 4 * work.pairs * 64 / peak_flops() / minitx_ms
        name = f"{work.name}, forward"
        rows.append(as_row(name, work.size, minitx_ms, "four lines of NumPy", peer_ms, 8.0, limit, error))
    used, allowed = extra_memory(n), 0.02 * n * n * 4
    memory = {
        "workload": "peak extra memory, forward + backward",
        "size": f"{used / 1e6:.1f} MB, n = {n}",
        "peer": f"2 % of n * m ({allowed / 1e6:.1f} MB)",
        "ratio": allowed / max(used, 1),
        "goal": 1.0,
    }
    return [*rows, dict.fromkeys(rows[0]) | memory]


MEMORY = """
import sys, numpy as np
from minitx.kernels import attention
def both(n):
    q = np.ones((1, 1, n, 64), np.float32)
    out, log_sum = attention.forward(q, q, q, None, True, 0, 0.125)
    grads = attention.backward(q, q, q, None, True, 0, 0.125, out, log_sum, out)
    return q.nbytes + out.nbytes + log_sum.nbytes + sum(grad.nbytes for grad in grads)
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024
both(256)
before = peak()
kept = both(int(sys.argv[1]))
print(peak() - before - kept)
"""


def extra_memory(n: int) -> int:
    """Bytes beyond inputs and outputs for n queries and keys, in a process of its own. Linux only."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", MEMORY, str(n)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return max(0, int(done.stdout))


def measure_mixed() -> list[Row]:
    """Matmul, attention, matmul, as in a layer; limit_share = the parts alone over the time together."""
    attend_torch = torch().nn.functional.scaled_dot_product_attention
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1024, 512), np.float32)
    w = rng.standard_normal((512, 512), np.float32) / np.float32(23)
    torch_x, torch_w = torch().from_numpy(x), torch().from_numpy(w)

    def attend(y: np.ndarray) -> np.ndarray:
        heads = np.ascontiguousarray(y.reshape(1, 1024, 8, 64).transpose(0, 2, 1, 3))
        return attention.forward(heads, heads, heads, None, True, 0, 0.125)[0]

    def ours() -> np.ndarray:
        return attend(x @ w).transpose(0, 2, 1, 3).reshape(1024, 512) @ w

    def theirs() -> np.ndarray:
        heads = (torch_x @ torch_w).view(1, 1024, 8, 64).transpose(1, 2)
        out = attend_torch(heads, heads, heads, is_causal=True)
        return (out.transpose(1, 2).reshape(1024, 512) @ torch_w).numpy()

    minitx_ms, peer_ms = in_turn(ours, theirs)
    y = x @ w
    matmul_ms, attend_ms = in_turn(lambda: x @ w, lambda: attend(y), rounds=3)
    error = float(abs(ours() - theirs()).max())
    together = (2 * matmul_ms + attend_ms) / minitx_ms
    size = "(1024, 512) @ (512, 512), (1, 8, 1024, 64)"
    title = "matmul, attention, matmul"
    return [as_row(title, size, minitx_ms, "the same in torch", peer_ms, 1.0, together, error)]
