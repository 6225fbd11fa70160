"""Cross-entropy: softmax and the negative log-likelihood in one, which needs no logarithm of a softmax."""

from minitx import kernels
from minitx.ops.table import define, floats


def cross_entropy_forward(logits, targets, ignore_index, label_smoothing):
    """Mean loss over the targets that are not ignored; keeps each row's log-sum-exp."""
    (logits,) = floats(logits)
    return kernels.family("loss").cross_entropy_forward(logits, targets, ignore_index, label_smoothing)


def cross_entropy_rule(grad, logits, targets, kept, ignore_index, label_smoothing):
    """(softmax - the distribution aimed at) / count."""
    run = kernels.family("loss").cross_entropy_backward
    return run(grad, logits, targets, kept, ignore_index, label_smoothing)


define("cross_entropy", cross_entropy_forward, logits=cross_entropy_rule, targets=None)
