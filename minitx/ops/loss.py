"""Cross-entropy: softmax and the negative log-likelihood in one, which needs no logarithm of a softmax."""

import numpy as np

from minitx.ops.table import define


def cross_entropy_forward(logits, targets, ignore_index, label_smoothing):
    """Mean loss over the targets that are not ignored; keeps each row's log-sum-exp."""
    counted = targets != ignore_index
    top = logits.max(axis=-1, keepdims=True)
    log_sum = top + np.log(np.exp(logits - top).sum(axis=-1, keepdims=True))  # (..., 1)
    losses = log_sum[..., 0] - _at_targets(logits, targets, counted)
    if label_smoothing:
        even = log_sum[..., 0] - logits.mean(axis=-1)
        losses = (1 - label_smoothing) * losses + label_smoothing * even
    return np.where(counted, losses, 0).sum() / logits.dtype.type(max(1, counted.sum())), log_sum


def cross_entropy_rule(grad, logits, targets, kept, ignore_index, label_smoothing):
    """(softmax - the distribution aimed at) / count."""
    counted = targets != ignore_index
    out = np.exp(logits - kept)
    if label_smoothing:
        out -= label_smoothing / logits.shape[-1]
    rows = np.flatnonzero(counted)
    out.reshape(-1, logits.shape[-1])[rows, targets.ravel()[rows]] -= 1 - label_smoothing
    out *= counted[..., None] * (grad / logits.dtype.type(max(1, counted.sum())))
    return out


def _at_targets(logits, targets, counted):
    safe = np.where(counted, targets, 0)[..., None]
    return np.take_along_axis(logits, safe, axis=-1)[..., 0]


define("cross_entropy", cross_entropy_forward, logits=cross_entropy_rule, targets=None)
