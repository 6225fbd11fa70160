"""Layer norm and RMS norm over the last axis."""

from minitx import kernels
from minitx.ops.table import define_joint, floats


def layer_norm_forward(x, weight, bias, eps):
    """(x - mean) / sqrt(var + eps) * weight + bias; keeps mean and 1 / sqrt(var + eps)."""
    x, weight, bias = floats(x, weight, bias)
    out, mean, inverse = kernels.family("layers").norm_forward(x, weight, bias, eps, True)
    return out, (mean, inverse)


def layer_norm_rule(grad, x, weight, kept):
    x, weight = floats(x, weight, like=grad)
    return kernels.family("layers").norm_backward(grad, x, weight, *kept)


def rms_norm_forward(x, weight, eps):
    """x / sqrt(mean(x^2) + eps) * weight; keeps 1 / sqrt(mean(x^2) + eps)."""
    x, weight = floats(x, weight)
    out, _, inverse = kernels.family("layers").norm_forward(x, weight, None, eps, False)
    return out, inverse


def rms_norm_rule(grad, x, weight, kept):
    x, weight = floats(x, weight, like=grad)
    return kernels.family("layers").norm_backward(grad, x, weight, None, kept)[:2]


define_joint("layer_norm", layer_norm_forward, "x weight bias", layer_norm_rule)
define_joint("rms_norm", rms_norm_forward, "x weight", rms_norm_rule)
