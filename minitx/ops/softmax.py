"""Softmax and its logarithm."""

import numpy as np

from minitx.ops.table import define


def softmax_forward(x: np.ndarray, axis: int) -> np.ndarray:
    top = x.max(axis=axis, keepdims=True, initial=-np.inf)
    # A row of nothing but -inf has nothing to choose from: it gives zeros, and -inf - -inf would be NaN.
    out = np.exp(x - np.where(top == -np.inf, 0, top))
    total = out.sum(axis=axis, keepdims=True)
    out /= np.where(total == 0, 1, total)
    return out


def softmax_rule(grad, out, axis):
    return out * (grad - (grad * out).sum(axis=axis, keepdims=True))


def log_softmax_forward(x: np.ndarray, axis: int) -> np.ndarray:
    shifted = x - x.max(axis=axis, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
    return shifted


def log_softmax_rule(grad, out, axis):
    return grad - np.exp(out) * grad.sum(axis=axis, keepdims=True)


define("softmax", softmax_forward, x=softmax_rule)
define("log_softmax", log_softmax_forward, x=log_softmax_rule)
