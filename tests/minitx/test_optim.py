"""Optimisers and schedules: each step is PyTorch's."""

import math

import numpy as np
import pytest

from minitx import Tensor, nn, optim
from minitx.nn import Parameter

SHAPES = [(3, 5), (5,), (2, 3, 4)]


def quadratic(parameters, curvature):
    """A loss with another curvature for each element."""
    return sum(((p - 0.5) * (p - 0.5) * c).sum() for p, c in zip(parameters, curvature, strict=True))


def pair_of_runs(rng, dtype):
    torch = pytest.importorskip("torch")
    starts = [rng.standard_normal(shape).astype(dtype) for shape in SHAPES]
    curvature = [rng.uniform(0.1, 3, shape).astype(dtype) for shape in SHAPES]
    ours = [Parameter(start) for start in starts]
    theirs = [torch.nn.Parameter(torch.tensor(start)) for start in starts]
    return torch, ours, theirs, curvature


def twenty_equal_steps(torch, ours, theirs, curvature, optimizer, reference, clip=None):
    for _ in range(20):
        optimizer.zero_grad()
        reference.zero_grad()
        quadratic(ours, map(Tensor, curvature)).backward()
        quadratic(theirs, map(torch.tensor, curvature)).backward()
        if clip:
            norm = optim.clip_grad_norm(ours, clip)
            assert norm == pytest.approx(float(torch.nn.utils.clip_grad_norm_(theirs, clip)), rel=1e-6)
        optimizer.step()
        reference.step()
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.numpy(), other.detach().numpy(), atol=1e-6, rtol=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"lr": 0.05}),
        ("SGD", {"lr": 0.05, "momentum": 0.9}),
        ("SGD", {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.1}),
        ("Adam", {"lr": 0.02}),
        ("Adam", {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}),
        ("AdamW", {"lr": 0.02}),
        ("AdamW", {"lr": 0.02, "betas": (0.9, 0.95), "weight_decay": 0.3}),
    ],
)
def test_20_steps_are_those_of_pytorch(name, options, dtype, rng):
    torch, ours, theirs, curvature = pair_of_runs(rng, dtype)
    optimizer = getattr(optim, name)(ours, **options)
    twenty_equal_steps(
        torch, ours, theirs, curvature, optimizer, getattr(torch.optim, name)(theirs, **options)
    )
    assert all(p.dtype == dtype for p in ours)


def test_20_clipped_steps_are_those_of_pytorch(rng):
    torch, ours, theirs, curvature = pair_of_runs(rng, np.float64)
    optimizer, reference = optim.SGD(ours, lr=0.1), torch.optim.SGD(theirs, lr=0.1)
    twenty_equal_steps(torch, ours, theirs, curvature, optimizer, reference, clip=1.5)


def test_20_steps_with_decay_for_matrices_only_are_those_of_pytorch(rng):
    torch = pytest.importorskip("torch")
    model = nn.Linear(5, 3, rng=0)
    other = torch.nn.Linear(5, 3)
    with torch.no_grad():
        other.weight.copy_(torch.tensor(model.weight.numpy()))
        other.bias.copy_(torch.tensor(model.bias.numpy()))
    optimizer = optim.AdamW(optim.decay_groups(model, 0.4), lr=0.05)
    groups = [{"params": [other.weight], "weight_decay": 0.4}, {"params": [other.bias], "weight_decay": 0.0}]
    reference = torch.optim.AdamW(groups, lr=0.05)
    curvature = [rng.uniform(0.1, 3, p.shape).astype(np.float32) for p in model.parameters()]
    twenty_equal_steps(torch, model.parameters(), [other.weight, other.bias], curvature, optimizer, reference)


def test_clipping_leaves_small_gradients_and_shrinks_large_ones_to_the_norm():
    a, b = Parameter(np.zeros((2, 3))), Parameter(np.zeros(4))
    a.grad, b.grad = np.full((2, 3), 0.1), np.full(4, 0.2)
    before = math.sqrt(6 * 0.01 + 4 * 0.04)
    assert optim.clip_grad_norm([a, b], 5.0) == pytest.approx(before)
    assert a.grad[0, 0] == 0.1
    optim.clip_grad_norm([a, b, Parameter(np.zeros(2))], 0.1)
    assert math.sqrt((a.grad**2).sum() + (b.grad**2).sum()) == pytest.approx(0.1, rel=1e-4)


def test_a_norm_that_is_not_finite_is_reported_and_scales_nothing():
    a = Parameter(np.zeros(2))
    a.grad = np.array([np.inf, 1.0])
    assert optim.clip_grad_norm([a], 1.0) == math.inf
    assert a.grad[1] == 1.0


def test_parameters_without_a_gradient_stay_as_they_are():
    a, b = Parameter(np.ones(2)), Parameter(np.ones(3))
    optimizer = optim.AdamW([a, b], lr=0.1)
    (a * a).sum().backward()
    optimizer.step()
    np.testing.assert_array_equal(b.numpy(), np.ones(3))
    assert (a.numpy() < 1).all()


def test_the_rate_of_all_groups_is_set_at_once_and_keeps_their_ratio():
    a, b = Parameter(np.ones(2)), Parameter(np.ones(3))
    optimizer = optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.2}], lr=0.1)
    optimizer.lr = 0.5
    assert [group["lr"] for group in optimizer.groups] == [0.5, 1.0]


def test_no_parameters_and_doubled_parameters_are_refused():
    a = Parameter(np.ones(2))
    with pytest.raises(ValueError, match=r"model\.parameters\(\)"):
        optim.SGD([], lr=0.1)
    with pytest.raises(ValueError, match="twice"):
        optim.SGD([a, a], lr=0.1)


def test_warm_up_and_cosine_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    reference = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.3)
    schedules = torch.optim.lr_scheduler
    warm = schedules.LinearLR(reference, start_factor=1 / 5, total_iters=4)
    cosine = schedules.CosineAnnealingLR(reference, T_max=15, eta_min=0.03)
    schedule = schedules.SequentialLR(reference, [warm, cosine], milestones=[4])
    for step in range(1, 21):
        rate = optim.warmup_cosine(step, peak=0.3, warmup=5, total=20, floor=0.03)
        assert rate == pytest.approx(schedule.get_last_lr()[0], abs=1e-9)
        reference.step()
        schedule.step()
    assert optim.warmup_cosine(20, peak=0.3, warmup=5, total=20, floor=0.03) == pytest.approx(0.03)
    assert optim.warmup_cosine(99, peak=0.3, warmup=5, total=20, floor=0.03) == pytest.approx(0.03)


def test_the_inverse_square_root_schedule_is_that_of_the_paper():
    torch = pytest.importorskip("torch")
    reference = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)

    def formula(i):
        return 512**-0.5 * min((i + 1) ** -0.5, (i + 1) * 8**-1.5)

    schedule = torch.optim.lr_scheduler.LambdaLR(reference, formula)
    for step in range(1, 21):
        rate = optim.inverse_square_root(step, d_model=512, warmup=8)
        assert rate == pytest.approx(schedule.get_last_lr()[0], abs=1e-9)
        reference.step()
        schedule.step()
    peak = optim.inverse_square_root(4000, d_model=512)
    assert peak == pytest.approx(1 / math.sqrt(512 * 4000))
    assert optim.inverse_square_root(3999, d_model=512) < peak > optim.inverse_square_root(4001, d_model=512)
    with pytest.raises(ValueError, match="starts at step 1"):
        optim.inverse_square_root(0, d_model=512)
