"""Moving elements about: new shapes, pieces, joins and look-ups. Values are never changed."""

import numpy as np

from minitx.ops.table import define, define_joint


def scatter(grad: np.ndarray, shape: tuple[int, ...], index) -> np.ndarray:
    """Zeros of `shape`, with grad added at index. An index that repeats gets the sum."""
    out = np.zeros(shape, grad.dtype)
    parts = index if isinstance(index, tuple) else (index,)
    if any(isinstance(part, np.ndarray) for part in parts):
        np.add.at(out, index, grad)  # out[index] += grad would keep only the last of equal indices
    else:
        out[index] = grad
    return out


def permute_rule(grad, axes):
    return grad.transpose(np.argsort([axis % grad.ndim for axis in axes]))


def concatenate_rule(grad, shapes, axis):
    ends = np.cumsum([shape[axis] for shape in shapes])[:-1]
    return tuple(np.split(grad, ends, axis=axis))


def stack_rule(grad, shapes, axis):
    return tuple(np.take(grad, i, axis=axis) for i in range(len(shapes)))


def pad_rule(grad, shapes, widths):
    inner = tuple(slice(before, before + size) for (before, _), size in zip(widths, shapes[0], strict=True))
    return grad[inner]


def pad_forward(x: np.ndarray, widths, value: float) -> np.ndarray:
    return np.pad(x, widths, constant_values=value)


def gather_rule(grad, index, shapes, axis):
    out = np.zeros(shapes[0], grad.dtype)
    where = list(np.ogrid[tuple(slice(size) for size in index.shape)])
    where[axis] = index
    np.add.at(out, tuple(where), grad)
    return out


def embedding_rule(grad, ids, shapes):
    """Rows of equal ids are brought together and summed, many times faster than np.add.at."""
    out = np.zeros(shapes[1], grad.dtype)
    if ids.size:
        order = np.argsort(ids, axis=None, kind="stable")
        ordered = ids.ravel()[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1))
        out[ordered[starts]] = np.add.reduceat(grad.reshape(-1, grad.shape[-1])[order], starts, axis=0)
    return out


define("reshape", lambda x, shape: x.reshape(shape), x=lambda grad, shapes: grad.reshape(shapes[0]))
define("permute", np.transpose, x=permute_rule)
define("slice", lambda x, index: x[index], x=lambda grad, shapes, index: scatter(grad, shapes[0], index))
define("broadcast_to", np.broadcast_to, x=lambda grad: grad)
define("pad", pad_forward, x=pad_rule)
define("astype", lambda x, dtype: x.astype(dtype), x=lambda grad: grad)
define("gather", np.take_along_axis, x=gather_rule, index=None)
define("embedding", lambda ids, weight: weight[ids], ids=None, weight=embedding_rule)
define_joint("concatenate", lambda *xs, axis: np.concatenate(xs, axis=axis), "*", concatenate_rule)
define_joint("stack", lambda *xs, axis: np.stack(xs, axis=axis), "*", stack_rule)
