"""Rotary positions: what a rotation must keep, in both layouts, and the kernel beside its twin."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import minitx
import minitx.functional as F
from minitx import DtypeError, Tensor
from minitx.kernels import rope_numpy as twin

pytest.importorskip("numba")
from minitx.kernels import rope

DTYPES = (np.float32, np.float64)
TOLERANCE = {np.float32: 2e-6, np.float64: 1e-14}
LAYOUTS = ("half", "interleaved")
each_layout = pytest.mark.parametrize("layout", LAYOUTS)


@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 9), st.integers(0, 35)),
    dtype=st.sampled_from(DTYPES),
    interleaved=st.booleans(),
    inverse=st.booleans(),
    own=st.booleans(),
    seed=st.integers(0, 99),
)
@example(shape=(2, 3, 700, 33), dtype=np.float32, interleaved=True, inverse=False, own=True, seed=0)
@example(shape=(2, 3, 700, 33), dtype=np.float32, interleaved=False, inverse=True, own=True, seed=0)
def test_the_kernel_and_its_twin_are_equal(shape, dtype, interleaved, inverse, own, seed):
    rng = np.random.default_rng(seed)
    batch, heads, n, half = shape
    x = rng.standard_normal((batch, heads, n, 2 * half)).astype(dtype)
    angles = rope.table(600, 2 * half, 10000.0, x.dtype)
    positions = rng.integers(0, 600, (batch if own else 1, n))
    got = rope.rotate(x, angles, positions, interleaved, inverse)
    wanted = twin.rotate(x, angles, positions, interleaved, inverse)
    assert got.dtype == wanted.dtype == dtype
    np.testing.assert_allclose(got, wanted, atol=TOLERANCE[dtype])


@each_layout
@pytest.mark.parametrize("dtype", DTYPES)
def test_each_pair_is_turned_by_its_own_angle(layout, dtype, backend, rng):
    """Against multiplication of complex numbers, with angles in float64."""
    x = rng.standard_normal((2, 3, 5, 14)).astype(dtype)
    positions = np.array([[0, 1, 7, 500, 4000], [3, 2, 9, 11, 60_000]])
    split = (slice(0, None, 2), slice(1, None, 2)) if layout == "interleaved" else (slice(7), slice(7, None))
    rates = 100.0 ** (-2 * np.arange(7) / 14)
    turned = (x[..., split[0]] + 1j * x[..., split[1]]) * np.exp(1j * positions[:, None, :, None] * rates)
    got = F.rotary(x, positions, base=100.0, layout=layout)
    assert got.dtype == dtype
    np.testing.assert_allclose(got.numpy()[..., split[0]], turned.real, atol=TOLERANCE[dtype] * 100)
    np.testing.assert_allclose(got.numpy()[..., split[1]], turned.imag, atol=TOLERANCE[dtype] * 100)


@each_layout
def test_position_0_is_the_identity_and_norms_are_kept(layout, backend, rng):
    x = rng.standard_normal((2, 3, 4, 10))
    np.testing.assert_array_equal(F.rotary(x, np.zeros(4, int), layout=layout).numpy(), x)
    got = F.rotary(x, np.array([5, 9, 1000, 3]), layout=layout).numpy()
    np.testing.assert_allclose((got**2).sum(-1), (x**2).sum(-1))
    assert np.abs(got - x).max() > 0.1


@each_layout
def test_products_of_queries_and_keys_depend_on_their_distance_alone(layout, backend, rng):
    q, k = rng.standard_normal((2, 1, 1, 16))

    def product(i, j):
        turned = F.rotary(q, np.array([i]), layout=layout), F.rotary(k, np.array([j]), layout=layout)
        return float((turned[0] * turned[1]).sum())

    for distance in (0, 1, 5, 37):
        assert product(distance, 0) == pytest.approx(product(distance + 2000, 2000), abs=1e-10)
        assert product(0, distance + 1) == pytest.approx(product(123, distance + 124), abs=1e-10)
    assert abs(product(3, 0) - product(0, 3)) > 1e-3  # the sign of the distance counts
    assert abs(product(1, 0) - product(2, 0)) > 1e-3


def test_the_layouts_differ_and_are_one_permutation_apart(backend, rng):
    x = rng.standard_normal((1, 2, 5, 12))
    order = np.concatenate([np.arange(0, 12, 2), np.arange(1, 12, 2)])
    positions = np.arange(5)
    half = F.rotary(x[..., order], positions, layout="half").numpy()
    interleaved = F.rotary(x, positions, layout="interleaved").numpy()
    np.testing.assert_allclose(half, interleaved[..., order])
    assert np.abs(F.rotary(x, positions, layout="half").numpy() - interleaved).max() > 0.1


@each_layout
def test_the_gradient_is_the_rotation_back(layout, backend, rng):
    positions = np.array([[3, 0, 8], [1, 70, 5]])
    x = rng.standard_normal((2, 2, 3, 8))
    minitx.check_gradients(lambda x: F.rotary(x, positions, layout=layout), x)
    tensor = Tensor(x, requires_grad=True)
    turned = F.rotary(tensor, positions, layout=layout)
    turned.backward(turned.numpy())
    np.testing.assert_allclose(tensor.grad, x)


@pytest.mark.parametrize("shape", [(5, 6), (3, 5, 6), (2, 3, 5, 6), (2, 3, 4, 5, 6)])
def test_any_number_of_leading_axes(shape, backend, rng):
    x, positions = rng.standard_normal(shape), np.arange(5) + 2
    wanted = F.rotary(x.reshape(1, -1, 5, 6), positions).numpy().reshape(shape)
    np.testing.assert_array_equal(F.rotary(x, positions).numpy(), wanted)
    if len(shape) > 2:
        own = np.broadcast_to(positions, (shape[0], 5))
        np.testing.assert_array_equal(F.rotary(x, own).numpy(), wanted)


def test_positions_far_out_need_no_table_of_that_length(backend, rng):
    x = rng.standard_normal((1, 1, 2, 4))
    far = np.array([10**9, 10**9 + 5])
    got = F.rotary(x, far).numpy()[0, 0]
    pairs = (x[0, 0, :, :2] + 1j * x[0, 0, :, 2:]) * np.exp(1j * far[:, None] * np.array([1, 0.01]))
    np.testing.assert_allclose(got[:, :2], pairs.real, atol=1e-6)
    np.testing.assert_allclose(got[:, 2:], pairs.imag, atol=1e-6)


def test_nan_stays_in_its_pair(backend):
    x = np.zeros((1, 1, 2, 40), np.float32)
    x[0, 0, 1, 3] = np.nan
    got = F.rotary(x, np.array([1, 2])).numpy()
    assert np.argwhere(np.isnan(got)).tolist() == [[0, 0, 1, 3], [0, 0, 1, 23]]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: F.rotary(x[..., :5], [0, 1, 2]), ValueError, r"x must .*head_dim even, got \(2, 3, 5\)"),
        (lambda x: F.rotary(x, [0, 1]), ValueError, r"positions must .*\(n = 3,\) or \(B = 2, n = 3\), got \(2,\)"),
        (lambda x: F.rotary(x, np.zeros((3, 3), int)), ValueError, r"got \(3, 3\)"),
        (lambda x: F.rotary(x, [0, 1, -2]), IndexError, "0 or more, got -2"),
        (lambda x: F.rotary(x, [0.0, 1.0, 2.0]), DtypeError, "positions must be integers"),
        (lambda x: F.rotary(x, [0, 1, 2], layout="pairs"), ValueError, "got 'pairs'"),
        (lambda x: F.rotary(x.astype(int), [0, 1, 2]), DtypeError, "x must be float32 or float64"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call(np.zeros((2, 3, 6)))


@pytest.mark.parametrize("module", [rope, twin], ids=["numba", "numpy"])
@pytest.mark.parametrize("wrong", [-1, 8, 10**12])
def test_a_position_outside_the_table_is_refused(module, wrong):
    x = np.zeros((1, 1, 2, 4))
    with pytest.raises(IndexError, match=rf"positions must lie in 0 \.\.\. 7, got {wrong}"):
        module.rotate(x, twin.table(8, 4, 10000.0, x.dtype), np.array([[0, wrong]]), False, False)
