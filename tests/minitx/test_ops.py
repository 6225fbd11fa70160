"""Every operation: its gradient in float64 over random shapes, its dtypes, and PyTorch's values."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitx
import minitx.functional as F
from minitx import Tensor
from minitx import tensor as tensor_module
from minitx.ops import OPS

SIZES = (2, 3, 4, 5)


def normal(rng, shape):
    return [rng.standard_normal(shape)]


def positive(rng, shape):
    return [rng.uniform(0.5, 2.0, shape)]


def away_from_kinks(rng, shape):
    """Neither near 0 nor near +-1, where abs, relu and clip have a corner."""
    return [rng.choice([-1.0, 1.0], shape) * rng.choice([0.5, 1.6], shape) + rng.uniform(-0.1, 0.1, shape)]


def distinct(rng, shape):
    """No two values closer than the step of the difference quotient: the largest stays the largest."""
    return [rng.permutation(np.arange(np.prod(shape, dtype=int))).reshape(shape) * 0.37]


def broadcast_pair(rng, shape):
    """The second array lacks the first axis and has size 1 in the last."""
    return [rng.standard_normal(shape), rng.uniform(0.5, 2.0, (*shape[1:-1], 1) if len(shape) > 1 else (1,))]


def power_pair(rng, shape):
    return [
        rng.uniform(0.5, 2.0, shape),
        rng.uniform(-2.0, 2.0, (*shape[1:-1], 1) if len(shape) > 1 else (1,)),
    ]


def matrices(rng, shape):
    """Batched with broadcasting: (..., n, k) @ (1, k, p), and (n, k) @ (k, p) for two axes or one."""
    n, k, p = (*shape, 4, 3)[-3:]
    lead = shape[:-3]
    return [rng.standard_normal((*lead, 2, n, k)), rng.standard_normal((1, k, p))]


def with_vectors(count):
    def make(rng, shape):
        return [rng.standard_normal(shape), *(rng.standard_normal(shape[-1]) for _ in range(count))]

    return make


def layer(rng, shape):
    return [rng.standard_normal(shape), rng.standard_normal((6, shape[-1])), rng.standard_normal(6)]


def three(rng, shape):
    return [rng.standard_normal(shape) for _ in range(3)]


def indices(shape, below, seed=5):
    """Whole numbers with repeats, the same for the same shape."""
    return np.random.default_rng(seed).integers(0, below, shape)


def order_of(x):
    return (*range(1, len(x.shape)), 0)


def last_two(x):
    """The last two axes exchanged, where there are two."""
    return x.transpose(-2, -1) if len(x.shape) > 1 else x


class Case(NamedTuple):
    name: str
    ours: Callable  # of tensors
    theirs: Callable  # of torch and its tensors
    make: Callable = normal


def torch_cross_entropy(torch, x, **options):
    targets = torch.tensor(masked_targets(x.shape))
    return torch.nn.functional.cross_entropy(x.reshape(-1, x.shape[-1]), targets.reshape(-1), **options)


def masked_targets(shape):
    """Random targets; the first one is marked to be ignored where there is more than one."""
    targets = indices(shape[:-1], shape[-1])
    if targets.size > 1:
        targets.flat[0] = -100
    return targets


def complex_rotation(t, x):
    """Interleaved pairs as complex numbers, turned by position * 10000^(-2 i / head_dim)."""
    n, d = x.shape[-2:]
    angles = t.arange(n, dtype=t.float64)[:, None] * 10000.0 ** (-t.arange(0, d, 2, dtype=t.float64) / d)
    turn = t.polar(t.ones_like(angles), angles).to(t.complex64 if x.dtype == t.float32 else t.complex128)
    return t.view_as_real(t.view_as_complex(x.reshape(*x.shape[:-1], d // 2, 2)) * turn).flatten(-2)


def even_rows(rng, shape):
    return [rng.standard_normal((*shape, 3, 6))]


CASES = [
    Case("add", lambda a, b: a + b, lambda t, a, b: a + b, broadcast_pair),
    Case("subtract", lambda a, b: b - a, lambda t, a, b: b - a, broadcast_pair),
    Case("multiply", lambda a, b: a * b, lambda t, a, b: a * b, broadcast_pair),
    Case("divide", lambda a, b: a / b, lambda t, a, b: a / b, broadcast_pair),
    Case("divide a number", lambda x: 2.5 / x, lambda t, x: 2.5 / x, positive),
    Case("multiply by itself", lambda x: x * x, lambda t, x: x * x),
    Case("negative", lambda x: -x, lambda t, x: -x),
    Case("power", lambda a, b: a**b, lambda t, a, b: a**b, power_pair),
    Case("square", lambda x: x**2, lambda t, x: x**2),
    Case("power of a number", lambda x: 3.0**x, lambda t, x: 3.0**x),
    Case("matmul", lambda a, b: a @ b, lambda t, a, b: a @ b, matrices),
    Case("matrix times vector", lambda x, v: x @ v, lambda t, x, v: x @ v, with_vectors(1)),
    Case("vector times matrix", lambda x, v: v @ last_two(x),
         lambda t, x, v: v @ last_two(x), with_vectors(1)),
    Case("sum", lambda x: x.sum(), lambda t, x: x.sum()),
    Case("sum of two axes", lambda x: x.sum(axis=(0, -1)[: x.ndim]), lambda t, x: x.sum((0, -1)[: x.ndim])),
    Case("mean", lambda x: x.mean(axis=0), lambda t, x: x.mean(0)),
    Case("mean kept", lambda x: x.mean(axis=-1, keepdims=True), lambda t, x: x.mean(-1, keepdim=True)),
    Case("max", lambda x: x.max(), lambda t, x: x.amax(), distinct),
    Case("max of an axis", lambda x: x.max(axis=0), lambda t, x: x.amax(0), distinct),
    Case("min of the last axis", lambda x: x.min(axis=-1, keepdims=True),
         lambda t, x: x.amin(-1, keepdim=True), distinct),
    Case("var", lambda x: x.var(axis=-1), lambda t, x: x.var(-1, correction=0)),
    Case("var unbiased", lambda x: x.var(ddof=1), lambda t, x: x.var(correction=1)),
    Case("reshape", lambda x: x.reshape(-1, x.shape[0]), lambda t, x: x.reshape(-1, x.shape[0])),
    Case("transpose", lambda x: x.transpose(0, -1), lambda t, x: x.transpose(0, -1)),
    Case("permute", lambda x: x.permute(order_of(x)), lambda t, x: x.permute(order_of(x))),
    Case("slice", lambda x: x[1:, ...], lambda t, x: x[1:, ...]),
    Case("slice with steps", lambda x: x[..., ::2, None], lambda t, x: x[..., ::2, None]),
    Case("index of repeated rows", lambda x: x[[0, 1, 0, 0]], lambda t, x: x[[0, 1, 0, 0]]),
    Case("choice of elements", lambda x: x[x > 0.1], lambda t, x: x[x > 0.1]),
    Case("concatenate", lambda a, b, c: F.concatenate([a, b, c], axis=-1),
         lambda t, a, b, c: t.cat([a, b, c], -1), three),
    Case("stack", lambda a, b, c: F.stack([a, b, c], axis=1),
         lambda t, a, b, c: t.stack([a, b, c], 1), three),
    Case("split", lambda x: F.split(x, [1, x.shape[-1] - 1])[1],
         lambda t, x: t.split(x, [1, x.shape[-1] - 1], -1)[1]),
    Case("pad", lambda x: F.pad(x, [(1, 2)] + [(0, 0)] * (x.ndim - 1), value=3.0),
         lambda t, x: t.nn.functional.pad(x, (0, 0) * (x.ndim - 1) + (1, 2), value=3.0)),
    Case("broadcast", lambda x: tensor_module.apply("broadcast_to", x, shape=(2, *x.shape)),
         lambda t, x: x.expand(2, *x.shape)),
    Case("gather", lambda x: F.gather(x, indices((*x.shape[:-1], 6), x.shape[-1])),
         lambda t, x: x.gather(-1, t.tensor(indices((*x.shape[:-1], 6), x.shape[-1])))),
    Case("embedding", lambda x: F.embedding(indices((4, 3), x.shape[0]), x.reshape(x.shape[0], -1)),
         lambda t, x: t.nn.functional.embedding(
             t.tensor(indices((4, 3), x.shape[0])), x.reshape(x.shape[0], -1))),
    Case("where", lambda a, b, c: F.where(a > 0, b, c), lambda t, a, b, c: t.where(a > 0, b, c), three),
    Case("exp", lambda x: x.exp(), lambda t, x: x.exp()),
    Case("log", lambda x: x.log(), lambda t, x: x.log(), positive),
    Case("tanh", lambda x: x.tanh(), lambda t, x: x.tanh()),
    Case("sqrt", lambda x: x.sqrt(), lambda t, x: x.sqrt(), positive),
    Case("abs", lambda x: x.abs(), lambda t, x: x.abs(), away_from_kinks),
    Case("clip", lambda x: x.clip(-1, 1), lambda t, x: x.clip(-1, 1), away_from_kinks),
    Case("clip below", lambda x: x.clip(low=-1.0), lambda t, x: x.clip(min=-1.0), away_from_kinks),
    Case("astype", lambda x: x.astype(x.dtype), lambda t, x: x.to(x.dtype)),
    Case("relu", F.relu, lambda t, x: t.relu(x), away_from_kinks),
    Case("sigmoid", F.sigmoid, lambda t, x: t.sigmoid(x)),
    Case("silu", F.silu, lambda t, x: t.nn.functional.silu(x)),
    Case("gelu tanh", F.gelu, lambda t, x: t.nn.functional.gelu(x, approximate="tanh")),
    Case("gelu erf", lambda x: F.gelu(x, "none"), lambda t, x: t.nn.functional.gelu(x)),
    Case("softmax", F.softmax, lambda t, x: t.softmax(x, -1)),
    Case("softmax of axis 0", lambda x: F.softmax(x, axis=0), lambda t, x: t.softmax(x, 0)),
    Case("log_softmax", F.log_softmax, lambda t, x: t.log_softmax(x, -1)),
    Case("layer_norm", F.layer_norm, lambda t, x, w, b: t.nn.functional.layer_norm(x, x.shape[-1:], w, b),
         with_vectors(2)),
    Case("layer_norm without weights", F.layer_norm,
         lambda t, x: t.nn.functional.layer_norm(x, x.shape[-1:])),
    Case("rms_norm", F.rms_norm, lambda t, x, w: t.nn.functional.rms_norm(x, x.shape[-1:], w, 1e-5),
         with_vectors(1)),
    Case("rotary", lambda x: F.rotary(x, np.arange(x.shape[-2]), layout="interleaved"), complex_rotation, even_rows),
    Case("linear", F.linear, lambda t, x, w, b: t.nn.functional.linear(x, w, b), layer),
    Case("dropout", lambda x: F.dropout(x, 0.4, rng=7),
         lambda t, x: x * t.tensor((np.random.default_rng(7).random(x.shape, np.float32) >= 0.4) / 0.6)
         .to(x.dtype)),
    Case("cross_entropy", lambda x: F.cross_entropy(x, masked_targets(x.shape)), torch_cross_entropy),
    Case("cross_entropy smoothed",
         lambda x: F.cross_entropy(x, masked_targets(x.shape), label_smoothing=0.1),
         lambda t, x: torch_cross_entropy(t, x, label_smoothing=0.1)),
]  # fmt: skip

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
shapes = st.permutations(SIZES).flatmap(lambda sizes: st.integers(1, 3).map(lambda n: tuple(sizes[:n])))


@each_case
@given(shape=shapes, seed=st.integers(0, 1000))
def test_the_rule_agrees_with_finite_differences(case, shape, seed):
    minitx.check_gradients(case.ours, *case.make(np.random.default_rng(seed), shape))


@each_case
def test_float32_in_gives_float32_out_and_float32_gradients(case, rng):
    arrays = [array.astype(np.float32) for array in case.make(rng, (3, 2, 4))]
    inputs = [Tensor(array, requires_grad=True) for array in arrays]
    output = case.ours(*inputs)
    assert output.dtype == np.float32
    output.backward(np.ones(output.shape))
    for x in inputs:
        if x.grad is not None:
            assert x.grad.dtype == np.float32
            assert x.grad.shape == x.shape


@each_case
@pytest.mark.parametrize("shape", [(5,), (4, 3), (3, 2, 4)], ids=str)
def test_values_and_gradients_are_those_of_pytorch(case, shape, rng):
    torch = pytest.importorskip("torch")
    arrays = case.make(rng, shape)
    ours = [Tensor(array, requires_grad=True) for array in arrays]
    theirs = [torch.tensor(array, requires_grad=True) for array in arrays]
    got, expected = case.ours(*ours), case.theirs(torch, *theirs)
    np.testing.assert_allclose(got.numpy(), expected.detach().numpy(), rtol=1e-9, atol=1e-12)
    weights = rng.standard_normal(got.shape)
    got.backward(weights)
    expected.backward(torch.tensor(weights))
    for x, y in zip(ours, theirs, strict=True):
        gradient = np.zeros(x.shape) if y.grad is None else y.grad.numpy()
        np.testing.assert_allclose(0 if x.grad is None else x.grad, gradient, rtol=1e-9, atol=1e-12)


def test_every_operation_with_a_gradient_is_checked_above(rng, monkeypatch):
    used = set()
    apply = tensor_module.apply

    def note(name, *inputs, **options):
        used.add(name)
        return apply(name, *inputs, **options)

    monkeypatch.setattr(tensor_module, "apply", note)
    monkeypatch.setattr(F, "apply", note)
    for case in CASES:
        case.ours(*map(Tensor, case.make(rng, (3, 2, 4))))
    with_gradient = {name for name, op in OPS.items() if any(op.differentiable)}
    assert with_gradient - used == {"attention", "self_attention"}  # which have files of their own


def test_equal_largest_values_share_the_gradient():
    x = Tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 0.0]], requires_grad=True)
    x.max(axis=1).backward([4.0, 6.0])
    np.testing.assert_array_equal(x.grad, [[0, 2, 2], [3, 3, 0]])


def test_the_power_zero_of_zero_has_slope_zero_and_no_nan():
    x = Tensor([0.0, 2.0], requires_grad=True)
    (x**0).sum().backward()
    np.testing.assert_array_equal(x.grad, [0, 0])


def test_a_softmax_row_of_minus_infinity_gives_zeros_and_no_gradient():
    x = Tensor([[-np.inf, -np.inf], [0.0, -np.inf]], requires_grad=True)
    y = F.softmax(x)
    np.testing.assert_array_equal(y.numpy(), [[0, 0], [1, 0]])
    y.backward(np.ones((2, 2)))
    np.testing.assert_array_equal(x.grad, np.zeros((2, 2)))


def test_softmax_and_cross_entropy_survive_large_scores():
    x = Tensor([[1000.0, 0.0], [-1000.0, 0.0]], requires_grad=True)
    np.testing.assert_array_equal(F.softmax(x).numpy(), [[1, 0], [0, 1]])
    loss = F.cross_entropy(x, np.array([1, 1]))
    assert loss.item() == 500
    loss.backward()
    np.testing.assert_array_equal(x.grad, [[0.5, -0.5], [0, 0]])


def test_the_two_gelus_differ():
    """A forward pass with one formula and a rule with the other would pass a check that is too loose."""
    x = Tensor(np.linspace(-4, 4, 33))
    difference = np.abs(F.gelu(x).numpy() - F.gelu(x, "none").numpy()).max()
    assert 1e-4 < difference < 1e-3
