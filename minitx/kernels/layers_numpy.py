"""The NumPy twin of `layers`: the same functions, as the formulas read. See `layers` for the arguments."""

import functools
import math

import numpy as np

SQRT_2 = math.sqrt(2)
SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
CUBIC = 0.044715
SLOPE_FLAT = 40.0  # where GELU's slope has long been 0 or 1 to the last digit


def norm_forward(
    x: np.ndarray, weight: np.ndarray | None, bias: np.ndarray | None, eps: float, centred: bool
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """-> y, and of each row its mean (None unless `centred`) and 1 / sqrt(... + eps), both (..., 1)."""
    mean = _mean(x) if centred else None
    out = x if mean is None else x - mean
    inverse = 1 / np.sqrt(_mean(out * out) + x.dtype.type(eps))
    out = out * inverse
    out = out if weight is None else out * weight
    return (out if bias is None else out + bias), mean, inverse


def norm_backward(
    grad: np.ndarray,
    x: np.ndarray,
    weight: np.ndarray | None,
    mean: np.ndarray | None,
    inverse: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """-> gradients of x (..., d), weight (d,) and bias (d,); `mean` None for RMS norm."""
    normal = (x if mean is None else x - mean) * inverse
    pull = grad if weight is None else grad * weight
    # A change of the row's scale leaves the output as it is, and so, with `mean`, does a shift: the gradient
    # has nothing along either.
    slope = pull - normal * _mean(pull * normal)
    if mean is not None:
        slope -= _mean(pull)
    over_rows = tuple(range(x.ndim - 1))
    return inverse * slope, (grad * normal).sum(axis=over_rows), grad.sum(axis=over_rows)


def _mean(x: np.ndarray) -> np.ndarray:
    """The mean over the last axis, 0 where it has no elements."""
    return x.sum(axis=-1, keepdims=True) / x.dtype.type(max(1, x.shape[-1]))


def gelu_forward(x: np.ndarray, exact: bool) -> np.ndarray:
    """x Phi(x) where `exact`, else the form with tanh."""
    with np.errstate(invalid="ignore", over="ignore"):  # -inf * 0 is NaN, here as everywhere
        if exact:
            return 0.5 * x * (1 + erf(x / SQRT_2))
        return 0.5 * x * (1 + np.tanh(SQRT_2_OVER_PI * (x + CUBIC * x * x * x)))


def gelu_backward(grad: np.ndarray, x: np.ndarray, exact: bool) -> np.ndarray:
    """grad times the slope of `gelu_forward` at x."""
    x = np.clip(x, -SLOPE_FLAT, SLOPE_FLAT)
    if exact:
        density = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
        return grad * (0.5 * (1 + erf(x / SQRT_2)) + x * density)
    tanh = np.tanh(SQRT_2_OVER_PI * (x + CUBIC * x * x * x))
    inner_slope = SQRT_2_OVER_PI * (1 + 3 * CUBIC * x * x)
    return grad * (0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * inner_slope)


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


def softmax_forward(x: np.ndarray) -> np.ndarray:
    """exp(x) / sum(exp(x)) over the last axis; zeros for a row of nothing but -inf."""
    top = x.max(axis=-1, keepdims=True, initial=-np.inf)
    # -inf - -inf would be NaN; a row of nothing but -inf has nothing to choose from.
    with np.errstate(invalid="ignore"):
        out = np.exp(x - np.where(top == -np.inf, 0, top))
    total = out.sum(axis=-1, keepdims=True)
    out /= np.where(total == 0, 1, total)
    return out


def softmax_backward(grad: np.ndarray, out: np.ndarray) -> np.ndarray:
    """out (grad - sum(grad out)) over the last axis."""
    return out * (grad - (grad * out).sum(axis=-1, keepdims=True))
