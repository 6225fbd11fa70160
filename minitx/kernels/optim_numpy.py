"""The NumPy twin of `optim`: the same function, as the formula reads."""

import math

import numpy as np

from minitx.errors import shape_error


def adamw_step(
    parameter: np.ndarray,
    grad: np.ndarray,
    mean: np.ndarray,
    square: np.ndarray,
    lr: float,
    betas: tuple[float, float],
    eps: float,
    decay: float,
    step: int,
) -> None:
    """Step t = `step` = 1, 2, ... of one parameter; it, mean (m) and square (v) are changed in place."""
    check_arrays(parameter, grad, mean, square)
    keep, beta1, rest1, beta2, rest2, root, eps, rate = constants(lr, betas, eps, decay, step)
    mean *= beta1
    mean += rest1 * grad
    square *= beta2
    square += rest2 * grad * grad
    parameter *= keep
    parameter -= rate * mean / (np.sqrt(square) * root + eps)


def adamw_steps(parameters, grads, means, squares, lr, betas, eps, decay, step) -> None:
    """`adamw_step` of many parameters, lists of equal length."""
    for arrays in zip(parameters, grads, means, squares, strict=True):
        check_arrays(*arrays)
    for parameter, grad, mean, square in zip(parameters, grads, means, squares, strict=True):
        adamw_step(parameter, grad, mean, square, lr, betas, eps, decay, step)


def sum_of_squares(arrays) -> float:
    """The sum of the squares of all numbers of the arrays."""
    return sum(float(np.vdot(array, array)) for array in arrays)


def scale(arrays, factor: float) -> None:
    """Multiply all arrays by a number, in place."""
    for array in arrays:
        np.multiply(array, factor, out=array)


def constants(lr, betas, eps, decay, step) -> tuple[float, ...]:
    """The numbers of one step, found in float64: 1 - beta^t would lose its digits in float32."""
    beta1, beta2 = betas
    root = 1 / math.sqrt(1 - beta2**step)
    return 1 - lr * decay, beta1, 1 - beta1, beta2, 1 - beta2, root, eps, lr / (1 - beta1**step)


def check_arrays(parameter, grad, mean, square) -> None:
    """Raises ValueError for an array of another shape, or one that must be changed and is read-only."""
    for name, array in (("grad", grad), ("mean", mean), ("square", square)):
        if array.shape != parameter.shape:
            raise shape_error(name, f"{parameter.shape}, that of the parameter,", array.shape)
    for name, array in (("parameter", parameter), ("mean", mean), ("square", square)):
        if not array.flags.writeable:
            raise ValueError(f"{name} is read-only and cannot be updated in place. Give a copy.")
