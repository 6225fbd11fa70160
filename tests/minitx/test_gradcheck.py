"""The checker itself: it must fail on a wrong rule, and refuse what it cannot judge."""

import numpy as np
import pytest

import minitx
import minitx.functional as F
from minitx import DtypeError, GradientError, Tensor
from minitx.ops import table
from minitx.ops.activations import gelu_erf_forward, gelu_tanh_rule
from minitx.tensor import apply


@pytest.fixture
def operation():
    """Enters an operation for one test."""
    names = set(table.OPS)
    yield table.define
    for name in set(table.OPS) - names:
        del table.OPS[name]


def test_a_wrong_rule_fails_with_argument_index_expected_and_got(operation):
    operation("wrong", lambda a, b: a * b, a=lambda grad, b: grad * b, b=lambda grad, a: grad * a * 1.001)
    x, y = np.full((2, 3), 2.0), np.full((2, 3), 4.0)
    with pytest.raises(GradientError) as caught:
        minitx.check_gradients(lambda a, b: apply("wrong", a, b).sum(), x, y)
    message = str(caught.value)
    assert "argument 1 at index (0, 0)" in message
    numbers = [
        float(word.strip(",.")) for word in message.split() if word.strip(",.").replace(".", "").isdigit()
    ]
    assert numbers[-1] / numbers[-2] == pytest.approx(1.001)


def test_one_wrong_element_among_many_is_found(operation):
    def rule(grad, x):
        out = 2 * x * grad
        out[1, 2] += 1e-3
        return out

    operation("almost", lambda x: x * x, x=rule)
    with pytest.raises(GradientError, match=r"index \(1, 2\)"):
        minitx.check_gradients(lambda x: apply("almost", x), np.ones((2, 3)))


def test_forward_and_rule_of_different_gelus_fail(operation):
    operation("mixed_gelu", gelu_erf_forward, x=gelu_tanh_rule)
    with pytest.raises(GradientError):
        minitx.check_gradients(lambda x: apply("mixed_gelu", x), np.linspace(-3, 3, 13))


def test_a_gradient_that_would_be_right_after_a_transposition_fails(operation):
    operation("turned", lambda x: x * x, x=lambda grad, x: (grad * 2 * x).T)
    with pytest.raises(GradientError):
        minitx.check_gradients(lambda x: apply("turned", x), np.arange(9.0).reshape(3, 3))


def test_a_computation_that_leaves_the_graph_is_named():
    def off_the_graph(x):
        return x * 0 + Tensor((x * x).numpy())

    with pytest.raises(GradientError, match="expected 2"):
        minitx.check_gradients(off_the_graph, np.ones(1))
    with pytest.raises(GradientError, match="No gradient arrived at all"):
        minitx.check_gradients(lambda x: Tensor(x.numpy() * 2), np.ones(1))


@pytest.mark.parametrize("array", [np.ones(3, np.float32), np.ones(3, int), [1.0, 2.0], 3.0])
def test_anything_but_float64_arrays_is_refused(array):
    with pytest.raises(DtypeError, match="needs float64 arrays"):
        minitx.check_gradients(lambda x: x * 2, array)


def test_a_function_that_falls_back_to_float32_is_refused():
    with pytest.raises(DtypeError, match="turned float64 into float32"):
        minitx.check_gradients(lambda x: x.astype(np.float32), np.ones(3))


def test_a_random_function_is_refused():
    with pytest.raises(ValueError, match="fix its seed"):
        minitx.check_gradients(lambda x: F.dropout(x, 0.5), np.ones((5, 7)))


def test_a_point_without_a_finite_value_is_refused():
    with pytest.raises(ValueError, match="NaN or infinity"), np.errstate(divide="ignore"):
        minitx.check_gradients(lambda x: x.log(), np.zeros(2))


def test_a_function_that_returns_an_array_is_refused():
    with pytest.raises(TypeError, match="must return a Tensor, got ndarray"):
        minitx.check_gradients(lambda x: x.numpy(), np.ones(2))
    with pytest.raises(TypeError, match=r"got tuple\. Choose one"):
        minitx.check_gradients(lambda x: (x, x), np.ones(2))


def test_a_large_loss_is_given_room_for_its_rounding_only():
    minitx.check_gradients(lambda x: x * x + 1e4, np.linspace(0.1, 2, 7))
    with pytest.raises(GradientError):
        minitx.check_gradients(lambda x: x * x.detach() + 1e4, np.linspace(0.1, 2, 7))


def test_the_arrays_are_left_as_they_were():
    x = np.linspace(1, 2, 5)
    minitx.check_gradients(lambda x: x.log(), x)
    np.testing.assert_array_equal(x, np.linspace(1, 2, 5))


def test_no_gradient_at_all_is_right_for_a_constant():
    minitx.check_gradients(lambda x: Tensor(np.ones(3)), np.ones(2))
