"""Vector code that LLVM does not find by itself: pointers, exp2, transposition, a shared counter.

Each `@intrinsic` is a function that a kernel calls and that writes LLVM instructions in its place. The
width of a vector is the host's: 16 float32 with AVX-512, 8 with AVX2, else 4; half as many float64.
"""

import platform
from typing import Any, cast

import llvmlite.binding as llvm
import numba.extending
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, config

# Without a type: kernels do not see the Python signature, whose first argument is the compiler's.
intrinsic = cast(Any, numba.extending.intrinsic)

I32, I64 = ir.IntType(32), ir.IntType(64)


def _host_features() -> set[str]:
    """The names of the target's vector extensions; NUMBA_CPU_FEATURES comes first."""
    chosen = getattr(config, "CPU_FEATURES", None)
    if chosen is not None:
        return {name[1:] for name in chosen.split(",") if name.startswith("+")}
    return {name for name, present in llvm.get_host_cpu_features().items() if present}


FEATURES = _host_features()
AVX512 = {"avx512f", "avx512dq"} <= FEATURES
VECTOR_BYTES = 64 if AVX512 else 32 if "avx2" in FEATURES else 16
# Vectors side by side in a block of the product. With 32 registers 6 x 4 sums fit, with AVX2's 16 6 x 2.
VECTORS = 2 if "avx2" in FEATURES and not AVX512 else 4
FLOAT_BYTES = {types.float32: 4, types.float64: 8}


def lanes_of(dtype: types.Type) -> int:
    return VECTOR_BYTES // FLOAT_BYTES[dtype]


class Vectors:
    """Writes the instructions for vectors of one dtype at the host's width."""

    def __init__(self, builder: ir.IRBuilder, dtype: types.Type):
        self.builder, self.lanes = builder, lanes_of(dtype)
        self.single = dtype == types.float32
        self.scalar = ir.FloatType() if self.single else ir.DoubleType()
        self.type = ir.VectorType(self.scalar, self.lanes)
        self.whole = ir.VectorType(I32 if self.single else I64, self.lanes)
        self.align = FLOAT_BYTES[dtype]
        self.suffix = f"v{self.lanes}f{8 * self.align}"

    def full(self, value: float) -> ir.Constant:
        return ir.Constant(self.type, [value] * self.lanes)

    def full_whole(self, value: int) -> ir.Constant:
        return ir.Constant(self.whole, [value] * self.lanes)

    def address(self, pointer, offset):
        return self.builder.gep(pointer, [offset])

    def load(self, pointer, offset):
        place = self.builder.bitcast(self.address(pointer, offset), self.type.as_pointer())
        return self.builder.load(place, align=self.align)

    def store(self, value, pointer, offset) -> None:
        place = self.builder.bitcast(self.address(pointer, offset), self.type.as_pointer())
        self.builder.store(value, place, align=self.align)

    def prefetch(self, pointer, offset) -> None:
        """Ask for the cache line there, which may lie beyond the array's end, ahead of its use."""
        byte = ir.IntType(8).as_pointer()
        signature = ir.FunctionType(ir.VoidType(), [byte, I32, I32, I32])
        place = self.builder.bitcast(self.address(pointer, offset), byte)
        function = cgutils.get_or_insert_function(self.builder.module, signature, "llvm.prefetch.p0")
        self.builder.call(function, [place, I32(0), I32(3), I32(1)])  # for reading, to keep, data

    def spread(self, scalar):
        """A vector with the same number in every lane."""
        blank = ir.Constant(ir.VectorType(scalar.type, self.lanes), ir.Undefined)
        mask = ir.Constant(ir.VectorType(I32, self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(self.builder.insert_element(blank, scalar, I32(0)), blank, mask)

    def exchange(self, a, b, step: int):
        """Two vectors whose blocks of `step` lanes have changed sides: a step of a transposition."""
        lanes = range(self.lanes)
        index = ir.VectorType(I32, self.lanes)
        low = [i + self.lanes - step if i & step else i for i in lanes]
        high = [i + self.lanes if i & step else i + step for i in lanes]
        shuffle = self.builder.shuffle_vector
        return shuffle(a, b, ir.Constant(index, low)), shuffle(a, b, ir.Constant(index, high))

    def sums_across(self, vectors):
        """The sum over the lanes of each of as many vectors as there are lanes, side by side."""
        step = self.lanes // 2
        while step:
            pairs = zip(vectors[:step], vectors[step:], strict=True)
            vectors = [self.builder.fadd(*self.exchange(a, b, step)) for a, b in pairs]
            step //= 2
        return vectors[0]

    def fma(self, a, b, c):
        signature = ir.FunctionType(self.type, [self.type] * 3)
        name = f"llvm.fma.{self.suffix}"
        return self.builder.call(
            cgutils.get_or_insert_function(self.builder.module, signature, name), [a, b, c]
        )

    def exp2(self, x):
        """2**x, relative error about 1e-7 (float32) or 1e-15; exactly 0 for -inf, NaN for NaN."""
        if AVX512:
            return self._exp2_avx512(x)
        return self._exp2_plain(x)

    def _polynomial(self, coefficients, r):
        value = self.full(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            value = self.fma(value, r, self.full(coefficient))
        return value

    def log2(self, x):
        """log2(x) for normal x > 0, relative error about 1e-7 (float32); NaN and infinity as they come."""
        builder = self.builder
        if not self.single:
            function = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(self.type, [self.type]), f"llvm.log2.{self.suffix}"
            )
            return builder.call(function, [x])
        # x = 2**n (1 + f) with 1 + f between sqrt(1/2) and sqrt(2)
        bits = builder.bitcast(x, self.whole)
        n = builder.ashr(builder.sub(bits, self.full_whole(0x3F3504F3)), self.full_whole(23))
        rest = builder.bitcast(builder.sub(bits, builder.shl(n, self.full_whole(23))), self.type)
        f = builder.fsub(rest, self.full(1.0))
        value = self.fma(self._polynomial(LOG2_OVER_F, f), f, builder.sitofp(n, self.type))
        finite = builder.fcmp_ordered("<", x, self.full(float("inf")))
        return builder.select(finite, value, x)

    def _exp2_plain(self, x):
        """2**n * 2**r with n = round(x): n is added to the exponent's bits.

        The well-known way to round, to add and subtract 1.5 * 2**23, is undone by the flag `reassoc`.
        """
        builder = self.builder
        bits, lowest = (23, -126.0) if self.single else (52, -1022.0)
        kind = ir.FunctionType(self.type, [self.type])
        rint = cgutils.get_or_insert_function(builder.module, kind, f"llvm.rint.{self.suffix}")
        n = builder.call(rint, [x])
        tiny = builder.fcmp_ordered("<", x, self.full(lowest))
        huge = builder.fcmp_ordered(">", x, self.full(1.0 - lowest))
        usual = builder.fcmp_ordered("<=", self._fabs(x), self.full(1.0 - lowest))  # not so for NaN
        whole = builder.fptosi(builder.select(usual, n, self.full(0.0)), self.whole)
        value = self._polynomial(EXP2_CENTRED[self.single], builder.fsub(x, n))
        power = builder.shl(whole, self.full_whole(bits))
        value = builder.bitcast(builder.add(builder.bitcast(value, self.whole), power), self.type)
        value = builder.select(tiny, self.full(0.0), value)
        return builder.select(huge, self.full(float("inf")), value)

    def _fabs(self, x):
        kind = ir.FunctionType(self.type, [self.type])
        name = f"llvm.fabs.{self.suffix}"
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), [x])

    def _exp2_avx512(self, x):
        """Two instructions made for it: `vreduce` gives x - floor(x), `vscalef` multiplies by 2**floor(x)."""
        builder = self.builder
        mask = ir.IntType(self.lanes)
        kind = f"{'ps' if self.single else 'pd'}.512"
        reduce = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(self.type, [self.type, I32, self.type, mask, I32]),
            f"llvm.x86.avx512.mask.reduce.{kind}",
        )
        scale = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(self.type, [*[self.type] * 3, mask, I32]),
            f"llvm.x86.avx512.mask.scalef.{kind}",
        )
        everywhere, current = ir.Constant(mask, -1), I32(4)
        r = builder.call(reduce, [x, I32(1), self.full(0.0), everywhere, current])  # 1: round down
        value = self._polynomial(EXP2_FROM_ZERO[self.single], r)
        return builder.call(scale, [value, x, self.full(0.0), everywhere, current])


_LN2 = 0.6931471805599453


def _taylor(centre: float, degree: int) -> list[float]:
    """Coefficients in r of 2**r around `centre`, for r in centre - 0.5 ... centre + 0.5."""
    around = np.polynomial.Polynomial([1.0])
    term = np.polynomial.Polynomial([1.0])
    for k in range(1, degree + 1):
        term = term * np.polynomial.Polynomial([-centre * _LN2, _LN2]) / k
        around = around + term
    return [float(c) for c in around.coef * 2.0**centre]


# Minimax in the relative error (7.5e-8, degree 5) for float32; float64 has Taylor's to degree 13.
EXP2_CENTRED = {
    True: [1.000000072, 0.6931469671, 0.2402211972, 0.05550713273, 0.009675541334, 0.001327647199],
    False: _taylor(0.0, 13),
}
EXP2_FROM_ZERO = {
    True: [0.9999999251, 0.6931530732, 0.240153617, 0.05582631805, 0.008989340091, 0.001877576675],
    False: _taylor(0.5, 13),
}
# log2(1 + f) / f, for 1 + f between sqrt(1/2) and sqrt(2), relative error 3e-8.
LOG2_OVER_F = [
    *(1.442695, -0.721347324, 0.480910856, -0.360705909, 0.287910042),
    *(-0.238888313, 0.215726121, -0.207688394, 0.126326084),
]


@intrinsic
def pointer(typingctx, array):
    """Where an array's first element lies. The array must be kept alive by the caller."""

    def codegen(context, builder, signature, args):
        return context.make_array(array)(context, builder, args[0]).data

    return types.CPointer(array.dtype)(array), codegen


@intrinsic
def ahead(typingctx, start, elements):
    """The pointer `elements` further on."""

    def codegen(context, builder, signature, args):
        return builder.gep(args[0], [args[1]])

    return start(start, types.intp), codegen


@intrinsic
def address(typingctx, start):
    """A pointer as a number."""

    def codegen(context, builder, signature, args):
        return builder.ptrtoint(args[0], I64)

    return types.intp(start), codegen


@intrinsic
def lanes(typingctx, start):
    """Numbers in one vector of the pointer's dtype."""
    width = lanes_of(start.dtype)
    return types.intp(start), lambda context, builder, signature, args: I64(width)


@intrinsic
def take_number(typingctx, counters, index):
    """counters[index] before it is raised by one: each caller, on whatever thread, gets its own number."""

    def codegen(context, builder, signature, args):
        start = context.make_array(counters)(context, builder, args[0]).data
        return builder.atomic_rmw("add", builder.gep(start, [args[1]]), I64(1), "acq_rel")

    return types.intp(counters, types.intp), codegen


@intrinsic
def read_number(typingctx, counters, index):
    """counters[index] as it is now in memory, though another thread may have changed it."""

    def codegen(context, builder, signature, args):
        start = context.make_array(counters)(context, builder, args[0]).data
        return builder.load_atomic(builder.gep(start, [args[1]]), "acquire", 8)

    return types.intp(counters, types.intp), codegen


def relax_in(builder) -> None:
    """Write the instruction that tells the processor that this thread waits in a loop."""
    processor = platform.machine().lower()
    if processor in ("x86_64", "amd64"):
        name, types_, values = "llvm.x86.sse2.pause", [], []
    elif processor in ("aarch64", "arm64"):
        name, types_, values = "llvm.aarch64.hint", [I32], [I32(1)]
    else:
        return
    kind = ir.FunctionType(ir.VoidType(), types_)
    builder.call(cgutils.get_or_insert_function(builder.module, kind, name), values)


def yield_in(builder) -> None:
    """Write the call that lets another thread have this core, if one waits for it."""
    name = {"Windows": "SwitchToThread", "Emscripten": None}.get(platform.system(), "sched_yield")
    if name is not None:
        kind = ir.FunctionType(I32, [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [])


@intrinsic
def relax(typingctx):
    """Tells the processor that this thread waits in a loop."""

    def codegen(context, builder, signature, args):
        relax_in(builder)
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def give_way(typingctx):
    """Lets another thread have this core, if one waits for it."""

    def codegen(context, builder, signature, args):
        yield_in(builder)
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def turn_square(typingctx, source, source_step, target, target_step, factor):
    """target[j, i] = factor * source[i, j] for a square of lanes x lanes, in registers.

    Rows half, a quarter, ... of the square apart exchange halves, quarters, ... (a butterfly).
    """
    dtype = source.dtype

    def codegen(context, builder, signature, args):
        source, source_step, target, target_step, factor = args
        write = Vectors(builder, dtype)
        size = write.lanes
        rows: list[Any] = [write.load(source, builder.mul(source_step, I64(i))) for i in range(size)]
        step = size // 2
        while step:
            for i in range(size):
                if i & step == 0:
                    rows[i], rows[i + step] = write.exchange(rows[i], rows[i + step], step)
            step //= 2
        spread = write.spread(factor)
        for i, row in enumerate(rows):
            write.store(builder.fmul(row, spread), target, builder.mul(target_step, I64(i)))
        return context.get_dummy_value()

    return types.void(source, types.intp, target, types.intp, dtype), codegen
