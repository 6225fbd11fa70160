"""The action expert against one joint pass over prefix and waypoints, written here in plain NumPy.

The toy: two rows of different lengths (7 and 4 prefix tokens), three layers, six waypoints of two numbers; the
language model 32 wide with 4 heads of queries, the expert 24 wide with 2, both with 2 heads of keys. float64.
"""

import numpy as np
import pytest

import minitx
from minitx import KVCache, Tensor, models, nn
from minitx.models.expert import ActionExpert, ActionExpertConfig
from minitx.recorded import RecordedCache

B, LAYERS, P, T, CHANNELS, HEAD, KV = 2, 3, 7, 6, 2, 8, 2
LENGTHS = np.array([7, 4])
STEPS = 10


@pytest.fixture(scope="module")
def toy():
    """(language model, expert), their weights large enough that attention is far from uniform."""
    sizes = {
        "vocab_size": 11,
        "context": 64,
        "n_layers": LAYERS,
        "n_heads": 4,
        "n_kv_heads": KV,
        "d_model": 32,
        "d_ff": 40,
    }
    model = models.Llama(models.LlamaConfig(**sizes), rng=0).astype(np.float64)
    config = ActionExpertConfig.for_model(model, n_heads=2, d_model=24, d_ff=28, waypoints=T)
    expert = ActionExpert(config, rng=1).astype(np.float64)
    rng = np.random.default_rng(2)
    for module in (model, expert):
        for parameter in module.parameters():
            size = 0.3 if parameter.ndim == 2 else 0.1
            parameter.array_to_update()[...] = (parameter.ndim == 1) + size * rng.standard_normal(
                parameter.shape
            )
    return model, expert


@pytest.fixture
def inputs(rng):
    prefix = rng.standard_normal((B, P, 32))
    return prefix, rng.standard_normal((B, T, CHANNELS)), np.array([0.3, 0.8])


def read(model, prefix, lengths=LENGTHS, capacity=P + STEPS * T):
    cache = model.new_cache(len(prefix), capacity=capacity)
    with minitx.no_grad():
        model.forward_embeddings(Tensor(prefix), cache=cache, lengths=np.asarray(lengths))
    return cache


def record(model, prefix, lengths=LENGTHS):
    cache = RecordedCache(LAYERS, len(prefix), KV, P + T, HEAD, dtype=np.float64)
    x = prefix if isinstance(prefix, Tensor) else Tensor(prefix)
    model.forward_embeddings(x, cache=cache, lengths=np.asarray(lengths))
    return cache


def step(expert, actions, time, cache):
    """One velocity, and the cache as before."""
    held = cache.lengths
    with minitx.no_grad():
        velocity = expert(actions, time, cache).numpy()
    cache.truncate(held)
    return velocity


# The oracle: both towers at once, one row at a time, without any cache. It shares no code with the library.


def rms(x, norm):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + norm.eps) * norm.weight.numpy()


def turned(x, positions, base=10000.0):
    """(H, n, d): pair (x_i, x_{i + d/2}) as a complex number, times e^(i angle)."""
    half = x.shape[-1] // 2
    angles = positions[:, None] * base ** (-np.arange(half) / half)
    pairs = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)
    return np.concatenate([pairs.real, pairs.imag], axis=-1)


def heads(x, linear):
    y = x @ linear.weight.numpy().T
    return y.reshape(len(x), -1, HEAD).transpose(1, 0, 2)


def after_attention(x, mixed, block):
    x = x + mixed.transpose(1, 0, 2).reshape(len(x), -1) @ block.attention.out_proj.weight.numpy().T
    y = rms(x, block.mlp_norm)
    gate, up, down = (getattr(block.mlp, name).weight.numpy().T for name in ("gate", "up", "down"))
    gated = y @ gate
    return x + (gated / (1 + np.exp(-gated)) * (y @ up)) @ down


def tokens_of(expert, actions, time):
    rates = np.pi / 8 * 2.0 ** np.arange(expert.config.frequencies)
    rows = []
    for k, pair in enumerate(actions):
        numbers = [*pair, time]
        features = np.concatenate([np.r_[np.sin(a * rates), np.cos(a * rates)] for a in numbers])
        y = features @ expert.lift.weight.numpy().T + expert.lift.bias.numpy()
        y = (y / (1 + np.exp(-y))) @ expert.mix.weight.numpy().T + expert.mix.bias.numpy()
        d = len(y)
        place = np.empty(d)
        for i in range(0, d, 2):
            place[i], place[i + 1] = np.sin(k / 10000 ** (i / d)), np.cos(k / 10000 ** (i / d))
        rows.append(rms(y, expert.lift_norm) + place)
    return np.array(rows)


def joint(model, expert, prefix, length, actions, time, shift=0):
    """One row: the hidden states of its prefix and the velocities of its waypoints."""
    x, y = prefix[:length], tokens_of(expert, actions, time)
    n = length + T
    allowed = np.zeros((n, n), bool)
    allowed[:length, :length] = np.tri(length, dtype=bool)
    allowed[length:] = True
    positions = np.arange(n) + shift
    for one, two in zip(model.blocks, expert.blocks, strict=True):
        q, k, v = [], [], []
        for z, block in ((x, one), (y, two)):
            normed = rms(z, block.attention_norm)
            q.append(heads(normed, block.attention.q_proj))
            k.append(heads(normed, block.attention.k_proj))
            v.append(heads(normed, block.attention.v_proj))
        keys, values = turned(np.concatenate(k, 1), positions), np.concatenate(v, 1)
        mixed = []
        for asking, rows in ((q[0], slice(0, length)), (q[1], slice(length, n))):
            queries = turned(asking, positions[rows])
            group = len(queries) // KV
            out = np.zeros_like(queries)
            for h, query in enumerate(queries):
                scores = query @ keys[h // group].T / np.sqrt(HEAD)
                weights = np.where(allowed[rows], np.exp(scores - scores.max()), 0)
                out[h] = weights / weights.sum(-1, keepdims=True) @ values[h // group]
            mixed.append(out)
        x, y = after_attention(x, mixed[0], one), after_attention(y, mixed[1], two)
    hidden = rms(x, model.norm)
    return hidden, rms(y, expert.norm) @ expert.head.weight.numpy().T + expert.head.bias.numpy()


def jointly(model, expert, prefix, actions, time, lengths=LENGTHS):
    rows = [joint(model, expert, prefix[b], lengths[b], actions[b], time[b]) for b in range(len(prefix))]
    return np.stack([row[1] for row in rows])


# The ten tests of a faithful toy.


@pytest.mark.parametrize("kind", [read, record])
def test_1_the_expert_on_the_cache_equals_the_joint_pass(backend, toy, inputs, kind):
    model, expert = toy
    prefix, actions, time = inputs
    velocity = step(expert, actions, time, kind(model, prefix))
    expected = jointly(model, expert, prefix, actions, time)
    for b in range(B):
        for k in range(T):
            np.testing.assert_allclose(
                velocity[b, k], expected[b, k], atol=1e-12, err_msg=f"row {b} waypoint {k}"
            )


def test_2_the_cache_is_the_same_after_a_step_and_after_a_sample(toy, inputs):
    model, expert = toy
    prefix, actions, time = inputs
    cache = read(model, prefix)
    before = [
        (cache.keys[:, b, :, :n].copy(), cache.values[:, b, :, :n].copy()) for b, n in enumerate(LENGTHS)
    ]
    for act in (lambda: step(expert, actions, time, cache), lambda: expert.sample(cache, noise=actions)):
        act()
        np.testing.assert_array_equal(cache.lengths, LENGTHS)
        for b, (n, (keys, values)) in enumerate(zip(LENGTHS, before, strict=True)):
            np.testing.assert_array_equal(cache.keys[:, b, :, :n], keys)
            np.testing.assert_array_equal(cache.values[:, b, :, :n], values)


def test_3_waypoints_see_one_another_both_ways_and_the_prefix_sees_none(toy, inputs):
    model, expert = toy
    prefix, actions, time = inputs
    cache = read(model, prefix)
    other = actions.copy()
    other[:, -1] += 1.0
    moved = np.abs(step(expert, other, time, cache) - step(expert, actions, time, cache))
    assert moved[:, 0].max(axis=-1).min() > 0.01
    hidden = [joint(model, expert, prefix[0], 7, a[0], time[0])[0] for a in (actions, other)]
    np.testing.assert_allclose(hidden[0], hidden[1], atol=1e-13)
    with minitx.no_grad():
        ours = model.forward_embeddings(Tensor(prefix)).numpy()
    np.testing.assert_allclose(ours[0], hidden[0], atol=1e-12)


@pytest.mark.parametrize("b", range(B))
def test_4_a_row_of_a_ragged_batch_equals_the_row_alone(toy, inputs, b):
    model, expert = toy
    prefix, actions, _time = inputs
    together = expert.sample(read(model, prefix), noise=actions)
    one = slice(b, b + 1)
    alone = read(model, prefix[one, : LENGTHS[b]], LENGTHS[one])
    np.testing.assert_allclose(expert.sample(alone, noise=actions[one])[0], together[b], atol=1e-12)


def test_5_garbage_behind_a_rows_end_is_ignored(toy, inputs):
    model, expert = toy
    prefix, actions, time = inputs
    cache = read(model, prefix)
    expected = step(expert, actions, time, cache)
    for b, n in enumerate(LENGTHS):
        cache.keys[:, b, :, n:], cache.values[:, b, :, n:] = 1e30, -1e30
    np.testing.assert_array_equal(step(expert, actions, time, cache), expected)
    padded = prefix.copy()
    padded[1, LENGTHS[1] :] = 1e6
    for kind in (read, record):
        np.testing.assert_allclose(step(expert, actions, time, kind(model, padded)), expected, atol=1e-12)


@pytest.mark.parametrize("token", range(4))
def test_6_every_prefix_token_matters(toy, inputs, token):
    model, expert = toy
    prefix, actions, time = inputs
    expected = step(expert, actions, time, read(model, prefix))
    prefix[:, token] += 1.0
    moved = np.abs(step(expert, actions, time, read(model, prefix)) - expected)
    assert moved.max(axis=(1, 2)).min() > 0.01


def test_7_forgetting_to_crop_shows_in_a_sample_but_not_in_a_step(toy, inputs):
    model, expert = toy
    prefix, actions, _ = inputs
    kept, x, first = read(model, prefix), actions, None
    for i in range(STEPS):
        with minitx.no_grad():
            x = x + expert(x, np.full(B, i / STEPS), kept).numpy() / STEPS
        first = x if first is None else first
    np.testing.assert_array_equal(kept.lengths, LENGTHS + STEPS * T)
    cropped = read(model, prefix)
    sampled = expert.sample(cropped, noise=actions)
    assert np.abs(sampled - x).max() > 0.01
    np.testing.assert_array_equal(cropped.lengths, LENGTHS)
    one_step = actions + (first - actions) * STEPS
    np.testing.assert_allclose(expert.sample(cropped, noise=actions, steps=1), one_step, atol=1e-12)


def test_7b_a_sample_is_ten_euler_steps_of_the_joint_pass(toy, inputs):
    model, expert = toy
    prefix, actions, _ = inputs
    x = actions
    for i in range(STEPS):
        x = x + jointly(model, expert, prefix, x, np.full(B, i / STEPS)) / STEPS
    np.testing.assert_allclose(expert.sample(read(model, prefix), noise=actions), x, atol=1e-11)


class Shifted(nn.RotaryPositions):
    def rotate(self, x, positions):
        return super().rotate(x, positions + 11)


def test_8_shifting_all_positions_changes_nothing_and_those_of_one_tower_do(toy, inputs):
    model, expert = toy
    prefix, actions, time = inputs
    expected = step(expert, actions, time, read(model, prefix))
    plain = model.blocks[0].attention.positions
    towers = (model.blocks, expert.blocks)
    try:
        for blocks in towers:
            for block in blocks:
                block.attention.positions = Shifted(HEAD)
        np.testing.assert_allclose(step(expert, actions, time, read(model, prefix)), expected, atol=1e-12)
        for block in model.blocks:
            block.attention.positions = plain
        assert np.abs(step(expert, actions, time, read(model, prefix)) - expected).max() > 0.01
    finally:
        for blocks in towers:
            for block in blocks:
                block.attention.positions = plain


def test_9_the_cache_saves_rows_through_the_key_projections(toy, inputs, monkeypatch):
    model, expert = toy
    prefix, actions, _ = inputs
    keys = [block.attention.k_proj for block in (*model.blocks, *expert.blocks)]
    rows, plain = [], nn.Linear.forward

    def counting(self, x):
        if any(self is key for key in keys):
            rows.append(x.shape[0] * x.shape[1])
        return plain(self, x)

    monkeypatch.setattr(nn.Linear, "forward", counting)
    expert.sample(read(model, prefix), noise=actions)
    assert sum(rows) == B * LAYERS * (P + STEPS * T) == 402
    rows.clear()
    for _ in range(STEPS):  # the prefix again for every step
        expert.sample(read(model, prefix), noise=actions, steps=1)
    assert sum(rows) == B * LAYERS * STEPS * (P + T) == 780


def test_10_detached_the_loss_trains_the_expert_alone_and_else_both(toy, inputs):
    model, expert = toy
    prefix, data, _ = inputs
    for detach in (True, False):
        model.zero_grad()
        expert.zero_grad()
        x = Tensor(prefix, requires_grad=True)
        cache = record(model, x)
        loss = expert.loss(data, cache, rng=5, detach=detach)
        loss.backward()
        np.testing.assert_array_equal(cache.lengths, LENGTHS)
        assert all(np.abs(p.grad).max() > 0 for p in expert.parameters())
        reached = [block.attention.k_proj.weight.grad for block in model.blocks]
        if detach:
            assert x.grad is None and all(grad is None for grad in reached)
        else:
            assert all(np.abs(grad).max() > 0 for grad in reached)
            assert np.abs(x.grad[0]).max(axis=-1).min() > 0
            assert not x.grad[1, LENGTHS[1] :].any()


@pytest.mark.parametrize("detach", [True, False])
def test_10b_the_loss_and_its_gradients_are_those_of_the_joint_pass(toy, inputs, detach):
    """Both towers' gradients against differences of the oracle, along random directions."""
    model, expert = toy
    prefix, data, _ = inputs
    draw = np.random.default_rng(5)
    time = 0.999 * (1 - draw.beta(1.5, 1.0, B))
    noise = draw.standard_normal(data.shape)
    noisy = (1 - time[:, None, None]) * noise + time[:, None, None] * data

    def oracle(prefix):
        return ((jointly(model, expert, prefix, noisy, time) - (data - noise)) ** 2).mean()

    def ours(*, of):
        for module in (model, expert):
            module.zero_grad()
        x = Tensor(prefix, requires_grad=True)
        loss = expert.loss(data, record(model, x), rng=5, detach=detach)
        loss.backward()
        return loss.item(), x.grad if of is None else of.grad

    assert ours(of=None)[0] == pytest.approx(oracle(prefix), rel=1e-12)
    rng, h = np.random.default_rng(3), 1e-6
    own = expert.blocks[1].attention.k_proj.weight
    way = rng.standard_normal(own.shape)
    gradient = (ours(of=own)[1] * way).sum()
    values = own.numpy()
    try:
        changes = []
        for sign in (1, -1):
            own.array_to_update()[...] = values + sign * h * way
            changes.append(sign * oracle(prefix))
    finally:
        own.array_to_update()[...] = values
    assert gradient == pytest.approx(sum(changes) / (2 * h), rel=1e-5)
    if not detach:
        way = rng.standard_normal(prefix.shape)
        change = (oracle(prefix + h * way) - oracle(prefix - h * way)) / (2 * h)
        assert (ours(of=None)[1] * way).sum() == pytest.approx(change, rel=1e-5)


# What the tests above must be able to see. Each fault is put in, and the result moves away from the oracle's.


class Restarted(KVCache):
    lengths = property(lambda self: np.ones(self.batch, np.int64))


class Padded(KVCache):
    lengths = property(lambda self: np.full(self.batch, self.length))


class Unmasked(KVCache):
    def allowed(self, n, causal, counts=None):
        return None


def renamed(kind):
    def change(cache):
        cache.__class__ = kind

    return change


def swap(cache):
    cache.keys, cache.values = cache.values, cache.keys


def reverse(cache):
    cache.keys, cache.values = cache.keys[::-1].copy(), cache.values[::-1].copy()


def last_everywhere(cache):
    cache.keys[:], cache.values[:] = cache.keys[-1:].copy(), cache.values[-1:].copy()


def blind(cache):
    cache.keys[:, :, :, : LENGTHS.min()], cache.values[:, :, :, : LENGTHS.min()] = 0, 0


FAULTS = {
    "positions start again": (renamed(Restarted), {0, 1}),
    "positions from the padded length": (renamed(Padded), {1}),
    "no mask of the padding": (renamed(Unmasked), {1}),
    "keys and values swapped": (swap, {0, 1}),
    "layers reversed": (reverse, {0, 1}),
    "every layer reads the last": (last_everywhere, {0, 1}),
    "blind to the prefix": (blind, {0, 1}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_shows_in_the_rows_that_can_show_it(toy, inputs, fault):
    model, expert = toy
    prefix, actions, time = inputs
    expected = jointly(model, expert, prefix, actions, time)
    change, rows = FAULTS[fault]
    cache = read(model, prefix)
    if fault == "no mask of the padding":
        cache.keys[:, 1, :, LENGTHS[1] + T :], cache.values[:, 1, :, LENGTHS[1] + T :] = 1.0, 1.0
    change(cache)
    with minitx.no_grad():
        moved = np.abs(expert(actions, time, cache).numpy() - expected).max(axis=(1, 2))
    assert {b for b in range(B) if moved[b] > 1e-3} == rows, moved


def test_causal_waypoints_would_be_seen(toy, inputs):
    model, expert = toy
    prefix, actions, time = inputs
    expected = jointly(model, expert, prefix, actions, time)
    try:
        for block in expert.blocks:
            block.causal = True
        moved = np.abs(step(expert, actions, time, read(model, prefix)) - expected)
    finally:
        for block in expert.blocks:
            block.causal = False
    assert moved.max(axis=(1, 2)).min() > 0.01


# Bad input.


def test_what_does_not_fit_is_refused_and_the_cache_stays_as_it_was(toy, inputs):
    model, expert = toy
    prefix, actions, time = inputs
    cache = read(model, prefix, capacity=P + T)
    for wrong, clock, said in (
        (
            actions[:, :-1],
            time,
            r"actions must have shape \(B, waypoints, channels\) = \(2, 6, 2\), got \(2, 5, 2\)",
        ),
        (actions[0], time, "actions must have shape"),
        (actions, time[:1], r"time must have shape \(B = 2,\), got \(1,\)"),
        (actions, 0.5, r"time must have shape \(B = 2,\), got \(\)"),
    ):
        with pytest.raises(ValueError, match=said):
            expert(wrong, clock, cache)
    with pytest.raises(ValueError, match="The cache is full: row 0"):
        expert(actions, time, read(model, prefix, capacity=P + T - 1))
    with pytest.raises(ValueError, match=r"must be \(3, 2, 8\), got \(2, 2, 8\)"):
        expert(actions, time, KVCache(2, B, KV, 20, HEAD, dtype=np.float64))
    with pytest.raises(ValueError, match="A row of the cache is empty"):
        expert(actions, time, KVCache(LAYERS, B, KV, 20, HEAD, dtype=np.float64))
    with pytest.raises(ValueError, match="without a window"):
        expert(actions, time, KVCache(LAYERS, B, KV, 20, HEAD, dtype=np.float64, window=20))
    with pytest.raises(minitx.DtypeError, match="cache must be float64"):
        expert(actions, time, KVCache(LAYERS, B, KV, 20, HEAD))
    with pytest.raises(ValueError, match="steps must be at least 1, got 0"):
        expert.sample(cache, steps=0)
    np.testing.assert_array_equal(cache.lengths, LENGTHS)


def test_a_sample_that_fails_on_the_way_leaves_the_cache(toy, inputs, monkeypatch):
    model, expert = toy
    prefix, actions, _ = inputs
    cache = read(model, prefix)
    expected = expert.sample(cache, noise=actions)
    calls = []

    def failing(x):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return nn.Linear.forward(expert.head, x)

    with monkeypatch.context() as patch:
        patch.setattr(expert.head, "forward", failing, raising=False)
        with pytest.raises(KeyboardInterrupt):
            expert.sample(cache, noise=actions)
    np.testing.assert_array_equal(cache.lengths, LENGTHS)
    np.testing.assert_array_equal(expert.sample(cache, noise=actions), expected)


def test_the_loss_wants_a_recorded_cache_and_data_of_the_right_shape(toy, inputs):
    model, expert = toy
    prefix, data, _ = inputs
    with pytest.raises(TypeError, match="needs a RecordedCache"):
        expert.loss(data, read(model, prefix))
    with pytest.raises(ValueError, match="data must have shape"):
        expert.loss(data[..., :1], record(model, prefix))


def test_an_expert_continues_rotary_positions_only():
    gpt = models.GPT(models.GPTConfig(vocab_size=5, context=8, n_layers=1, n_heads=2, d_model=8), rng=0)
    with pytest.raises(ValueError, match="LearnedPositions"):
        ActionExpertConfig.for_model(gpt, n_heads=2, d_model=8, d_ff=8)
    with pytest.raises(ValueError, match="waypoints must be a whole number of at least 1, got 0"):
        ActionExpertConfig(1, 1, 1, 2, 4, 4, waypoints=0)


def test_float32_stays_float32(inputs):
    prefix, actions, time = (x.astype(np.float32) for x in inputs)
    sizes = {
        "vocab_size": 11,
        "context": 64,
        "n_layers": 2,
        "n_heads": 4,
        "n_kv_heads": KV,
        "d_model": 32,
        "d_ff": 40,
    }
    model = models.Llama(models.LlamaConfig(**sizes), rng=0)
    expert = ActionExpert(
        ActionExpertConfig.for_model(model, n_heads=2, d_model=24, d_ff=28, waypoints=T), rng=1
    )
    cache = read(model, prefix)
    assert step(expert, actions, time, cache).dtype == expert.sample(cache, rng=0).dtype == np.float32
    recorded = RecordedCache(2, B, KV, P + T, HEAD)
    model.forward_embeddings(Tensor(prefix), cache=recorded, lengths=LENGTHS)
    loss = expert.loss(actions, recorded, rng=0)
    loss.backward()
    assert loss.dtype == np.float32 and all(p.grad.dtype == np.float32 for p in expert.parameters())


# The cache on the graph.


def test_a_recorded_cache_reads_like_a_plain_one_in_pieces_and_after_truncation(toy, inputs):
    model, expert = toy
    prefix, actions, time = inputs
    plain = KVCache(LAYERS, B, KV, P + T, HEAD, dtype=np.float64)
    recorded = RecordedCache(LAYERS, B, KV, P + T, HEAD, dtype=np.float64)
    with minitx.no_grad():
        for first, counts in ((0, [3, 1]), (3, [3, 3])):
            for cache in (plain, recorded):
                piece = Tensor(prefix[:, first : first + 3])
                model.forward_embeddings(piece, cache=cache, lengths=np.array(counts))
        expected = step(expert, actions, time, plain)
        np.testing.assert_allclose(step(expert, actions, time, recorded), expected, atol=1e-12)
        for cache in (plain, recorded):
            cache.truncate(np.array([5, 2]))
        expected = step(expert, actions, time, plain)
        np.testing.assert_allclose(step(expert, actions, time, recorded), expected, atol=1e-12)


def test_a_recorded_cache_refuses_what_it_cannot_do(toy, inputs):
    cache = record(toy[0], inputs[0])
    for call in (cache.fork, lambda: cache.row(0), lambda: cache.append(0, inputs[0], inputs[0])):
        with pytest.raises(TypeError, match="RecordedCache"):
            call()
    with pytest.raises(ValueError, match="Nothing has been joined"):
        cache.advance(1)
    with pytest.raises(ValueError, match="read-only"):
        cache.keys[...] = 0
