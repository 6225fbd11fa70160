"""A model's weights in three arrays, in the order in which `decoder` reads them."""

from dataclasses import dataclass

import numpy as np

from minitx.kernels.decoder_numpy import SWIGLU, Layer, Shape, Weights, check_shapes, checked
from minitx.kernels.panels import Store, interleaved, joined, padded, rows_of_panel

# The products of a step; the last one is the model's, the others a layer's.
QKV, OUT, UP, DOWN, HEAD = range(5)
# What belongs to a product: its matrix, its bias, and the norm before it.
MATRIX, BIAS, NORM, NORM_BIAS = range(4)


@dataclass
class Packed:
    """What `step` reads.

    `numbers` are all matrices in panels, float or int8, `factors` those of int8, `vectors` everything
    else. places[layer, MATRIX ... NORM_BIAS, QKV ... HEAD] says where each begins, with the model's own
    in one layer more; `tokens`, `table`, `angles` and `slopes` say it for the rest. -1: there is none.
    """

    shape: Shape
    eps: float
    numbers: np.ndarray
    factors: np.ndarray
    vectors: np.ndarray
    places: np.ndarray
    tokens: int
    table: int
    angles: int
    slopes: int
    rows: int  # of a panel
    step: int  # columns that a row of a matrix is padded to
    width: int  # columns of a row that lie side by side


class _Packer:
    """Puts what belongs to one product after another in its place."""

    def __init__(self, shape: Shape, store: Store):
        self.shape, self.store = shape, store
        self.places = np.full((shape.n_layers + 1, 4, 5), -1, np.int64)
        self.vectors: list[np.ndarray] = []
        self.noted: list[tuple[int, ...]] = []  # for each of them, where in `places` it is noted

    def add(self, row: int, product: int, matrix: np.ndarray, *vectors: np.ndarray | None) -> None:
        """The vectors are bias, norm and norm's bias, in this order; one that is None is 0."""
        self.places[row, MATRIX, product] = self.store.add(matrix)
        sizes = (len(matrix), self.shape.d_model, self.shape.d_model)
        for what, size, vector in zip((BIAS, NORM, NORM_BIAS), sizes, vectors, strict=False):
            self.vectors.append(np.zeros(size, self.store.dtype) if vector is None else vector)
            self.noted.append((row, what, product))

    def add_layer(self, row: int, layer: Layer) -> None:
        up, up_bias = layer.up, layer.up_bias
        if self.shape.activation == SWIGLU:
            up = interleaved(up, self.store.rows)
            up_bias = None if up_bias is None else interleaved(up_bias, self.store.rows)
        self.add(row, QKV, layer.qkv, layer.qkv_bias, layer.attention_norm, layer.attention_norm_bias)
        self.add(row, OUT, layer.out, layer.out_bias)
        self.add(row, UP, up, up_bias, layer.mlp_norm, layer.mlp_norm_bias)
        self.add(row, DOWN, layer.down, layer.down_bias)

    def join(self, extras: list[np.ndarray]) -> tuple[np.ndarray, list[int]]:
        """-> all vectors in one array, and where each of the extras begins in it, -1 for an empty one."""
        vectors, starts = joined([*self.vectors, *extras])
        for start, place in zip(starts, self.noted, strict=False):
            self.places[place] = start
        last = starts[len(self.noted) :]
        return vectors, [start if x.size else -1 for start, x in zip(last, extras, strict=True)]


def pack(shape: Shape, weights: Weights, int8: bool) -> Packed:
    """Copies of weights as this back-end's `step` wants them. `int8`: the matrices as in `quantise`.

    Raises ValueError where an array has not the shape that `shape` says.
    """
    check_shapes(shape, weights)
    dtype = weights.tokens.dtype
    store = Store(dtype, int8, _matrices_of(shape, weights))
    packer = _Packer(shape, store)
    for row, layer in enumerate(checked(shape, weights.layers)):
        packer.add_layer(row, layer)
    head = weights.tokens if weights.head is None else weights.head
    packer.add(shape.n_layers, HEAD, head, None, weights.norm, weights.norm_bias)
    tied = head is weights.tokens
    tokens = packer.places[shape.n_layers, MATRIX, HEAD] if tied else store.add(weights.tokens)
    extras = [np.zeros(0, dtype) if x is None else x for x in (weights.table, weights.angles, weights.slopes)]
    vectors, (table, angles, slopes) = packer.join(extras)
    return Packed(
        shape=shape,
        eps=weights.eps,
        numbers=store.numbers,
        factors=store.factors,
        vectors=vectors,
        places=packer.places,
        tokens=int(tokens),
        table=table,
        angles=angles,
        slopes=slopes,
        rows=store.rows,
        step=store.step,
        width=store.width,
    )


def _matrices_of(shape: Shape, weights: Weights) -> list[tuple[int, int]]:
    """The shapes of all matrices, as they are packed."""
    d, heads, kv = shape.d_model, shape.n_heads * shape.head_dim, shape.n_kv_heads * shape.head_dim
    rows = rows_of_panel(weights.tokens.dtype)
    up = 2 * padded(shape.d_ff, rows) if shape.activation == SWIGLU else shape.d_ff
    layer = [(heads + 2 * kv, d), (d, heads), (up, d), (d, shape.d_ff)]
    return layer * shape.n_layers + [(shape.vocab_size, d)] * (
        1 if weights.head is None or weights.head is weights.tokens else 2
    )
