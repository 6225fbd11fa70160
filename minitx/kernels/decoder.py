"""One token of every row through a whole model in one compiled call. See `decoder_numpy` for the model.

At batch 1 every weight is read once for one multiply-add, so the speed is that of memory: matrices lie in
the order in which they are read (`panels`, `matvec`). A small model's step is over before two threads have
met many times, so there are few phases (`phases`) with all workers meeting between them:

    in each layer: qkv, append, attend and out | up and down | ... | head

Each task of a phase ends with a part of the whole sum (`packing`). Where the heads do not divide among the
threads, attention takes three phases: qkv | append and attend | out.

What stands between two phases is so little that every worker does it again for itself: x of the phase before
plus the parts that its tasks have left, and the norm. One of them keeps x for the next phase; x and parts lie
in two places that are used by turns, since some worker may still read one while the other is written.
"""

from typing import Any

import numpy as np

from minitx.kernels.compiler import compiled
from minitx.kernels.crew import THREADS, share, shared
from minitx.kernels.decoder_attention import attend, combine
from minitx.kernels.decoder_numpy import GROUP, SWIGLU
from minitx.kernels.matvec import multiply_panels
from minitx.kernels.packing import BIAS, DOWN, HEAD, MATRIX, NORM, NORM_BIAS, OUT, QKV, UP, Packed, pack
from minitx.kernels.panels import padded
from minitx.kernels.phases import counters, finish, take
from minitx.kernels.pointwise import activate, add_up, normalise
from minitx.kernels.rows import CHUNK as KEYS
from minitx.kernels.simd import ahead, pointer
from minitx.kernels.tiles import scratch

__all__ = ["pack", "step"]

CHUNK = 1 << 18  # bytes of weights worth a chunk of their own
PARALLEL_FROM = 1 << 18  # bytes of weights below which a second thread comes too late


def step(packed, ids, keys, values, lengths):
    """-> logits (B, vocab_size) of the token after ids (B,), which stand at positions lengths (B,).

    Writes the new keys and values (n_layers, B, Hkv, capacity, head_dim) behind each row's length, and
    does not raise it. Everything is of the weights' dtype; shapes, ids and room are the caller's to check.
    """
    shape, dtype, batch = packed.shape, packed.vectors.dtype, len(ids)
    workers = THREADS if packed.numbers.nbytes >= PARALLEL_FROM else 1
    logits = np.empty((batch, padded(shape.vocab_size, packed.rows)), dtype)
    # A call takes a room out of the list, so that another thread's call makes one of its own.
    rooms = packed.rooms.setdefault((batch, workers), [])
    room, progress = rooms.pop() if rooms else _room(packed, batch, workers)
    layout = (packed.rows, packed.step, packed.width, packed.attention_tasks, packed.mlp_tasks)
    share(
        step_tasks,
        workers,
        shape,
        (*layout, dtype.type(packed.eps)),
        (packed.numbers, packed.factors, packed.vectors, packed.places),
        (packed.tokens, packed.table, packed.angles, packed.slopes),
        ids,
        (keys, values, lengths),
        room,
        progress,
        logits,
    )  # fmt: skip
    progress.fill(0)
    rooms.append((room, progress))
    return logits[:, : shape.vocab_size]


def _room(packed: Packed, batch: int, workers: int) -> tuple[tuple[Any, ...], np.ndarray]:
    """What workers share during a call, and the counters of its phases.

    x and the parts of a sum, twice; products of queries, keys and values; the MLP's sums and its inside; and
    the parts of attention. Rows end with zeros, since products run over whole vectors.
    """
    shape, dtype = packed.shape, packed.vectors.dtype
    heads, d, tasks = shape.n_heads, shape.head_dim, batch * shape.n_kv_heads
    width = padded(shape.d_model, GROUP)
    widest = max((heads + 2 * shape.n_kv_heads) * d, 2 * padded(shape.d_ff, GROUP))
    # Where the heads do not divide among the workers, each is cut into parts that do.
    whole = packed.attention_tasks or tasks % workers == 0 or tasks >= 8 * workers
    parts = 1 if whole else workers
    phases = (2 if packed.attention_tasks else 4) * shape.n_layers + 1
    room = (
        np.zeros((2 * batch, width), dtype),
        np.zeros((2 * max(packed.attention_tasks, packed.mlp_tasks) * batch, width), dtype),
        np.empty((batch, padded(widest, GROUP)), dtype),
        np.zeros((batch, padded(shape.d_ff, GROUP)), dtype),
        (
            np.empty((batch, heads, parts, d), dtype),
            np.empty((batch, heads, parts), dtype),
            np.empty((batch, heads, parts), dtype),
        ),
    )
    return room, counters(phases, workers)


@shared()
def step_tasks(deal, shape, layout, weights, starts, ids, cache, room, progress, logits):
    """All phases, for one worker. The tuples are those of `step`."""
    turn, batch, like = (progress, deal[0], deal[1].size), ids.size, room[0]
    own = (
        _zeros(batch, shape.d_model, like),
        _zeros(batch, shape.d_model, like),
        _zeros(batch, shape.n_heads * shape.head_dim, like),
        (scratch(shape.n_heads // shape.n_kv_heads * shape.head_dim, like), scratch(KEYS, like)),
    )
    phase, moment = 0, 0
    for layer in range(shape.n_layers):
        if layout[3]:
            _attention(turn, phase, moment, layer, shape, layout, weights, starts, ids, cache, room, own)
        else:
            qkv, out, row = np.intp(QKV), np.intp(OUT), moment % 2 * (room[1].shape[0] // 2)
            _multiply(
                turn,
                phase,
                moment,
                qkv,
                layer,
                shape,
                layout,
                weights,
                starts,
                ids,
                cache,
                room,
                own,
                room[2],
                0,
            )
            _attend(turn, phase + 1, layer, shape, weights, starts, cache, room, own)
            _multiply(
                turn,
                phase + 2,
                moment,
                out,
                layer,
                shape,
                layout,
                weights,
                starts,
                ids,
                cache,
                room,
                own,
                room[1],
                row,
            )
            phase += 2
        _mlp(turn, phase + 1, moment + 1, layer, shape, layout, weights, starts, ids, cache, room, own)
        phase, moment = phase + 2, moment + 2
    head, layer = np.intp(HEAD), shape.n_layers
    _multiply(
        turn, phase, moment, head, layer, shape, layout, weights, starts, ids, cache, room, own, logits, 0
    )


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
def _begin(moment, product, layer, shape, layout, weights, starts, ids, cache, room, own):
    """What a worker does before its first task of a phase: x as it now is, and h, the norm of it."""
    _, _, vectors, places = weights
    x, h, _, _ = own
    if moment == 0:
        _embed(shape, layout, weights, starts, ids, cache[2], x)
    else:
        if product == UP:
            bias, tasks = places[layer, BIAS, OUT], max(1, layout[3])
        else:
            bias, tasks = places[layer - 1, BIAS, DOWN], layout[4]
        for b in range(ids.size):
            add_up((moment - 1) % 2, b, tasks, shape.d_model, vectors, bias, room[0], room[1], x)
    weight, bias = places[layer, NORM, product], places[layer, NORM_BIAS, product]
    for b in range(ids.size):
        normalise(x, b, shape.d_model, vectors, weight, bias, layout[5], shape.centred, h)


@compiled()
def _embed(shape, layout, weights, starts, ids, lengths, x):
    """x[b] = tokens[ids[b]] + table[lengths[b]]."""
    rows, step, width, _, _, _ = layout
    numbers, factors, vectors, _ = weights
    number, inner = x.dtype.type, (shape.d_model + step - 1) // step * step
    for b in range(ids.size):
        panel, r = ids[b] // rows, ids[b] % rows
        start = starts[0] + panel * rows * inner
        for c in range(shape.d_model):
            value = number(numbers[start + c // width * rows * width + r * width + c % width])
            if factors.size > 1:
                value *= factors[start // GROUP + c // GROUP * rows + r]
            if starts[1] >= 0:
                value += vectors[starts[1] + lengths[b] * shape.d_model + c]
            x[b, c] = value


@compiled()
def _keep(moment, x, kept):
    """x for whoever works in the next phase."""
    batch = x.shape[0]
    for b in range(batch):
        for c in range(x.shape[1]):
            kept[moment % 2 * batch + b, c] = x[b, c]


@compiled()
def _product(weights, start, panels, inner, source, column, target, row, place):
    """target[row + b, place ...] = panels of `inner` columns from `start` on, times source[b, column ...]."""
    numbers, factors, _, _ = weights
    multiply_panels(
        ahead(pointer(numbers), start),
        ahead(pointer(factors), start // GROUP),
        panels,
        inner,
        ahead(pointer(source), column),
        source.shape[1],
        source.shape[0],
        ahead(pointer(target), row * target.shape[1] + place),
        target.shape[1],
    )


@compiled()
def _attention(turn, phase, moment, layer, shape, layout, weights, starts, ids, cache, room, own):
    """A task: some heads from norm to out, and so a part of what is added to x."""
    progress, worker, workers = turn
    rows, step, _, tasks, _, _ = layout
    _, _, vectors, places = weights
    _, parts, sums, _, attended = room
    x, h, heads, space = own
    batch, d, group, done = ids.size, shape.head_dim, shape.n_heads // shape.n_kv_heads, 0
    inner, height = (shape.d_model + step - 1) // step * step, (shape.d_model + rows - 1) // rows
    extras = (places[layer, BIAS, QKV], starts[2], starts[3])
    while True:
        task = take(progress, phase, worker, workers, tasks)
        if task < 0:
            break
        if done == 0:
            _begin(moment, np.intp(QKV), layer, shape, layout, weights, starts, ids, cache, room, own)
        if task == 0:
            _keep(moment, x, room[0])
        first, last = task * shape.n_kv_heads // tasks, (task + 1) * shape.n_kv_heads // tasks
        begin, end = first * (group + 2) * d, last * (group + 2) * d
        start, panels = places[layer, MATRIX, QKV] + begin * inner, (end - begin + rows - 1) // rows
        _product(weights, start, panels, inner, h, 0, sums, 0, begin)
        for b in range(batch):
            for g in range(first, last):
                attend(b * shape.n_kv_heads + g, shape, layer, extras, vectors, sums, cache, space, attended)
        combine(attended, shape, first * group, last * group, heads)
        begin, end = first * group * d, last * group * d
        start = places[layer, MATRIX, OUT] + height * rows * begin
        row = (moment % 2 * (parts.shape[0] // (2 * batch)) + task) * batch
        columns = (end - begin + step - 1) // step * step
        _product(weights, start, height, columns, heads, begin, parts, row, 0)
        done += 1
    finish(progress, phase, workers, tasks, done)


@compiled()
def _mlp(turn, phase, moment, layer, shape, layout, weights, starts, ids, cache, room, own):
    """A task: some of the inside's numbers from norm to down, and so a part of what is added to x."""
    progress, worker, workers = turn
    rows, step, _, _, tasks, _ = layout
    _, _, vectors, places = weights
    _, parts, sums, inside, _ = room
    x, h, _, _ = own
    batch, groups, done = ids.size, (shape.d_ff + GROUP - 1) // GROUP, 0
    inner, height = (shape.d_model + step - 1) // step * step, (shape.d_model + rows - 1) // rows
    together = 2 if shape.activation == SWIGLU else 1  # gate and up
    bias = places[layer, BIAS, UP]
    while True:
        task = take(progress, phase, worker, workers, tasks)
        if task < 0:
            break
        if done == 0:
            _begin(moment, np.intp(UP), layer, shape, layout, weights, starts, ids, cache, room, own)
        if task == 0:
            _keep(moment, x, room[0])
        begin, end = task * groups // tasks * GROUP, min((task + 1) * groups // tasks * GROUP, shape.d_ff)
        panels = (end - begin + rows - 1) // rows
        start = places[layer, MATRIX, UP] + together * begin * inner
        _product(weights, start, together * panels, inner, h, 0, sums, 0, together * begin)
        for b in range(batch):
            activate(shape.activation, sums, b, begin, begin + panels * rows, rows, vectors, bias, inside)
        start = places[layer, MATRIX, DOWN] + height * rows * begin
        row = (moment % 2 * (parts.shape[0] // (2 * batch)) + task) * batch
        columns = (end - begin + step - 1) // step * step
        _product(weights, start, height, columns, inside, begin, parts, row, 0)
        done += 1
    finish(progress, phase, workers, tasks, done)


@compiled()
def _attend(turn, phase, layer, shape, weights, starts, cache, room, own):
    """New keys and values into the cache, and every head over what it holds."""
    progress, worker, workers = turn
    sums, attended = room[2], room[4]
    _, _, vectors, places = weights
    tasks, done = sums.shape[0] * shape.n_kv_heads * attended[1].shape[2], 0
    extras = (places[layer, BIAS, QKV], starts[2], starts[3])
    while True:
        task = take(progress, phase, worker, workers, tasks)
        if task < 0:
            break
        attend(task, shape, layer, extras, vectors, sums, cache, own[3], attended)
        done += 1
    finish(progress, phase, workers, tasks, done)


@compiled()
def _multiply(
    turn, phase, moment, product, layer, shape, layout, weights, starts, ids, cache, room, own, target, row
):
    """A product in a phase of its own, QKV, OUT or HEAD, some panels a task, to the rows from `row` on."""
    progress, worker, workers = turn
    rows, step, _, _, _, _ = layout
    numbers, _, _, places = weights
    x, h, heads, _ = own
    height, columns = _size_of(product, shape)
    units, inner = (height + rows - 1) // rows, (columns + step - 1) // step * step
    chunks = _chunks_of(units, rows * inner * numbers.itemsize, workers)
    source = heads if product == OUT else h
    done = 0
    while True:
        chunk = take(progress, phase, worker, workers, chunks)
        if chunk < 0:
            break
        if done == 0:
            if product == OUT:
                combine(room[4], shape, 0, shape.n_heads, heads)
            else:
                _begin(moment, product, layer, shape, layout, weights, starts, ids, cache, room, own)
        if chunk == 0 and product != OUT:
            _keep(moment, x, room[0])
        first, last = chunk * units // chunks, (chunk + 1) * units // chunks
        start = places[layer, MATRIX, product] + first * rows * inner
        _product(weights, start, last - first, inner, source, 0, target, row, first * rows)
        done += 1
    finish(progress, phase, workers, chunks, done)


@compiled()
def _size_of(product, shape):
    """Rows and columns of a product's matrix."""
    heads = shape.n_heads * shape.head_dim
    if product == QKV:
        return heads + 2 * shape.n_kv_heads * shape.head_dim, shape.d_model
    if product == OUT:
        return shape.d_model, heads
    return shape.vocab_size, shape.d_model


@compiled()
def _chunks_of(units, size, workers):
    """In how many chunks to deal so many units of `size` bytes: as many for each worker, if they suffice."""
    return max(1, min(units, max(1, units * size // CHUNK // workers) * workers))
