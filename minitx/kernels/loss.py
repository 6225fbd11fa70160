"""Softmax and cross-entropy as one, in Numba: the logits are read once forward and once backward.

    loss = mean over the counted rows of log_sum - (1 - e) x[target] - e mean(x),  log_sum = log sum exp(x)
    dx   = (softmax(x) - (1 - e) [target] - e / C) / count

log_sum is found online (Milakov, Gimelshein 2018, arXiv:1805.02867): a row is read in chunks that stay in the
first cache, and the sum so far is scaled down whenever the largest logit rises. Softmax is never stored.

Arguments, as in the NumPy twin: logits (..., C) of float32 or float64; targets (...) integers;
`ignore_index` marks rows that count neither in the sum nor in the mean; `label_smoothing` is e.
A target outside 0 ... C - 1 raises IndexError before anything is written.
"""

import numpy as np

from minitx.kernels.compiler import compiled
from minitx.kernels.crew import next_task, share, shared
from minitx.kernels.elementary import exp, larger, use_full_vectors
from minitx.kernels.loss_numpy import refuse_target
from minitx.kernels.pieces import pieces_of, ready, workers_for

CHUNK = 1024


def cross_entropy_forward(logits, targets, ignore_index, label_smoothing):
    """-> the mean loss, and for the backward pass each row's log_sum (...), 0 where it is ignored."""
    rows, wanted = _rows(logits, targets, ignore_index)
    log_sum, losses = np.empty(wanted.shape, logits.dtype), np.empty(wanted.shape, logits.dtype)
    workers, pieces = workers_for(logits.size), pieces_of(logits.size)
    smooth = logits.dtype.type(label_smoothing)
    share(loss_tasks, workers, pieces, rows, wanted, ignore_index, smooth, log_sum, losses)
    count = np.count_nonzero(wanted != ignore_index)
    return losses.sum() / logits.dtype.type(max(1, count)), log_sum.reshape(targets.shape)


def cross_entropy_backward(grad, logits, targets, log_sum, ignore_index, label_smoothing):
    """-> the gradient of the logits, times the number `grad`."""
    rows, wanted = _rows(logits, targets, ignore_index)
    out, dtype = np.empty(logits.shape, logits.dtype), logits.dtype
    factor = dtype.type(grad) / dtype.type(max(1, np.count_nonzero(wanted != ignore_index)))
    smooth = dtype.type(label_smoothing)
    share(
        slope_tasks,
        workers_for(logits.size),
        pieces_of(logits.size),
        rows,
        wanted,
        ready(log_sum.reshape(-1), dtype),
        ignore_index,
        smooth,
        factor,
        out.reshape(rows.shape),
    )
    return out


def _rows(logits, targets, ignore_index):
    """The logits (rows, C) and the targets (rows,), all of which lie in range."""
    wanted = ready(targets.reshape(-1), np.int64)
    classes = logits.shape[-1]
    wrong = first_out_of_range(wanted, classes, ignore_index)
    if wrong >= 0:
        refuse_target(targets, wrong, classes)
    return ready(logits.reshape(wanted.size, classes), logits.dtype), wanted


@compiled()
def first_out_of_range(targets, classes, ignore_index):
    for i in range(targets.size):
        if (targets[i] < 0 or targets[i] >= classes) and targets[i] != ignore_index:
            return i
    return -1


@compiled()
def _sums_of_row(x):
    """log sum exp(x) and sum(x)."""
    use_full_vectors()
    number = x.dtype.type
    low = number(-np.inf)
    top, total, plain_sum = low, number(0), number(0)
    for start in range(0, x.size, CHUNK):
        part = x[start : start + CHUNK]
        best = top
        for j in range(part.size):
            best = larger(best, part[j])
        if best == low:  # nothing but -inf so far, and -inf - -inf would be NaN
            plain_sum = low
            continue
        total *= exp(top - best)
        top = best
        for j in range(part.size):
            total += exp(part[j] - top)
            plain_sum += part[j]
    return top + np.log(total), plain_sum


@shared()
def loss_tasks(deal, pieces, logits, targets, ignore_index, smooth, log_sum, losses):
    rows, classes = logits.shape
    number = logits.dtype.type
    while True:
        task = next_task(deal, pieces)
        if task < 0:
            return
        for i in range(task * rows // pieces, (task + 1) * rows // pieces):
            log_sum[i], losses[i] = number(0), number(0)
            if targets[i] == ignore_index:
                continue
            log_sum[i], plain_sum = _sums_of_row(logits[i])
            losses[i] = log_sum[i] - logits[i, targets[i]]
            if smooth != 0:  # 0 * -inf would be NaN
                even = log_sum[i] - plain_sum / number(classes)
                losses[i] = (number(1) - smooth) * losses[i] + smooth * even


@compiled()
def _slopes_of_row(x, i, shift, even, factor, out):
    use_full_vectors()
    for j in range(x.shape[1]):
        out[i, j] = (exp(x[i, j] - shift) - even) * factor


@shared()
def slope_tasks(deal, pieces, logits, targets, log_sum, ignore_index, smooth, factor, out):
    rows, classes = logits.shape
    number = logits.dtype.type
    even = smooth / number(max(1, classes))
    while True:
        task = next_task(deal, pieces)
        if task < 0:
            return
        for i in range(task * rows // pieces, (task + 1) * rows // pieces):
            if targets[i] == ignore_index:
                out[i] = 0
                continue
            _slopes_of_row(logits, i, log_sum[i], even, factor, out)
            out[i, targets[i]] -= (number(1) - smooth) * factor
