"""AdamW's step in Numba, in place and in one pass: parameter, gradient and both moments are read once.

    m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g^2
    p <- (1 - lr decay) p - lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps)

(Loshchilov, Hutter 2017, arXiv:1711.05101, algorithm 2; the moments: Kingma, Ba 2014, arXiv:1412.6980.)
"""

import numpy as np

from minitx.kernels.compiler import compiled
from minitx.kernels.crew import next_task, share
from minitx.kernels.elementary import use_full_vectors
from minitx.kernels.optim_numpy import check_arrays, constants
from minitx.kernels.pieces import pieces_of, ready, workers_for


def adamw_step(parameter, grad, mean, square, lr, betas, eps, decay, step):
    """Step t = `step` = 1, 2, ... of one parameter; parameter, mean (m) and square (v) are changed in place.

    All have the parameter's shape and dtype, float32 or float64; raises ValueError naming one that has not,
    or that cannot be written, before anything is changed.
    """
    check_arrays(parameter, grad, mean, square)
    changed = parameter, mean, square
    p, m, v = (ready(array, parameter.dtype).reshape(-1) for array in changed)
    g = ready(grad, parameter.dtype).reshape(-1)
    factors = np.array(constants(lr, betas, eps, decay, step), p.dtype)
    share(adamw_tasks, workers_for(p.size), pieces_of(p.size), p, g, m, v, factors)
    for array, result in zip(changed, (p, m, v), strict=True):
        if not array.flags.carray:
            array[...] = result.reshape(array.shape)


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
def adamw_tasks(deal, pieces, p, g, m, v, factors):
    while True:
        task = next_task(deal, pieces)
        if task < 0:
            return
        part = slice(task * p.size // pieces, (task + 1) * p.size // pieces)
        _adamw(p[part], g[part], m[part], v[part], factors)
