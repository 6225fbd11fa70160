"""Softmax and its logarithm."""

import numpy as np

from minitx import kernels
from minitx.ops.table import define, floats


def softmax_forward(x: np.ndarray, axis: int) -> np.ndarray:
    (x,) = floats(_exchanged(x, axis))
    return _exchanged(kernels.family("layers").softmax_forward(x), axis)


def softmax_rule(grad, out, axis):
    grad, out = _exchanged(grad, axis), _exchanged(out, axis)
    return _exchanged(kernels.family("layers").softmax_backward(grad, out), axis)


def _exchanged(x: np.ndarray, axis: int) -> np.ndarray:
    """`axis` and the last one, which is the kernel's, with their places exchanged."""
    return x if x.ndim and axis in (-1, x.ndim - 1) else x.swapaxes(axis, -1)


def log_softmax_forward(x: np.ndarray, axis: int) -> np.ndarray:
    shifted = x - x.max(axis=axis, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
    return shifted


def log_softmax_rule(grad, out, axis):
    return grad - np.exp(out) * grad.sum(axis=axis, keepdims=True)


define("softmax", softmax_forward, x=softmax_rule)
define("log_softmax", log_softmax_forward, x=log_softmax_rule)
