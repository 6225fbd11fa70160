"""Tiles: TILE queries side by side in the lanes, keys or features down the rows; and how to turn them."""

import numpy as np

from minitx.kernels import blocks
from minitx.kernels.blocks import TILE
from minitx.kernels.compiler import compiled
from minitx.kernels.simd import address, ahead, lanes, pointer, turn_square

HALF = TILE // 2


@compiled()
def scratch(elements, like):
    """An array for one thread that begins at a cache line, so that no vector of it lies across two."""
    line = 64
    buffer = np.empty(elements + line, like.dtype)
    skip = (-address(pointer(buffer)) % line) // buffer.itemsize
    return buffer[skip : skip + elements]


@compiled()
def cut(space, rows):
    """A tile of so many rows from the front of `space`, and what is left."""
    return space[: rows * TILE].reshape(rows, TILE), space[rows * TILE :]


@compiled()
def add_product(a, row_step, column_step, b, b_step, c, c_step, rows, columns, inner, accumulate):
    """C[rows, columns] = A B, or += with `accumulate`, for pointers; `columns` a multiple of the lanes.

    Numba compiles a version for every constant among the arguments: callers hide theirs in np.intp().
    """
    blocks.product(a, row_step, column_step, b, b_step, c, c_step, rows, columns, inner, accumulate)


@compiled()
def full_keys(gap, count):
    """How many of a block's keys the first half of the queries reaches; the rest concern only the second."""
    return min(count, max(0, HALF - gap))


@compiled()
def weigh_keys(keys, d, queries, count, shift, gap, weights, total):
    """weights[j, i] = 2**(key j . query i - shift[i]), 0 where i < gap + j; added up in total[i].

    Where no query of the first half reaches a key, only the second half is written.
    """
    full = full_keys(gap, count)
    done, begin = np.intp(0), np.intp(0)
    for stop in (full, count):
        key, weight = ahead(keys, done * d), ahead(weights, done * TILE)
        blocks.weights(key, d, queries, stop - done, d, shift, begin, weight, gap + done, total)
        done, begin = stop, np.intp(HALF)


@compiled()
def slope_keys(values, d_v, gradients, count, shift, gap, weights, slopes):
    """slopes[j, i] = weights[j, i] * (value j . gradient i - shift[i]), with the halves of `weigh_keys`."""
    full = full_keys(gap, count)
    done, begin = np.intp(0), np.intp(0)
    for stop in (full, count):
        value = ahead(values, done * d_v)
        weight, slope = ahead(weights, done * TILE), ahead(slopes, done * TILE)
        blocks.slopes(value, d_v, gradients, stop - done, d_v, shift, begin, weight, slope)
        done, begin = stop, np.intp(HALF)


@compiled()
def score_keys(keys, d, queries, count, scores):
    """scores[j, i] = key j . query i."""
    tile, one, fresh = np.intp(TILE), np.intp(1), np.bool_(False)
    add_product(keys, d, one, queries, tile, scores, tile, count, tile, d, fresh)


@compiled()
def gather_queries(rows, width, tile, count, gap, gathered, accumulate):
    """gathered[c, i] (+)= sum over keys j of rows[j, c] tile[j, i], with the halves of `weigh_keys`."""
    full, step, half, one, more = (
        full_keys(gap, count),
        np.intp(TILE),
        np.intp(HALF),
        np.intp(1),
        np.bool_(True),
    )
    add_product(rows, one, width, tile, step, gathered, step, width, step, full, accumulate)
    if full < count:
        rows, tile, right = ahead(rows, full * width), ahead(tile, full * TILE + HALF), ahead(gathered, HALF)
        add_product(rows, one, width, tile, step, right, step, width, half, count - full, more)


@compiled()
def gather_keys(tile, count, gap, rows, width, into, queries):
    """into[j, c] += sum over queries i of tile[j, i] rows[i, c], with the halves of `weigh_keys`."""
    full, step, one, more = full_keys(gap, count), np.intp(TILE), np.intp(1), np.bool_(True)
    add_product(tile, step, one, rows, width, into, width, full, width, queries, more)
    if full < count and queries > HALF:
        tile, rows = ahead(tile, full * TILE + HALF), ahead(rows, HALF * width)
        into = ahead(into, full * width)
        add_product(tile, step, one, rows, width, into, width, count - full, width, queries - HALF, more)


@compiled()
def turn_in(rows, factor, turned):
    """turned[c, i] = factor * rows[i, c], and 0 in the lanes beyond the last row."""
    count, width = rows.shape
    square = lanes(pointer(turned))
    whole_rows, whole_width = count - count % square, width - width % square
    start, target = pointer(rows), pointer(turned)
    for i in range(0, whole_rows, square):
        for c in range(0, whole_width, square):
            turn_square(ahead(start, i * width + c), width, ahead(target, c * TILE + i), TILE, factor)
    for c in range(width):
        for i in range(0 if c >= whole_width else whole_rows, count):
            turned[c, i] = rows[i, c] * factor
        for i in range(count, TILE):
            turned[c, i] = 0


@compiled()
def turn_out(turned, rows):
    """rows[i, c] = turned[c, i]."""
    count, width = rows.shape
    square = lanes(pointer(turned))
    whole_rows, whole_width = count - count % square, width - width % square
    start, target = pointer(turned), pointer(rows)
    one = turned.dtype.type(1)
    for i in range(0, whole_rows, square):
        for c in range(0, whole_width, square):
            turn_square(ahead(start, c * TILE + i), TILE, ahead(target, i * width + c), width, one)
    for c in range(width):
        for i in range(0 if c >= whole_width else whole_rows, count):
            rows[i, c] = turned[c, i]
