"""Layer norm and RMS norm over the last axis."""

import numpy as np

from minitx.ops.table import define_joint


def layer_norm_forward(x, weight, bias, eps):
    """(x - mean) / sqrt(var + eps) * weight + bias; keeps mean and 1 / sqrt(var + eps)."""
    mean = x.mean(axis=-1, keepdims=True)
    centred = x - mean
    inverse = 1 / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + eps)
    out = centred * inverse
    out = out if weight is None else out * weight
    return (out if bias is None else out + bias), (mean, inverse)


def layer_norm_rule(grad, x, weight, kept):
    mean, inverse = kept
    normal = (x - mean) * inverse
    pull = grad if weight is None else grad * weight
    # A shift of x and a change of its scale leave the output as it is, so neither has a gradient.
    shift = pull.mean(axis=-1, keepdims=True)
    scale = (pull * normal).mean(axis=-1, keepdims=True)
    return inverse * (pull - shift - normal * scale), grad * normal, grad


def rms_norm_forward(x, weight, eps):
    """x / sqrt(mean(x^2) + eps) * weight; keeps 1 / sqrt(mean(x^2) + eps)."""
    inverse = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
    out = x * inverse
    return (out if weight is None else out * weight), inverse


def rms_norm_rule(grad, x, weight, kept):
    normal = x * kept
    pull = grad if weight is None else grad * weight
    scale = (pull * normal).mean(axis=-1, keepdims=True)
    return kept * (pull - normal * scale), grad * normal


define_joint("layer_norm", layer_norm_forward, "x weight bias", layer_norm_rule)
define_joint("rms_norm", rms_norm_forward, "x weight", rms_norm_rule)
