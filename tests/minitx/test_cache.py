"""With a cache as without: every way of cutting a text, every kind of positions, rows of different lengths."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitx
from minitx import KVCache, models

VOCAB, CONTEXT = 13, 24
POSITIONS = ("learned", "sinusoidal", "rotary", "interleaved", "alibi")


def gpt(positions, n_kv_heads=4, n_layers=3):
    layout = "interleaved" if positions == "interleaved" else "half"
    kind = "rotary" if positions == "interleaved" else positions
    config = models.GPTConfig(
        VOCAB, CONTEXT, n_layers, 4, 16, n_kv_heads=n_kv_heads, positions=kind, rope_layout=layout
    )
    model = models.GPT(config, rng=0).astype(np.float64)
    rng = np.random.default_rng(7)
    for parameter in model.parameters():
        parameter.data = rng.standard_normal(parameter.shape) * 0.4
    return model


MODELS = {(name, kv): gpt(name, kv) for name in POSITIONS for kv in (1, 2, 4)}


def in_pieces(model, ids, cuts, cache):
    """Logits of ids (B, n), fed in pieces that end at `cuts`."""
    edges = [0, *sorted(cuts), ids.shape[1]]
    with minitx.no_grad():
        parts = [model(ids[:, a:b], cache=cache).numpy() for a, b in pairwise(edges) if a < b]
    return np.concatenate(parts, axis=1)


def assert_same_cache(got, expected):
    """Names the first layer, row, head and position that differ."""
    for name in ("keys", "values"):
        a, b = getattr(got, name), getattr(expected, name)
        np.testing.assert_array_equal(got.lengths, expected.lengths)
        for row, length in enumerate(got.lengths):
            wrong = np.argwhere(abs(a[:, row, :, :length] - b[:, row, :, :length]).max(axis=-1) > 1e-9)
            if wrong.size:
                layer, head, place = wrong[0]
                pytest.fail(f"{name} differ first at layer {layer}, row {row}, head {head}, position {place}")


@settings(max_examples=200)
@given(data=st.data())
def test_a_cached_text_gives_the_same_logits_however_it_is_cut(data):
    model = MODELS[data.draw(st.sampled_from(POSITIONS)), data.draw(st.sampled_from([1, 2, 4]))]
    batch, n = data.draw(st.integers(1, 3)), data.draw(st.integers(1, CONTEXT))
    ids = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, VOCAB, (batch, n))
    cuts = data.draw(st.sets(st.integers(1, max(1, n - 1)), max_size=n)) if n > 1 else set()
    cache, whole = model.new_cache(batch), model.new_cache(batch)
    got = in_pieces(model, ids, cuts, cache)
    model(ids, cache=whole)
    assert_same_cache(cache, whole)
    np.testing.assert_allclose(got, model(ids).numpy(), atol=1e-9)


@settings(max_examples=200)
@given(data=st.data())
def test_rows_of_their_own_lengths_give_what_each_gives_alone(data):
    model = MODELS[data.draw(st.sampled_from(POSITIONS)), data.draw(st.sampled_from([1, 2, 4]))]
    batch = data.draw(st.integers(2, 3))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    lengths = np.array([data.draw(st.integers(1, 9)) for _ in range(batch)])
    more = np.array([data.draw(st.integers(0, 4)) for _ in range(batch)])
    first, second = rng.integers(0, VOCAB, (batch, lengths.max())), rng.integers(0, VOCAB, (batch, 4))
    step = rng.integers(0, VOCAB, (batch, 1))
    cache = model.new_cache(batch)
    with minitx.no_grad():
        a = model(first, cache=cache, lengths=lengths).numpy()
        b = model(second, cache=cache, lengths=more).numpy()
        c = model(step, cache=cache).numpy()
        np.testing.assert_array_equal(cache.lengths, lengths + more + 1)
        for row in range(batch):
            alone = np.concatenate([first[row, : lengths[row]], second[row, : more[row]], step[row]])[None]
            expected = model(alone).numpy()[0]
            got = np.concatenate([a[row, : lengths[row]], b[row, : more[row]], c[row]])
            np.testing.assert_allclose(got, expected, atol=1e-9, err_msg=f"row {row}")


@settings(max_examples=60)
@given(data=st.data())
def test_a_window_gives_the_same_however_the_text_is_cut_and_as_an_independent_window(data):
    """The oracle runs the whole kept text, sinks and newest tokens, through a layer without any cache.

    With one layer keys depend on their token alone, so the window can be written down directly.
    """
    positions = data.draw(st.sampled_from(["rotary", "interleaved", "alibi"]))
    model = gpt(positions, data.draw(st.sampled_from([1, 2, 4])), n_layers=1)
    sinks, window = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 5))
    n, batch = data.draw(st.integers(1, 14)), 2
    ids = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, VOCAB, (batch, n))
    cuts = data.draw(st.sets(st.integers(1, max(1, n - 1)), max_size=n)) if n > 1 else set()
    cache = model.new_cache(batch, window=window, sinks=sinks)
    got = in_pieces(model, ids, cuts, cache)
    for place in range(n):
        kept = [j for j in range(place + 1) if j < sinks or j > place - window]
        expected = model(ids[:, kept]).numpy()[:, -1]
        np.testing.assert_allclose(got[:, place], expected, atol=1e-9, err_msg=f"token {place}")


def test_rows_of_a_window_that_differ_in_length_give_what_each_gives_alone(rng):
    model = gpt("rotary")
    ids, lengths = rng.integers(0, VOCAB, (3, 11)), np.array([11, 3, 8])
    cache = model.new_cache(3, window=4, sinks=1)
    with minitx.no_grad():
        got = model(ids, cache=cache, lengths=lengths).numpy()
        step = model(ids[:, :1], cache=cache).numpy()
    np.testing.assert_array_equal(cache.lengths, [5, 4, 5])
    for row, length in enumerate(lengths):
        alone = model.new_cache(1, window=4, sinks=1)
        text = np.concatenate([ids[row, :length], ids[row, :1]])[None]
        expected = in_pieces(model, text, set(), alone)[0]
        np.testing.assert_allclose(np.concatenate([got[row, :length], step[row]]), expected, atol=1e-9)


def test_a_prefill_of_six_equals_six_steps_in_every_layer(rng):
    model, ids = gpt("rotary"), rng.integers(0, VOCAB, (2, 6))
    at_once, by_steps = model.new_cache(2), model.new_cache(2)
    in_pieces(model, ids, set(), at_once)
    in_pieces(model, ids, set(range(1, 6)), by_steps)
    assert_same_cache(by_steps, at_once)


def test_two_continuations_of_one_prompt(rng):
    model, prompt = gpt("learned"), rng.integers(0, VOCAB, (1, 7))
    cache = model.new_cache(1)
    in_pieces(model, prompt, set(), cache)
    before = cache.keys.copy()
    both = cache.fork([0, 0])
    ends = rng.integers(0, VOCAB, (2, 4))
    got = in_pieces(model, ends, {2}, both)
    expected = model(np.concatenate([np.repeat(prompt, 2, axis=0), ends], axis=1)).numpy()[:, 7:]
    np.testing.assert_allclose(got, expected, atol=1e-9)
    assert cache.length == 7
    np.testing.assert_array_equal(cache.keys, before)


def test_truncating_takes_a_step_back(rng):
    model, ids = gpt("alibi"), rng.integers(0, VOCAB, (2, 10))
    cache = model.new_cache(2)
    first = in_pieces(model, ids, set(), cache)
    cache.truncate(4)
    np.testing.assert_allclose(in_pieces(model, ids[:, 4:], {2}, cache), first[:, 4:], atol=1e-9)


def test_a_pass_that_fails_leaves_the_cache_as_it_was(rng):
    model, ids = gpt("learned"), rng.integers(0, VOCAB, (1, 5))
    cache = model.new_cache(1)
    in_pieces(model, ids, set(), cache)
    good, model.blocks[1].mlp.forward = model.blocks[1].mlp.forward, None
    with pytest.raises(TypeError):
        model(ids, cache=cache)
    model.blocks[1].mlp.forward = good
    assert cache.length == 5
    more = rng.integers(0, VOCAB, (1, 3))
    expected = model(np.concatenate([ids, more], axis=1)).numpy()[:, 5:]
    np.testing.assert_allclose(in_pieces(model, more, set(), cache), expected, atol=1e-9)


def test_a_full_cache_is_refused_before_anything_is_written(rng):
    model = gpt("rotary")
    cache = model.new_cache(2, capacity=6)
    in_pieces(model, rng.integers(0, VOCAB, (2, 5)), set(), cache)
    keys = cache.keys.copy()
    with pytest.raises(ValueError, match="row 0 holds 5 of 6 positions, and 2 more do not fit"):
        model(np.zeros((2, 2), int), cache=cache)
    np.testing.assert_array_equal(cache.keys, keys)
    assert cache.length == 5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda m: m(np.zeros((1, 2), int), cache=m.new_cache(2)),
            r"expected|must be .*\(3, 1, 4, 4\), got \(3, 2",
        ),
        (lambda m: m(np.zeros((1, 2), int), cache=KVCache(2, 1, 4, 9, 4, dtype=np.float64)), "does not fit"),
        (lambda m: m(np.zeros((1, 2), int), cache=KVCache(3, 1, 4, 9, 4)), "cache must be float64"),
        (lambda m: m.new_cache(1, window=4), "LearnedPositions are added at the input"),
        (
            lambda m: m(np.zeros((1, CONTEXT + 1), int), cache=m.new_cache(1, capacity=99)),
            "longer than the context",
        ),
        (lambda m: m(np.zeros((2, 3), int), lengths=[3, 4]), r"in 0 \.\.\. n = 3"),
        (lambda m: m(np.zeros((2, 3), int), lengths=[3]), r"lengths must have shape \(B = 2,\)"),
        (lambda m: KVCache(1, 1, 1, 5, 4, window=3, sinks=1), r"capacity = sinks \+ window"),
        (lambda m: KVCache(1, 1, 1, 5, 4, sinks=1), "give a window"),
        (lambda m: KVCache(1, 0, 1, 5, 4), "batch must be at least 1, got 0"),
    ],
)
def test_wrong_use_of_a_cache_is_explained(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make(gpt("learned"))


def test_gradients_reach_the_new_keys_and_not_the_cached_ones(rng):
    """Against the whole text, whose first part is a constant."""
    model, ids = gpt("rotary", n_layers=1), rng.integers(0, VOCAB, (2, 8))
    cache = model.new_cache(2)
    with minitx.no_grad():
        model(ids[:, :5], cache=cache)
    model(ids[:, 5:], cache=cache).sum().backward()
    attention = model.blocks[0].attention
    got = {name: getattr(attention, name).weight.grad for name in ("q_proj", "k_proj", "v_proj")}
    assert all(abs(grad).max() > 0 for grad in got.values())
    model.zero_grad()

    def with_a_constant_start(y, project):
        return minitx.functional.concatenate([project(y[:, :5]).detach(), project(y[:, 5:])], axis=1)

    for layer in (attention.k_proj, attention.v_proj):
        layer.forward = partial(with_a_constant_start, project=layer.forward)
    model(ids)[:, 5:].sum().backward()
    for name in ("k_proj", "v_proj", "q_proj"):
        np.testing.assert_allclose(got[name], getattr(attention, name).weight.grad, atol=1e-9, err_msg=name)


def test_bytes_of_a_token():
    """GPT-2 small in float32: 72 KiB a token (2 x 12 layers x 12 heads x 64 numbers x 4 bytes)."""
    cache = KVCache(12, 1, 12, 5, 64)
    assert cache.bytes_per_token == 72 * 1024
    assert cache.nbytes == 5 * 72 * 1024


@pytest.mark.parametrize(("p", "g"), [(1, 1), (1, 9), (5, 6), (12, 10)])
def test_rows_through_the_key_projection_are_those_of_the_formula(p, g):
    """Cached p + g - 1, recomputed g p + g (g - 1) / 2: counted, for greedy decoding of g tokens."""
    model = gpt("rotary", n_layers=2)
    layer, counted = model.blocks[1].attention, {"rows": 0}
    project = layer.k_proj.forward

    def count(x):
        counted["rows"] += x.shape[0] * x.shape[1]
        return project(x)

    layer.k_proj.forward = count
    ids = np.arange(p)[None] % VOCAB

    def generate(step):
        text = ids
        counted["rows"] = 0
        with minitx.no_grad():
            for i in range(g):
                logits = step(text, i)
                text = np.concatenate([text, logits[:, -1:].argmax(axis=-1)], axis=1)
        return text, counted["rows"]

    cache = model.new_cache(1)
    cached, rows = generate(lambda text, i: model(text[:, 0 if i == 0 else -1 :], cache=cache).numpy())
    plain, many = generate(lambda text, i: model(text).numpy())
    np.testing.assert_array_equal(cached, plain)
    assert (rows, many) == (p + g - 1, g * p + g * (g - 1) // 2)


@pytest.mark.parametrize("counts", [-1, np.array([0, -1]), 4, np.array([0, 4])])
def test_rows_grow_within_the_capacity_or_not_at_all(counts):
    cache = minitx.KVCache(1, 2, 1, 5, 2)
    cache.advance(2)
    with pytest.raises(ValueError, match="cannot grow"):
        cache.advance(counts)
    assert cache.lengths.tolist() == [2, 2]
