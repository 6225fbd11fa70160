"""Elementary functions of one number that LLVM can run in all lanes of a vector at once.

`math.exp` and `math.erf` are calls into the C library, one number at a time, and `if x > top` keeps its
branch because of NaN. What stands here is made of multiply-adds, a rounding and integer shifts, so a plain
loop around it vectorises, at whatever width the host has. NaN and infinity come out as in NumPy.
"""

import math
from fractions import Fraction

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from minitx.kernels.compiler import compiled
from minitx.kernels.simd import I32, I64, VECTOR_BYTES, intrinsic

LOG2_E = 1.4426950408889634
# ln 2 in two parts. The first has few enough bits that its product with a whole number is exact in float32.
LN_2_HIGH = 0.693359375
LN_2_LOW = -2.1219444005469057e-4
SQRT_HALF = 0.7071067811865476
DENSITY_AT_0 = 0.3989422804014327  # 1 / sqrt(2 pi)
FARTHEST = 26.0  # erfc(27) is no longer a normal float64


def _scaled_erfc(size: float) -> float:
    """erfc(size) exp(size^2). The rounding of size^2, which exp would magnify, is put back."""
    square = size * size
    lost = float(Fraction(size) ** 2 - Fraction(square))
    return math.erfc(size) * math.exp(square) * (1 + lost)


def _fitted(function, low: float, high: float, degree: int) -> list[float]:
    """Coefficients in s = -1 ... 1, which stands for low ... high, interpolated at Chebyshev's nodes."""

    def values(places):
        return np.array([function(float(place)) for place in places])

    series = np.polynomial.Chebyshev.interpolate(values, degree, domain=[low, high])
    return [float(c) for c in np.polynomial.chebyshev.cheb2poly(series.coef)]


TAIL_LOW = 2 / (2 + FARTHEST)

# {name: (for float64, for float32)}
POLYNOMIALS = {
    "exp": tuple([1 / math.factorial(k) for k in range(degree + 1)] for degree in (12, 7)),
    "tail": tuple(
        _fitted(lambda t: 0.5 * _scaled_erfc(2 / t - 2), TAIL_LOW, 1.0, degree) for degree in (23, 10)
    ),
}


def _call(builder, name: str, arguments):
    """LLVM's own function of that name for float or double, which stays one when lanes are put together."""
    kind = arguments[0].type
    suffix = "f32" if kind == ir.FloatType() else "f64"
    signature = ir.FunctionType(kind, [kind] * len(arguments))
    function = cgutils.get_or_insert_function(builder.module, signature, f"llvm.{name}.{suffix}")
    return builder.call(function, arguments)


@intrinsic
def use_full_vectors(typingctx):
    """Called anywhere in a function, makes its loops use the host's whole vectors.

    LLVM keeps to half of them on processors with AVX-512, some of which slow down at first use; for loops of
    many multiply-adds a number they pay.
    """

    def codegen(context, builder, signature, args):
        # llvmlite's own `add` of this set knows only attributes without a value.
        set.add(builder.function.attributes, f'"prefer-vector-width"="{8 * VECTOR_BYTES}"')
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def larger(typingctx, a, b):
    """The larger of two numbers, NaN if one of them is: a loop's maximum that vectorises."""
    return a(a, a), lambda context, builder, signature, args: _call(builder, "maximum", args)


@intrinsic
def fma(typingctx, a, b, c):
    """a b + c, rounded once where the host has the instruction, and a product and a sum elsewhere."""
    return a(a, a, a), lambda context, builder, signature, args: _call(builder, "fma", args)


class _NoFlags(set):
    """An instruction's flags, to which Numba cannot add its fastmath."""

    def add(self, flag):
        """Leaves the set empty."""


@intrinsic
def exact_fma(typingctx, a, b, c):
    """a b + c, rounded once on every host.

    `fma` carries `contract` and `reassoc` as everything does: a host without the instruction makes a product
    and a sum of it. Here such a host calls the C library, one number at a time.
    """

    def codegen(context, builder, signature, args):
        result = _call(builder, "fma", args)
        result.fastmath = _NoFlags()
        return result

    return a(a, a, a), codegen


@intrinsic(prefer_literal=True)
def polynomial(typingctx, name, x):
    """The polynomial POLYNOMIALS[name] at x, by Horner's rule."""
    coefficients = POLYNOMIALS[name.literal_value][x == types.float32]

    def codegen(context, builder, signature, args):
        value = args[1].type(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            value = _call(builder, "fma", [value, args[1], args[1].type(coefficient)])
        return value

    return x(name, x), codegen


@intrinsic
def scaled(typingctx, value, n):
    """value 2**n for a whole number n, added to the exponent's bits; the result must be a normal number.

    Two products with powers of two would do, but `reassoc` may take the powers first, and 2**128 is beyond
    float32. The sum of n and a large number has n in its lowest bits.
    """
    magic, bits, whole = (1.5 * 2**23, 23, I32) if n == types.float32 else (1.5 * 2**52, 52, I64)

    def codegen(context, builder, signature, args):
        value, power = args
        shift = builder.bitcast(builder.fadd(power, power.type(magic)), whole)
        moved = builder.add(builder.bitcast(value, whole), builder.shl(shift, whole(bits)))
        return builder.bitcast(moved, value.type)

    return value(value, n), codegen


@compiled()
def exp(x):
    """e**x, relative error 1e-7 (float32) or 5e-16; 0 where it is below the normal numbers."""
    number = type(x)
    n = np.rint(x * number(LOG2_E))
    r = fma(n, number(-LN_2_HIGH), x)
    r = fma(n, number(-LN_2_LOW), r)
    value = scaled(polynomial("exp", r), n)
    single = number(1e-50) == 0
    value = number(0) if x < (number(-87.3) if single else number(-708.3)) else value
    # Beyond the end, x + inf is infinity, and NaN where x is.
    return value if x <= (number(88.72) if single else number(709.78)) else x + number(np.inf)


@compiled()
def normal(x):
    """(Phi(x), phi(x)): the normal distribution and its density exp(-x^2 / 2) / sqrt(2 pi).

    Phi(-|x|) = exp(-x^2 / 2) g(t) with t = 2 / (2 + |x| / sqrt(2)) and g(t) = exp(a^2) erfc(a) / 2 smooth, so
    the tail is right in its digits, however far out; relative error 5e-7 or 2e-14.
    """
    number = type(x)
    far = number(FARTHEST / SQRT_HALF)
    size = far if abs(x) > far else abs(x)
    t = number(2 / SQRT_HALF) / (number(2 / SQRT_HALF) + size)
    s = fma(t, number(2 / (1 - TAIL_LOW)), number(-(1 + TAIL_LOW) / (1 - TAIL_LOW)))
    square = x * x
    lost = exact_fma(x, x, -square)  # what rounding took from x^2: exp would magnify it
    bell = exp(number(-0.5) * square)
    bell = fma(bell, number(-0.5) * lost, bell) if square < number(1e4) else bell
    tail = bell * polynomial("tail", s)
    return (number(1) - tail if x > 0 else tail), bell * number(DENSITY_AT_0)
