"""Norms, GELU and softmax: the compiled kernels, their twins, PyTorch and float64 agree, NaN and infinity too."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import minitx
import minitx.functional as F
from minitx import Tensor
from minitx.kernels import layers_numpy as twin

numba = pytest.importorskip("numba")
from minitx.kernels import elementary, layers, pieces  # noqa: E402
from minitx.kernels.compiler import compiled  # noqa: E402

DTYPES = (np.float32, np.float64)
TOLERANCE = {np.float32: 3e-6, np.float64: 1e-13}
sizes = st.tuples(st.integers(0, 9), st.integers(0, 70))
dtypes = st.sampled_from(DTYPES)
each_dtype = pytest.mark.parametrize("dtype", DTYPES)


def random(rng, dtype, *shape):
    return rng.standard_normal(shape).astype(dtype)


def assert_equal(got, wanted, dtype, scale=1.0):
    assert got.dtype == dtype
    np.testing.assert_allclose(got, wanted, rtol=TOLERANCE[dtype], atol=scale * TOLERANCE[dtype])


@given(shape=sizes, dtype=dtypes, weighted=st.booleans(), centred=st.booleans(), seed=st.integers(0, 99))
@example(shape=(1100, 257), dtype=np.float32, weighted=True, centred=True, seed=0)
@example(shape=(1100, 257), dtype=np.float32, weighted=True, centred=False, seed=0)
@example(shape=(1, 1), dtype=np.float64, weighted=True, centred=True, seed=0)
def test_norms_and_their_twins_are_equal(shape, dtype, weighted, centred, seed):
    rng = np.random.default_rng(seed)
    x, grad = random(rng, dtype, *shape), random(rng, dtype, *shape)
    weight, bias = (random(rng, dtype, shape[1]) if weighted else None for _ in range(2))
    got, wanted = (m.norm_forward(x, weight, bias, 1e-5, centred) for m in (layers, twin))
    assert (got[1] is None) == (wanted[1] is None) == (not centred)
    for mine, other in zip(got, wanted, strict=True):
        if mine is not None:
            assert mine.shape == other.shape
            assert_equal(mine, other, dtype, scale=10)
    kept = wanted[1:]
    got, wanted = (m.norm_backward(grad, x, weight, *kept) for m in (layers, twin))
    for mine, other in zip(got, wanted, strict=True):
        assert mine.shape == other.shape
        assert_equal(mine, other, dtype, scale=1 + np.abs(kept[-1]).max(initial=0) + shape[0])


@given(n=st.integers(0, 200), dtype=dtypes, exact=st.booleans(), seed=st.integers(0, 99))
@example(n=300_001, dtype=np.float32, exact=False, seed=0)
@example(n=300_001, dtype=np.float32, exact=True, seed=0)
def test_gelu_and_its_twin_are_equal(n, dtype, exact, seed):
    rng = np.random.default_rng(seed)
    x, grad = 4 * random(rng, dtype, n), random(rng, dtype, n)
    assert_equal(layers.gelu_forward(x, exact), twin.gelu_forward(x, exact), dtype)
    # The twin's 1 + tanh has lost digits where the slope is near 0.
    assert_equal(layers.gelu_backward(grad, x, exact), twin.gelu_backward(grad, x, exact), dtype, scale=4)


@given(shape=sizes, dtype=dtypes, seed=st.integers(0, 99))
@example(shape=(300, 1030), dtype=np.float32, seed=0)
def test_softmax_and_its_twin_are_equal(shape, dtype, seed):
    rng = np.random.default_rng(seed)
    x, grad = 9 * random(rng, dtype, *shape), random(rng, dtype, *shape)
    x[rng.random(shape) < 0.2] = -np.inf
    x[:1] = -np.inf
    out = twin.softmax_forward(x)
    assert_equal(layers.softmax_forward(x), out, dtype)
    assert_equal(layers.softmax_backward(grad, out), twin.softmax_backward(grad, out), dtype)


@each_dtype
def test_nan_and_infinity_come_out_as_in_numpy(dtype, rng):
    x = random(rng, dtype, 4, 37)
    x[0, 3], x[1, 30], x[2, 5] = np.nan, np.inf, -np.inf
    grad = random(rng, dtype, 4, 37)
    with np.errstate(invalid="ignore"):
        for name, arguments in (
            ("norm_forward", (x, None, None, 1e-5, True)),
            ("norm_forward", (x, None, None, 1e-5, False)),
            ("gelu_forward", (x, True)),
            ("gelu_forward", (x, False)),
            ("gelu_backward", (grad, x, True)),
            ("gelu_backward", (grad, x, False)),
            ("softmax_forward", (x,)),
            ("softmax_backward", (x, grad)),
        ):
            mine, other = (getattr(m, name)(*arguments) for m in (layers, twin))
            if name == "norm_forward":
                mine, other = mine[0], other[0]
            np.testing.assert_allclose(mine, other, atol=1e-5, err_msg=name)
            assert not np.isfinite(mine[0, 3]), name
            assert np.isfinite(mine[3]).all(), name


@each_dtype
@pytest.mark.parametrize("size", [1e4, 1e19, 1e30])
def test_gelu_far_out_is_x_or_0_with_slope_1_or_0(dtype, size):
    x = np.array([size, -size], dtype)
    for exact in (True, False):
        np.testing.assert_array_equal(layers.gelu_forward(x, exact), [dtype(size), 0])
        np.testing.assert_array_equal(layers.gelu_backward(np.ones_like(x), x, exact), [1, 0])


@compiled()
def _exp_all(x, out):
    for i in range(x.size):
        out[i] = elementary.exp(x[i])


@compiled()
def _normal_all(x, below, density):
    for i in range(x.size):
        below[i], density[i] = elementary.normal(x[i])


@pytest.mark.parametrize(
    ("dtype", "low", "high", "error"), [(np.float32, -87, 88.7, 1e-7), (np.float64, -708, 709, 5e-16)]
)
def test_exp_is_right_to_its_last_digits(dtype, low, high, error):
    x = np.linspace(low, high, 100_003).astype(dtype)
    out = np.empty_like(x)
    _exp_all(x, out)
    assert np.abs(out / np.exp(x.astype(np.longdouble)) - 1).max() < error
    special = np.array([np.nan, np.inf, -np.inf, 800, -800, 0], dtype)
    out = np.empty_like(special)
    _exp_all(special, out)
    np.testing.assert_array_equal(out, [np.nan, np.inf, 0, np.inf, 0, 1])


@pytest.mark.parametrize(("dtype", "end", "error"), [(np.float32, 12.5, 6e-7), (np.float64, 20, 1e-13)])
def test_the_normal_distribution_is_right_far_into_its_tail(dtype, end, error):
    """1 + erf(x) has no digit left there, since it takes two numbers near 1 from each other."""
    x = np.linspace(-end, end, 4001).astype(dtype)
    below, density = np.empty_like(x), np.empty_like(x)
    _normal_all(x, below, density)
    wanted = np.array([0.5 * math.erfc(-float(v) / math.sqrt(2)) for v in x])
    assert np.abs(below / wanted - 1).max() < error
    bell = np.exp(-(x.astype(np.longdouble) ** 2) / 2) / np.sqrt(2 * np.longdouble(math.pi))
    assert np.abs(density / bell - 1).max() < error


@pytest.mark.parametrize(("dtype", "error"), [(np.float32, 2.5e-7), (np.float64, 1e-14)])
@pytest.mark.parametrize("exact", [True, False])
def test_gelu_is_within_rounding_of_the_formula_in_more_digits(exact, dtype, error):
    x = np.linspace(-9, 9, 20_001).astype(dtype)
    if exact:
        wanted = np.array([v * 0.5 * math.erfc(-v / math.sqrt(2)) for v in x.astype(float)])
    else:
        wide = x.astype(np.longdouble)
        u = np.sqrt(2 / np.longdouble(math.pi)) * (wide + np.longdouble("0.044715") * wide**3)
        wanted = wide / (1 + np.exp(-2 * u))
    assert (np.abs(layers.gelu_forward(x, exact) - wanted) <= error * np.maximum(np.abs(x), 0.1)).all()


def test_a_large_mean_does_not_drown_the_variance(rng):
    """E(x^2) - mean^2 in float32 would be all rounding here."""
    x = (3000 + rng.standard_normal((5, 200))).astype(np.float32)
    wanted = twin.norm_forward(x.astype(np.float64), None, None, 1e-5, True)[0]
    np.testing.assert_allclose(layers.norm_forward(x, None, None, 1e-5, True)[0], wanted, atol=2e-3)


def test_one_thread_and_several_give_the_same_bits(rng, monkeypatch):
    """Sums over the rows must not depend on which thread took which of them."""
    x, grad = random(rng, np.float32, 2100, 130), random(rng, np.float32, 2100, 130)
    _, mean, inverse = layers.norm_forward(x, None, None, 1e-5, True)
    several = [layers.norm_backward(grad, x, None, mean, inverse) for _ in range(5)]
    monkeypatch.setattr(pieces, "THREADS", 1)
    alone = layers.norm_backward(grad, x, None, mean, inverse)
    for run in several:
        for mine, other in zip(run, alone, strict=True):
            np.testing.assert_array_equal(mine, other)


@each_dtype
def test_strided_and_read_only_arrays_give_what_their_copies_give(dtype, rng):
    wide = random(rng, dtype, 12, 2 * 33)
    x, copy = wide[::2, ::2], wide[::2, ::2].copy()
    copy.flags.writeable = False
    grad = np.broadcast_to(dtype(0.5), x.shape)
    for exact in (True, False):
        np.testing.assert_array_equal(layers.gelu_forward(x, exact), layers.gelu_forward(copy, exact))
    _, *kept = layers.norm_forward(x, None, None, 1e-5, True)
    for mine, other in zip(
        layers.norm_backward(grad, x, None, *kept),
        layers.norm_backward(grad.copy(), copy, None, *kept),
        strict=True,
    ):
        np.testing.assert_array_equal(mine, other)
    np.testing.assert_array_equal(layers.softmax_forward(x), layers.softmax_forward(copy))


@each_dtype
@pytest.mark.parametrize("shape", [(3, 50), (2, 5, 33), (7, 1), (400, 384)])
def test_values_and_gradients_are_those_of_pytorch(shape, dtype, backend, rng):
    torch = pytest.importorskip("torch")
    T, d = torch.nn.functional, shape[-1]
    x, grad = random(rng, dtype, *shape), random(rng, dtype, *shape)
    vectors = [random(rng, dtype, d), random(rng, dtype, d)]
    for ours, theirs, count in (
        (F.layer_norm, lambda x, w, b: T.layer_norm(x, (d,), w, b), 2),
        (F.rms_norm, lambda x, w: T.rms_norm(x, (d,), w, 1e-5), 1),
        (F.gelu, lambda x: T.gelu(x, approximate="tanh"), 0),
        (lambda x: F.gelu(x, "none"), T.gelu, 0),
        (F.softmax, lambda x: T.softmax(x, -1), 0),
    ):
        arrays = [x, *vectors[:count]]
        mine = [Tensor(a, requires_grad=True) for a in arrays]
        others = [torch.tensor(a, requires_grad=True) for a in arrays]
        out, wanted = ours(*mine), theirs(*others)
        out.backward(grad)
        wanted.backward(torch.tensor(grad))
        assert_equal(out.numpy(), wanted.detach().numpy(), dtype)
        for a, b in zip(mine, others, strict=True):
            assert_equal(a.grad, b.grad.numpy(), dtype, scale=30 if d == 1 else 10 * math.sqrt(x.size / d))


def test_gradients_through_the_operations_agree_with_finite_differences(backend, rng):
    x, weight, bias = rng.standard_normal((3, 19)), rng.standard_normal(19), rng.standard_normal(19)
    minitx.check_gradients(F.layer_norm, x, weight, bias)
    minitx.check_gradients(F.layer_norm, x)
    minitx.check_gradients(F.rms_norm, x, weight)
    minitx.check_gradients(F.gelu, x)
    minitx.check_gradients(lambda x: F.gelu(x, "none"), x)
    minitx.check_gradients(F.softmax, x)


def test_mixed_and_whole_number_inputs_keep_their_dtype_rules(backend, rng):
    x64, weight32 = Tensor(rng.standard_normal((2, 5))), Tensor(np.ones(5, np.float32), requires_grad=True)
    y = F.layer_norm(x64, weight32)
    y.sum().backward()
    assert (y.dtype, weight32.grad.dtype) == (np.float64, np.float32)
    for y in (F.gelu(Tensor([1, 2])), F.softmax(Tensor([[1, 2]])), F.rms_norm(Tensor([[1, 2]]))):
        assert y.dtype == np.float32
