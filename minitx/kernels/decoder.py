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

from typing import Any, NamedTuple

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

# What the functions below hand on: `turn` = (progress, worker, workers); `at` = (phase, moment, layer), where
# x has been added up `moment` times; `model` = (shape, layout, weights, starts) and `call` = (ids, cache,
# room, logits), of `step`; `own` = (x, h, heads, space), a worker's alone.

CHUNK = 1 << 18  # bytes of weights worth a chunk of their own
PARALLEL_FROM = 1 << 18  # bytes of weights below which a second thread comes too late


class Layout(NamedTuple):
    """How the weights lie, see `Packed`; with `eps`, of their dtype."""

    rows: int
    step: int
    width: int
    attention_tasks: int
    mlp_tasks: int
    eps: float


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
    layout = Layout(
        packed.rows,
        packed.step,
        packed.width,
        packed.attention_tasks,
        packed.mlp_tasks,
        dtype.type(packed.eps),
    )
    weights = (packed.numbers, packed.factors, packed.vectors, packed.places)
    starts = (packed.tokens, packed.table, packed.angles, packed.slopes)
    model, call = (shape, layout, weights, starts), (ids, (keys, values, lengths), room, logits)
    share(step_tasks, workers, model, call, progress)
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
def step_tasks(deal, model, call, progress):
    """All phases, for one worker. The tuples are those of `step`."""
    shape, layout, _, _ = model
    ids, _, room, logits = call
    turn, like = (progress, deal[0], deal[1].size), room[0]
    own = (
        _zeros(ids.size, shape.d_model, like),
        _zeros(ids.size, shape.d_model, like),
        _zeros(ids.size, shape.n_heads * shape.head_dim, like),
        (scratch(shape.n_heads // shape.n_kv_heads * shape.head_dim, like), scratch(KEYS, like)),
    )
    phase, moment = 0, 0
    for layer in range(shape.n_layers):
        if layout.attention_tasks:
            _attention(turn, (phase, moment, layer), model, call, own)
        else:
            row = moment % 2 * (room[1].shape[0] // 2)
            _multiply(turn, (phase, moment, layer), np.intp(QKV), model, call, own, room[2], 0)
            _attend(turn, (phase + 1, moment, layer), model, call, own)
            _multiply(turn, (phase + 2, moment, layer), np.intp(OUT), model, call, own, room[1], row)
            phase += 2
        _mlp(turn, (phase + 1, moment + 1, layer), model, call, own)
        phase, moment = phase + 2, moment + 2
    _multiply(turn, (phase, moment, shape.n_layers), np.intp(HEAD), model, call, own, logits, 0)


@compiled()
def _whole(size, unit):
    """`size` rounded up to whole units."""
    return (size + unit - 1) // unit * unit


@compiled()
def _zeros(batch, size, like):
    array = scratch(batch * _whole(size, GROUP), like)
    array[:] = 0
    return array.reshape(batch, _whole(size, GROUP))


@compiled()
def _begin(at, product, model, call, own):
    """What a worker does before its first task of a phase: x as it now is, and h, the norm of it."""
    _, moment, layer = at
    shape, layout, weights, _ = model
    ids, _, room, _ = call
    _, _, vectors, places = weights
    x, h, _, _ = own
    if moment == 0:
        _embed(model, call, x)
    else:
        if product == UP:
            bias, tasks = places[layer, BIAS, OUT], max(1, layout.attention_tasks)
        else:
            bias, tasks = places[layer - 1, BIAS, DOWN], layout.mlp_tasks
        for b in range(ids.size):
            add_up((moment - 1) % 2, b, tasks, shape.d_model, vectors, bias, room[0], room[1], x)
    weight, bias = places[layer, NORM, product], places[layer, NORM_BIAS, product]
    for b in range(ids.size):
        normalise(x, b, shape.d_model, vectors, weight, bias, layout.eps, shape.centred, h)


@compiled()
def _embed(model, call, x):
    """x[b] = tokens[ids[b]] + table[lengths[b]]."""
    shape, layout, weights, starts = model
    ids, (_, _, lengths), _, _ = call
    numbers, factors, vectors, _ = weights
    rows, width, number = layout.rows, layout.width, x.dtype.type
    inner = _whole(shape.d_model, layout.step)
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
def _place_of_part(moment, task, parts, batch):
    """The row of `parts` where a task's part of the sum begins."""
    return (moment % 2 * (parts.shape[0] // (2 * batch)) + task) * batch


@compiled()
def _attention(turn, at, model, call, own):
    """A task: some heads from norm to out, and so a part of what is added to x."""
    progress, worker, workers = turn
    phase, moment, layer = at
    shape, layout, weights, starts = model
    ids, cache, (kept, parts, sums, _, attended), _ = call
    x, h, heads, space = own
    _, _, vectors, places = weights
    rows, step, tasks, done = layout.rows, layout.step, layout.attention_tasks, 0
    batch, kv_heads, d, group = ids.size, shape.n_kv_heads, shape.head_dim, shape.n_heads // shape.n_kv_heads
    inner, height = _whole(shape.d_model, step), _whole(shape.d_model, rows)
    extras = (places[layer, BIAS, QKV], starts[2], starts[3])
    while True:
        task = take(progress, phase, worker, workers, tasks)
        if task < 0:
            break
        if done == 0:
            _begin(at, np.intp(QKV), model, call, own)
        if task == 0:
            _keep(moment, x, kept)
        first, last = task * kv_heads // tasks, (task + 1) * kv_heads // tasks
        begin, end = first * (group + 2) * d, last * (group + 2) * d
        start, panels = places[layer, MATRIX, QKV] + begin * inner, _whole(end - begin, rows) // rows
        _product(weights, start, panels, inner, h, 0, sums, 0, begin)
        for b in range(batch):
            for g in range(first, last):
                attend(b * kv_heads + g, shape, layer, extras, vectors, sums, cache, space, attended)
        combine(attended, shape, first * group, last * group, heads)
        begin, end = first * group * d, last * group * d
        start, row = places[layer, MATRIX, OUT] + height * begin, _place_of_part(moment, task, parts, batch)
        _product(weights, start, height // rows, _whole(end - begin, step), heads, begin, parts, row, 0)
        done += 1
    finish(progress, phase, workers, tasks, done)


@compiled()
def _mlp(turn, at, model, call, own):
    """A task: some of the inside's numbers from norm to down, and so a part of what is added to x."""
    progress, worker, workers = turn
    phase, moment, layer = at
    shape, layout, weights, _ = model
    ids, _, (kept, parts, sums, inside, _), _ = call
    _, _, vectors, places = weights
    rows, step, tasks, done = layout.rows, layout.step, layout.mlp_tasks, 0
    batch, groups = ids.size, _whole(shape.d_ff, GROUP) // GROUP
    inner, height = _whole(shape.d_model, step), _whole(shape.d_model, rows)
    together = 2 if shape.activation == SWIGLU else 1  # gate and up
    bias = places[layer, BIAS, UP]
    while True:
        task = take(progress, phase, worker, workers, tasks)
        if task < 0:
            break
        if done == 0:
            _begin(at, np.intp(UP), model, call, own)
        if task == 0:
            _keep(moment, own[0], kept)
        begin, end = task * groups // tasks * GROUP, min((task + 1) * groups // tasks * GROUP, shape.d_ff)
        start, size = places[layer, MATRIX, UP] + together * begin * inner, _whole(end - begin, rows)
        _product(weights, start, together * size // rows, inner, own[1], 0, sums, 0, together * begin)
        for b in range(batch):
            activate(shape.activation, sums, b, begin, begin + size, rows, vectors, bias, inside)
        start, row = places[layer, MATRIX, DOWN] + height * begin, _place_of_part(moment, task, parts, batch)
        _product(weights, start, height // rows, _whole(end - begin, step), inside, begin, parts, row, 0)
        done += 1
    finish(progress, phase, workers, tasks, done)


@compiled()
def _attend(turn, at, model, call, own):
    """New keys and values into the cache, and every head over what it holds."""
    progress, worker, workers = turn
    phase, _, layer = at
    shape, _, weights, starts = model
    _, cache, (_, _, sums, _, attended), _ = call
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
def _multiply(turn, at, product, model, call, own, target, row):
    """A product in a phase of its own, QKV, OUT or HEAD, some panels a task, to the rows from `row` on."""
    progress, worker, workers = turn
    phase, moment, layer = at
    shape, layout, weights, _ = model
    room = call[2]
    numbers, _, _, places = weights
    x, h, heads, _ = own
    rows, (height, columns) = layout.rows, _size_of(product, shape)
    units, inner = _whole(height, rows) // rows, _whole(columns, layout.step)
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
                _begin(at, product, model, call, own)
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
