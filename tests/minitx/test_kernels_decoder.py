"""The decode step's kernels and their twin, on plain arrays, against a forward pass written in PyTorch."""

import os
import platform
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from minitx.kernels import decoder_numpy as twin
from minitx.kernels import rope_numpy
from minitx.kernels.decoder_numpy import (
    GELU,
    GELU_TANH,
    HALF,
    INTERLEAVED,
    RELU,
    STRAIGHT,
    SWIGLU,
    Layer,
    Shape,
    Weights,
)

MODULES = ["numba", "numpy"]
CAPACITY = 90

# Every size differs from the others, and none is a multiple of the lanes, a panel or a group of columns.
GPT2 = {
    "n_heads": 3,
    "n_kv_heads": 3,
    "head_dim": 8,
    "d_ff": 40,
    "centred": True,
    "activation": GELU_TANH,
    "rotary": STRAIGHT,
}
KINDS = {
    "gpt-2": {**GPT2, "table": True, "bias": True},
    "exact gelu, alibi": {**GPT2, "activation": GELU, "slopes": True, "bias": True},
    "relu, grouped": {**GPT2, "n_heads": 6, "n_kv_heads": 2, "activation": RELU, "table": True, "bias": False},
    "llama": {"n_heads": 6, "n_kv_heads": 2, "head_dim": 32, "d_ff": 70, "centred": False, "activation": SWIGLU, "rotary": HALF, "untied": True},
    "llama, interleaved": {"n_heads": 4, "n_kv_heads": 1, "head_dim": 16, "d_ff": 9, "centred": False, "activation": SWIGLU, "rotary": INTERLEAVED},
    "swiglu with biases": {"n_heads": 2, "n_kv_heads": 1, "head_dim": 6, "d_ff": 33, "centred": True, "activation": SWIGLU, "rotary": INTERLEAVED, "bias": True},
    "several chunks": {"n_heads": 3, "n_kv_heads": 3, "head_dim": 64, "d_ff": 400, "centred": True, "activation": GELU_TANH, "rotary": STRAIGHT, "table": True, "bias": True, "d_model": 192, "vocab_size": 1200},
    # These divide among two threads, the next ones among three or four as well, or into more tasks than one each.
    "a head each": {"n_heads": 4, "n_kv_heads": 2, "head_dim": 32, "d_ff": 150, "centred": False, "activation": SWIGLU, "rotary": HALF, "untied": True},
    "two heads each": {"n_heads": 4, "n_kv_heads": 4, "head_dim": 32, "d_ff": 129, "centred": True, "activation": GELU_TANH, "rotary": STRAIGHT, "slopes": True, "bias": True},
    "many tasks": {"n_heads": 12, "n_kv_heads": 12, "head_dim": 64, "d_ff": 1600, "centred": True, "activation": RELU, "rotary": INTERLEAVED, "table": True, "bias": True, "d_model": 330, "vocab_size": 700},
}  # fmt: skip


def module_of(name):
    if name == "numpy":
        return twin
    pytest.importorskip("numba")
    from minitx.kernels import decoder

    return decoder


def made(kind, dtype=np.float32, seed=0, layers=2):
    """A random model of that kind."""
    rng = np.random.default_rng(seed)
    bias, d = kind.get("bias", False), kind.get("d_model", 27)
    vocab_size, ff = kind.get("vocab_size", 53), kind["d_ff"]
    rows = (kind["n_heads"] + 2 * kind["n_kv_heads"]) * kind["head_dim"]
    mixed = kind["n_heads"] * kind["head_dim"]

    def matrix(*shape):
        return (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(dtype)

    def vector(size):
        return (0.3 * rng.standard_normal(size)).astype(dtype) if bias else None

    def norm():
        return (1 + 0.2 * rng.standard_normal(d)).astype(dtype), vector(d)

    def linear(out, inner):
        return matrix(out, inner), vector(out)

    up = 2 * ff if kind["activation"] == SWIGLU else ff
    blocks = [
        Layer(*norm(), *linear(rows, d), *linear(d, mixed), *norm(), *linear(up, d), *linear(d, ff))
        for _ in range(layers)
    ]
    angles = rope_numpy.table(CAPACITY, kind["head_dim"], 500.0, np.dtype(dtype)) if kind["rotary"] else None
    weights = Weights(
        matrix(vocab_size, d),
        blocks,
        *norm(),
        matrix(vocab_size, d) if kind.get("untied") else None,
        matrix(CAPACITY, d) if kind.get("table") else None,
        angles,
        (2.0 ** -np.arange(1.0, kind["n_heads"] + 1)).astype(dtype) if kind.get("slopes") else None,
        1e-3,
    )
    sizes = {
        name: kind[name]
        for name in ("n_heads", "n_kv_heads", "head_dim", "d_ff", "centred", "activation", "rotary")
    }
    shape = Shape(n_layers=layers, d_model=d, vocab_size=vocab_size, context=CAPACITY, **sizes)
    return shape, weights


def torch_forward(shape, weights, ids):
    """ids (B, n) -> logits (B, n, vocab), keys and values (n_layers, B, Hkv, n, head_dim): all tokens at once."""
    torch = pytest.importorskip("torch")
    T = torch.nn.functional
    n, d = ids.shape[1], shape.head_dim

    def tensor(array):
        return None if array is None else torch.from_numpy(np.array(array))

    def norm(x, weight, bias):
        if shape.centred:
            return T.layer_norm(x, x.shape[-1:], tensor(weight), tensor(bias), weights.eps)
        return T.rms_norm(x, x.shape[-1:], tensor(weight), weights.eps)

    def heads(x):
        return x.unflatten(-1, (-1, d)).transpose(1, 2)

    def turn(x):
        if shape.rotary == STRAIGHT:
            return x
        rates = 500.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
        wave = torch.polar(torch.ones(()).double(), torch.arange(n)[:, None] * rates)
        pairs = (
            x.unflatten(-1, (2, -1)).transpose(-1, -2) if shape.rotary == HALF else x.unflatten(-1, (-1, 2))
        )
        turned = torch.view_as_real(torch.view_as_complex(pairs.double().contiguous()) * wave)
        return (turned.transpose(-1, -2) if shape.rotary == HALF else turned).flatten(-2).to(x.dtype)

    def mlp(x, layer):
        inside = T.linear(x, tensor(layer.up), tensor(layer.up_bias))
        if shape.activation == SWIGLU:
            gate, up = inside.chunk(2, dim=-1)
            inside = T.silu(gate) * up
        elif shape.activation == RELU:
            inside = T.relu(inside)
        else:
            inside = T.gelu(inside, approximate="tanh" if shape.activation == GELU_TANH else "none")
        return T.linear(inside, tensor(layer.down), tensor(layer.down_bias))

    mask = torch.ones(n, n, dtype=torch.bool).tril()
    if weights.slopes is not None:
        apart = torch.arange(n)[None, :] - torch.arange(n)[:, None]
        bias = tensor(weights.slopes)[:, None, None] * apart
        mask = bias.masked_fill(~mask, -torch.inf)  # added to the scores
    x = tensor(weights.tokens)[torch.from_numpy(ids)]
    if weights.table is not None:
        x = x + tensor(weights.table)[:n]
    keys, values = [], []
    for layer in weights.layers:
        mixed = T.linear(
            norm(x, layer.attention_norm, layer.attention_norm_bias),
            tensor(layer.qkv),
            tensor(layer.qkv_bias),
        )
        q, k, v = mixed.split([shape.n_heads * d, shape.n_kv_heads * d, shape.n_kv_heads * d], dim=-1)
        q, k, v = turn(heads(q)), turn(heads(k)), heads(v)
        keys.append(k)
        values.append(v)
        out = T.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        x = x + T.linear(out.transpose(1, 2).flatten(2), tensor(layer.out), tensor(layer.out_bias))
        x = x + mlp(norm(x, layer.mlp_norm, layer.mlp_norm_bias), layer)
    head = weights.tokens if weights.head is None else weights.head
    logits = T.linear(norm(x, weights.norm, weights.norm_bias), tensor(head))
    return logits.numpy(), torch.stack(keys).numpy(), torch.stack(values).numpy()


def new_cache(shape, batch, dtype, fill=0.0):
    size = (shape.n_layers, batch, shape.n_kv_heads, CAPACITY, shape.head_dim)
    return np.full(size, fill, dtype), np.full(size, fill, dtype)


def relative(found, wanted):
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [1, 3])
def test_tokens_one_by_one_give_the_logits_and_the_cache_of_all_at_once(name, dtype, kind, batch):
    """70 tokens, so that attention goes through two chunks of keys."""
    module, (shape, weights) = module_of(name), made(KINDS[kind], dtype)
    ids = np.random.default_rng(1).integers(0, shape.vocab_size, (batch, 70))
    wanted, wanted_keys, wanted_values = torch_forward(shape, weights, ids)
    packed = module.pack(shape, weights, False)
    keys, values = new_cache(shape, batch, dtype)
    close = 1e-5 if dtype == np.float32 else 1e-12
    for p in range(ids.shape[1]):
        found = module.step(packed, ids[:, p].copy(), keys, values, np.full(batch, p))
        assert found.shape == (batch, shape.vocab_size)
        assert found.dtype == dtype
        assert relative(found, wanted[:, p]) < close, f"position {p}"
    assert relative(keys[:, :, :, :70], wanted_keys) < close
    assert relative(values[:, :, :, :70], wanted_values) < close


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_their_own_lengths_go_together_and_nothing_else_is_written(name, kind):
    module, (shape, weights) = module_of(name), made(KINDS[kind])
    ids = np.random.default_rng(2).integers(0, shape.vocab_size, (4, CAPACITY))
    wanted, wanted_keys, wanted_values = torch_forward(shape, weights, ids)
    lengths = np.array([5, 0, CAPACITY - 1, 66])
    keys, values = new_cache(shape, 4, np.float32, fill=np.nan)  # what lies beyond a row's end is never read
    for b, length in enumerate(lengths):
        keys[:, b, :, :length], values[:, b, :, :length] = (
            wanted_keys[:, b, :, :length],
            wanted_values[:, b, :, :length],
        )
    before, before_lengths = (keys.copy(), values.copy()), lengths.copy()
    found = module.step(module.pack(shape, weights, False), ids[np.arange(4), lengths], keys, values, lengths)
    for b, length in enumerate(lengths):
        assert relative(found[b], wanted[b, length]) < 1e-5
        for array, old, new in zip((keys, values), before, (wanted_keys, wanted_values), strict=True):
            assert relative(array[:, b, :, length], new[:, b, :, length]) < 1e-5
            array[:, b, :, length] = old[:, b, :, length]
    np.testing.assert_array_equal(keys, before[0])
    np.testing.assert_array_equal(values, before[1])
    np.testing.assert_array_equal(lengths, before_lengths)


def rounded_by_torch(matrix):
    """Each 64 columns of a row: whole numbers of -127 ... 127 times the largest over 127."""
    torch = pytest.importorskip("torch")
    pieces = torch.from_numpy(matrix).split(64, dim=1)
    factors = [piece.abs().amax(dim=1, keepdim=True) / 127 for piece in pieces]
    whole = [torch.round(piece / factor).nan_to_num(0) for piece, factor in zip(pieces, factors, strict=True)]
    return torch.cat([w * factor for w, factor in zip(whole, factors, strict=True)], dim=1).numpy()


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [1, 3])
def test_int8_weights_compute_what_the_rounded_weights_mean(name, kind, batch):
    module, (shape, weights) = module_of(name), made(KINDS[kind])
    ids = np.random.default_rng(3).integers(0, shape.vocab_size, (batch, 9))
    keys, values = new_cache(shape, batch, np.float32)
    packed = module.pack(shape, weights, True)
    found = [module.step(packed, ids[:, p].copy(), keys, values, np.full(batch, p)) for p in range(9)]
    means = Weights(**vars(weights))
    means.tokens = rounded_by_torch(weights.tokens)
    means.head = None if weights.head is None else rounded_by_torch(weights.head)
    means.layers = [
        layer._replace(
            **{name: rounded_by_torch(getattr(layer, name)) for name in ("qkv", "out", "up", "down")}
        )
        for layer in weights.layers
    ]
    wanted = torch_forward(shape, means, ids)[0]
    assert relative(np.stack(found, axis=1), wanted) < 1e-5
    assert relative(wanted, torch_forward(shape, weights, ids)[0]) > 1e-4  # rounding does something


def test_rounding_moves_no_weight_by_more_than_half_a_step_and_keeps_zeros(rng):
    matrix = rng.standard_normal((7, 150)).astype(np.float32) * 10.0 ** rng.integers(-30, 30, (7, 1)).astype(
        np.float32
    )
    matrix[3, 64:128] = 0
    matrix[5] = 0
    whole, factors = twin.quantise(matrix)
    assert (whole.dtype, whole.shape, factors.shape) == (np.int8, (7, 192), (7, 3))
    assert not whole[:, 150:].any()
    assert np.abs(whole.astype(int)).max() == 127
    steps = np.repeat(factors, 64, axis=1)[:, :150]
    assert (np.abs(twin.rounded(matrix) - matrix) <= 0.501 * steps).all()
    assert not twin.rounded(matrix)[5].any()
    for wrong in (np.nan, np.inf, -np.inf):
        matrix[2, 9] = wrong
        with pytest.raises(ValueError, match="finite"):
            twin.quantise(matrix)


@pytest.mark.parametrize("name", MODULES)
def test_the_norm_of_numbers_far_from_0_keeps_its_digits(name):
    """E(x^2) - mean^2 in float32 would be off by a tenth here."""
    module, (shape, weights) = module_of(name), made(KINDS["gpt-2"], np.float64)
    weights.tokens = weights.tokens + 500
    weights.head = weights.tokens - 500
    ids = np.arange(5)[None]
    wanted = torch_forward(shape, weights, ids)[0]
    single = {name: array for name, array in vars(weights).items() if isinstance(array, np.ndarray)}
    single = {name: array.astype(np.float32) for name, array in single.items()}
    layers = [Layer(*(array.astype(np.float32) for array in layer)) for layer in weights.layers]
    packed = module.pack(shape, Weights(**{**vars(weights), **single, "layers": layers}), False)
    keys, values = new_cache(shape, 1, np.float32)
    found = [module.step(packed, ids[:, p].copy(), keys, values, np.array([p])) for p in range(5)]
    assert relative(np.stack(found, axis=1), wanted) < 1e-3


@pytest.mark.parametrize("name", MODULES)
def test_a_weight_that_is_not_a_number_is_seen_in_the_logits(name):
    module, (shape, weights) = module_of(name), made(KINDS["gpt-2"])
    weights.layers[1].up[2, 3] = np.nan
    keys, values = new_cache(shape, 1, np.float32)
    assert np.isnan(
        module.step(module.pack(shape, weights, False), np.array([1]), keys, values, np.array([0]))
    ).all()


@pytest.mark.parametrize("name", MODULES)
def test_an_array_of_a_wrong_shape_is_named_before_anything_is_packed(name):
    module, (shape, weights) = module_of(name), made(KINDS["llama"])
    layer = weights.layers[1]
    wrong = {
        "tokens": weights.tokens[:, 1:],
        "head": weights.head[1:],
        "norm": weights.norm[1:],
        "table": np.zeros((CAPACITY, 3), np.float32),
        "angles": weights.angles[:, :, 1:],
        "slopes": np.zeros(5, np.float32),
    }
    for argument, array in wrong.items():
        with pytest.raises(ValueError, match=f"{argument} must have shape"):
            module.pack(shape, Weights(**{**vars(weights), argument: array}), False)
    for argument in layer._fields:
        changed = [weights.layers[0], layer._replace(**{argument: np.zeros((2, 2), np.float32)})]
        with pytest.raises(ValueError, match=rf"layers\[1\].{argument} must have shape"):
            module.pack(shape, Weights(**{**vars(weights), "layers": changed}), False)
    for layers, count in ((weights.layers[:1], 1), (weights.layers * 2, 4)):
        with pytest.raises(ValueError, match=f"There must be 2 layers, got {count}"):
            module.pack(shape, Weights(**{**vars(weights), "layers": layers}), False)
    with pytest.raises(ValueError, match="angles belong to rotary positions"):
        module.pack(shape, Weights(**{**vars(weights), "angles": None}), False)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("int8", [False, True])
def test_a_matrix_times_vectors_writes_the_products_and_nothing_beside_them(dtype, int8, rng):
    decoder = module_of("numba")
    from minitx.kernels.compiler import compiled
    from minitx.kernels.matvec import multiply_panels
    from minitx.kernels.panels import Store
    from minitx.kernels.simd import pointer

    @compiled()
    def multiply(numbers, factors, panels, inner, x, out):
        multiply_panels(
            pointer(numbers),
            pointer(factors),
            panels,
            inner,
            pointer(x),
            x.shape[1],
            x.shape[0],
            pointer(out),
            out.shape[1],
        )

    assert decoder.pack is not None
    for out_size, inner in ((1, 1), (8, 64), (13, 65), (50, 130), (3, 200)):
        for batch in (1, 2, 3, 5):
            matrix = rng.standard_normal((out_size, inner)).astype(dtype)
            store = Store(np.dtype(dtype), int8, [matrix.shape])
            assert store.add(matrix) == 0
            panels = -(-out_size // store.rows)
            width = -(-inner // 64) * 64
            x = np.zeros((batch, width), dtype)
            x[:, :inner] = rng.standard_normal((batch, inner))
            out = np.full((batch, panels * store.rows + 5), 7, dtype)
            multiply(store.numbers, store.factors, panels, -(-inner // store.step) * store.step, x, out)
            wanted = x[:, :inner].astype(np.float64) @ (
                rounded_by_torch(matrix) if int8 else matrix
            ).T.astype(np.float64)
            np.testing.assert_allclose(out[:, :out_size], wanted, atol=2e-5 if dtype == np.float32 else 1e-12)
            assert (out[:, panels * store.rows :] == 7).all()
            assert not out[:, out_size : panels * store.rows].any()


@pytest.fixture(scope="module")
def phases():
    module_of("numba")
    from minitx.kernels import phases

    return phases


@pytest.fixture(scope="module")
def machine(phases):
    """A kernel that goes through phases and notes which chunk was worked off when."""
    from minitx.kernels import crew

    def go_through(deal, progress, marks, seen, came):
        worker, workers = deal[0], deal[1].size
        for phase in range(marks.shape[0]):
            done = 0
            while True:
                chunk = phases.take(progress, phase, worker, workers, marks.shape[1])
                if chunk < 0:
                    break
                if phase:
                    # All chunks of the phase before must be finished when one of this begins.
                    seen[phase, chunk] = marks[phase - 1].sum()
                marks[phase, chunk] += 1
                done += 1
            phases.finish(progress, phase, workers, marks.shape[1], done)
        came[worker] = 1

    return crew.shared()(go_through)


def assert_orderly(marks, seen, chunks):
    assert (marks == 1).all()
    assert (seen[1:] == chunks).all()


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
@pytest.mark.parametrize("chunks", [1, 2, 5, 64])
def test_every_chunk_is_worked_off_once_and_no_phase_begins_before_the_last_has_ended(
    machine, phases, workers, chunks
):
    from minitx.kernels import crew

    for _ in range(20):
        marks, seen = np.zeros((30, chunks), np.int64), np.zeros((30, chunks), np.int64)
        crew.share(machine, workers, phases.counters(30, workers), marks, seen, np.zeros(workers))
        assert_orderly(marks, seen, chunks)


def test_a_worker_alone_does_the_work_of_those_that_do_not_come_and_one_that_comes_late_finds_none(
    machine, phases
):
    marks, seen, came = np.zeros((9, 5), np.int64), np.zeros((9, 5), np.int64), np.zeros(3)
    progress, taken = phases.counters(9, 3), np.zeros(3, np.int64)
    machine((0, taken), progress, marks, seen, came)
    assert_orderly(marks, seen, 5)
    machine((2, taken), progress, marks, seen, came)
    assert_orderly(marks, seen, 5)
    assert came.tolist() == [1, 0, 1]


@pytest.fixture(scope="module")
def problem():
    """A model large enough for several workers and chunks, a batch of two, and what one worker finds."""
    decoder = module_of("numba")
    shape, weights = made(KINDS["several chunks"])
    packed = decoder.pack(shape, weights, False)

    def run(seed=4):
        rng, found = np.random.default_rng(seed), []
        keys, values = new_cache(shape, 2, np.float32)
        for p in range(6):
            found.append(
                decoder.step(packed, rng.integers(0, shape.vocab_size, 2), keys, values, np.full(2, p))
            )
        return np.stack(found)

    return decoder, run


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
@pytest.mark.parametrize("coming", ["all", "one", "late"])
def test_the_logits_do_not_depend_on_how_many_workers_there_are_or_come(
    problem, workers, coming, monkeypatch
):
    decoder, run = problem
    monkeypatch.setattr(decoder, "THREADS", 1)
    monkeypatch.setattr(decoder, "PARALLEL_FROM", 0)
    alone = run()
    monkeypatch.setattr(decoder, "THREADS", workers)
    if coming != "all":
        monkeypatch.setattr(decoder, "share", one_comes if coming == "one" else others_come_late)
    assert relative(run(), alone) < 1e-6


def deals_for(workers):
    taken = np.zeros(workers, np.int64)
    return [(worker, taken) for worker in range(workers)]


def one_comes(kernel, workers, *arguments):
    """As if no other thread got a core."""
    kernel(deals_for(workers)[-1], *arguments)


def others_come_late(kernel, workers, *arguments):
    def later(deal):
        time.sleep(2e-4 * deal[0])
        kernel(deal, *arguments)

    threads = [threading.Thread(target=later, args=(deal,)) for deal in deals_for(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_two_threads_at_once_get_what_one_alone_gets(problem, monkeypatch):
    decoder, run = problem
    monkeypatch.setattr(decoder, "THREADS", 2)
    monkeypatch.setattr(decoder, "PARALLEL_FROM", 0)
    expected, found = [run(seed) for seed in (5, 6)], [[], []]

    def work(number):
        found[number] += [run(5 + number) for _ in range(10)]

    threads = [threading.Thread(target=work, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in (0, 1):
        assert len(found[number]) == 10
        assert all(relative(each, expected[number]) < 1e-6 for each in found[number])


IN_A_PROCESS = """
import os, numpy as np
from minitx.kernels import decoder, decoder_numpy as twin, simd
from minitx.kernels.decoder_numpy import Layer, Shape, Weights, SWIGLU
decoder.PARALLEL_FROM = 0
rng = np.random.default_rng(0)
matrix = lambda *shape: rng.standard_normal(shape).astype(np.float32) / shape[-1] ** 0.5
layers = [Layer(*matrix(1, 60), None, matrix(160, 60), None, matrix(60, 96), None, *matrix(1, 60), None,
                matrix(160, 60), None, matrix(60, 80), None) for _ in range(2)]
shape = Shape(2, 60, 3, 1, 32, 80, 111, 70, True, SWIGLU, 0)
def run(module, int8, steps=5):
    packed = module.pack(shape, Weights(matrix_of_tokens, layers, norm, None), int8)
    keys, values = np.zeros((2, 2, 2, 1, 70, 32), np.float32)
    return np.stack([module.step(packed, np.array([p, 9]), keys, values, np.array([p, p])) for p in range(steps)])
matrix_of_tokens, norm = matrix(111, 60), matrix(1, 60)[0]
def error(int8):
    wanted = run(twin, int8)
    return float(abs(run(decoder, int8) - wanted).max() / abs(wanted).max())
"""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="names of x86 processors")
@pytest.mark.parametrize(
    ("processor", "features", "size"),
    [("haswell", "+avx,+avx2,+fma", 32), ("x86-64", "+sse,+sse2", 16)],
    ids=["AVX2", "SSE2"],
)
def test_narrower_vectors_give_the_same_results(processor, features, size, tmp_path):
    module_of("numba")
    printed = in_a_process(
        "print(simd.VECTOR_BYTES, error(False) < 1e-5, error(True) < 1e-5)",
        NUMBA_CPU_NAME=processor,
        NUMBA_CPU_FEATURES=features,
        MINITX_CACHE_DIR=str(tmp_path),
    )
    assert printed == f"{size} True True"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads cannot be kept on one core here")
def test_three_workers_on_one_core_come_to_an_end():
    module_of("numba")
    printed = in_a_process(
        """
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
decoder.THREADS = 3
print(max(error(False) for _ in range(20)) < 1e-5)
"""
    )
    assert printed == "True"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_goes_on():
    module_of("numba")
    printed = in_a_process(
        """
decoder.THREADS = 2
first = run(decoder, False)
child = os.fork()
if child == 0:
    os._exit(0 if all(abs(run(decoder, False) - first).max() < 1e-5 for _ in range(20)) else 3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    )
    assert printed == "0"


def test_a_second_process_compiles_nothing():
    module_of("numba")
    code = "run(decoder, False); print(sum(decoder.step_tasks.on_all.stats.cache_misses.values()))"
    in_a_process(code)
    assert in_a_process(code) == "0"


def in_a_process(code, **environment):
    """What the code prints after IN_A_PROCESS, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS + code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
