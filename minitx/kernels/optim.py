"""AdamW's step in Numba, in place and in one pass: parameter, gradient and both moments are read once.

    m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g^2
    p <- (1 - lr decay) p - lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps)

(Loshchilov, Hutter 2017, arXiv:1711.05101, algorithm 2; the moments: Kingma, Ba 2014, arXiv:1412.6980.)

A model has many small parameters, and a call takes as long as a small one's step. So there are functions of
lists of arrays that make one call: the kernel gets addresses, and the pieces of all arrays are its tasks.
"""

import numpy as np
from numba import carray, types  # pyright: ignore[reportPrivateImportUsage]

from minitx.kernels import optim_numpy
from minitx.kernels.compiler import compiled
from minitx.kernels.crew import next_task, share, shared
from minitx.kernels.elementary import use_full_vectors
from minitx.kernels.optim_numpy import constants
from minitx.kernels.pieces import PIECE, workers_for
from minitx.kernels.simd import address, intrinsic, pointer


def adamw_step(parameter, grad, mean, square, lr, betas, eps, decay, step):
    """Step t = `step` = 1, 2, ... of one parameter; parameter, mean (m) and square (v) are changed in place.

    All have the parameter's shape and dtype, float32 or float64; raises ValueError naming one that has not,
    or that cannot be written, before anything is changed.
    """
    adamw_steps([parameter], [grad], [mean], [square], lr, betas, eps, decay, step)


def adamw_steps(parameters, grads, means, squares, lr, betas, eps, decay, step):
    """`adamw_step` of many parameters of one dtype, lists of equal length, in one call."""
    columns = parameters, grads, means, squares
    shapes = [array.shape for array in parameters]
    fit = all([array.shape for array in column] == shapes for column in columns)
    if not fit or not _are_plain([array for column in columns for array in column]):
        optim_numpy.adamw_steps(*columns, lr, betas, eps, decay, step)  # which names what does not fit
        return
    factors = np.array(constants(lr, betas, eps, decay, step), parameters[0].dtype)
    places, ends, workers = _tasks(*columns)
    share(adamw_tasks, workers, places, _sizes(parameters), ends, factors)


def sum_of_squares(arrays):
    """The sum of the squares of all numbers of the arrays, which have one dtype, as a float."""
    if not _are_plain(arrays):
        return optim_numpy.sum_of_squares(arrays)
    places, ends, workers = _tasks(arrays)
    sums = np.zeros(int(ends[-1]) if len(ends) else 0, np.float64)
    share(square_tasks, workers, places, _sizes(arrays), ends, np.zeros(1, arrays[0].dtype), sums)
    return float(sums.sum())


def scale(arrays, factor):
    """Multiply all arrays, which have one dtype, by a number, in place."""
    if not _are_plain(arrays):
        optim_numpy.scale(arrays, factor)
        return
    places, ends, workers = _tasks(arrays)
    share(scale_tasks, workers, places, _sizes(arrays), ends, np.full(1, factor, arrays[0].dtype))


def _are_plain(arrays):
    """Whether all are of one dtype, in one piece and writable, as the kernels take them."""
    dtype = arrays[0].dtype
    return all(array.dtype == dtype and array.flags.carray for array in arrays)


def _tasks(*columns):
    """Where the arrays lie (columns, arrays); the number of pieces up to the end of each; threads to use."""
    places = np.array([[_place(array) for array in column] for column in columns], np.int64)
    sizes = _sizes(columns[0])
    return places, np.cumsum(-(-sizes // PIECE)), workers_for(int(sizes.sum()))


def _place(array):
    """The address of an array's first number; four times faster than to ask NumPy."""
    return _place_of(array if array.ndim in (1, 2) else array.reshape(-1))  # one version compiled for each


def _sizes(arrays):
    return np.array([array.size for array in arrays], np.int64)


@intrinsic
def _pointer_at(typingctx, place, like):
    """The pointer to numbers of the dtype of the array `like` at an address."""
    kind = types.CPointer(like.dtype)

    def codegen(context, builder, signature, args):
        return builder.inttoptr(args[0], context.get_value_type(kind))

    return kind(types.int64, like), codegen


@compiled()
def _place_of(array):
    return address(pointer(array))


@compiled()
def _piece(task, sizes, ends):
    """Which array a task belongs to, and which of its numbers: [first, last)."""
    array = np.searchsorted(ends, task, side="right")
    first = (task - (ends[array - 1] if array else 0)) * PIECE
    return array, first, min(sizes[array], first + PIECE)


@compiled()
def _numbers(place, first, last, like):
    return carray(_pointer_at(place + first * like.itemsize, like), last - first)


@compiled()
def _adamw(p, g, m, v, factors):
    use_full_vectors()
    keep, b1, rest1, b2 = factors[0], factors[1], factors[2], factors[3]
    rest2, root, eps, rate = factors[4], factors[5], factors[6], factors[7]
    for i in range(p.size):
        mean = b1 * m[i] + rest1 * g[i]
        square = b2 * v[i] + rest2 * g[i] * g[i]
        m[i], v[i] = mean, square
        p[i] = keep * p[i] - rate * mean / (np.sqrt(square) * root + eps)


@compiled()
def _squares(x):
    use_full_vectors()
    total = x.dtype.type(0)
    for i in range(x.size):
        total += x[i] * x[i]
    return total


@compiled()
def _scale(x, factor):
    use_full_vectors()
    for i in range(x.size):
        x[i] *= factor


@shared()
def adamw_tasks(deal, places, sizes, ends, factors):
    while True:
        task = next_task(deal, ends[-1])
        if task < 0:
            return
        array, first, last = _piece(task, sizes, ends)
        p, g = (
            _numbers(places[0, array], first, last, factors),
            _numbers(places[1, array], first, last, factors),
        )
        m, v = (
            _numbers(places[2, array], first, last, factors),
            _numbers(places[3, array], first, last, factors),
        )
        _adamw(p, g, m, v, factors)


@shared()
def square_tasks(deal, places, sizes, ends, like, sums):
    while True:
        task = next_task(deal, ends[-1])
        if task < 0:
            return
        array, first, last = _piece(task, sizes, ends)
        sums[task] = _squares(_numbers(places[0, array], first, last, like))


@shared()
def scale_tasks(deal, places, sizes, ends, factor):
    while True:
        task = next_task(deal, ends[-1])
        if task < 0:
            return
        array, first, last = _piece(task, sizes, ends)
        _scale(_numbers(places[0, array], first, last, factor), factor[0])
