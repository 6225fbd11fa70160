"""Layer norm, RMS norm, GELU and softmax in Numba, forward and backward, in one pass over memory.

Layer norm (Ba et al. 2016, arXiv:1607.06450) and RMS norm (Zhang, Sennrich 2019, arXiv:1910.07467) are one
kernel, with n = (x - mean) / sqrt(mean((x - mean)^2) + eps) and, for RMS norm, mean = 0:

    y = n w + b        dx = (p - mean(p) - n mean(p n)) / sqrt(...)  with p = dy w;  RMS norm has no mean(p)

The rows' mean and 1 / sqrt(...) are kept for the backward pass. A row is short enough to stay in the first
cache while it is read three times: its mean is taken off before squares are summed, which E(x^2) - mean^2
would not survive in float32.

GELU (Hendrycks, Gimpel 2016, arXiv:1606.08415) is x Phi(x), or x / (1 + exp(-2u)) with
u = sqrt(2/pi) (x + 0.044715 x^3), the same as x/2 (1 + tanh(u)) without its cancellation at negative x.

All functions, as in the NumPy twin, take float32 or float64 arrays of one dtype and return new arrays of it:
x and grad (..., d), weight and bias (d,) or None. Shapes are the caller's to check.
"""

import numpy as np

from minitx.kernels.compiler import compiled
from minitx.kernels.crew import next_task, share, shared
from minitx.kernels.elementary import exp, larger, normal, use_full_vectors
from minitx.kernels.layers_numpy import CUBIC, SLOPE_FLAT, SQRT_2_OVER_PI
from minitx.kernels.pieces import pieces_of, ready, rows_of, workers_for


def norm_forward(x, weight, bias, eps, centred):
    """-> y, and of each row its mean (None unless `centred`) and 1 / sqrt(... + eps), both (..., 1)."""
    rows, d, dtype = rows_of(x), x.shape[-1], x.dtype
    out, kept = np.empty(x.shape, dtype), np.empty((2, *x.shape[:-1], 1), dtype)
    share(
        norm_forward_tasks,
        workers_for(x.size),
        pieces_of(x.size),
        ready(rows, dtype),
        np.ones(d, dtype) if weight is None else ready(weight, dtype),
        np.zeros(d, dtype) if bias is None else ready(bias, dtype),
        dtype.type(eps),
        centred,
        out.reshape(rows.shape),
        kept.reshape(2, -1),
    )
    return out, kept[0] if centred else None, kept[1]


def norm_backward(grad, x, weight, mean, inverse):
    """-> gradients of x (..., d), weight (d,) and bias (d,); `mean` None for RMS norm."""
    rows, d, dtype = rows_of(x), x.shape[-1], x.dtype
    pieces = pieces_of(x.size)
    out, sums = np.empty(x.shape, dtype), np.empty((pieces, 2, d), dtype)
    share(
        norm_backward_tasks,
        workers_for(x.size),
        ready(grad.reshape(rows.shape), dtype),
        ready(rows, dtype),
        np.ones(d, dtype) if weight is None else ready(weight, dtype),
        inverse.reshape(-1) if mean is None else mean.reshape(-1),
        inverse.reshape(-1),
        mean is not None,
        out.reshape(rows.shape),
        sums,
    )
    total = sums[0] if pieces == 1 else sums.sum(axis=0)
    return out, total[0].copy(), total[1].copy()


def gelu_forward(x, exact):
    """x Phi(x) where `exact`, else the form with tanh."""
    out = np.empty(x.shape, x.dtype)
    flat = ready(x.reshape(-1), x.dtype)
    share(gelu_forward_tasks, workers_for(x.size), pieces_of(x.size), flat, exact, out.ravel())
    return out


def gelu_backward(grad, x, exact):
    """grad times the slope of `gelu_forward` at x."""
    out = np.empty(x.shape, x.dtype)
    flat = ready(grad.reshape(-1), x.dtype), ready(x.reshape(-1), x.dtype)
    share(gelu_backward_tasks, workers_for(x.size), pieces_of(x.size), *flat, exact, out.ravel())
    return out


def softmax_forward(x):
    """exp(x) / sum(exp(x)) over the last axis; zeros for a row of nothing but -inf."""
    out = np.empty(x.shape, x.dtype)
    rows = ready(rows_of(x), x.dtype)
    share(softmax_forward_tasks, workers_for(x.size), pieces_of(x.size), rows, rows_of(out))
    return out


def softmax_backward(grad, out):
    """out (grad - sum(grad out)) over the last axis."""
    slope, dtype = np.empty(out.shape, out.dtype), out.dtype
    rows = ready(rows_of(grad), dtype), ready(rows_of(out), dtype)
    share(softmax_backward_tasks, workers_for(out.size), pieces_of(out.size), *rows, rows_of(slope))
    return slope


# Functions of a row take the whole array and the row's number: a slice would be counted as a reference, which
# takes as long as a short row.


@compiled()
def _normalise(x, i, weight, bias, eps, centred, out):
    use_full_vectors()
    number, d = x.dtype.type, x.shape[1]
    share_of_one = number(1) / number(max(1, d))
    mean, square = number(0), number(0)
    if centred:
        for j in range(d):
            mean += x[i, j]
        mean *= share_of_one
    for j in range(d):
        square += (x[i, j] - mean) * (x[i, j] - mean)
    # Not 1 / sqrt(...), which LLVM turns into an estimate that is NaN for infinity.
    inverse = np.sqrt(number(1) / (square * share_of_one + eps))
    for j in range(d):
        out[i, j] = (x[i, j] - mean) * inverse * weight[j] + bias[j]
    return mean, inverse


@shared()
def norm_forward_tasks(deal, pieces, x, weight, bias, eps, centred, out, kept):
    rows = x.shape[0]
    while True:
        task = next_task(deal, pieces)
        if task < 0:
            return
        for i in range(task * rows // pieces, (task + 1) * rows // pieces):
            kept[0, i], kept[1, i] = _normalise(x, i, weight, bias, eps, centred, out)


@compiled()
def _pull_through(grad, x, i, weight, mean, inverse, centred, out, sums, task):
    """The gradient of one row, whose shares of the other gradients are added to sums[task].

    Three loops: one that writes to three arrays would need more tests for overlap than LLVM makes.
    """
    use_full_vectors()
    number, d = x.dtype.type, x.shape[1]
    shift, along = number(0), number(0)
    for j in range(d):
        pull = grad[i, j] * weight[j]
        shift += pull
        along += pull * ((x[i, j] - mean) * inverse)
    shift = shift / number(d) if centred else number(0)
    along /= number(d)
    for j in range(d):
        out[i, j] = inverse * (grad[i, j] * weight[j] - shift - (x[i, j] - mean) * inverse * along)
    for j in range(d):
        sums[task, 0, j] += grad[i, j] * ((x[i, j] - mean) * inverse)
        sums[task, 1, j] += grad[i, j]


@shared()
def norm_backward_tasks(deal, grad, x, weight, mean, inverse, centred, out, sums):
    rows, pieces = x.shape[0], sums.shape[0]
    while True:
        task = next_task(deal, pieces)
        if task < 0:
            return
        sums[task] = 0
        for i in range(task * rows // pieces, (task + 1) * rows // pieces):
            middle = mean[i] if centred else x.dtype.type(0)
            _pull_through(grad, x, i, weight, middle, inverse[i], centred, out, sums, task)


@compiled()
def _gelu_gate(x):
    """1 / (1 + exp(-2u)), between 0 and 1."""
    number = type(x)
    u = number(SQRT_2_OVER_PI) * (x + number(CUBIC) * x * x * x)
    return number(1) / (number(1) + exp(number(-2) * u))


@compiled()
def _gelu_slope(x, exact):
    number = type(x)
    # Beyond this the slope is 0 or 1 to the last digit, and x^3 and x exp(-x^2) would be infinite or 0 inf.
    flat = number(SLOPE_FLAT)
    near = flat if x > flat else -flat if x < -flat else x
    if exact:
        below, density = normal(near)
        return below + near * density
    gate = _gelu_gate(near)
    inner = number(2 * SQRT_2_OVER_PI) * (number(1) + number(3 * CUBIC) * near * near)
    return gate + near * gate * (number(1) - gate) * inner


@compiled()
def _gelu_exact(x, out):
    use_full_vectors()
    for i in range(x.size):
        out[i] = x[i] * normal(x[i])[0]


@compiled()
def _gelu_tanh(x, out):
    use_full_vectors()
    for i in range(x.size):
        out[i] = x[i] * _gelu_gate(x[i])


@compiled()
def _gelu_slopes(grad, x, exact, out):
    use_full_vectors()
    for i in range(x.size):
        out[i] = grad[i] * _gelu_slope(x[i], exact)


@shared()
def gelu_forward_tasks(deal, pieces, x, exact, out):
    while True:
        task = next_task(deal, pieces)
        if task < 0:
            return
        part = slice(task * x.size // pieces, (task + 1) * x.size // pieces)
        if exact:
            _gelu_exact(x[part], out[part])
        else:
            _gelu_tanh(x[part], out[part])


@shared()
def gelu_backward_tasks(deal, pieces, grad, x, exact, out):
    while True:
        task = next_task(deal, pieces)
        if task < 0:
            return
        part = slice(task * x.size // pieces, (task + 1) * x.size // pieces)
        if exact:
            _gelu_slopes(grad[part], x[part], True, out[part])
        else:
            _gelu_slopes(grad[part], x[part], False, out[part])


@compiled()
def _softmax_row(x, i, out):
    use_full_vectors()
    number, d = x.dtype.type, x.shape[1]
    top, total = number(-np.inf), number(0)
    for j in range(d):
        top = larger(top, x[i, j])
    shift = number(0) if top == number(-np.inf) else top  # -inf - -inf would be NaN
    for j in range(d):
        out[i, j] = exp(x[i, j] - shift)
        total += out[i, j]
    factor = number(1) / (number(1) if total == 0 else total)
    for j in range(d):
        out[i, j] *= factor


@shared()
def softmax_forward_tasks(deal, pieces, x, out):
    rows = x.shape[0]
    while True:
        task = next_task(deal, pieces)
        if task < 0:
            return
        for i in range(task * rows // pieces, (task + 1) * rows // pieces):
            _softmax_row(x, i, out)


@compiled()
def _softmax_slopes(grad, out, i, slope):
    use_full_vectors()
    d, along = out.shape[1], out.dtype.type(0)
    for j in range(d):
        along += grad[i, j] * out[i, j]
    for j in range(d):
        slope[i, j] = out[i, j] * (grad[i, j] - along)


@shared()
def softmax_backward_tasks(deal, pieces, grad, out, slope):
    rows = out.shape[0]
    while True:
        task = next_task(deal, pieces)
        if task < 0:
            return
        for i in range(task * rows // pieces, (task + 1) * rows // pieces):
            _softmax_slopes(grad, out, i, slope)
