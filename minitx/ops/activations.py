"""Activation functions."""

import numpy as np

from minitx import kernels
from minitx.ops.table import define, floats


def gelu_tanh_forward(x: np.ndarray) -> np.ndarray:
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    return kernels.family("layers").gelu_forward(*floats(x), False)


def gelu_tanh_rule(grad, x):
    return kernels.family("layers").gelu_backward(grad, x, False)


def gelu_erf_forward(x: np.ndarray) -> np.ndarray:
    """x Phi(x) = x/2 (1 + erf(x / sqrt(2)))."""
    return kernels.family("layers").gelu_forward(*floats(x), True)


def gelu_erf_rule(grad, x):
    return kernels.family("layers").gelu_backward(grad, x, True)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)) without the overflow of exp(-x) for a large negative x."""
    return 0.5 * (1 + np.tanh(0.5 * x))


def silu_rule(grad, x):
    gate = sigmoid(x)
    return grad * gate * (1 + x * (1 - gate))


define("relu", lambda x: np.maximum(x, 0), x=lambda grad, out: grad * (out > 0))
define("sigmoid", sigmoid, x=lambda grad, out: grad * out * (1 - out))
define("silu", lambda x: x * sigmoid(x), x=silu_rule)
define("gelu_tanh", gelu_tanh_forward, x=gelu_tanh_rule)
define("gelu_erf", gelu_erf_forward, x=gelu_erf_rule)
