"""The fused kernels beside PyTorch's own functions, through the public API: `minitx bench layers`.

No ratio was set as a goal for them. Both sides use all their threads; in a small call most of the time is
the hand-over to the second one. OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 compares one with one.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import minitx.functional as F
from minitx import nn, optim
from minitx.bench.timing import as_row, in_turn, torch
from minitx.graph import no_grad
from minitx.tensor import Tensor

Pair = tuple[str, Callable[[], object], Callable[[], object]]
ROUNDS = 5
SIZES = ((8, 64), (512, 256), (4096, 768))
LOSS_SIZES = ((64, 96), (512, 8192), (1024, 50257))
OPTIMISER_SIZES = (((64, 64),) * 8, ((768, 768),) * 4, ((4096, 4096),))


def steps() -> Iterator[tuple[str, Callable[[], list[dict[str, Any]]]]]:
    """Every workload: its name, and what measures it."""
    for pair in workloads():
        yield pair[0], partial(measure, *pair)


def measure(name: str, ours: Callable[[], object], theirs: Callable[[], object]) -> list[dict[str, Any]]:
    minitx_ms, peer_ms = in_turn(ours, theirs, ROUNDS)
    workload, _, size = name.partition(" (") if " (" in name else (name, "", "")
    return [as_row(workload, size and f"({size}", minitx_ms, "torch", peer_ms, None, None, None)]


def workloads() -> Iterator[Pair]:
    """Every row: name, a call of ours, a call of PyTorch's."""
    for rows, d in SIZES:
        yield from functions_of_rows(rows, d)
    for rows, classes in LOSS_SIZES:
        yield from cross_entropy(rows, classes)
    for shapes in OPTIMISER_SIZES:
        yield adamw(shapes)


def functions_of_rows(rows: int, d: int) -> Iterator[Pair]:
    """Layer norm, RMS norm, GELU and softmax, forward and with backward."""
    T = torch().nn.functional
    rng = np.random.default_rng(0)
    x, weight, bias, grad = (rng.standard_normal(s).astype(np.float32) for s in ((rows, d), d, d, (rows, d)))
    cases = (
        ("layer_norm", (x, weight, bias), F.layer_norm, lambda x, w, b: T.layer_norm(x, (d,), w, b)),
        ("rms_norm", (x, weight), F.rms_norm, lambda x, w: T.rms_norm(x, (d,), w, 1e-5)),
        ("gelu tanh", (x,), F.gelu, lambda x: T.gelu(x, approximate="tanh")),
        ("gelu erf", (x,), lambda x: F.gelu(x, "none"), T.gelu),
        ("softmax", (x,), F.softmax, lambda x: T.softmax(x, -1)),
    )
    for name, arrays, ours, theirs in cases:
        mine = [Tensor(array, requires_grad=True) for array in arrays]
        others = [torch().tensor(array, requires_grad=True) for array in arrays]
        yield (
            f"{name} forward ({rows}, {d})",
            without_graph(no_grad, ours, mine),
            without_graph(torch().no_grad, theirs, others),
        )
        yield (
            f"{name} forward + backward ({rows}, {d})",
            with_backward(ours, mine, grad),
            with_backward(theirs, others, torch().tensor(grad)),
        )


def cross_entropy(rows: int, classes: int) -> Iterator[Pair]:
    """Softmax and cross-entropy, forward and with backward."""
    T = torch().nn.functional
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((rows, classes)).astype(np.float32)
    targets = rng.integers(0, classes, rows)
    mine, other = Tensor(logits, requires_grad=True), torch().tensor(logits, requires_grad=True)
    wanted = torch().tensor(targets)

    def ours(x):
        return F.cross_entropy(x, targets)

    def theirs(x):
        return T.cross_entropy(x, wanted)

    name = f"({rows}, {classes})"
    yield (
        f"cross_entropy forward {name}",
        without_graph(no_grad, ours, [mine]),
        without_graph(torch().no_grad, theirs, [other]),
    )
    yield (
        f"cross_entropy forward + backward {name}",
        with_backward(ours, [mine], None),
        with_backward(theirs, [other], None),
    )


def adamw(shapes: tuple[tuple[int, ...], ...]) -> Pair:
    """One step of AdamW; the peer in its default form for the CPU, a few passes for each parameter."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    mine = [nn.Parameter(array) for array in arrays]
    others = [torch().nn.Parameter(torch().tensor(array)) for array in arrays]
    for p, q, array in zip(mine, others, arrays, strict=True):
        p.grad, q.grad = array.copy(), torch().tensor(array)
    name = f"AdamW {len(shapes)} x {shapes[0]}"
    return name, optim.AdamW(mine).step, torch().optim.AdamW(others).step


def without_graph(mode, function, inputs) -> Callable[[], object]:
    def run():
        with mode():
            return function(*inputs)

    return run


def with_backward(function, inputs, grad) -> Callable[[], object]:
    def run():
        for x in inputs:
            x.grad = None
        function(*inputs).backward(grad)

    return run
