"""Layers: modules that hold parameters and call the functions of `minitx.functional`."""

from minitx.nn.linear import Embedding, Linear
from minitx.nn.module import Module, Parameter
from minitx.nn.norms import Dropout, LayerNorm, RMSNorm

__all__ = ["Dropout", "Embedding", "LayerNorm", "Linear", "Module", "Parameter", "RMSNorm"]
