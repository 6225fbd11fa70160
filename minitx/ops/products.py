"""Matrix products."""

import numpy as np

from minitx.ops.table import define


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
    out = rows(x) @ weight.T
    if bias is not None:
        out = np.add(out, bias, out=out if out.dtype == bias.dtype else None)
    return out.reshape(*x.shape[:-1], weight.shape[0])


def rows(x: np.ndarray) -> np.ndarray:
    """All leading axes as one: NumPy makes one product of it in place of one a batch entry."""
    return x.reshape(-1, x.shape[-1])


def linear_x_rule(grad, weight):
    return (rows(grad) @ weight).reshape(*grad.shape[:-1], weight.shape[1])


define("matmul", matmul_forward, a=matmul_a_rule, b=matmul_b_rule)
define(
    "linear",
    linear_forward,
    x=linear_x_rule,
    weight=lambda grad, x: rows(grad).T @ rows(x),
    bias=lambda grad: grad,
)
