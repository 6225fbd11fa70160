"""Activation functions."""

import functools
import math

import numpy as np

from minitx.ops.table import define

SQRT_2 = math.sqrt(2)
SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
CUBIC = 0.044715


def gelu_tanh_forward(x: np.ndarray) -> np.ndarray:
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    return 0.5 * x * (1 + np.tanh(SQRT_2_OVER_PI * (x + CUBIC * x * x * x)))


def gelu_tanh_rule(grad, x):
    tanh = np.tanh(SQRT_2_OVER_PI * (x + CUBIC * x * x * x))
    inner_slope = SQRT_2_OVER_PI * (1 + 3 * CUBIC * x * x)
    return grad * (0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * inner_slope)


def gelu_erf_forward(x: np.ndarray) -> np.ndarray:
    """x Phi(x) = x/2 (1 + erf(x / sqrt(2)))."""
    return 0.5 * x * (1 + erf(x / SQRT_2))


def gelu_erf_rule(grad, x):
    density = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return grad * (0.5 * (1 + erf(x / SQRT_2)) + x * density)


ERF_END = 6.0  # 1 - erf(6) is 2e-17: 1 in float64


def erf(x: np.ndarray) -> np.ndarray:
    """The error function, which NumPy does not have: erf(|x|) = 1 - exp(-x^2) g(2 / (2 + |x|)).

    g is smooth, so a short Chebyshev series fitted once to Python's math.erfc is exact to rounding.
    """
    size = np.minimum(np.abs(x), ERF_END)
    low = 2 / (2 + ERF_END)
    place = (2 * (2 / (2 + size)) - (1 + low)) / (1 - low)  # [low, 1] onto [-1, 1]
    g = np.polynomial.chebyshev.chebval(place, _erf_series(low).astype(x.dtype))
    return np.copysign(1 - np.exp(-size * size) * g, x)


@functools.cache
def _erf_series(low: float) -> np.ndarray:
    def g(t: np.ndarray) -> np.ndarray:
        return np.array([math.erfc(size) * math.exp(size * size) for size in 2 / t - 2])

    return np.polynomial.Chebyshev.interpolate(g, 22, domain=[low, 1]).coef


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
