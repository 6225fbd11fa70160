"""One token of every row through a whole model in one compiled call. See `decoder_numpy` for the model.

At batch 1 every weight is read once for one multiply-add, so the speed is that of memory: matrices lie in
the order in which they are read (`panels`, `matvec`). What stands between two products is so little that
every worker does it again for itself (norms, putting the parts of attention together) in place of waiting
for another one to have done it. What is left are phases (`phases`) with all workers meeting between them:

    embed | in each layer: qkv | append and attend | out | up | down | head
"""

import numpy as np

from minitx.kernels.compiler import compiled
from minitx.kernels.crew import THREADS, share, shared
from minitx.kernels.decoder_attention import attend, combine
from minitx.kernels.decoder_numpy import GROUP, SWIGLU
from minitx.kernels.matvec import multiply_panels
from minitx.kernels.packing import BIAS, DOWN, HEAD, MATRIX, NORM, NORM_BIAS, OUT, QKV, UP, Packed, pack
from minitx.kernels.panels import padded
from minitx.kernels.phases import counters, finish, take
from minitx.kernels.pointwise import activate, add_rows, normalise
from minitx.kernels.rows import CHUNK as KEYS
from minitx.kernels.simd import ahead, pointer
from minitx.kernels.tiles import scratch

__all__ = ["pack", "step"]

CHUNK = 1 << 16  # bytes of weights worth a chunk of their own
PARALLEL_FROM = 1 << 18  # bytes of weights below which a second thread comes too late


def step(packed, ids, keys, values, lengths):
    """-> logits (B, vocab_size) of the token after ids (B,), which stand at positions lengths (B,).

    Writes the new keys and values (n_layers, B, Hkv, capacity, head_dim) behind each row's length, and
    does not raise it. Everything is of the weights' dtype; shapes, ids and room are the caller's to check.
    """
    shape, dtype, batch = packed.shape, packed.vectors.dtype, len(ids)
    workers = THREADS if packed.numbers.nbytes >= PARALLEL_FROM else 1
    logits = np.empty((batch, padded(shape.vocab_size, packed.rows)), dtype)
    share(
        step_tasks,
        workers,
        shape,
        (packed.rows, packed.step, packed.width, dtype.type(packed.eps)),
        (packed.numbers, packed.factors, packed.vectors, packed.places),
        (packed.tokens, packed.table, packed.angles, packed.slopes),
        ids,
        (keys, values, lengths),
        _room(packed, batch, workers),
        counters(5 * shape.n_layers + 2, workers),
        logits,
    )
    return logits[:, : shape.vocab_size]


def _room(packed: Packed, batch: int, workers: int) -> tuple[np.ndarray, ...]:
    """What workers share during a call: x, sums of products, the MLP's inside, and the parts of attention.

    Rows end with zeros, since products run over whole vectors.
    """
    shape, dtype = packed.shape, packed.vectors.dtype
    heads, d, tasks = shape.n_heads, shape.head_dim, batch * shape.n_kv_heads
    widest = max((heads + 2 * shape.n_kv_heads) * d, 2 * padded(shape.d_ff, GROUP), shape.d_model)
    # Where the heads do not divide among the workers, each is cut into parts that do.
    parts = workers if tasks % workers and tasks < 8 * workers else 1
    return (
        np.zeros((batch, padded(shape.d_model, GROUP)), dtype),
        np.empty((batch, padded(widest, GROUP)), dtype),
        np.zeros((batch, padded(shape.d_ff, GROUP)), dtype),
        np.empty((batch, heads, parts, d), dtype),
        np.empty((batch, heads, parts), dtype),
        np.empty((batch, heads, parts), dtype),
    )


@shared()
def step_tasks(deal, shape, layout, weights, starts, ids, cache, room, progress, logits):
    """All phases, for one worker. The tuples are those of `step`."""
    worker, workers = deal[0], deal[1].size
    turn, x = (progress, worker, workers), room[0]
    own = (_zeros(x.shape[0], shape.d_model, x), _zeros(x.shape[0], shape.n_heads * shape.head_dim, x))
    space = (scratch(shape.n_heads // shape.n_kv_heads * shape.head_dim, x), scratch(KEYS, x))
    _embed(turn, shape, layout, weights, starts, ids, cache[2], x)
    phase = 1
    for layer in range(shape.n_layers):
        _multiply(turn, phase, np.intp(QKV), layer, shape, layout, weights, room, own, logits)
        _attend(turn, phase + 1, layer, shape, weights, starts, cache, room, space)
        _multiply(turn, phase + 2, np.intp(OUT), layer, shape, layout, weights, room, own, logits)
        _multiply(turn, phase + 3, np.intp(UP), layer, shape, layout, weights, room, own, logits)
        _multiply(turn, phase + 4, np.intp(DOWN), layer, shape, layout, weights, room, own, logits)
        phase += 5
    _multiply(turn, phase, np.intp(HEAD), shape.n_layers, shape, layout, weights, room, own, logits)


@compiled()
def _wide(size):
    """`size` rounded up to whole groups."""
    return (size + GROUP - 1) // GROUP * GROUP


@compiled()
def _zeros(batch, size, like):
    array = scratch(batch * _wide(size), like)
    array[:] = 0
    return array.reshape(batch, _wide(size))


@compiled()
def _embed(turn, shape, layout, weights, starts, ids, lengths, x):
    """x[b] = tokens[ids[b]] + table[lengths[b]], a row a chunk."""
    progress, worker, workers = turn
    rows, step, width, _ = layout
    numbers, factors, vectors, _ = weights
    number, inner, done = x.dtype.type, (shape.d_model + step - 1) // step * step, 0
    while True:
        b = take(progress, 0, worker, workers, ids.size)
        if b < 0:
            break
        panel, r = ids[b] // rows, ids[b] % rows
        start = starts[0] + panel * rows * inner
        for c in range(shape.d_model):
            value = number(numbers[start + c // width * rows * width + r * width + c % width])
            if factors.size > 1:
                value *= factors[start // GROUP + c // GROUP * rows + r]
            if starts[1] >= 0:
                value += vectors[starts[1] + lengths[b] * shape.d_model + c]
            x[b, c] = value
        done += 1
    finish(progress, 0, workers, ids.size, done)


@compiled()
def _attend(turn, phase, layer, shape, weights, starts, cache, room, space):
    """New keys and values into the cache, and every head over what it holds."""
    progress, worker, workers = turn
    _, sums, _, gathered, tops, totals = room
    _, _, vectors, places = weights
    _, _, angles, slopes = starts
    tasks, done = sums.shape[0] * shape.n_kv_heads * tops.shape[2], 0
    extras = (places[layer, BIAS, QKV], angles, slopes)
    while True:
        task = take(progress, phase, worker, workers, tasks)
        if task < 0:
            break
        attend(task, shape, layer, extras, vectors, sums, cache, space, (gathered, tops, totals))
        done += 1
    finish(progress, phase, workers, tasks, done)


@compiled()
def _multiply(turn, phase, product, layer, shape, layout, weights, room, own, logits):
    """One of the products, with the norm before it and what is done to its rows after it."""
    progress, worker, workers = turn
    rows, step, _, _ = layout
    numbers, factors, _, places = weights
    x, sums, inside, gathered, tops, totals = room
    h, heads = own
    height, columns = _size_of(product, shape, rows)
    together = 2 if product == UP and shape.activation == SWIGLU else 1  # panels: gate and up
    units, inner = (height + rows - 1) // rows // together, (columns + step - 1) // step * step
    chunks = _chunks_of(units, together * rows * inner * numbers.itemsize, workers)
    source = inside if product == DOWN else heads if product == OUT else h
    target = logits if product == HEAD else sums
    done = 0
    while True:
        chunk = take(progress, phase, worker, workers, chunks)
        if chunk < 0:
            break
        if done == 0:
            if product == OUT:
                combine((gathered, tops, totals), shape, heads)
            elif product != DOWN:
                _normalise(product, layer, shape, layout, weights, x, h)
        first, last = chunk * units // chunks * together, (chunk + 1) * units // chunks * together
        start = places[layer, MATRIX, product] + first * rows * inner
        multiply_panels(
            ahead(pointer(numbers), start),
            ahead(pointer(factors), start // GROUP),
            last - first,
            inner,
            pointer(source),
            source.shape[1],
            source.shape[0],
            ahead(pointer(target), first * rows),
            target.shape[1],
        )
        _after(product, layer, shape, rows, first * rows // together, last * rows // together, weights, room)
        done += 1
    finish(progress, phase, workers, chunks, done)


@compiled()
def _size_of(product, shape, rows):
    """Rows and columns of a product's matrix."""
    heads = shape.n_heads * shape.head_dim
    if product == QKV:
        return heads + 2 * shape.n_kv_heads * shape.head_dim, shape.d_model
    if product == OUT:
        return shape.d_model, heads
    if product == UP:
        whole = (shape.d_ff + rows - 1) // rows * rows
        return (2 * whole if shape.activation == SWIGLU else shape.d_ff), shape.d_model
    if product == DOWN:
        return shape.d_model, shape.d_ff
    return shape.vocab_size, shape.d_model


@compiled()
def _chunks_of(units, size, workers):
    """In how many chunks to deal so many units of `size` bytes: as many for each worker, if they suffice."""
    return max(1, min(units, max(1, units * size // CHUNK // workers) * workers))


@compiled()
def _normalise(product, layer, shape, layout, weights, x, h):
    """h = the norm before this product, of all rows."""
    _, _, vectors, places = weights
    weight, bias = places[layer, NORM, product], places[layer, NORM_BIAS, product]
    for b in range(x.shape[0]):
        normalise(x, b, shape.d_model, vectors, weight, bias, layout[3], shape.centred, h)


@compiled()
def _after(product, layer, shape, rows, begin, end, weights, room):
    """What is done to the sums of these rows: added to x, or through the MLP's function."""
    _, _, vectors, places = weights
    x, sums, inside, _, _, _ = room
    bias = places[layer, BIAS, product]
    for b in range(x.shape[0]):
        if product in (OUT, DOWN):
            add_rows(sums, b, begin, end, vectors, bias, x)
        elif product == UP:
            activate(shape.activation, sums, b, begin, end, rows, vectors, bias, inside)
