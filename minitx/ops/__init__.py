"""The operations, one file a family. Importing this package fills the table `OPS`."""

from minitx.ops import (
    activations,
    arithmetic,
    attention,
    elementwise,
    loss,
    normalisation,
    positions,
    products,
    reductions,
    self_attention,
    shaping,
    softmax,
)
from minitx.ops.table import OPS, Op, Rule, define, define_joint, define_plain

__all__ = [
    "OPS",
    "Op",
    "Rule",
    "activations",
    "arithmetic",
    "attention",
    "define",
    "define_joint",
    "define_plain",
    "elementwise",
    "loss",
    "normalisation",
    "positions",
    "products",
    "reductions",
    "self_attention",
    "shaping",
    "softmax",
]
