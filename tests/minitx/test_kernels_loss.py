"""Cross-entropy: the compiled kernel, its twin and PyTorch agree; what is ignored or out of range is not read."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import minitx
import minitx.functional as F
from minitx import Tensor
from minitx.kernels import loss_numpy as twin

pytest.importorskip("numba")
from minitx.kernels import loss

DTYPES = (np.float32, np.float64)
TOLERANCE = {np.float32: 3e-6, np.float64: 1e-13}
each_module = pytest.mark.parametrize("module", [loss, twin], ids=["numba", "numpy"])


def both(name, *arguments):
    return getattr(loss, name)(*arguments), getattr(twin, name)(*arguments)


@given(
    rows=st.integers(0, 9),
    classes=st.integers(1, 70),
    dtype=st.sampled_from(DTYPES),
    smooth=st.sampled_from([0.0, 0.1, 0.7]),
    ignored=st.sampled_from([-100, 0, 3]),
    seed=st.integers(0, 99),
)
@example(rows=90, classes=3001, dtype=np.float32, smooth=0.1, ignored=-100, seed=0)
@example(rows=3, classes=1024, dtype=np.float32, smooth=0.0, ignored=-100, seed=0)
@example(rows=3, classes=1025, dtype=np.float64, smooth=0.1, ignored=-100, seed=0)
def test_the_kernel_and_its_twin_are_equal(rows, classes, dtype, smooth, ignored, seed):
    rng = np.random.default_rng(seed)
    logits = (5 * rng.standard_normal((rows, classes))).astype(dtype)
    targets = rng.integers(0, classes, rows)
    targets[rng.random(rows) < 0.3] = ignored
    (mine, log_sum), (other, wanted) = both("cross_entropy_forward", logits, targets, ignored, smooth)
    assert mine.dtype == other.dtype == log_sum.dtype == wanted.dtype == dtype
    np.testing.assert_allclose(mine, other, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    np.testing.assert_allclose(log_sum, wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    got, slopes = both("cross_entropy_backward", dtype(1.5), logits, targets, wanted, ignored, smooth)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, slopes, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@each_module
def test_logits_that_rise_from_chunk_to_chunk_do_not_overflow(module):
    """The running sum must be scaled down whenever a later part of the row has a larger logit."""
    logits = np.linspace(-400, 4000, 5000)[None].astype(np.float32)
    mean, log_sum = module.cross_entropy_forward(logits, np.array([4999]), -100, 0.0)
    wanted = 4000 + np.log(np.exp(logits[0].astype(float) - 4000).sum())
    assert log_sum[0] == pytest.approx(wanted, rel=1e-6)
    assert mean == pytest.approx(wanted - 4000, abs=1e-3)


@each_module
def test_leading_minus_infinities_are_classes_that_cannot_be(module):
    logits = np.full((1, 2500), -np.inf)
    logits[0, 2300:] = 2.0
    mean, log_sum = module.cross_entropy_forward(logits, np.array([2400]), -100, 0.0)
    assert mean == pytest.approx(np.log(200))
    slopes = module.cross_entropy_backward(1.0, logits, np.array([2400]), log_sum, -100, 0.0)
    assert not slopes[0, :2300].any()
    assert slopes[0, 2400] == pytest.approx(1 / 200 - 1)


@each_module
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinity_in_a_counted_row_are_seen_and_in_an_ignored_row_are_not(module, bad):
    logits = np.zeros((3, 40), np.float32)
    logits[1, 20] = bad
    for targets, seen in ((np.array([1, 2, 3]), True), (np.array([1, -100, 3]), False)):
        mean, log_sum = module.cross_entropy_forward(logits, targets, -100, 0.0)
        slopes = module.cross_entropy_backward(1.0, logits, targets, log_sum, -100, 0.0)
        assert np.isnan(mean) == seen
        assert np.isnan(slopes[1]).any() == seen
        assert np.isfinite(slopes[[0, 2]]).all()


@each_module
@pytest.mark.parametrize("wrong", [-1, 7, 10**12, -101])
def test_a_target_out_of_range_raises_before_anything_is_computed(module, wrong):
    logits, targets = np.zeros((2, 3, 7), np.float32), np.zeros((2, 3), np.int64)
    targets[1, 2] = wrong
    message = rf"targets must lie in 0 \.\.\. 6, got {wrong} at index \(1, 2\)"
    with pytest.raises(IndexError, match=message):
        module.cross_entropy_forward(logits, targets, -100, 0.0)
    with pytest.raises(IndexError, match=message):
        module.cross_entropy_backward(1.0, logits, targets, np.zeros((2, 3), np.float32), -100, 0.0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 33), (2, 3, 50), (1, 1), (40, 4100)])
@pytest.mark.parametrize("smooth", [0.0, 0.2])
def test_value_and_gradient_are_those_of_pytorch(shape, smooth, dtype, backend, rng):
    torch = pytest.importorskip("torch")
    logits = (3 * rng.standard_normal(shape)).astype(dtype)
    targets = rng.integers(0, shape[-1], shape[:-1])
    if targets.size > 1:
        targets.flat[1] = -100
    mine, other = Tensor(logits, requires_grad=True), torch.tensor(logits, requires_grad=True)
    value = F.cross_entropy(mine, targets, label_smoothing=smooth)
    wanted = torch.nn.functional.cross_entropy(
        other.reshape(-1, shape[-1]), torch.tensor(targets).reshape(-1), label_smoothing=smooth
    )
    (value * 2.0).backward()
    (wanted * 2.0).backward()
    assert value.dtype == mine.grad.dtype == dtype
    assert value.item() == pytest.approx(wanted.item(), rel=TOLERANCE[dtype], abs=TOLERANCE[dtype])
    np.testing.assert_allclose(mine.grad, other.grad.numpy(), rtol=1e-5, atol=TOLERANCE[dtype])


def test_the_gradient_agrees_with_finite_differences(backend, rng):
    targets = np.array([[4, -100, 0], [1, 18, 4]])
    logits = rng.standard_normal((2, 3, 19))
    for smooth in (0.0, 0.3):
        minitx.check_gradients(lambda x: F.cross_entropy(x, targets, label_smoothing=smooth), logits)  # noqa: B023


@pytest.mark.parametrize("kind", [np.int32, np.uint8, np.int64])
def test_targets_may_be_any_whole_numbers_and_strided(kind, backend, rng):
    logits = rng.standard_normal((8, 5)).astype(np.float32)
    targets = rng.integers(0, 5, 8)
    wide = np.repeat(targets, 2).astype(kind)
    wanted = F.cross_entropy(logits, targets).item()
    assert F.cross_entropy(logits, wide[::2]).item() == pytest.approx(wanted)
    assert F.cross_entropy(np.repeat(logits, 2, axis=0)[::2], targets).item() == pytest.approx(wanted)
