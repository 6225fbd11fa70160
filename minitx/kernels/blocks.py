"""Products of small matrices with their sums in registers, and attention's two steps that follow on them.

C = A B, where A[i, k] is read one number at a time and B by whole rows: A may lie in memory in either
order and needs no packing. A block of rows x vectors sums stays in registers along all of k, so that
each row of B read serves many multiply-adds a lane (Goto and van de Geijn 2008, section 4).

What attention does with a product follows while the sums are still in registers: scores become weights,
and gradients of weights become gradients of scores.

Steps are distances in elements between a matrix's rows (and columns); c, w and s hold the results.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils

from minitx.kernels.simd import I32, I64, VECTORS, Vectors, intrinsic

LN_2 = 0.6931471805599453
TILE = 64  # queries of a tile, side by side in the lanes

# Rows of a block of so many vectors, largest first. A narrow block has more, so that enough sums are
# under way to hide an addition's latency; the last sizes take what is left over.
ROWS = {4: (6, 4, 1), 2: (12, 4, 1) if VECTORS == 4 else (6, 4, 1), 1: (12, 4, 1)}
WIDTHS = tuple(vectors for vectors in ROWS if vectors <= VECTORS)


def over_rows(builder, sizes, rows, body) -> None:
    """body(size, first) for blocks of so many rows, as many of the first size as there are, and so on."""
    done = I64(0)
    for size in sizes:
        left = builder.sub(rows, done)
        blocks = builder.sdiv(left, I64(size))
        if size == 6:
            # 6 n + 2 or 3 rows: one block of six less, since 4 + 4 rows are faster than 6 + 1 + 1.
            rest = builder.srem(left, I64(6))
            uneven = builder.icmp_unsigned("<", builder.sub(rest, I64(2)), I64(2))
            some = builder.icmp_signed(">", blocks, I64(0))
            blocks = builder.sub(blocks, builder.zext(builder.and_(uneven, some), I64))
        with cgutils.for_range(builder, blocks) as loop:
            body(size, builder.add(done, builder.mul(loop.index, I64(size))))
        done = builder.add(done, builder.mul(blocks, I64(size)))


def over_panels(builder, lanes, widths, begin, end, body) -> None:
    """body(vectors, column) for panels of columns, the widest first."""
    column = begin
    for vectors in widths:
        width = vectors * lanes
        panels = builder.sdiv(builder.sub(end, column), I64(width))
        with cgutils.for_range(builder, panels) as loop:
            body(vectors, builder.add(column, builder.mul(loop.index, I64(width))))
        column = builder.add(column, builder.mul(panels, I64(width)))


def _tile_widths(lanes):
    """The widths that a whole and a half tile need."""
    widest = VECTORS * lanes
    return WIDTHS[:1] if TILE // 2 % widest == 0 else WIDTHS[:2]


class Block:
    """The sums of one block, a register for each row and vector."""

    def __init__(self, write: Vectors, rows: int, vectors: int, start):
        self.write, self.rows, self.vectors = write, rows, vectors
        self.cells = [(i, j) for i in range(rows) for j in range(vectors)]
        self.places = {}
        for cell in self.cells:
            self.places[cell] = cgutils.alloca_once(write.builder, write.type)
            self[cell] = start(*cell)

    def __getitem__(self, cell):
        return self.write.builder.load(self.places[cell])

    def __setitem__(self, cell, value):
        self.write.builder.store(value, self.places[cell])

    def offset(self, step, i, j):
        """Where cell (i, j) lies in a matrix, from the block's first element."""
        builder = self.write.builder
        return builder.add(builder.mul(step, I64(i)), I64(j * self.write.lanes))

    def multiply(self, a, row_step, column_step, b, b_step, inner) -> None:
        """sums[i, j] += A[i, k] B[k, j] over k."""
        write, builder = self.write, self.write.builder
        starts = [builder.mul(row_step, I64(i)) for i in range(self.rows)]
        with cgutils.for_range(builder, inner) as loop:
            row, column = builder.mul(b_step, loop.index), builder.mul(column_step, loop.index)
            right = [write.load(b, builder.add(row, I64(j * write.lanes))) for j in range(self.vectors)]
            for i in range(self.rows):
                number = builder.load(builder.gep(a, [builder.add(starts[i], column)]), align=write.align)
                left = write.spread(number)
                for j in range(self.vectors):
                    self[i, j] = write.fma(left, right[j], self[i, j])

    def hide(self, gap) -> None:
        """sums = -inf in the lanes below gap + i: queries that come before the key of row i."""
        write, builder = self.write, self.write.builder
        index = ir.VectorType(I32, write.lanes)
        edge = write.spread(builder.trunc(gap, I32))
        for i, j in self.cells:
            lane = ir.Constant(index, [j * write.lanes + lane for lane in range(write.lanes)])
            row = ir.Constant(index, [i] * write.lanes)
            hidden = builder.icmp_signed("<", lane, builder.add(edge, row))
            self[i, j] = builder.select(hidden, write.full(float("-inf")), self[i, j])


@intrinsic
def product(typingctx, a, row_step, column_step, b, b_step, c, c_step, rows, columns, inner, accumulate):
    """C[rows, columns] = A B, or += with `accumulate`; `columns` a multiple of the lanes."""

    def codegen(context, builder, signature, args):
        a, row_step, column_step, b, b_step, c, c_step, rows, columns, inner, accumulate = args
        write = Vectors(builder, signature.args[0].dtype)

        def panel(vectors, column):
            right = builder.gep(b, [column])

            def rows_of_panel(size, first):
                left = builder.gep(a, [builder.mul(first, row_step)])
                into = builder.gep(c, [builder.add(builder.mul(first, c_step), column)])
                block = Block(write, size, vectors, lambda i, j: write.full(0.0))
                with builder.if_then(accumulate):
                    for cell in block.cells:
                        block[cell] = write.load(into, block.offset(c_step, *cell))
                block.multiply(left, row_step, column_step, right, b_step, inner)
                for cell in block.cells:
                    write.store(block[cell], into, block.offset(c_step, *cell))

            over_rows(builder, ROWS[vectors], rows, rows_of_panel)

        over_panels(builder, write.lanes, WIDTHS, I64(0), columns, panel)
        return context.get_dummy_value()

    step = types.intp
    return types.void(a, step, step, b, step, c, *[step] * 4, types.boolean), codegen


def _tile_steps(builder, args, dtype, finish):
    """finish(block, first, column) for a[rows, inner] times b[inner, begin : TILE], less shift[lane]."""
    a, a_step, b, rows, inner, shift, begin = args
    write = Vectors(builder, dtype)

    def panel(vectors, column):
        right, move = builder.gep(b, [column]), builder.gep(shift, [column])
        minus = [builder.fneg(write.load(move, I64(j * write.lanes))) for j in range(vectors)]

        def rows_of_panel(size, first):
            block = Block(write, size, vectors, lambda i, j: minus[j])
            left = builder.gep(a, [builder.mul(first, a_step)])
            block.multiply(left, a_step, I64(1), right, I64(TILE), inner)
            finish(block, first, column)

        over_rows(builder, ROWS[vectors], rows, rows_of_panel)

    over_panels(builder, write.lanes, _tile_widths(write.lanes), begin, I64(TILE), panel)


@intrinsic
def weights(typingctx, a, a_step, b, rows, inner, shift, begin, w, gap, total):
    """w[j, i] = 2**(A B - shift[i]), 0 where i < gap + j, from lane `begin` on; total[i] += w[j, i]."""

    def codegen(context, builder, signature, args):
        w, gap, total = args[7:]

        def finish(block, first, column):
            write = block.write
            into = builder.gep(w, [builder.add(builder.mul(first, I64(TILE)), column)])
            sums = builder.gep(total, [column])
            edge = builder.sub(builder.add(gap, first), column)
            with builder.if_then(builder.icmp_signed(">", edge, I64(1 - block.rows))):
                block.hide(edge)
            running = [write.load(sums, I64(j * write.lanes)) for j in range(block.vectors)]
            for i, j in block.cells:
                weight = write.exp2(block[i, j])
                running[j] = builder.fadd(running[j], weight)
                write.store(weight, into, block.offset(I64(TILE), i, j))
            for j in range(block.vectors):
                write.store(running[j], sums, I64(j * write.lanes))

        _tile_steps(builder, args[:7], signature.args[0].dtype, finish)
        return context.get_dummy_value()

    step = types.intp
    return types.void(a, step, b, step, step, shift, step, w, step, total), codegen


@intrinsic
def slopes(typingctx, a, a_step, b, rows, inner, shift, begin, w, s):
    """s[j, i] = w[j, i] * (A B - shift[i]). Lanes from `begin` on."""

    def codegen(context, builder, signature, args):
        w, s = args[7:]

        def finish(block, first, column):
            write = block.write
            start = builder.add(builder.mul(first, I64(TILE)), column)
            weight, into = builder.gep(w, [start]), builder.gep(s, [start])
            for cell in block.cells:
                at = block.offset(I64(TILE), *cell)
                write.store(builder.fmul(block[cell], write.load(weight, at)), into, at)

        _tile_steps(builder, args[:7], signature.args[0].dtype, finish)
        return context.get_dummy_value()

    step = types.intp
    return types.void(a, step, b, step, step, shift, step, w, s), codegen


@intrinsic
def row_weights(typingctx, scores, shift, total):
    """scores[i] = 2**(scores[i] - shift[i]) in place for one row of a tile; total[i] += that."""

    def codegen(context, builder, signature, args):
        scores, shift, total = args
        write = Vectors(builder, signature.args[0].dtype)
        for i in range(0, TILE, write.lanes):
            at = I64(i)
            weight = write.exp2(builder.fsub(write.load(scores, at), write.load(shift, at)))
            write.store(weight, scores, at)
            write.store(builder.fadd(write.load(total, at), weight), total, at)
        return context.get_dummy_value()

    return types.void(scores, shift, total), codegen


@intrinsic
def log_sums(typingctx, top, total):
    """top[i] = log(2**top[i] * total[i]) in place, for a tile's queries."""

    def codegen(context, builder, signature, args):
        top, total = args
        write = Vectors(builder, signature.args[0].dtype)
        for i in range(0, TILE, write.lanes):
            at = I64(i)
            value = builder.fadd(write.load(top, at), write.log2(write.load(total, at)))
            write.store(builder.fmul(value, write.full(LN_2)), top, at)
        return context.get_dummy_value()

    return types.void(top, total), codegen
