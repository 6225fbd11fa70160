"""Wrong arguments of the functions: each message names the argument, what was expected and what came."""

import numpy as np
import pytest

import minitx.functional as F
from minitx import DtypeError, Tensor


def zeros(*shape):
    return Tensor(np.zeros(shape, np.float32))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: F.linear(zeros(2, 4), zeros(3, 5)), ValueError, r"x must have shape \(\.\.\., in_features = 5\), got \(2, 4\)"),
        (lambda: F.linear(zeros(2, 5), zeros(5)), ValueError, r"weight must have shape \(out_features, in_features\)"),
        (lambda: F.linear(zeros(2, 5), zeros(3, 5), zeros(5)), ValueError, r"bias must .* = 3,\), got \(5,\)"),
        (lambda: F.layer_norm(zeros(2, 4), zeros(2)), ValueError, r"weight must have shape \(4,\).* got \(2,\)"),
        (lambda: F.layer_norm(zeros(2, 4), zeros(4), zeros(1)), ValueError, r"bias must have shape \(4,\)"),
        (lambda: F.rms_norm(zeros(2, 4), zeros(1, 4)), ValueError, r"weight must have shape \(4,\).* got \(1, 4\)"),
        (lambda: F.embedding([0, 7], zeros(7, 2)), IndexError, r"ids must lie in 0 \.\.\. 6, got 7 at index \(1,\)"),
        (lambda: F.embedding([[0, -1]], zeros(7, 2)), IndexError, r"got -1 at index \(0, 1\)"),
        (lambda: F.embedding([0.0], zeros(7, 2)), DtypeError, r"ids must be integers, got float32.*astype"),
        (lambda: F.embedding([0], zeros(7)), ValueError, r"weight must have shape \(vocabulary, d\)"),
        (lambda: F.cross_entropy(zeros(2, 3, 5), np.zeros((2, 5), int)), ValueError, r"targets must .*\(2, 3\).*got \(2, 5\)"),
        (lambda: F.cross_entropy(zeros(2, 5), [1, 5]), IndexError, r"targets must lie in 0 \.\.\. 4, got 5"),
        (lambda: F.cross_entropy(zeros(2, 5), [1, -1]), IndexError, r"got -1 at index \(1,\)"),
        (lambda: F.cross_entropy(zeros(2, 5), [1, 2], label_smoothing=1.5), ValueError, r"\[0, 1\), got 1.5"),
        (lambda: F.cross_entropy(zeros(2, 5), [1.0, 2.0]), DtypeError, "targets must be integers"),
        (lambda: F.gelu(zeros(2), approximate="erf"), ValueError, r'"tanh" or "none", got \'erf\''),
        (lambda: F.dropout(zeros(2), 1.0), ValueError, r"\[0, 1\), got 1.0"),
        (lambda: F.where(zeros(2), 1.0, zeros(2)), DtypeError, r"condition must be boolean, got float32"),
        (lambda: F.split(zeros(2, 7), 3), ValueError, r"axis -1 of 7 to divide into 3 equal"),
        (lambda: F.split(zeros(2, 7), [3, 3]), ValueError, r"\[3, 3\] add up to 6; axis -1 has 7"),
        (lambda: F.pad(zeros(2, 3), [(1, 0)]), ValueError, r"one pair .* each of 2 axes"),
        (lambda: F.pad(zeros(2), [(-1, 0)]), ValueError, r">= 0"),
        (lambda: F.gather(zeros(2, 3), np.zeros((3, 3), int)), ValueError, r"index must have shape \(2, any\), got \(3, 3\)"),
        (lambda: F.gather(zeros(2, 3), np.full((2, 1), 3)), IndexError, r"0 \.\.\. 2, got 3 at index \(0, 0\)"),
        (lambda: F.concatenate([zeros(2, 3), zeros(3, 2)]), ValueError, r"concatenate .*\(2, 3\), \(3, 2\)"),
        (lambda: zeros(2, 3).sum(axis=2), ValueError, r"sum .*\(2, 3\).*axis 2"),
        (lambda: zeros(2, 3).item(), ValueError, r"one element, got shape \(2, 3\)"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_cross_entropy_counts_only_what_is_not_ignored(rng):
    logits = Tensor(rng.standard_normal((3, 4)), requires_grad=True)
    targets = np.array([2, -100, 0])
    loss = F.cross_entropy(logits, targets)
    probabilities = F.softmax(logits).numpy()
    assert loss.item() == pytest.approx(-np.log(probabilities[[0, 2], [2, 0]]).mean())
    loss.backward()
    assert not logits.grad[1].any()
    assert loss.item() == pytest.approx(F.cross_entropy(logits, np.array([2, 9, 0]), ignore_index=9).item())


def test_cross_entropy_without_any_target_is_zero_with_zero_gradients():
    logits = Tensor(np.ones((2, 3)), requires_grad=True)
    loss = F.cross_entropy(logits, np.array([-100, -100]))
    loss.backward()
    assert loss.item() == 0
    assert not logits.grad.any()


def test_split_gives_the_pieces_in_order(rng):
    x = rng.standard_normal((2, 6, 3))
    for pieces, axis in ((3, 1), ([1, 5], 1), ([2, 1], -1)):
        parts = F.split(Tensor(x), pieces, axis=axis)
        np.testing.assert_array_equal(np.concatenate([part.numpy() for part in parts], axis), x)


def test_functions_take_arrays_as_constants(rng):
    x = rng.standard_normal((2, 3)).astype(np.float32)
    np.testing.assert_array_equal(F.softmax(x).numpy(), F.softmax(Tensor(x)).numpy())
