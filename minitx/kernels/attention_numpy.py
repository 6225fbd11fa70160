"""The NumPy twin of `attention`: the same functions, a block of queries at a time.

Here one row is one query, so it reads like the formula. See `attention` for the arguments.
"""

import numpy as np

QUERIES = 128  # queries of one block: the scores take H * QUERIES * m numbers, never n * m


def forward(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    mask: np.ndarray | None,
    causal: bool,
    offset: int,
    scale: float,
) -> tuple[np.ndarray, np.ndarray]:
    """-> output (B, H, n, d_v) and each query's log-sum-exp (B, H, n), +inf for one without keys."""
    n, group = q.shape[2], q.shape[1] // k.shape[1]
    out = np.zeros((*q.shape[:3], v.shape[3]), q.dtype)
    log_sum = np.full(q.shape[:3], np.inf, q.dtype)
    for first in range(0, n, QUERIES):
        rows = slice(first, min(n, first + QUERIES))
        end = _keys_in_reach(k.shape[2], causal, offset + rows.stop)
        if end == 0:
            continue
        scores = _scores(q, k, mask, causal, offset, scale, rows, end)  # (B, H, rows, end)
        top = scores.max(axis=-1, keepdims=True)
        top[top == -np.inf] = 0  # -inf - -inf would be NaN; with 0 the weights of an empty row are 0
        weights = np.exp(scores - top)
        total = weights.sum(axis=-1, keepdims=True)
        total[total == 0] = np.inf
        out[:, :, rows] = _per_group(weights / total, v[:, :, :end], group)
        log_sum[:, :, rows] = (top + np.log(total))[..., 0]
    return out, log_sum


def backward(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    mask: np.ndarray | None,
    causal: bool,
    offset: int,
    scale: float,
    out: np.ndarray,
    log_sum: np.ndarray,
    grad: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """-> gradients of q, k and v, with the weights computed again from the log-sum-exp."""
    n, group = q.shape[2], q.shape[1] // k.shape[1]
    grad_q, grad_k, grad_v = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    pull = (grad * out).sum(axis=-1, keepdims=True)  # (B, H, n, 1): sum over keys of weight * d weight
    for first in range(0, n, QUERIES):
        rows = slice(first, min(n, first + QUERIES))
        end = _keys_in_reach(k.shape[2], causal, offset + rows.stop)
        if end == 0:
            continue
        scores = _scores(q, k, mask, causal, offset, scale, rows, end)
        weights = np.exp(scores - log_sum[:, :, rows, None])
        grad_weights = _per_group(grad[:, :, rows], v[:, :, :end].swapaxes(-1, -2), group)
        grad_scores = weights * (grad_weights - pull[:, :, rows]) * q.dtype.type(scale)
        grad_q[:, :, rows] = _per_group(grad_scores, k[:, :, :end], group)
        grad_k[:, :, :end] += _sum_group(grad_scores, q[:, :, rows], group)
        grad_v[:, :, :end] += _sum_group(weights, grad[:, :, rows], group)
    return grad_q, grad_k, grad_v


def _keys_in_reach(keys: int, causal: bool, stop: int) -> int:
    return max(0, min(keys, stop)) if causal else keys


def _scores(q, k, mask, causal, offset, scale, rows, end):
    """Scaled scores of some queries with the first `end` keys, -inf where one may not attend."""
    group = q.shape[1] // k.shape[1]
    scores = _per_group(q[:, :, rows] * q.dtype.type(scale), k[:, :, :end].swapaxes(-1, -2), group)
    if causal:
        reach = np.arange(rows.start, rows.stop)[:, None] + offset
        scores[..., np.arange(end) > reach] = -np.inf
    if mask is not None:
        if mask.shape[2] > 1:
            mask = mask[:, :, rows]
        if mask.shape[3] > 1:
            mask = mask[..., :end]
        np.copyto(scores, -np.inf, where=~mask)
    return scores


def _per_group(x: np.ndarray, shared: np.ndarray, group: int) -> np.ndarray:
    """x (B, H, r, s) @ shared (B, H / group, s, t), each shared matrix serving `group` heads in a row."""
    batch, heads, rows, inner = x.shape
    product = x.reshape(batch, heads // group, group * rows, inner) @ shared
    return product.reshape(batch, heads, rows, shared.shape[-1])


def _sum_group(x: np.ndarray, y: np.ndarray, group: int) -> np.ndarray:
    """x^T y, summed over the `group` heads that share a matrix: (B, H, r, s), (B, H, r, t) -> (.., s, t)."""
    batch, heads, rows, _ = x.shape
    merged = (batch, heads // group, group * rows)
    return x.reshape(*merged, x.shape[3]).swapaxes(-1, -2) @ y.reshape(*merged, y.shape[3])
