"""Rotary positions in Numba (Su et al. 2021, arXiv:2104.09864): each pair of a head's numbers is turned.

    (a, b) -> (a cos - b sin, a sin + b cos)    by the angle  position * base^(-2 i / head_dim)  for pair i

Two layouts, of which a checkpoint needs the one that it was trained with: pair i is
(x[i], x[i + head_dim / 2]) for "half" (Llama, GPT-NeoX) and (x[2 i], x[2 i + 1]) for "interleaved" (the
paper). A rotation's transpose is the rotation by the negative angle, so `inverse` gives the backward pass.
"""

import numpy as np

from minitx.kernels.compiler import compiled
from minitx.kernels.crew import next_task, share, shared
from minitx.kernels.elementary import use_full_vectors
from minitx.kernels.pieces import pieces_of, ready, workers_for
from minitx.kernels.rope_numpy import check_rotation, table, table_for

__all__ = ["rotate", "rotate_row", "table", "table_for"]


def rotate(x, angles, positions, interleaved, inverse):
    """-> x (B, H, n, d) rotated; `angles` from `table`, positions (1, n) or (B, n), integers.

    Raises ValueError naming the argument whose shape does not fit, IndexError for a position outside the
    table.
    """
    check_rotation(x, angles, positions)
    out, d = np.empty(x.shape, x.dtype), x.shape[3]
    pairs = (-1, d // 2, 2) if interleaved else (-1, 2, d // 2)
    if out.size:
        share(
            rotate_tasks,
            workers_for(x.size),
            pieces_of(x.size),
            ready(x, x.dtype).reshape(pairs),
            ready(angles, x.dtype),
            ready(positions, np.int64),
            x.shape[1],
            bool(interleaved),
            x.dtype.type(-1 if inverse else 1),
            out.reshape(pairs),
        )
    return out


@compiled()
def rotate_row(x, row, angles, position, interleaved, direction, out, out_row):
    """Row `row` of x to row `out_row` of out, both (rows, head_dim / 2, 2) or (rows, 2, head_dim / 2)."""
    use_full_vectors()
    if interleaved:
        for i in range(x.shape[1]):
            a, b = x[row, i, 0], x[row, i, 1]
            cos, sin = angles[position, 0, i], direction * angles[position, 1, i]
            out[out_row, i, 0] = a * cos - b * sin
            out[out_row, i, 1] = a * sin + b * cos
    else:
        for i in range(x.shape[2]):
            a, b = x[row, 0, i], x[row, 1, i]
            cos, sin = angles[position, 0, i], direction * angles[position, 1, i]
            out[out_row, 0, i] = a * cos - b * sin
            out[out_row, 1, i] = a * sin + b * cos


@shared()
def rotate_tasks(deal, pieces, x, angles, positions, heads, interleaved, direction, out):
    rows, n = x.shape[0], positions.shape[1]
    while True:
        task = next_task(deal, pieces)
        if task < 0:
            return
        for row in range(task * rows // pieces, (task + 1) * rows // pieces):
            b = row // (heads * n) if positions.shape[0] > 1 else 0
            rotate_row(x, row, angles, positions[b, row % n], interleaved, direction, out, row)
