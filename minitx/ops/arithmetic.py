"""Arithmetic with broadcasting, comparisons and choice."""

import numpy as np

from minitx.ops.table import define, define_plain


def power_of(base: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    return base**exponent


def power_base_rule(grad, base, exponent):
    # At exponent 0 the slope is 0 even where base is 0, and 0 * 0**-1 would be NaN.
    lower = np.where(exponent == 0, 1, exponent - 1)
    return grad * exponent * base**lower


def power_exponent_rule(grad, base, out):
    # 0**y stays 0 for every y > 0, so its slope there is 0 where log(0) would give -inf.
    return grad * out * np.log(np.where(base == 0, 1, base))


define("add", np.add, a=lambda grad: grad, b=lambda grad: grad)
define("subtract", np.subtract, a=lambda grad: grad, b=lambda grad: -grad)
define("multiply", np.multiply, a=lambda grad, b: grad * b, b=lambda grad, a: grad * a)
define("divide", np.true_divide, a=lambda grad, b: grad / b, b=lambda grad, b, out: -grad * out / b)
define("negative", np.negative, x=lambda grad: -grad)
define("power", power_of, base=power_base_rule, exponent=power_exponent_rule)

define(
    "where",
    np.where,
    condition=None,
    a=lambda grad, condition: np.where(condition, grad, 0),
    b=lambda grad, condition: np.where(condition, 0, grad),
)

for name, compare in {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
}.items():
    define_plain(name, compare, "a b")
define_plain("logical_not", np.logical_not, "x")
