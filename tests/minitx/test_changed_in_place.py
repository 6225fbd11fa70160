"""An array that changes between forward and backward would give a silently wrong gradient: it raises."""

import numpy as np
import pytest

import minitx.functional as F
from minitx import GraphError, Tensor, nn, optim


def leaf(*shape):
    return Tensor(np.arange(1.0, 1 + np.prod(shape, dtype=int)).reshape(shape), requires_grad=True)


def refused(loss):
    with pytest.raises(GraphError, match="changed in place") as caught:
        loss.backward()
    return str(caught.value)


def test_both_the_line_that_made_the_tensor_and_the_line_that_changed_it_are_named():
    x = leaf(2, 3)  # the line that made it
    loss = (x * x).sum()
    x.data[0, 1] = 7  # the line that changed it
    message = refused(loss)
    assert "test_changed_in_place.py" in message
    assert "x = leaf(2, 3)  # the line that made it" in message or "return Tensor(" in message
    assert "x.data[0, 1] = 7  # the line that changed it" in message
    assert "'multiply'" in message


def test_a_refused_backward_leaves_no_half_made_gradients():
    x, y = leaf(3), leaf(3)
    loss = (x * y.exp()).sum()
    x.data[0] = 7
    refused(loss)
    assert x.grad is None
    assert y.grad is None


def test_an_augmented_assignment_is_found():
    x = leaf(3)
    loss = x.exp().sum() + (x * x).sum()
    x.data *= 2
    refused(loss)


def test_a_change_through_an_array_taken_before_the_forward_pass_is_found():
    x = leaf(4, 3)
    view = x.data[1:, ::2]
    loss = (x * x).sum()
    view[0, 0] = 7
    refused(loss)


def test_a_change_through_a_view_of_another_shape_is_found():
    x = leaf(4, 3)
    flat = x.reshape(12)
    loss = (x * x).sum()
    flat.data[5] = 7
    refused(loss)


def test_a_change_of_what_a_view_looks_at_is_found():
    x = leaf(4, 3)
    turned = x.transpose()
    loss = (turned * turned).sum()
    x.detach().data[0, 0] = 7
    refused(loss)


def test_a_change_that_only_reorders_the_numbers_is_found():
    x = leaf(5)
    loss = (x * x).sum()
    x.data[:] = x.data[::-1].copy()
    refused(loss)


def test_a_change_of_an_output_that_its_rule_uses_is_found():
    y = leaf(3).exp()
    loss = y.sum()
    y.data[0] = 0
    assert "'exp'" in refused(loss)


def test_a_change_of_shared_memory_is_found():
    array = np.ones(3)
    x = Tensor(array, requires_grad=True, copy=False)
    loss = (x * x).sum()
    array[0] = 7
    refused(loss)


def test_an_optimiser_step_between_forward_and_backward_is_found():
    layer = nn.Linear(3, 2, rng=0)
    optimizer = optim.SGD(layer.parameters(), lr=0.1)
    x = leaf(4, 3)
    first, second = layer(x).sum(), layer(x).sum()
    first.backward()
    optimizer.step()
    assert "optimizer.step()" in refused(second)


def test_the_arrays_of_the_caller_are_copied_so_that_reusing_them_is_harmless():
    array, factor, index = np.ones((3, 2)), np.full((3, 2), 2.0), np.array([0, 2])
    ids, allowed = np.array([0, 1, 1]), np.array([True, False, True])
    x = Tensor(array, requires_grad=True)
    y = x * factor
    loss = y[index].sum() + F.embedding(ids, x).sum() + F.where(allowed[:, None], x, 0.0).sum()
    array[:], factor[:], index[:], ids[:], allowed[:] = 9, 9, 1, 2, False
    loss.backward()
    np.testing.assert_array_equal(x.grad, [[4, 4], [2, 2], [3, 3]])


def test_looking_at_an_array_is_no_change():
    x = leaf(3)
    y = x * x
    assert x.data[0] == 1
    assert y.data[2] == 9
    (y * y).sum().backward()
    np.testing.assert_array_equal(x.grad, [4, 32, 108])


def test_a_change_of_what_no_rule_needs_is_allowed():
    x = leaf(3)
    y = x + 1
    loss = y.sum()
    x.data[0], y.data[0] = 7, 7
    loss.backward()
    np.testing.assert_array_equal(x.grad, [1, 1, 1])


def test_changes_before_forward_and_after_backward_are_allowed():
    x = leaf(3)
    for _ in range(3):
        x.data[0] += 1
        (x * x).sum().backward()
        x.data -= 0.1 * x.grad
        x.zero_grad()


def test_a_new_array_in_place_of_the_old_keeps_the_gradient_of_the_old():
    x = leaf(3)
    loss = (x * x).sum()
    x.data = np.zeros(3)
    loss.backward()
    np.testing.assert_array_equal(x.grad, [2, 4, 6])
