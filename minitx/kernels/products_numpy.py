"""The NumPy twin of `products`: the same functions, as the formulas read."""

import numpy as np


def linear(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    """x W^T + b: x (rows, in), weight (out, in), bias (out,) or None -> (rows, out)."""
    out = x @ weight.T
    return out if bias is None else np.add(out, bias, out=out)


def linear_backward(grad: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The gradient of x, grad W: grad (rows, out) -> (rows, in)."""
    return grad @ weight


def weight_backward(grad: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gradients of W, grad^T x, and of b, the sum of grad's rows.

    grad (rows, out) and x (rows, in) -> (out, in), (out,).
    """
    return grad.T @ x, grad.sum(axis=0)


def split_heads(x: np.ndarray, counts: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """x (B, n, sum(counts) * head_dim) -> for each count H an array (B, H, n, head_dim) in one piece."""
    batch, n, width = x.shape
    heads = x.reshape(batch, n, sum(counts), width // sum(counts)).transpose(0, 2, 1, 3)
    ends = np.cumsum(counts)
    return tuple(
        np.ascontiguousarray(heads[:, end - count : end]) for count, end in zip(counts, ends, strict=True)
    )


def merge_heads(parts: tuple[np.ndarray, ...]) -> np.ndarray:
    """The inverse of `split_heads`: arrays (B, H, n, head_dim) side by side in one (B, n, width)."""
    heads = np.concatenate(parts, axis=1).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(heads).reshape(*heads.shape[:2], -1)
