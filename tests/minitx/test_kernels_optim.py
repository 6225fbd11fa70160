"""AdamW's fused step: equal to its twin, to the formula and to PyTorch, in place and nowhere else."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from minitx import optim as optimisers
from minitx.kernels import optim_numpy as twin
from minitx.nn import Parameter

pytest.importorskip("numba")
from minitx.kernels import optim

DTYPES = (np.float32, np.float64)
TOLERANCE = {np.float32: 2e-6, np.float64: 1e-13}
SETTINGS = {"lr": 0.01, "betas": (0.9, 0.98), "eps": 1e-8, "decay": 0.1}
each_module = pytest.mark.parametrize("module", [optim, twin], ids=["numba", "numpy"])


def arrays(rng, dtype, *shape):
    parameter, grad, mean = (rng.standard_normal(shape).astype(dtype) for _ in range(3))
    return parameter, grad, mean, rng.uniform(0, 2, shape).astype(dtype)


@given(
    shape=st.tuples(st.integers(0, 5), st.integers(1, 70)),
    dtype=st.sampled_from(DTYPES),
    step=st.integers(1, 5000),
    decay=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 99),
)
@example(shape=(3, 90_001), dtype=np.float32, step=2, decay=0.1, seed=0)
def test_the_kernel_and_its_twin_are_equal(shape, dtype, step, decay, seed):
    rng = np.random.default_rng(seed)
    mine = arrays(rng, dtype, *shape)
    other = tuple(array.copy() for array in mine)
    grad = mine[1].copy()
    settings = {**SETTINGS, "decay": decay, "step": step}
    optim.adamw_step(*mine, **settings)
    twin.adamw_step(*other, **settings)
    for a, b in zip(mine, other, strict=True):
        assert a.dtype == b.dtype == dtype
        np.testing.assert_allclose(a, b, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    np.testing.assert_array_equal(mine[1], grad)


@each_module
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_step_is_the_formula(module, dtype, rng):
    p, g, m, v = arrays(rng, np.float64, 37)
    got = [array.astype(dtype) for array in (p, g, m, v)]
    module.adamw_step(*got, lr=0.02, betas=(0.8, 0.95), eps=1e-3, decay=0.5, step=3)
    mean, square = 0.8 * m + 0.2 * g, 0.95 * v + 0.05 * g * g
    root = np.sqrt(square / (1 - 0.95**3)) + 1e-3
    wanted = (1 - 0.02 * 0.5) * p - 0.02 * mean / (1 - 0.8**3) / root
    for mine, other in zip(got, (wanted, g, mean, square), strict=True):
        np.testing.assert_allclose(mine, other, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@each_module
def test_what_lies_next_to_the_arrays_is_left_alone(module, rng):
    whole = [array.copy() for array in arrays(rng, np.float32, 50)]
    before = [array.copy() for array in whole]
    module.adamw_step(*[array[7:40] for array in whole], **SETTINGS, step=1)
    for array, old in zip(whole, before, strict=True):
        np.testing.assert_array_equal(array[:7], old[:7])
        np.testing.assert_array_equal(array[40:], old[40:])
    assert (whole[0][7:40] != before[0][7:40]).all()


@each_module
def test_strided_parameters_are_changed_in_place(module, rng):
    plain = arrays(rng, np.float32, 6, 9)
    turned = [np.asfortranarray(array) for array in plain]
    module.adamw_step(*plain, **SETTINGS, step=4)
    module.adamw_step(*turned, **SETTINGS, step=4)
    for a, b in zip(plain, turned, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@each_module
def test_nan_and_infinity_in_a_gradient_stay_where_they_are_and_are_seen(module):
    p, m, v = np.ones(35, np.float32), np.zeros(35, np.float32), np.zeros(35, np.float32)
    g = np.ones(35, np.float32)
    g[3], g[33] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        module.adamw_step(p, g, m, v, **SETTINGS, step=1)
    assert np.isnan(p[[3, 33]]).all()
    assert np.isfinite(np.delete(p, [3, 33])).all()


@each_module
@pytest.mark.parametrize("place", [1, 2, 3])
def test_a_wrong_shape_is_named_and_nothing_is_changed(module, place, rng):
    given_arrays = list(arrays(rng, np.float32, 4, 5))
    given_arrays[place] = np.ones((5,), np.float32)
    before = [array.copy() for array in given_arrays]
    name = ("parameter", "grad", "mean", "square")[place]
    with pytest.raises(ValueError, match=rf"{name} must have shape \(4, 5\).*got \(5,\)"):
        module.adamw_step(*given_arrays, **SETTINGS, step=1)
    for array, old in zip(given_arrays, before, strict=True):
        np.testing.assert_array_equal(array, old)


@each_module
def test_a_read_only_parameter_is_refused_before_the_moments_change(module, rng):
    given_arrays = arrays(rng, np.float32, 5)
    given_arrays[0].flags.writeable = False
    mean = given_arrays[2].copy()
    with pytest.raises(ValueError, match="parameter is read-only"):
        module.adamw_step(*given_arrays, **SETTINGS, step=1)
    np.testing.assert_array_equal(given_arrays[2], mean)


def test_the_optimiser_uses_the_step_in_both_back_ends(backend, rng):
    start, grad = rng.standard_normal((3, 41)), rng.standard_normal((3, 41))
    parameter = Parameter(start)
    optimizer = optimisers.AdamW([parameter], lr=0.1, weight_decay=0.2)
    for _ in range(3):
        parameter.grad = grad.copy()
        optimizer.step()
    p, m, v = start.copy(), np.zeros((3, 41)), np.zeros((3, 41))
    for t in (1, 2, 3):
        m, v = 0.9 * m + 0.1 * grad, 0.999 * v + 0.001 * grad**2
        p = p - 0.1 * 0.2 * p - 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    np.testing.assert_allclose(parameter.numpy(), p, rtol=1e-12)


def many(rng, dtype):
    """Parameters of many shapes, one longer than a piece, one empty: lists of parameters, gradients, moments."""
    shapes = [(3, 5), (1,), (130, 140), (0, 4), (7,), (2, 3, 4)]
    return [list(column) for column in zip(*[arrays(rng, dtype, *s) for s in shapes], strict=True)]


@each_module
@pytest.mark.parametrize("dtype", DTYPES)
def test_many_parameters_in_one_call_get_the_step_that_each_would_get(module, dtype, rng):
    together = many(rng, dtype)
    alone = [[array.copy() for array in column] for column in together]
    module.adamw_steps(*together, **SETTINGS, step=7)
    for parameter, grad, mean, square in zip(*alone, strict=True):
        twin.adamw_step(parameter, grad, mean, square, **SETTINGS, step=7)
    for mine, other in zip(together, alone, strict=True):
        for a, b in zip(mine, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@each_module
def test_one_that_does_not_fit_is_refused_before_any_is_changed(module, rng):
    together = many(rng, np.float32)
    before = [[array.copy() for array in column] for column in together]
    together[1][-1] = together[1][-1][:1]
    with pytest.raises(ValueError, match=r"grad must have shape \(2, 3, 4\)"):
        module.adamw_steps(*together, **SETTINGS, step=1)
    together[1][-1] = before[1][-1]
    together[3][2].flags.writeable = False
    with pytest.raises(ValueError, match="square is read-only"):
        module.adamw_steps(*together, **SETTINGS, step=1)
    for mine, other in zip(together, before, strict=True):
        for a, b in zip(mine, other, strict=True):
            np.testing.assert_array_equal(a, b)


@each_module
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_sum_of_squares_and_the_scaling_go_through_every_number(module, dtype, rng):
    lists = many(rng, dtype)[0] + [np.asfortranarray(rng.standard_normal((5, 6)).astype(dtype))]
    for some in (lists, lists[:-1]):
        before = [array.copy() for array in some]
        wanted = sum(float((array.astype(np.float64) ** 2).sum()) for array in some)
        assert module.sum_of_squares(some) == pytest.approx(wanted, rel=1e-6)
        module.scale(some, 0.25)
        for array, old in zip(some, before, strict=True):
            np.testing.assert_array_equal(array, old * dtype(0.25))
