"""The NumPy twin of `decoder`: one token of every row through a whole model; and what both take.

The step of a pre-norm causal model (Radford et al. 2019; Touvron et al. 2023) for the token at position p,
behind a cache of p keys and values:

    x = tokens[id] + table[p]
    in each layer:  q, k, v = qkv norm(x); q and k turned by p; k, v appended
                    x += out attention(q, keys, values)
                    x += down f(up norm(x)),  or  down (silu(gate norm(x)) * up norm(x))
    logits = head norm(x)
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from minitx.errors import shape_error
from minitx.kernels import layers_numpy, rope_numpy

RELU, GELU_TANH, GELU, SWIGLU = range(4)
STRAIGHT, HALF, INTERLEAVED = range(3)
GROUP = 64  # columns of a row that share a factor when weights are int8


class Shape(NamedTuple):
    """The sizes and choices of a model, as numbers that a kernel can read."""

    n_layers: int
    d_model: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    d_ff: int
    vocab_size: int
    context: int  # positions of the table and of the angles
    centred: bool  # layer norm; else RMS norm
    activation: int  # RELU, GELU_TANH, GELU or SWIGLU
    rotary: int  # STRAIGHT (none), HALF or INTERLEAVED


class Layer(NamedTuple):
    """The weights of a block; matrices are (out, in), and a bias or a norm's bias may be None."""

    attention_norm: np.ndarray
    attention_norm_bias: np.ndarray | None
    qkv: np.ndarray  # queries, keys and values one below the other
    qkv_bias: np.ndarray | None
    out: np.ndarray
    out_bias: np.ndarray | None
    mlp_norm: np.ndarray
    mlp_norm_bias: np.ndarray | None
    up: np.ndarray  # SWIGLU: the gate's rows, and below them those of up
    up_bias: np.ndarray | None
    down: np.ndarray
    down_bias: np.ndarray | None


@dataclass
class Weights:
    """All weights of a model, of one dtype. The layers may be made one by one while they are packed."""

    tokens: np.ndarray  # (vocab_size, d_model)
    layers: Iterable[Layer]
    norm: np.ndarray
    norm_bias: np.ndarray | None
    head: np.ndarray | None = None  # (vocab_size, d_model); None: tokens
    table: np.ndarray | None = None  # (context, d_model), added by position
    angles: np.ndarray | None = None  # (context, 2, head_dim / 2), of `rope.table`
    slopes: np.ndarray | None = None  # (n_heads,), of ALiBi
    eps: float = 1e-5


def check_shapes(shape: Shape, weights: Weights) -> None:
    """Raise ValueError where an array outside the layers has not the shape that `shape` says."""
    half, whole = shape.head_dim // 2, (shape.vocab_size, shape.d_model)
    _check("tokens", weights.tokens, whole)
    _check("head", weights.head, whole)
    _check("norm", weights.norm, (shape.d_model,))
    _check("norm_bias", weights.norm_bias, (shape.d_model,))
    _check("table", weights.table, (shape.context, shape.d_model))
    _check("angles", weights.angles, (shape.context, 2, half))
    _check("slopes", weights.slopes, (shape.n_heads,))
    if (weights.angles is None) != (shape.rotary == STRAIGHT):
        raise ValueError("angles belong to rotary positions: one of the two is missing.")


def checked(shape: Shape, layers: Iterable[Layer]) -> Iterable[Layer]:
    """The layers one by one. Raises ValueError for one of a wrong shape, and for too few or too many."""
    d, heads, kv = shape.d_model, shape.n_heads * shape.head_dim, shape.n_kv_heads * shape.head_dim
    up = 2 * shape.d_ff if shape.activation == SWIGLU else shape.d_ff
    sizes = {"qkv": (heads + 2 * kv, d), "out": (d, heads), "up": (up, d), "down": (d, shape.d_ff)}
    number = -1
    for number, layer in enumerate(layers):
        if number < shape.n_layers:
            for name, array in layer._asdict().items():
                wanted = sizes.get(name) or sizes.get(name.removesuffix("_bias"), (d,))[:1]
                _check(f"layers[{number}].{name}", array, wanted)
            yield layer
    if number + 1 != shape.n_layers:
        raise ValueError(f"There must be {shape.n_layers} layers, got {number + 1}.")


def _check(name: str, array: np.ndarray | None, wanted: tuple[int, ...]) -> None:
    if array is not None and array.shape != wanted:
        raise shape_error(name, str(wanted), array.shape)


def quantise(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """-> int8 (out, columns), and factors (out, columns / GROUP) of the matrix's dtype, whose product it is.

    Columns are padded with 0 to a multiple of GROUP. A group's largest number becomes +-127, so that no
    weight is off by more than half a factor. Raises ValueError where a number is not finite.
    """
    rows, columns = matrix.shape
    wide = np.zeros((rows, -(-columns // GROUP) * GROUP), matrix.dtype)
    wide[:, :columns] = matrix
    groups = wide.reshape(rows, -1, GROUP)
    factors = np.abs(groups).max(axis=2) / matrix.dtype.type(127)
    if not np.isfinite(factors).all():
        raise ValueError("int8 weights need finite numbers, and there is a NaN or an infinity among them.")
    smallest = np.finfo(matrix.dtype).tiny
    whole = np.rint(groups / np.maximum(factors, smallest)[:, :, None])
    return np.clip(whole, -127, 127).astype(np.int8).reshape(wide.shape), factors


def rounded(matrix: np.ndarray) -> np.ndarray:
    """The matrix as its int8 form means it."""
    whole, factors = quantise(matrix)
    products = whole.astype(matrix.dtype) * np.repeat(factors, GROUP, axis=1)
    return products[:, : matrix.shape[1]]


MATRICES = ("tokens", "qkv", "out", "up", "down", "head")


@dataclass
class Packed:
    """What `step` reads: the weights themselves."""

    shape: Shape
    weights: Weights


def pack(shape: Shape, weights: Weights, int8: bool) -> Packed:
    """Copies of weights as this back-end's `step` wants them. `int8`: the matrices as in `quantise`.

    Raises ValueError where an array has not the shape that `shape` says.
    """
    check_shapes(shape, weights)

    def copy(name: str, array: Any) -> Any:
        if array is None:
            return None
        return rounded(array) if int8 and name in MATRICES else np.array(array)

    copies = {
        name: copy(name, array) for name, array in vars(weights).items() if name not in ("layers", "eps")
    }
    layers = [
        Layer(**{name: copy(name, array) for name, array in layer._asdict().items()})
        for layer in checked(shape, weights.layers)
    ]
    return Packed(shape, Weights(**copies, layers=layers, eps=weights.eps))


def step(
    packed: Packed, ids: np.ndarray, keys: np.ndarray, values: np.ndarray, lengths: np.ndarray
) -> np.ndarray:
    """-> logits (B, vocab_size) of the token after ids (B,), which stand at positions lengths (B,).

    Writes the new keys and values (n_layers, B, Hkv, capacity, head_dim) behind each row's length, and
    does not raise it. Everything is of the weights' dtype; shapes, ids and room are the caller's to check.
    """
    shape, weights = packed.shape, packed.weights
    x = weights.tokens[ids]
    if weights.table is not None:
        x = x + weights.table[lengths]
    for number, layer in enumerate(weights.layers):
        h = _norm(x, layer.attention_norm, layer.attention_norm_bias, shape, weights)
        new = _linear(h, layer.qkv, layer.qkv_bias)
        heads = _attend(packed, new, keys[number], values[number], lengths)
        x = x + _linear(heads, layer.out, layer.out_bias)
        h = _norm(x, layer.mlp_norm, layer.mlp_norm_bias, shape, weights)
        h = _activate(shape.activation, _linear(h, layer.up, layer.up_bias))
        x = x + _linear(h, layer.down, layer.down_bias)
    head = weights.tokens if weights.head is None else weights.head
    return _norm(x, weights.norm, weights.norm_bias, shape, weights) @ head.T


def _norm(x, weight, bias, shape: Shape, weights: Weights) -> np.ndarray:
    return layers_numpy.norm_forward(x, weight, bias, weights.eps, shape.centred)[0]


def _linear(x, matrix, bias) -> np.ndarray:
    out = x @ matrix.T
    return out if bias is None else out + bias


def _activate(kind: int, x: np.ndarray) -> np.ndarray:
    if kind == RELU:
        return np.maximum(x, x.dtype.type(0))
    if kind == SWIGLU:
        gate, up = np.split(x, 2, axis=1)
        with np.errstate(over="ignore"):
            return gate / (1 + np.exp(-gate)) * up
    return layers_numpy.gelu_forward(x, kind == GELU)


def _attend(packed: Packed, new, keys, values, lengths) -> np.ndarray:
    """new (B, (H + 2 Hkv) head_dim) -> the heads' outputs (B, H head_dim); writes to keys and values."""
    shape, weights = packed.shape, packed.weights
    batch, d = len(new), shape.head_dim
    split = new.reshape(batch, -1, 1, d)
    q, k, v = np.split(split, [shape.n_heads, shape.n_heads + shape.n_kv_heads], axis=1)
    if weights.angles is not None:
        turn = weights.angles, lengths[:, None], shape.rotary == INTERLEAVED, False
        q, k = rope_numpy.rotate(q, *turn), rope_numpy.rotate(k, *turn)
    out = np.empty((batch, shape.n_heads, d), new.dtype)
    group = shape.n_heads // shape.n_kv_heads
    for b, p in enumerate(lengths):
        keys[b, :, p], values[b, :, p] = k[b, :, 0], v[b, :, 0]
        seen = np.repeat(keys[b, :, : p + 1], group, axis=0)  # (H, p + 1, d)
        scores = (seen @ q[b].swapaxes(1, 2))[:, :, 0] * new.dtype.type(d**-0.5)
        if weights.slopes is not None:
            scores = scores + weights.slopes[:, None] * np.arange(-p, 1, dtype=new.dtype)
        mix = layers_numpy.softmax_forward(scores)
        out[b] = (mix[:, None] @ np.repeat(values[b, :, : p + 1], group, axis=0))[:, 0]
    return out.reshape(batch, -1)
