"""Matrix products."""

import numpy as np

from minitx import kernels
from minitx.ops.table import define, define_joint, floats


def transposed(x: np.ndarray) -> np.ndarray:
    return x.swapaxes(-1, -2)


def matmul_forward(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """NumPy's matmul: a vector counts as a row on the left and as a column on the right."""
    if a.ndim and b.ndim and a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        raise ValueError("(..., n, k) @ (..., k, p) needs the same k in both; perhaps one must be transposed")
    return np.matmul(a, b)


def with_matrix_axes(grad: np.ndarray, shapes) -> np.ndarray:
    """The gradient with the axes that a vector operand left out of the product."""
    if len(shapes[1]) == 1:
        grad = grad[..., None]
    return grad[..., None, :] if len(shapes[0]) == 1 else grad


def matmul_a_rule(grad, b, shapes):
    grad = with_matrix_axes(grad, shapes)
    return grad @ transposed(b if b.ndim > 1 else b[:, None])


def matmul_b_rule(grad, a, shapes):
    grad_b = transposed(a if a.ndim > 1 else a[None]) @ with_matrix_axes(grad, shapes)
    return grad_b if len(shapes[1]) > 1 else grad_b[..., 0]


def linear_forward(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    x, weight, bias = floats(x, weight, bias)
    out = kernels.family("products").linear(rows(x), weight, bias)
    return out.reshape(*x.shape[:-1], weight.shape[0])


def rows(x: np.ndarray) -> np.ndarray:
    """All leading axes as one."""
    return x.reshape(-1, x.shape[-1])


def linear_rule(grad, x, weight, wanted):
    grad, x, weight = floats(grad, x, weight)
    run, slopes = kernels.family("products"), rows(grad)
    grad_x = run.linear_backward(slopes, weight).reshape(x.shape) if wanted[0] else None
    if not any(wanted[1:]):
        return grad_x, None, None
    return (grad_x, *run.weight_backward(slopes, rows(x)))


define("matmul", matmul_forward, a=matmul_a_rule, b=matmul_b_rule)
define_joint("linear", linear_forward, "x weight bias", linear_rule)
