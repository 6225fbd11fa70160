"""The NumPy twin of `decode`: the keys in parts, which are put together by their log-sum-exp."""

import numpy as np

from minitx.kernels import attention_numpy

PART = 1024  # keys of a part


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
    outputs, log_sums = [], []
    for start in range(0, max(1, k.shape[2]), PART):
        keys = slice(start, start + PART)
        allowed = mask if mask is None or mask.shape[3] == 1 else mask[..., keys]
        part = attention_numpy.forward(
            q, k[:, :, keys], v[:, :, keys], allowed, causal, offset - start, scale
        )
        outputs.append(part[0])
        log_sums.append(np.where(part[1] == np.inf, -np.inf, part[1]))
    log_sum = np.stack(log_sums)
    top = log_sum.max(axis=0)
    shares = np.exp(log_sum - np.where(top == -np.inf, 0, top))  # (parts, B, H, n)
    total = shares.sum(axis=0)
    empty = total == 0
    shares /= np.where(empty, 1, total)
    out = np.einsum("pbhn,pbhnd->bhnd", shares, np.stack(outputs))
    log_sum = np.where(empty, np.inf, top + np.log(np.where(empty, 1, total)))
    return out.astype(q.dtype, copy=False), log_sum.astype(q.dtype, copy=False)
