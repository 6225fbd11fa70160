"""Loops along rows in memory, for when there are too few queries to fill the lanes: decoding."""

from llvmlite import ir
from numba import types
from numba.core import cgutils

from minitx.kernels.simd import I64, VECTORS, Vectors, intrinsic

CHUNK = 64  # keys whose scores one row holds

AHEAD = 1024  # how far ahead of its use to ask for memory, in elements


def _reduce(write: Vectors, name: str, value):
    """One number from a vector's lanes."""
    builder, scalar = write.builder, write.scalar
    if name == "fadd":
        signature, arguments = ir.FunctionType(scalar, [scalar, write.type]), [scalar(-0.0), value]
    else:
        signature, arguments = ir.FunctionType(scalar, [write.type]), [value]
    function = cgutils.get_or_insert_function(
        builder.module, signature, f"llvm.vector.reduce.{name}.{write.suffix}"
    )
    return builder.call(function, arguments, fastmath=("reassoc",) if name == "fadd" else ())


def _dots(write, keys, d, query, count, scores) -> None:
    """scores[j] = query . key j for one key or as many as lanes; d a multiple of the lanes."""
    builder = write.builder
    sums = [cgutils.alloca_once(builder, write.type) for _ in range(count)]
    for place in sums:
        builder.store(write.full(0.0), place)
    with cgutils.for_range(builder, builder.sdiv(d, I64(write.lanes))) as loop:
        column = builder.mul(loop.index, I64(write.lanes))
        part = write.load(query, column)
        for j, place in enumerate(sums):
            at = builder.add(builder.mul(d, I64(j)), column)
            write.prefetch(keys, builder.add(at, I64(AHEAD)))
            key = write.load(keys, at)
            builder.store(write.fma(part, key, builder.load(place)), place)
    totals = [builder.load(place) for place in sums]
    if count == 1:
        builder.store(_reduce(write, "fadd", totals[0]), scores)
    else:
        write.store(write.sums_across(totals), scores, I64(0))


@intrinsic
def dot_rows(typingctx, keys, d, query, count, scores):
    """scores[j] = query . key j, for j < count; d a multiple of the lanes."""

    def codegen(context, builder, signature, args):
        keys, d, query, count, scores = args
        write = Vectors(builder, signature.args[0].dtype)
        whole = builder.mul(builder.sdiv(count, I64(write.lanes)), I64(write.lanes))
        for size, begin, end in ((write.lanes, I64(0), whole), (1, whole, count)):
            with cgutils.for_range_slice(builder, begin, end, I64(size), inc=True) as (j, _):
                row = builder.gep(keys, [builder.mul(j, d)])
                _dots(write, row, d, query, size, builder.gep(scores, [j]))
        return context.get_dummy_value()

    return types.void(keys, types.intp, keys, types.intp, keys), codegen


@intrinsic
def largest(typingctx, scores):
    """The largest of CHUNK scores; NaN counts as none."""

    def codegen(context, builder, signature, args):
        write = Vectors(builder, signature.args[0].dtype)
        best = write.full(float("-inf"))
        for i in range(0, CHUNK, write.lanes):
            row = write.load(args[0], I64(i))
            best = builder.select(builder.fcmp_ordered(">", row, best), row, best)
        return _reduce(write, "fmax", best)

    return scores.dtype(scores), codegen


@intrinsic
def weigh_chunk(typingctx, scores, shift):
    """scores = 2**(scores - shift) in place for CHUNK scores; -> their sum."""

    def codegen(context, builder, signature, args):
        write = Vectors(builder, signature.args[0].dtype)
        move, total = write.spread(args[1]), write.full(0.0)
        for i in range(0, CHUNK, write.lanes):
            weight = write.exp2(builder.fsub(write.load(args[0], I64(i)), move))
            write.store(weight, args[0], I64(i))
            total = builder.fadd(total, weight)
        return _reduce(write, "fadd", total)

    return scores.dtype(scores, scores.dtype), codegen


@intrinsic
def add_weighted_rows(typingctx, values, d_v, weights, count, gathered):
    """gathered[c] += sum over j < count of weights[j] values[j, c]; d_v a multiple of the lanes."""

    def codegen(context, builder, signature, args):
        values, d_v, weights, count, gathered = args
        write = Vectors(builder, signature.args[0].dtype)
        column = I64(0)
        for vectors in (VECTORS, 1):
            width = vectors * write.lanes
            panels = builder.sdiv(builder.sub(d_v, column), I64(width))
            with cgutils.for_range(builder, panels) as loop:
                start = builder.add(column, builder.mul(loop.index, I64(width)))
                _add_panel(write, values, d_v, weights, count, gathered, start, vectors)
            column = builder.add(column, builder.mul(panels, I64(width)))
        return context.get_dummy_value()

    return types.void(values, types.intp, values, types.intp, values), codegen


def _add_panel(write, values, d_v, weights, count, gathered, start, vectors) -> None:
    """`add_weighted_rows` for a few vectors of columns, with two sums each for even and odd rows."""
    builder = write.builder
    places = [builder.add(start, I64(i * write.lanes)) for i in range(vectors)]
    sums = [[cgutils.alloca_once(builder, write.type) for _ in range(2)] for _ in places]
    for place, (even, odd) in zip(places, sums, strict=True):
        builder.store(write.load(gathered, place), even)
        builder.store(write.full(0.0), odd)

    def add(j, parity):
        weight = write.spread(builder.load(builder.gep(weights, [j]), align=write.align))
        for place, pair in zip(places, sums, strict=True):
            at = builder.add(builder.mul(j, d_v), place)
            write.prefetch(values, builder.add(at, I64(AHEAD)))
            value = write.load(values, at)
            builder.store(write.fma(weight, value, builder.load(pair[parity])), pair[parity])

    pairs = builder.sdiv(count, I64(2))
    with cgutils.for_range(builder, pairs) as loop:
        even = builder.mul(loop.index, I64(2))
        add(even, 0)
        add(builder.add(even, I64(1)), 1)
    with builder.if_then(builder.icmp_signed("<", builder.mul(pairs, I64(2)), count)):
        add(builder.mul(pairs, I64(2)), 0)
    for place, (even, odd) in zip(places, sums, strict=True):
        write.store(builder.fadd(builder.load(even), builder.load(odd)), gathered, place)
