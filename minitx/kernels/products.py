"""The three products of a linear layer in Numba: C = A B + bias, with A or B as it is or transposed.

    forward x W^T + b        gradient of x: grad W        gradient of W: grad^T x

The work is dealt out by blocks of C's rows. Of B, a panel of DEPTH rows and TILE columns at a time is copied,
or turned, so that it lies in one piece in the first cache; `multiply` then goes with it through the block's
rows of A, which are read one number at a time (Goto and van de Geijn 2008, "Anatomy of high-performance
matrix multiplication"). Where many panels meet the same rows of A, these are copied into slabs first, and the
sums of a panel grow in one piece: rows that lie a power of two apart would share a few places of each cache.

NumPy's BLAS is a few percent faster alone, but its threads disturb those of the other kernels, which costs
a training step more. And here a row's sums come out the same, bit for bit, however many threads run.

Arguments, as in the NumPy twin, are matrices of one float dtype; shapes are the caller's to check.
"""

import numpy as np
from numba import types
from numba.core import cgutils

from minitx.kernels import products_numpy
from minitx.kernels.blocks import ROWS, TILE, WIDTHS, Block, over_panels, over_rows
from minitx.kernels.compiler import compiled
from minitx.kernels.crew import THREADS, next_task, share, shared
from minitx.kernels.pieces import ready, workers_for
from minitx.kernels.simd import I64, Vectors, ahead, intrinsic, lanes, pointer, turn_square
from minitx.kernels.tiles import scratch

DEPTH = 128  # rows of a panel: 32 KB in float32
SLABS = 6  # pieces of DEPTH columns of A that are copied at a time: 1.3 MB in float32, for the second cache
PANELS = 3  # as many, and copying A does not pay
MOST_ROWS, FEWEST_ROWS = 384, 48  # of a task: every task makes its own panels
FEW = 16  # rows for which making panels costs more than it saves: NumPy's product has them
PARALLEL_FROM = 1 << 19  # multiply-adds below which handing over takes longer than it saves


def linear(x, weight, bias):
    """x W^T + b: x (rows, in), weight (out, in), bias (out,) or None -> (rows, out)."""
    if len(x) < FEW:
        return products_numpy.linear(x, weight, bias)
    return _product(x, False, weight, True, bias, np.empty((x.shape[0], weight.shape[0]), x.dtype))


def linear_backward(grad, weight):
    """The gradient of x, grad W: grad (rows, out) -> (rows, in)."""
    if len(grad) < FEW:
        return products_numpy.linear_backward(grad, weight)
    return _product(grad, False, weight, False, None, np.empty((grad.shape[0], weight.shape[1]), grad.dtype))


def weight_backward(grad, x):
    """The gradients of W, grad^T x, and of b, the sum of grad's rows.

    grad (rows, out) and x (rows, in) -> (out, in), (out,).
    """
    if len(x) < FEW or x.size == 0:
        return products_numpy.weight_backward(grad, x)
    out, sums = np.empty((grad.shape[1], x.shape[1]), grad.dtype), np.zeros(grad.shape[1], grad.dtype)
    return _product(grad, True, x, False, None, out, sums), sums


def split_heads(x, counts):
    """x (B, n, sum(counts) * head_dim) -> for each count H an array (B, H, n, head_dim) in one piece."""
    batch, n, width = x.shape
    parts = tuple([np.empty((batch, count, n, width // sum(counts)), x.dtype) for count in counts])
    share(heads_tasks, workers_for(x.size), ready(x, x.dtype), parts, False)
    return parts


def merge_heads(parts):
    """The inverse of `split_heads`: arrays (B, H, n, head_dim) side by side in one (B, n, width)."""
    batch, _, n, head_dim = parts[0].shape
    dtype = parts[0].dtype
    out = np.empty((batch, n, sum([part.shape[1] for part in parts]) * head_dim), dtype)
    share(heads_tasks, workers_for(out.size), out, tuple([ready(part, dtype) for part in parts]), True)
    return out


def _product(a, turned_a, b, turned_b, bias, out, sums=None):
    """C = A B + bias, written to `out`; where A is turned, the sums over its columns are added to `sums`."""
    dtype = out.dtype
    a, b = ready(a, dtype), ready(b, dtype)
    rows, columns = out.shape
    inner = a.shape[0] if turned_a else a.shape[1]
    start = np.zeros(columns + -columns % TILE, dtype)  # each row of C starts with it
    if bias is not None:
        start[:columns] = bias
    if inner == 0:
        out[...] = start[:columns]
        return out
    workers = THREADS if rows * columns * inner >= PARALLEL_FROM else 1
    tasks = -(-rows // min(MOST_ROWS, max(FEWEST_ROWS, -(-rows // workers))))
    tasks += -tasks % workers  # an odd task would keep one thread busy and all others waiting
    sums = start if sums is None else sums
    share(product_tasks, min(workers, tasks), tasks, a, turned_a, b, turned_b, start, out, sums)
    return out


@intrinsic
def multiply(typingctx, a, row_step, column_step, b, c, c_step, start, start_step, rows, columns, inner):
    """C[rows, columns] = start + A B, with a panel B of TILE columns; `columns` a multiple of the lanes.

    Row i of the start lies start_step * i behind `start`: C itself to add to it, one row for all with step 0.
    It is added at the end, and where C will be written is asked for before: no load is waited for.
    """

    def codegen(context, builder, signature, args):
        a, row_step, column_step, b, c, c_step, start, start_step, rows, columns, inner = args
        write = Vectors(builder, signature.args[0].dtype)

        def panel(vectors, column):
            right = builder.gep(b, [column])

            def rows_of_panel(size, first):
                left = builder.gep(a, [builder.mul(first, row_step)])
                into = builder.gep(c, [builder.add(builder.mul(first, c_step), column)])
                begin = builder.gep(start, [builder.add(builder.mul(first, start_step), column)])

                def given(i, j):
                    return write.load(
                        begin, builder.add(builder.mul(start_step, I64(i)), I64(j * write.lanes))
                    )

                block = Block(write, size, vectors, lambda i, j: write.full(0.0))
                for cell in block.cells:
                    write.prefetch(into, block.offset(c_step, *cell))
                block.multiply(left, row_step, column_step, right, I64(TILE), inner)
                for cell in block.cells:
                    write.store(builder.fadd(block[cell], given(*cell)), into, block.offset(c_step, *cell))

            over_rows(builder, ROWS[vectors], rows, rows_of_panel)

        over_panels(builder, write.lanes, WIDTHS, I64(0), columns, panel)
        return context.get_dummy_value()

    step = types.intp
    return types.void(a, step, step, a, a, step, a, step, step, step, step), codegen


def _copy(builder, write, source, source_step, target, target_step, rows, width, sums=None):
    vectors = builder.sdiv(width, I64(write.lanes))
    whole = builder.mul(vectors, I64(write.lanes))
    with cgutils.for_range(builder, rows) as row:
        begin = builder.gep(source, [builder.mul(source_step, row.index)])
        into = builder.gep(target, [builder.mul(target_step, row.index)])
        with cgutils.for_range(builder, vectors) as vector:
            place = builder.mul(vector.index, I64(write.lanes))
            numbers = write.load(begin, place)
            write.store(numbers, into, place)
            if sums is not None:
                write.store(builder.fadd(write.load(sums, place), numbers), sums, place)
        with cgutils.for_range(builder, builder.sub(width, whole)) as rest:
            place = [builder.add(whole, rest.index)]
            number = builder.load(builder.gep(begin, place))
            builder.store(number, builder.gep(into, place))
            if sums is not None:
                total = builder.gep(sums, place)
                builder.store(builder.fadd(builder.load(total), number), total)


@intrinsic
def copy_rows(typingctx, source, source_step, target, target_step, rows, width):
    """target[i, j] = source[i, j] for so many rows of `width` numbers."""

    def codegen(context, builder, signature, args):
        _copy(builder, Vectors(builder, signature.args[0].dtype), *args)
        return context.get_dummy_value()

    step = types.intp
    return types.void(source, step, source, step, step, step), codegen


@intrinsic
def copy_and_add_rows(typingctx, source, source_step, target, target_step, rows, width, sums):
    """The same, and sums[j] += the sum of source[i, j] over i."""

    def codegen(context, builder, signature, args):
        _copy(builder, Vectors(builder, signature.args[0].dtype), *args)
        return context.get_dummy_value()

    step = types.intp
    return types.void(source, step, source, step, step, step, source), codegen


@compiled()
def _turn_rows(source, step, count, depth, panel):
    """panel[k, j] = source[j, k] for `count` rows of the source."""
    square, one = lanes(pointer(panel)), panel.dtype.type(1)
    whole_count, whole_depth = count - count % square, depth - depth % square
    start, target = pointer(source), pointer(panel)
    for j in range(0, whole_count, square):
        for k in range(0, whole_depth, square):
            turn_square(ahead(start, j * step + k), step, ahead(target, k * TILE + j), np.intp(TILE), one)
    for k in range(depth):
        for j in range(0 if k >= whole_depth else whole_count, count):
            panel[k, j] = source[j, k]


@compiled()
def _fill_panel(b, turned, first, depth, column, width, panel):
    """panel[k, j] = B[first + k, column + j], where `b` is B or, if turned, its transpose."""
    if turned:
        _turn_rows(b[column:, first:], b.shape[1], width, depth, panel)
    else:
        copy_rows(pointer(b[first:, column:]), b.shape[1], pointer(panel), np.intp(TILE), depth, width)


@compiled()
def _fill_slab(a, turned, k, depth, first, last, slab, step, sums):
    """Copy A[first:last, k : k + depth]. Where `a` is A's transpose, its columns are added up in `sums`."""
    if turned:
        source = pointer(a[k:, first:])
        copy_and_add_rows(source, a.shape[1], slab, step, depth, last - first, pointer(sums[first:]))
    else:
        copy_rows(pointer(a[first:, k:]), a.shape[1], slab, step, last - first, depth)


@compiled()
def _through_depth(
    mine, row_step, column_step, slab, b, turned, begin, end, bias, out, column, panel, growing
):
    """`out` from `column` on, a panel wide, plus the product over begin ... end. Row 0 of A is at `mine`."""
    tile, rows, columns = np.intp(TILE), out.shape[0], out.shape[1]
    width = min(columns - column, TILE)
    here, target = pointer(growing), pointer(out[0:, column:])
    start, start_step = (pointer(bias[column:]), np.intp(0)) if begin == 0 else (target, columns)
    if begin > 0 and width < TILE:  # whole vectors of a narrow panel would reach into the next row
        copy_rows(target, columns, here, tile, rows, width)
        start, start_step = here, tile
    for k in range(begin, end, DEPTH):
        depth = min(end - k, DEPTH)
        _fill_panel(b, turned, k, depth, column, width, panel)
        into, into_step = (target, columns) if width == TILE and k + depth == end else (here, tile)
        wide = width + -width % lanes(here)
        left = ahead(mine, (k - begin) // DEPTH * slab)
        multiply(
            left, row_step, column_step, pointer(panel), into, into_step, start, start_step, rows, wide, depth
        )
        start, start_step = here, tile
    if width < TILE:
        copy_rows(here, tile, target, columns, rows, width)


@shared()
def product_tasks(deal, tasks, a, turned_a, b, turned_b, bias, out, sums):
    """Works off blocks of the rows of C until none is left."""
    rows, columns = out.shape
    inner = a.shape[0] if turned_a else a.shape[1]
    most, one = -(-rows // tasks), np.intp(1)
    copied = turned_a or columns > PANELS * TILE
    slabs = 1 if turned_a else min(SLABS, -(-inner // DEPTH)) if copied else -(-inner // DEPTH)
    # An odd number of cache lines from row to row: otherwise all rows would compete for the same few places.
    line = 64 // out.itemsize
    step = (-(-(most if turned_a else DEPTH) // line) | 1) * line if copied else a.shape[1]
    row_step, column_step = (one, step) if turned_a else (step, one)
    slab = (DEPTH if turned_a else most) * step if copied else DEPTH
    left = scratch(slabs * slab if copied else 1, out)
    panel, growing = scratch(DEPTH * TILE, out).reshape(DEPTH, TILE), scratch(most * TILE, out)
    panel[:] = 0  # beyond the last panel's columns it stays 0
    while True:
        task = next_task(deal, tasks)
        if task < 0:
            return
        first, last = task * rows // tasks, (task + 1) * rows // tasks
        for begin in range(0, inner, slabs * DEPTH):
            end = min(inner, begin + slabs * DEPTH)
            if copied:
                for k in range(begin, end, DEPTH):
                    place = ahead(pointer(left), (k - begin) // DEPTH * slab)
                    _fill_slab(a, turned_a, k, min(end - k, DEPTH), first, last, place, step, sums)
            mine = pointer(left) if copied else pointer(a[first:, begin:])
            for column in range(0, columns, TILE):
                _through_depth(
                    mine,
                    row_step,
                    column_step,
                    slab,
                    b,
                    turned_b,
                    begin,
                    end,
                    bias,
                    out[first:last],
                    column,
                    panel,
                    growing,
                )


@shared()
def heads_tasks(deal, whole, parts, merge):
    """Copies between (B, n, heads * head_dim) and several (B, H, n, head_dim), a head of a row at a time."""
    batch, _, n, head_dim = parts[0].shape
    width = whole.shape[2]
    heads = width // head_dim
    while True:
        task = next_task(deal, batch * heads)
        if task < 0:
            return
        b, h = task // heads, task % heads
        place, part = ahead(pointer(whole), b * n * width + h * head_dim), 0
        while h >= parts[part].shape[1]:
            h -= parts[part].shape[1]
            part += 1
        alone = pointer(parts[part][b, h])
        if merge:
            copy_rows(alone, head_dim, place, width, n, head_dim)
        else:
            copy_rows(place, width, alone, head_dim, n, head_dim)
