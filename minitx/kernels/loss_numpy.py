"""The NumPy twin of `loss`: the same functions, as the formulas read. See `loss` for the arguments."""

from typing import NoReturn

import numpy as np


def cross_entropy_forward(
    logits: np.ndarray, targets: np.ndarray, ignore_index: int, label_smoothing: float
) -> tuple[np.floating, np.ndarray]:
    """-> the mean loss, and for the backward pass each row's log_sum (...), 0 where it is ignored."""
    counted = _counted(targets, logits.shape[-1], ignore_index)
    x = logits[counted]  # (count, C)
    log_sum = np.zeros(targets.shape, logits.dtype)
    if not len(x):
        return logits.dtype.type(0), log_sum
    top = x.max(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):  # a row of -inf alone has a loss of NaN
        inside = np.exp(x - np.where(top == -np.inf, 0, top)[:, None]).sum(axis=-1)
        log_sum[counted] = top + np.log(inside)
        losses = log_sum[counted] - np.take_along_axis(x, targets[counted][:, None], axis=-1)[:, 0]
        if label_smoothing:
            even = log_sum[counted] - x.mean(axis=-1)
            losses = (1 - label_smoothing) * losses + label_smoothing * even
    return losses.sum() / logits.dtype.type(len(x)), log_sum


def cross_entropy_backward(
    grad: np.ndarray,
    logits: np.ndarray,
    targets: np.ndarray,
    log_sum: np.ndarray,
    ignore_index: int,
    label_smoothing: float,
) -> np.ndarray:
    """-> the gradient of the logits, times the number `grad`."""
    counted = _counted(targets, logits.shape[-1], ignore_index)
    out = np.zeros(logits.shape, logits.dtype)
    with np.errstate(invalid="ignore"):
        slopes = np.exp(logits[counted] - log_sum[counted][:, None])  # (count, C)
    if label_smoothing:
        slopes -= label_smoothing / logits.shape[-1]
    slopes[np.arange(len(slopes)), targets[counted]] -= 1 - label_smoothing
    out[counted] = slopes * (logits.dtype.type(grad) / logits.dtype.type(max(1, len(slopes))))
    return out


def _counted(targets: np.ndarray, classes: int, ignore_index: int) -> np.ndarray:
    """Which targets are not ignored, once all of them are known to lie in range."""
    counted = targets != ignore_index
    wrong = counted & ((targets < 0) | (targets >= classes))
    if wrong.any():
        refuse_target(targets, int(np.flatnonzero(wrong)[0]), classes)
    return counted


def refuse_target(targets: np.ndarray, place: int, classes: int) -> NoReturn:
    """The error for the target that is out of range, `place` in the flattened array."""
    at = tuple(int(i) for i in np.unravel_index(place, targets.shape))
    raise IndexError(f"targets must lie in 0 ... {classes - 1}, got {targets[at]} at index {at}.")
