"""The compiled decode step beside the plain path: the same logits, the same cache, and clear refusals."""

import threading

import numpy as np
import pytest

from minitx import graph, kernels, models, nn, no_grad, optim
from minitx.cache import KVCache
from minitx.decoding import compile_step
from minitx.errors import DtypeError
from minitx.tensor import Tensor

VOCABULARY, CONTEXT = 61, 80
GPTS = {
    **{positions: {"positions": positions} for positions in ("learned", "sinusoidal", "rotary", "alibi")},
    "rotary, interleaved, grouped": {"positions": "rotary", "rope_layout": "interleaved", "n_kv_heads": 2},
    "without biases, relu": {"bias": False, "activation": "relu"},
    "exact gelu, heads of their own width": {"activation": "gelu", "head_dim": 10, "d_ff": 50, "eps": 1e-3},
}
LLAMAS = {
    "llama": {},
    "llama, tied, interleaved": {
        "tied": True,
        "rope_layout": "interleaved",
        "n_kv_heads": 1,
        "rope_base": 300.0,
    },
}


def made(kind="learned"):
    """A model whose weights are large enough for tokens to differ, and whose biases are not 0."""
    if kind in GPTS:
        config = {"n_layers": 2, "n_heads": 4, "d_model": 24, **GPTS[kind]}
        model = models.GPT(models.GPTConfig(VOCABULARY, CONTEXT, **config), rng=0)
    else:
        config = {"n_layers": 3, "n_heads": 6, "n_kv_heads": 2, "d_model": 36, "d_ff": 70, **LLAMAS[kind]}
        model = models.Llama(models.LlamaConfig(VOCABULARY, CONTEXT, **config), rng=0)
    rng = np.random.default_rng(1)
    for parameter in model.parameters():
        parameter.array_to_update()[...] += (0.15 * rng.standard_normal(parameter.shape)).astype(np.float32)
    return model.eval()


def plain(model, ids, cache):
    with no_grad():
        return model(ids[:, None], cache=cache).numpy()[:, 0]


def relative(found, wanted):
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def filled(model, batch, rng, ragged=True):
    """Two equal caches that hold a prompt a row, read by the plain path."""
    ids, lengths = rng.integers(0, VOCABULARY, (batch, 9)), rng.integers(1, 10, batch) if ragged else None
    caches = model.new_cache(batch), model.new_cache(batch)
    with no_grad():
        for cache in caches:
            model(ids, cache=cache, lengths=lengths)
    return caches


def assert_same_caches(cache, other):
    np.testing.assert_array_equal(cache.lengths, other.lengths)
    for b, length in enumerate(cache.lengths):
        for mine, its in ((cache.keys, other.keys), (cache.values, other.values)):
            np.testing.assert_allclose(mine[:, b, :, :length], its[:, b, :, :length], atol=2e-5)


@pytest.mark.parametrize("kind", [*GPTS, *LLAMAS])
@pytest.mark.parametrize("batch", [1, 3])
def test_steps_give_the_logits_and_the_cache_of_the_plain_path(kind, batch, backend, rng):
    model = made(kind)
    step, (cache, other) = compile_step(model), filled(model, batch, rng)
    for turn in range(12):
        ids = rng.integers(0, VOCABULARY, batch)
        found, wanted = step(ids, cache), plain(model, ids, other)
        assert found.shape == (batch, VOCABULARY)
        assert found.dtype == np.float32
        assert relative(found, wanted) < 1e-5, f"step {turn}"
    assert_same_caches(cache, other)


@pytest.mark.parametrize("kind", [*GPTS, *LLAMAS])
def test_64_greedy_tokens_are_the_same_ids(kind, backend):
    model = made(kind)
    step, ids = compile_step(model), np.array([3, 14, 15, 9, 26, 53])
    found, cache = [ids], model.new_cache(6)
    wanted, other = [ids], model.new_cache(6)
    for _ in range(64):
        found.append(step(found[-1], cache).argmax(axis=1))
        wanted.append(plain(model, wanted[-1], other).argmax(axis=1))
    assert np.stack(found).tolist() == np.stack(wanted).tolist()
    assert len(np.unique(found)) > 8


@pytest.mark.parametrize("kind", ["learned", "llama"])
def test_float64_models_step_in_float64(kind, backend, rng):
    model = made(kind).astype(np.float64)
    step, (cache, other) = compile_step(model, weights="float64"), filled(model, 2, rng)
    ids = np.array([7, 60])
    found, wanted = step(ids, cache), plain(model, ids, other)
    assert found.dtype == np.float64
    assert relative(found, wanted) < 1e-13


def test_steps_and_the_plain_path_take_turns_on_one_cache(backend, rng):
    model = made("rotary")
    step, (cache, other) = compile_step(model), filled(model, 3, rng)
    for turn in range(10):
        ids = rng.integers(0, VOCABULARY, 3)
        found = step(ids, cache) if turn % 2 else plain(model, ids, cache)
        assert relative(found, plain(model, ids, other)) < 1e-5
        if turn == 5:
            shorter = np.maximum(cache.lengths - 2, 0)
            cache.truncate(shorter)
            other.truncate(shorter)
            cache, other = cache.fork([2, 0, 1]), other.fork([2, 0, 1])
    assert_same_caches(cache, other)


@pytest.mark.parametrize("kind", ["learned", "llama"])
def test_int8_weights_are_near_and_equal_the_plain_path_of_rounded_weights(kind, backend, rng):
    model = made(kind)
    step, (cache, other) = compile_step(model, weights="int8"), filled(model, 2, rng)
    ids = np.array([5, 50])
    found, exact = step(ids, cache), plain(model, ids, other)
    assert 1e-4 < relative(found, exact) < 0.03
    cache, other = (KVCache.fork(each) for each in filled(model, 2, np.random.default_rng(20170612)))
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2 and not name.startswith("positions"):
            weight = parameter.array_to_update()
            for column in range(0, weight.shape[1], 64):
                piece = weight[:, column : column + 64]
                factor = np.abs(piece).max(axis=1, keepdims=True) / np.float32(127)
                piece[...] = np.rint(piece / factor) * factor
    assert relative(found, plain(model, ids, other)) < 1e-5


def test_ids_may_be_a_list_a_tensor_or_of_any_integer_type(backend):
    model = made()
    step = compile_step(model)
    wanted = step(np.array([1, 2]), model.new_cache(2))
    strided = np.array([1, 9, 2, 9])[::2]
    for ids in (
        [1, 2],
        Tensor(np.array([1, 2])),
        np.array([1, 2], np.uint8),
        np.array([1, 2], np.int32),
        strided,
    ):
        np.testing.assert_array_equal(step(ids, model.new_cache(2)), wanted)


def test_the_logits_belong_to_the_caller(backend):
    model = made()
    step = compile_step(model)
    first = step([1], model.new_cache(1))
    kept = first.copy()
    step([2], model.new_cache(1))[...] = 0
    np.testing.assert_array_equal(first, kept)


REFUSED_CALLS = [
    ("ids of two axes", lambda m, c: ([[1], [2]], c), ValueError, r"ids must have shape \(B,\).*got \(2, 1\).*ids\[:, -1\]"),
    ("no ids", lambda m, c: (np.empty(0, int), c), ValueError, "ids must have shape"),
    ("ids that are floats", lambda m, c: ([1.0, 2.0], c), DtypeError, "ids must be integers, got float64"),
    ("ids that are booleans", lambda m, c: ([True, False], c), DtypeError, "ids must be integers, got bool"),
    ("an id beyond the vocabulary", lambda m, c: ([1, VOCABULARY], c), IndexError, "0 ... 60, got 61 in row 1"),
    ("an id below 0", lambda m, c: ([-1, 1], c), IndexError, "got -1 in row 0"),
    ("a huge id", lambda m, c: (np.array([1, 2**64 - 1], np.uint64), c), IndexError, "in row 1"),
    ("more ids than rows", lambda m, c: ([1, 2, 3], c), ValueError, r"must be \(2, 3, 4, 6\), got \(2, 2, 4, 6\)"),
    ("another model's cache", lambda m, c: ([1, 2], KVCache(2, 2, 4, 80, 7)), ValueError, "does not fit"),
    ("a cache of another dtype", lambda m, c: ([1, 2], KVCache(2, 2, 4, 80, 6, dtype=np.float64)), DtypeError, "cache must be float32"),
    ("a cache with a window", lambda m, c: ([1, 2], KVCache(2, 2, 4, 80, 6, window=80)), ValueError, "window"),
    ("no cache", lambda m, c: ([1, 2], None), TypeError, "cache must be a KVCache, got NoneType"),
    ("a row of a cache", lambda m, c: ([1], c.row(1)), ValueError, r"cache.fork\(\[b\]\)"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "call", "error", "message"), REFUSED_CALLS, ids=[case[0] for case in REFUSED_CALLS]
)
def test_a_wrong_call_is_refused_and_the_cache_stays_as_it_was(name, call, error, message, backend, rng):
    model = made()
    step, (cache, other) = compile_step(model), filled(model, 2, rng)
    ids, given = call(model, cache)
    with pytest.raises(error, match=message):
        step(ids, given)
    for mine, its in ((cache.keys, other.keys), (cache.values, other.values), (cache.lengths, other.lengths)):
        np.testing.assert_array_equal(mine, its)


def test_a_full_cache_and_the_end_of_the_context_are_refused_before_anything_is_written(backend):
    model = made()
    step, rng = compile_step(model), np.random.default_rng(0)
    for capacity, message in (
        (5, "row 1 holds 5 of 5 positions"),
        (CONTEXT + 9, "81 tokens.*context of this model, 80"),
    ):
        cache = model.new_cache(2, capacity)
        with no_grad():
            room = min(capacity, CONTEXT)
            model(rng.integers(0, VOCABULARY, (2, room)), cache=cache, lengths=[room - 1, room])
        keys, values, lengths = cache.keys.copy(), cache.values.copy(), cache.lengths
        with pytest.raises(ValueError, match=message):
            step([1, 2], cache)
        np.testing.assert_array_equal(cache.keys, keys)
        np.testing.assert_array_equal(cache.values, values)
        np.testing.assert_array_equal(cache.lengths, lengths)
        cache.truncate([room - 1, room - 1])
        step([1, 2], cache)
        assert cache.lengths.tolist() == [room, room]


def test_other_models_and_layers_are_refused():
    class Mine(models.GPT):
        """May compute anything."""

    class MyAttention(nn.MultiHeadAttention):
        """May attend to anything."""

    config = models.GPTConfig(VOCABULARY, CONTEXT, 2, 4, 24)
    with pytest.raises(TypeError, match="takes a GPT or a Llama, got Mine"):
        compile_step(Mine(config))
    with pytest.raises(TypeError, match="got Linear"):
        compile_step(nn.Linear(3, 4))  # pyright: ignore[reportArgumentType]
    model = made()
    model.blocks[1].attention = MyAttention(24, 4)
    with pytest.raises(TypeError, match="this model has a MyAttention"):
        compile_step(model)
    model = made()
    model.blocks[0].mlp.forward = lambda x: x
    with pytest.raises(TypeError, match="this model has a MLP"):
        compile_step(model)
    model = made()
    model.blocks[1] = nn.Block(24, 4, norm="post")
    with pytest.raises(TypeError, match="blocks differ"):
        compile_step(model)
    for blocks in ([], [nn.Linear(24, 24)]):
        model = made()
        model.blocks = blocks
        with pytest.raises(TypeError, match="blocks"):
            compile_step(model)
    model = made()
    model.blocks[1].mlp.down = nn.Linear(96, 20)
    with pytest.raises(TypeError, match="blocks differ"):
        compile_step(model)
    model = made()
    model.blocks[1].mlp.up = nn.Linear(24, 90)
    with pytest.raises(ValueError, match=r"layers\[1\].up must have shape \(96, 24\), got \(90, 24\)"):
        compile_step(model)
    model = made()
    model.norm = nn.RMSNorm(24)
    with pytest.raises(TypeError, match="blocks differ"):
        compile_step(model)
    model = made()
    model.norm.eps = 0.5
    with pytest.raises(ValueError, match="one eps"):
        compile_step(model)


def test_wrong_weights_are_refused():
    model = made()
    with pytest.raises(ValueError, match="\"int8\", got 'int4'"):
        compile_step(model, weights="int4")  # pyright: ignore[reportArgumentType]
    with pytest.raises(DtypeError, match=r"The model is float32, not float64: model.astype"):
        compile_step(model, weights="float64")
    model.blocks[1].mlp.up.weight.array_to_update()[3, 3] = np.nan
    with pytest.raises(ValueError, match=r"blocks.1.mlp.up.weight has a NaN"):
        compile_step(model, weights="int8")
    model.blocks[1].mlp.up.bias.change_dtype(np.float64)
    with pytest.raises(DtypeError, match=r"tokens.weight is float32, blocks.1.mlp.up.bias float64"):
        compile_step(model)


def test_a_nan_in_the_weights_reaches_the_logits_as_in_the_plain_path(backend):
    model = made()
    model.blocks[1].mlp.up.weight.array_to_update()[3, 3] = np.nan
    assert np.isnan(compile_step(model)([1], model.new_cache(1))).all()


def by_an_optimiser(model):
    model(np.array([[1, 2, 3]])).sum().backward()
    optim.SGD(model.parameters(), lr=1e-3).step()


def by_loading(model):
    model.load_state_dict(
        made("learned").astype(np.float32).state_dict() | {"norm.bias": np.ones(24, np.float32)}
    )


def by_data_in_place(model):
    model.tokens.weight.data[...] *= 1.5


def by_new_data(model):
    model.blocks[0].mlp.down.bias.data = np.ones(24)


CHANGES = [by_an_optimiser, by_loading, by_data_in_place, by_new_data]


@pytest.mark.parametrize("change", CHANGES, ids=[change.__name__ for change in CHANGES])
def test_weights_that_change_after_compiling_are_seen(change, backend):
    model, ids = made(), np.array([4])
    step = compile_step(model)
    before = step(ids, model.new_cache(1))
    change(model)
    found, wanted = step(ids, model.new_cache(1)), plain(model, ids, model.new_cache(1))
    assert relative(found, wanted) < 1e-5
    assert relative(found, before) > 1e-4


@pytest.mark.parametrize("change", ["a new array", "an update from nowhere"])
def test_a_change_is_seen_by_the_memory_or_its_version_alone(change, backend, monkeypatch):
    """Neither leaves the line of a change behind: a parameter never changed before, and no caller outside."""
    model = models.GPT(models.GPTConfig(VOCABULARY, CONTEXT, 1, 2, 24), rng=0)
    step, ids = compile_step(model), np.array([4])
    before = step(ids, model.new_cache(1))
    if change == "a new array":
        assert model.norm.weight._storage.changed_at is None
        model.norm.weight.data = np.linspace(1, 2, 24)
    else:
        monkeypatch.setattr(graph, "calling_line", lambda: None)
        model.norm.weight.array_to_update()[...] = np.linspace(1, 2, 24)
    found = step(ids, model.new_cache(1))
    assert relative(found, plain(model, ids, model.new_cache(1))) < 1e-5
    assert relative(found, before) > 1e-2


def test_a_model_that_becomes_float64_steps_in_float64(backend):
    model, ids = made(), np.array([4])
    step = compile_step(model)
    step(ids, model.new_cache(1))
    model.astype(np.float64)
    found = step(ids, model.new_cache(1))
    assert found.dtype == np.float64
    assert relative(found, plain(model, ids, model.new_cache(1))) < 1e-13


@pytest.mark.parametrize("change", ["an array handed out earlier", "another layer"])
def test_a_change_that_cannot_be_seen_needs_refresh(change, backend):
    model, ids = made(), np.array([4])
    array = model.tokens.weight.data
    step = compile_step(model)
    before = step(ids, model.new_cache(1))
    if change == "another layer":
        model.blocks[0].mlp = nn.MLP(24, rng=7)
    else:
        array[...] *= 1.5
    step.refresh()
    found = step(ids, model.new_cache(1))
    assert relative(found, plain(model, ids, model.new_cache(1))) < 1e-5
    assert relative(found, before) > 1e-4


def test_unchanged_weights_are_not_copied_again(backend, monkeypatch):
    model = made()
    step = compile_step(model)
    monkeypatch.setattr(step, "refresh", lambda: pytest.fail("copied again"))
    cache = model.new_cache(1)
    for number in (1, 2, 3):
        step([number], cache)
        plain(model, np.array([number]), model.new_cache(1))
        model.state_dict()


def test_a_step_follows_the_back_end_in_use():
    pytest.importorskip("numba")
    model, before = made(), kernels.backend()
    try:
        kernels.use("numba")
        step = compile_step(model)
        found = step([5], model.new_cache(1))
        kernels.use("numpy")
        np.testing.assert_allclose(step([5], model.new_cache(1)), found, atol=1e-5 * np.abs(found).max())
    finally:
        kernels.use(before)


def test_two_python_threads_share_a_step(backend):
    model = made("llama")
    step = compile_step(model)

    def texts(start):
        cache, ids, found = model.new_cache(1), np.array([start]), []
        for _ in range(30):
            ids = step(ids, cache).argmax(axis=1)
            found.append(int(ids[0]))
        return found

    wanted, found = [texts(start) for start in (1, 2)], [[], []]

    def work(number):
        found[number] += [texts(number + 1) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in (0, 1):
        assert found[number] == [wanted[number]] * 5


def test_both_sides_of_the_benchmark_write_the_same(monkeypatch):
    pytest.importorskip("torch")
    pytest.importorskip("numba")
    from minitx.bench import decode, timing

    monkeypatch.setattr(timing, "ROUNDS", 1)
    monkeypatch.setattr(timing, "SECONDS", 0.001)
    llama = models.LlamaConfig(40, 64, 2, 6, 2, 48, 50, 500.0, "interleaved", tied=True)
    for config in (models.GPTConfig(40, 64, 2, 4, 64), llama):
        rows = decode.measure(decode.Workload("small", config, 64, 1.0, 2.0))
        assert [row["workload"] for row in rows] == ["decode step", "decode step, int8"]
        assert [row["goal"] for row in rows] == [1.0, 2.0]
        assert rows[0]["max_error"] < 1e-5
        assert 1e-5 < rows[1]["max_error"] < 0.05
        for row in rows:
            assert row["ratio"] == row["peer_ms"] / row["minitx_ms"]
            assert row["limit_share"] > 0
