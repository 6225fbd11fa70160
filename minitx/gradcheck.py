"""Derivative rules against finite differences."""

from collections.abc import Callable
from typing import Any

import numpy as np

from minitx.errors import DtypeError, GradientError
from minitx.tensor import Tensor

STEP = 1e-6


def check_gradients(
    function: Callable[..., Tensor], *arrays: Any, rtol: float = 1e-5, atol: float = 1e-7
) -> None:
    """Compare every element of every gradient with a central difference, in float64.

    `function` takes one Tensor an array and returns a Tensor y of any shape. The loss is sum(y * w)
    with fixed random weights w, so that no two errors cancel. For each element x_i,

        (loss(x_i + h) - loss(x_i - h)) / 2h  must equal  d(loss)/d(x_i)   within atol + rtol * |expected|

    with a little more room where the loss is so large that its rounding shows in the difference.

    Raises GradientError with the argument, index, expected (the difference) and got (the rule), DtypeError
    for anything but float64, ValueError where the function is not deterministic or not finite.
    """
    values = [_float64(array, position) for position, array in enumerate(arrays)]
    inputs = [Tensor(value, requires_grad=True) for value in values]
    output = function(*inputs)
    weights = _check_output(function, output, values)
    if output.requires_grad:
        output.backward(weights)

    rounding = 4 * np.finfo(np.float64).eps * float(np.abs(output.numpy() * weights).sum()) / STEP

    def loss() -> float:
        return float(np.sum(function(*map(Tensor, values)).numpy() * weights))

    for position, (value, tensor) in enumerate(zip(values, inputs, strict=True)):
        got = np.zeros_like(value) if tensor.grad is None else tensor.grad
        for index in np.ndindex(value.shape):
            expected = _central_difference(loss, value, index)
            if not abs(expected - got[index]) <= atol + rounding + rtol * abs(expected):
                raise GradientError(
                    _describe(position, index, expected, float(got[index]), tensor.grad is None)
                )


def _float64(array: Any, position: int) -> np.ndarray:
    dtype = getattr(array, "dtype", None)
    if not isinstance(array, np.ndarray) or dtype != np.float64:
        got = f"dtype {dtype}" if dtype is not None else type(array).__name__
        raise DtypeError(
            f"check_gradients needs float64 arrays, got {got} for argument {position}. In float32 a finite "
            "difference is right to three digits at best, which hides a wrong rule: use "
            "array.astype(np.float64)."
        )
    return array.copy()


def _check_output(function: Callable[..., Tensor], output: Any, values: list[np.ndarray]) -> np.ndarray:
    """The weights of the loss, once the output is known to be something that can be checked."""
    if not isinstance(output, Tensor):
        hint = " Choose one: lambda *x: f(*x)[0]." if isinstance(output, tuple | list) else ""
        raise TypeError(f"The function must return a Tensor, got {type(output).__name__}.{hint}")
    if output.dtype != np.float64:
        raise DtypeError(
            f"The function turned float64 into {output.dtype}: some step in it fixes a dtype. "
            "Its gradients can only be checked in float64."
        )
    first = output.numpy()
    if not np.array_equal(first, function(*map(Tensor, values)).numpy(), equal_nan=True):
        raise ValueError("The function gives different values for the same input: fix its seed (dropout?).")
    if not np.isfinite(first).all():
        raise ValueError("The function gives NaN or infinity at this point: choose other inputs.")
    return np.random.default_rng(0).uniform(0.5, 1.5, first.shape)


def _central_difference(loss: Callable[[], float], value: np.ndarray, index: tuple[int, ...]) -> float:
    here = value[index]
    step = STEP * max(1.0, abs(here))
    value[index] = here + step
    above = loss()
    value[index] = here - step
    below = loss()
    value[index] = here
    return (above - below) / (2 * step)


def _describe(position: int, index: tuple[int, ...], expected: float, got: float, missing: bool) -> str:
    message = (
        f"Gradient of argument {position} at index {index}: expected {expected:.8g} (finite difference), "
        f"got {got:.8g}."
    )
    if missing:
        message += (
            " No gradient arrived at all: the computation left the graph on the way (.data, .numpy(), "
            ".detach(), no_grad())."
        )
    return message
