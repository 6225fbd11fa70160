"""A matrix times one or a few vectors in Numba, at the speed at which memory gives the matrix.

The matrix is packed in panels of ROWS rows. A panel lies in memory in the order in which it is read: a few
columns of its first row, the same columns of the second, and so on, so that one worker reads one stream
from front to back; rows a multiple of 4096 bytes apart would share a few places of the first cache.

int8 weights are whole numbers with one float32 factor for each row and GROUP columns (as in llama.cpp's
Q8_0, Dettmers et al. 2022, arXiv:2208.07339): they become floats in registers, and nothing else is rounded.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from minitx.kernels.decoder_numpy import GROUP
from minitx.kernels.simd import I32, I64, VECTOR_BYTES, Vectors, intrinsic

MOST_ROWS = 8  # of a panel
LINE = 64  # bytes
AHEAD = 4096  # bytes


def rows_of_panel(dtype) -> int:
    """Rows side by side: at most as many as the lanes, so that their sums fit into one vector."""
    return min(MOST_ROWS, VECTOR_BYTES // np.dtype(dtype).itemsize)


def columns_of_step(dtype, quantised: bool) -> int:
    """Columns that are read at once; a packed row is padded to a multiple of them."""
    return GROUP if quantised else 2 * VECTOR_BYTES // np.dtype(dtype).itemsize


def _fold(write: Vectors, vectors):
    """A vector whose first lanes are the sums of vectors, each over its lanes. Their number: a power of 2."""
    builder, count = write.builder, len(vectors)
    step = count // 2
    while step:
        pairs = zip(vectors[:step], vectors[step:], strict=True)
        vectors = [builder.fadd(*write.exchange(a, b, step)) for a, b in pairs]
        step //= 2
    (total,) = vectors
    width, places = write.lanes // 2, ir.VectorType(I32, write.lanes)
    while width >= count:
        moved = ir.Constant(places, [(i + width) % write.lanes for i in range(write.lanes)])
        total = builder.fadd(total, builder.shuffle_vector(total, total, moved))
        width //= 2
    return total


def _store_first(write: Vectors, value, count, pointer, offset) -> None:
    """The first `count` lanes to memory."""
    builder = write.builder
    part = builder.shuffle_vector(value, value, ir.Constant(ir.VectorType(I32, count), list(range(count))))
    place = builder.bitcast(builder.gep(pointer, [offset]), part.type.as_pointer())
    builder.store(part, place, align=write.align)


class _Tile:
    """Writes the product of one panel with `batch` vectors."""

    def __init__(self, write: Vectors, rows: int, batch: int):
        self.write, self.builder, self.rows, self.batch = write, write.builder, rows, batch
        self.ways = 2 if batch == 1 else 1  # sums of a row: too few would wait for each other
        self.sums = [
            [[cgutils.alloca_once(self.builder, write.type) for _ in range(self.ways)] for _ in range(batch)]
            for _ in range(rows)
        ]

    def clear(self) -> None:
        for row in self.sums:
            for ways in row:
                for place in ways:
                    self.builder.store(self.write.full(0.0), place)

    def inputs(self, x, x_step, column, way: int):
        start = self.builder.add(column, I64(way * self.write.lanes))
        return [
            self.write.load(x, self.builder.add(self.builder.mul(x_step, I64(b)), start))
            for b in range(self.batch)
        ]

    def add(self, row: int, b: int, way: int, factor, vector) -> None:
        place = self.sums[row][b][way % self.ways]
        self.builder.store(self.write.fma(factor, vector, self.builder.load(place)), place)

    def finish(self, out, out_step) -> None:
        for b in range(self.batch):
            rows = []
            for r in range(self.rows):
                total: Any = self.builder.load(self.sums[r][b][0])
                for way in self.sums[r][b][1:]:
                    total = self.builder.fadd(total, self.builder.load(way))
                rows.append(total)
            place = self.builder.mul(out_step, I64(b))
            _store_first(self.write, _fold(self.write, rows), self.rows, out, place)


def _float_panel(tile: _Tile, weights, inner, x, x_step) -> None:
    write, builder = tile.write, tile.builder
    step, size = 2 * write.lanes, 2 * write.lanes * tile.rows
    line = LINE // write.align
    with cgutils.for_range(builder, builder.sdiv(inner, I64(step))) as loop:
        column, start = builder.mul(loop.index, I64(step)), builder.mul(loop.index, I64(size))
        for way in range(2):
            vectors = tile.inputs(x, x_step, column, way)
            for r in range(tile.rows):
                offset = (way * tile.rows + r) * write.lanes
                at = builder.add(start, I64(offset))
                if offset % line == 0:
                    write.prefetch(weights, builder.add(at, I64(AHEAD // write.align)))
                weight = write.load(weights, at)
                for b, vector in enumerate(vectors):
                    tile.add(r, b, way, weight, vector)


def _whole_panel(tile: _Tile, weights, scales, inner, x, x_step) -> None:
    """int8: the products of a group are added up before its factor is applied."""
    write, builder = tile.write, tile.builder
    pieces = GROUP // write.lanes
    small = ir.VectorType(ir.IntType(8), write.lanes)
    with cgutils.for_range(builder, builder.sdiv(inner, I64(GROUP))) as loop:
        column, start = builder.mul(loop.index, I64(GROUP)), builder.mul(loop.index, I64(GROUP * tile.rows))
        vectors = [tile.inputs(x, x_step, column, i) for i in range(pieces)]
        for r in range(tile.rows):
            at = builder.add(start, I64(r * GROUP))
            write.prefetch(weights, builder.add(at, I64(AHEAD)))
            totals: list[Any] = [None] * tile.batch
            for i in range(pieces):
                place = builder.gep(weights, [builder.add(at, I64(i * write.lanes))])
                whole = builder.load(builder.bitcast(place, small.as_pointer()), align=1)
                weight = builder.sitofp(builder.sext(whole, write.whole), write.type)
                for b in range(tile.batch):
                    totals[b] = (
                        builder.fmul(weight, vectors[i][b])
                        if totals[b] is None
                        else write.fma(weight, vectors[i][b], totals[b])
                    )
            factor = builder.gep(scales, [builder.add(builder.mul(loop.index, I64(tile.rows)), I64(r))])
            spread = write.spread(builder.load(factor, align=write.align))
            for b in range(tile.batch):
                tile.add(r, b, r, spread, totals[b])


@intrinsic
def multiply_panels(typingctx, weights, scales, panels, inner, x, x_step, batch, out, out_step):
    """out[b, r] = sum over c < inner of W[r, c] x[b, c], for pointers and all rows of so many panels.

    `weights` are packed, `inner` is their padded number of columns; rows of x lie x_step apart and are 0
    beyond the matrix's columns; rows of out lie out_step apart.
    """
    quantised = weights.dtype == types.int8

    def codegen(context, builder, signature, args):
        weights, scales, panels, inner, x, x_step, batch, out, out_step = args
        write = Vectors(builder, signature.args[4].dtype)
        rows = min(MOST_ROWS, write.lanes)
        with cgutils.for_range(builder, panels) as loop:
            start = builder.mul(loop.index, builder.mul(inner, I64(rows)))
            panel = builder.gep(weights, [start])
            factors = builder.gep(scales, [builder.sdiv(start, I64(GROUP))]) if quantised else scales
            target = builder.gep(out, [builder.mul(loop.index, I64(rows))])
            done = I64(0)
            for size in (2, 1):
                tile = _Tile(write, rows, size)
                end = builder.mul(builder.sdiv(batch, I64(size)), I64(size))
                with cgutils.for_range_slice(builder, done, end, I64(size), inc=True) as (b, _):
                    tile.clear()
                    inputs = builder.gep(x, [builder.mul(b, x_step)])
                    if quantised:
                        _whole_panel(tile, panel, factors, inner, inputs, x_step)
                    else:
                        _float_panel(tile, panel, inner, inputs, x_step)
                    tile.finish(builder.gep(target, [builder.mul(b, out_step)]), out_step)
                done = end
        return context.get_dummy_value()

    whole = types.intp
    return types.void(weights, scales, whole, whole, x, whole, whole, x, whole), codegen
