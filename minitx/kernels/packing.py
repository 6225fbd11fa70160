"""A model's weights in three arrays, in the order in which `decoder` reads them.

Attention and the MLP are each two products behind one another, and what lies between them belongs to single
heads and to single numbers of the MLP's inside. So both are cut into tasks: the rows of the first matrix that
make some heads, and the columns of the second that read them (Shoeybi et al. 2019, arXiv:1909.08053). A task
ends with a part of the whole sum. The second matrix is packed task by task, for each to read one stream.
"""

from dataclasses import dataclass, field

import numpy as np

from minitx.kernels.crew import THREADS
from minitx.kernels.decoder_numpy import GROUP, SWIGLU, Layer, Shape, Weights, check_shapes, checked
from minitx.kernels.panels import Store, interleaved, joined, padded, rows_of_panel

# The products of a step; the last one is the model's, the others a layer's.
QKV, OUT, UP, DOWN, HEAD = range(5)
# What belongs to a product: its matrix, its bias, and the norm before it.
MATRIX, BIAS, NORM, NORM_BIAS = range(4)

TASK = 1 << 20  # bytes of weights worth a task of their own
MOST_TASKS = 4  # for each thread: every one is a sum more to add up


@dataclass
class Packed:
    """What `step` reads.

    `numbers` are all matrices in panels, float or int8, `factors` those of int8, `vectors` everything
    else. places[layer, MATRIX ... NORM_BIAS, QKV ... HEAD] says where each begins, with the model's own
    in one layer more; `tokens`, `table`, `angles` and `slopes` say it for the rest. -1: there is none.

    The rows of QKV are those of one head of keys after another: its queries, its key, its value.
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
    attention_tasks: int  # 0: the heads do not divide among the threads
    mlp_tasks: int
    rooms: dict[tuple[int, int], list] = field(default_factory=dict)  # of `decoder`, for the next calls


def attention_tasks(shape: Shape, itemsize: int, rows: int) -> int:
    """Into how many equal tasks, as many for each thread, attention is cut; 0 if that cannot be."""
    group = shape.n_heads // shape.n_kv_heads
    size = 2 * (group + 1) * shape.n_kv_heads * shape.head_dim * shape.d_model * itemsize
    for each in range(_tasks_each(size), 0, -1):
        tasks = each * THREADS
        heads = shape.n_kv_heads // tasks * shape.head_dim
        if tasks == 1:
            return 1
        if shape.n_kv_heads % tasks == 0 and heads * group % GROUP == 0 and heads * (group + 2) % rows == 0:
            return tasks
    return 0


def mlp_tasks(shape: Shape, itemsize: int) -> int:
    """Into how many tasks the MLP is cut, each of whole groups of its inside's numbers."""
    matrices = 3 if shape.activation == SWIGLU else 2
    each = _tasks_each(matrices * shape.d_ff * shape.d_model * itemsize)
    return min(-(-shape.d_ff // GROUP), each * THREADS)


def _tasks_each(size: int) -> int:
    return max(1, min(MOST_TASKS, size // (TASK * THREADS)))


class _Packer:
    """Puts what belongs to one product after another in its place."""

    def __init__(self, shape: Shape, store: Store):
        self.shape, self.store = shape, store
        itemsize = store.numbers.itemsize
        self.attention_tasks = attention_tasks(shape, itemsize, store.rows)
        self.mlp_tasks = mlp_tasks(shape, itemsize)
        self.places = np.full((shape.n_layers + 1, 4, 5), -1, np.int64)
        self.vectors: list[np.ndarray] = []
        self.noted: list[tuple[int, ...]] = []  # for each of them, where in `places` it is noted

    def add(self, row: int, product: int, matrix: np.ndarray, *vectors: np.ndarray | None, cuts=(0,)) -> None:
        """The vectors are bias, norm and norm's bias, in this order; one that is None is 0.

        `cuts` are the columns with which a task's part of the matrix begins.
        """
        parts = [matrix[:, begin:end] for begin, end in zip(cuts, [*cuts[1:], None], strict=True)]
        starts = [self.store.add(part) for part in parts]
        self.places[row, MATRIX, product] = starts[0]
        sizes = (len(matrix), self.shape.d_model, self.shape.d_model)
        for what, size, vector in zip((BIAS, NORM, NORM_BIAS), sizes, vectors, strict=False):
            self.vectors.append(np.zeros(size, self.store.dtype) if vector is None else vector)
            self.noted.append((row, what, product))

    def add_layer(self, row: int, layer: Layer) -> None:
        shape, up, up_bias = self.shape, layer.up, layer.up_bias
        order = _by_heads(shape)
        qkv_bias = None if layer.qkv_bias is None else layer.qkv_bias[order]
        heads, groups = shape.n_heads * shape.head_dim, -(-shape.d_ff // GROUP)
        head_cuts = [task * heads // self.attention_tasks for task in range(self.attention_tasks)]
        cuts = [task * groups // self.mlp_tasks * GROUP for task in range(self.mlp_tasks)]
        if shape.activation == SWIGLU:
            up = interleaved(up, self.store.rows)
            up_bias = None if up_bias is None else interleaved(up_bias, self.store.rows)
        self.add(row, QKV, layer.qkv[order], qkv_bias, layer.attention_norm, layer.attention_norm_bias)
        self.add(row, OUT, layer.out, layer.out_bias, cuts=head_cuts or [0])
        self.add(row, UP, up, up_bias, layer.mlp_norm, layer.mlp_norm_bias)
        self.add(row, DOWN, layer.down, layer.down_bias, cuts=cuts)

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
        attention_tasks=packer.attention_tasks,
        mlp_tasks=packer.mlp_tasks,
    )


def _by_heads(shape: Shape) -> np.ndarray:
    """The rows of queries, keys and values, one head of keys after another."""
    heads, kv, d = shape.n_heads, shape.n_kv_heads, shape.head_dim
    rows = np.arange((heads + 2 * kv) * d)
    parts = rows[: heads * d], rows[heads * d : (heads + kv) * d], rows[(heads + kv) * d :]
    return np.concatenate([part.reshape(kv, -1) for part in parts], axis=1).ravel()


def _matrices_of(shape: Shape, weights: Weights) -> list[tuple[int, int]]:
    """The shapes of all matrices, as they are packed."""
    d, heads, kv = shape.d_model, shape.n_heads * shape.head_dim, shape.n_kv_heads * shape.head_dim
    rows = rows_of_panel(weights.tokens.dtype)
    up = 2 * padded(shape.d_ff, rows) if shape.activation == SWIGLU else shape.d_ff
    layer = [(heads + 2 * kv, d), (d, heads), (up, d), (d, shape.d_ff)]
    return layer * shape.n_layers + [(shape.vocab_size, d)] * (
        1 if weights.head is None or weights.head is weights.tokens else 2
    )
