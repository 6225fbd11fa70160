"""Layers: modules that hold parameters and call the functions of `minitx.functional`."""

from minitx.nn.attention import MultiHeadAttention
from minitx.nn.blocks import MLP, Block, SwiGLU
from minitx.nn.linear import Embedding, Linear
from minitx.nn.module import Module, Parameter
from minitx.nn.norms import Dropout, LayerNorm, RMSNorm
from minitx.nn.positions import ALiBi, LearnedPositions, Positions, RotaryPositions, SinusoidalPositions

__all__ = [
    "MLP",
    "ALiBi",
    "Block",
    "Dropout",
    "Embedding",
    "LayerNorm",
    "LearnedPositions",
    "Linear",
    "Module",
    "MultiHeadAttention",
    "Parameter",
    "Positions",
    "RMSNorm",
    "RotaryPositions",
    "SinusoidalPositions",
    "SwiGLU",
]
