"""Sums and their like over any axes."""

import numpy as np

from minitx.ops.table import define

Axes = int | tuple[int, ...] | None


def spread(grad: np.ndarray, shape: tuple[int, ...], axis: Axes) -> np.ndarray:
    """The gradient of a reduction, put back over the axes that were reduced."""
    return np.broadcast_to(_with_reduced_axes(grad, shape, axis), shape)


def count(shape: tuple[int, ...], axis: Axes) -> int:
    """How many elements go into one result."""
    axes = range(len(shape)) if axis is None else np.atleast_1d(axis)
    return int(np.prod([shape[a] for a in axes], dtype=np.int64))


def _with_reduced_axes(x: np.ndarray, shape: tuple[int, ...], axis: Axes) -> np.ndarray:
    if x.ndim == len(shape):
        return x
    if axis is None:
        return x.reshape((1,) * len(shape))
    return np.expand_dims(x, axis)


def extreme_rule(grad, x, out, axis):
    """Where several elements share the largest (or smallest) value, they share its gradient."""
    chosen = x == _with_reduced_axes(out, x.shape, axis)
    ties = chosen.sum(axis=axis, keepdims=True)
    return _with_reduced_axes(grad, x.shape, axis) * chosen / ties.astype(x.dtype)


def var_forward(x: np.ndarray, axis: Axes, keepdims: bool, ddof: int) -> np.ndarray:
    return np.var(x, axis=axis, keepdims=keepdims, ddof=ddof)


def var_rule(grad, x, axis, ddof):
    factor = 2 / (count(x.shape, axis) - ddof)
    return spread(grad, x.shape, axis) * (x - x.mean(axis=axis, keepdims=True)) * factor


define("sum", np.sum, x=lambda grad, shapes, axis: spread(grad, shapes[0], axis))
define("mean", np.mean, x=lambda grad, shapes, axis: spread(grad / count(shapes[0], axis), shapes[0], axis))
define("max", np.max, x=extreme_rule)
define("min", np.min, x=extreme_rule)
define("var", var_forward, x=var_rule)
