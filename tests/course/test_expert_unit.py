"""The unit `expert`: what its text says holds, its reference agrees with others, its tests are fair.

That every misconception is caught and every other style accepted, in the real sandbox, is proved for all
units in tests/autograder/test_units.py.
"""

import numpy as np
import pytest

from minitx import Tensor, models, nn, no_grad
from minitx.cache import KVCache

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")
plainly = pytest.importorskip("plainly")

from minitx import figures  # noqa: E402

UNIT = plainly.Unit("expert")
played, failures = UNIT.played, UNIT.failures
# The cells about driving need the names of the training cell, and not a trained expert.
BARELY_TRAINED = {"watch-training": UNIT.source("watch-training").replace("range(300)", "range(2)")}


def matrices(seed, width, heads, kv_heads, head_dim, source=None):
    rng = np.random.default_rng(seed)
    source = width if source is None else source
    sizes = {"q": (width, heads * head_dim), "k": (source, kv_heads * head_dim)}
    sizes |= {"v": sizes["k"], "o": (heads * head_dim, width)}
    return {name: rng.normal(size=size) / np.sqrt(size[0]) for name, size in sizes.items()}


def give(attention, w):
    """Our matrices to a layer of the library."""
    layers = (attention.q_proj, attention.k_proj, attention.v_proj, attention.out_proj)
    for name, linear in zip("qkvo", layers, strict=True):
        assert linear.weight.shape == w[name].T.shape
        linear.weight.array_to_update()[...] = w[name].T


def test_cross_attention_is_that_of_the_library_and_of_pytorch():
    w = matrices(0, 12, 3, 3, 4)
    rng = np.random.default_rng(1)
    x, context = rng.normal(size=(2, 5, 12)), rng.normal(size=(2, 7, 12))
    real = np.arange(7) < np.array([[7], [4]])
    got = played()["cross_attention"](x, context, real, w, 3)
    library = nn.MultiHeadAttention(12, 3, bias=False)
    give(library, w)
    single = [array.astype(np.float32) for array in (x, context)]
    theirs = library(Tensor(single[0]), Tensor(single[1]), mask=real[:, None, None]).numpy()
    assert np.allclose(got, theirs, rtol=1e-4, atol=1e-5)
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle here")
    peer = torch.nn.MultiheadAttention(12, 3, bias=False, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        peer.in_proj_weight.copy_(torch.tensor(np.concatenate([w[name].T for name in "qkv"])))
        peer.out_proj.weight.copy_(torch.tensor(w["o"].T))
        # There True means padding: the other way round.
        read, _ = peer(*map(torch.tensor, (x, context, context)), key_padding_mask=torch.tensor(~real))
    assert np.allclose(got, read.numpy(), rtol=0, atol=1e-12)


def test_a_row_without_context_reads_nothing():
    w = matrices(2, 6, 2, 2, 3, source=5)
    rng = np.random.default_rng(3)
    got = played()["cross_attention"](
        rng.normal(size=(2, 4, 6)), rng.normal(size=(2, 3, 5)), np.array([[False] * 3, [True] * 3]), w, 2
    )
    assert not got[0].any() and got[1].all()


def test_places_and_mask_are_those_of_the_librarys_cache():
    cache = KVCache(1, 3, 1, 15, 2)
    cache.advance(np.array([4, 1, 6]))
    places, mask = played()["places_and_mask"](cache.lengths, 5, 15)
    allowed = cache.allowed(5, causal=False)
    assert allowed is not None
    assert (
        np.array_equal(mask[..., :11], np.broadcast_to(allowed, (3, 1, 5, 11))) and not mask[..., 11:].any()
    )
    assert np.array_equal(places, cache.lengths[:, None] + np.arange(5))


def test_the_layer_is_that_of_the_library_with_its_cache():
    names = played()
    w, held, n = matrices(4, 20, 4, 2, 6), np.array([5, 2, 7]), 3
    library = nn.MultiHeadAttention(
        20, 4, 2, bias=False, positions=nn.RotaryPositions(6, 10000.0, "half"), head_dim=6
    )
    give(library, w)
    cache = KVCache(1, 3, 2, 12, 6)
    rng = np.random.default_rng(5)
    prefix, x = rng.normal(size=(3, 7, 20)).astype(np.float32), rng.normal(size=(3, n, 20)).astype(np.float32)
    with no_grad():
        library(Tensor(prefix), causal=True, cache=cache)
        cache.advance(held)
        keys, values = cache.keys[0].astype(np.float64), cache.values[0].astype(np.float64)
        places = held[:, None] + np.arange(n)
        theirs = library(
            Tensor(x), mask=cache.allowed(n, causal=False), positions=places, cache=cache
        ).numpy()
    got = names["expert_attention"](x.astype(np.float64), keys, values, held, w)
    assert np.allclose(got, theirs, rtol=1e-4, atol=1e-5)
    for b, length in enumerate(held):
        own = slice(0, length + n)
        assert np.allclose(keys[b, :, own], cache.keys[0, b, :, own], atol=1e-5)
        assert np.allclose(values[b, :, own], cache.values[0, b, :, own], atol=1e-5)


def test_a_ragged_row_is_what_pytorch_gives_for_prefix_and_waypoints_together():
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle here")
    w, held, n = matrices(6, 10, 4, 2, 6), np.array([3, 8, 1]), 4
    rng = np.random.default_rng(7)
    keys, values = rng.normal(size=(2, 3, 2, 14, 6))
    x = rng.normal(size=(3, n, 10))
    before = keys.copy(), values.copy()
    got = played()["expert_attention"](x, keys, values, held, w)
    for b, length in enumerate(held):
        # Rotary positions as complex numbers: another way to the same turn (Su et al. 2021).
        rates = 10000.0 ** (-torch.arange(3, dtype=torch.float64) / 3)
        angles = (length + torch.arange(n))[:, None] * rates
        turn = torch.polar(torch.ones_like(angles), angles)
        q, k, v = ((torch.tensor(x[b] @ w[name])).reshape(n, -1, 6).transpose(0, 1) for name in "qkv")
        q, k = (torch.complex(y[..., :3], y[..., 3:]) * turn for y in (q, k))
        q, k = (torch.cat([y.real, y.imag], dim=-1) for y in (q, k))
        k, v = (
            torch.cat([torch.tensor(held_before[b, :, :length]), new], dim=1).repeat_interleave(2, 0)
            for held_before, new in zip(before, (k, v), strict=True)
        )
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        wanted = mixed.transpose(0, 1).reshape(n, -1).numpy() @ w["o"]
        assert np.allclose(got[b], wanted, rtol=0, atol=1e-12)
        assert np.array_equal(keys[b, :, :length], before[0][b, :, :length])
        assert np.array_equal(values[b, :, length + n :], before[1][b, :, length + n :])


def small_expert(seed, layers=3, channels=2, width=12):
    rng = np.random.default_rng(seed)
    stack = [matrices(seed + 1 + layer, width, 4, 2, 6) for layer in range(layers)]
    lift, head = rng.normal(size=(channels + 1, width)), rng.normal(size=(width, channels)) / width**0.5
    return {"lift": lift, "layers": stack, "head": head}


def test_shifting_prefix_and_waypoints_together_changes_nothing():
    """Rotary scores know only how far apart two tokens stand: the same prefix eleven places later."""
    names, expert, rng = played(), small_expert(8), np.random.default_rng(9)
    F, noise = names["F"], rng.normal(size=(1, 4, 2))
    unturned, prefix_values = rng.normal(size=(2, 3, 1, 2, 5, 6))

    def sampled(shift):
        held = 5 + shift
        keys, values = np.zeros((2, 3, 1, 2, 30, 6))
        places = shift + np.arange(5)
        for layer in range(3):
            keys[layer, :, :, shift:held] = F.rotary(unturned[layer], places).numpy()
            values[layer, :, :, shift:held] = prefix_values[layer]
        scope = names["places_and_mask"]

        def masked(lengths, n, slots):
            places, mask = scope(lengths, n, slots)
            return places, mask & (np.arange(slots) >= shift)

        names["places_and_mask"] = masked
        try:
            return names["denoise"](noise, 3, keys, values, np.array([held]), expert)
        finally:
            names["places_and_mask"] = scope

    assert np.allclose(sampled(0), sampled(11), rtol=0, atol=1e-11)


def test_the_rows_are_those_that_really_go_through_the_key_projections():
    """`denoise` with matrices that count the rows they are multiplied with."""
    names = played()

    class Counting(np.ndarray):
        rows = 0
        __array_ufunc__ = None  # type: ignore[assignment]

        def __rmatmul__(self, x):
            Counting.rows += x.shape[0] * x.shape[1]
            return np.asarray(x) @ np.asarray(self)

    expert = small_expert(10)
    for w in expert["layers"]:
        w["k"] = w["k"].view(Counting)
    keys, values = np.random.default_rng(11).normal(size=(2, 3, 2, 2, 20, 6))
    names["denoise"](np.ones((2, 6, 2)), 10, keys, values, np.array([7, 7]), expert)
    again, cached = names["rows_read"]([7, 7], 6, 10, 3)
    assert (again, cached) == (780, 402)
    assert Counting.rows == cached - 3 * 14  # the prefix has been read before


def test_the_rows_and_bytes_of_the_real_experts(capsys):
    names = played("watch-rows")
    assert names["expert_rows"] == {"Alpamayo-R1": (1_103_040, 131_040), "pi0": (156_060, 23_868)}
    said = capsys.readouterr().out
    assert "9.0 MiB" in said and "0.9 MiB" in said
    assert 64 * 144 * 1024 == 9 * 2**20 and round(51 * 18 / 1024, 1) == 0.9


def test_the_training_pair_is_the_one_of_the_librarys_loss():
    """An expert that says the target has no loss: the same time, noise and data as in ActionExpert.loss."""
    config = models.ActionExpertConfig(1, 1, 1, 4, 8, 8, waypoints=3, channels=2)
    pair, seen = played()["training_pair"], []

    class Listening(models.ActionExpert):
        def forward(self, actions, time, cache):
            seen.append((actions, time))
            return Tensor(np.zeros_like(actions))

    from minitx.recorded import RecordedCache

    data = np.random.default_rng(12).normal(size=(4, 3, 2)).astype(np.float32)
    expert = Listening(config, rng=0)
    loss = expert.loss(data, RecordedCache(1, 4, 1, 8, 4), rng=5).item()
    actions, time = seen[0]
    at = time[:, None, None]
    noise = (actions - at * data) / (1 - at)
    point, target = pair(data, noise, time)
    assert np.allclose(point, actions, atol=1e-5)
    assert loss == pytest.approx(float((target**2).mean()), rel=1e-3)


def test_the_steps_are_those_of_the_librarys_expert():
    names = played("watch-training", "watch-sides", replaced=BARELY_TRAINED)
    cache = names["reading_of"](np.array([0, 1, 2]))
    noise = np.random.default_rng(13).normal(size=(3, 12, 1)).astype(np.float32)
    theirs = names["path_expert"].sample(cache, noise=noise, steps=7)
    held = cache.lengths
    look = names["look_into"](cache)
    ours = names["denoise"](noise, 7, cache.keys, cache.values, held, names["path_expert"], look)
    assert np.allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    assert held.tolist() == [9, 9, 9]


def test_shuffled_image_tokens_change_nothing():
    before, after = played("watch-objects")["objects_read"]
    assert np.allclose(before, after, rtol=0, atol=1e-12)


def test_only_one_softmax_lets_the_first_waypoint_see_the_last():
    moves = played("watch-first")["first_moves"]
    assert moves["one softmax over prefix and waypoints"] > 0.05
    assert moves["cross-attention to the prefix"] == 0.0


def test_reading_the_cache_is_the_joint_pass_and_the_prefix_never_moves():
    of_prefix, of_waypoints = played("watch-first", "watch-joint")["joint_gaps"]
    assert of_prefix == 0.0 and of_waypoints < 1e-13


def test_one_step_cannot_see_a_forgotten_crop_and_two_can(capsys):
    gaps = played("watch-first", "watch-crop")["crop_gaps"]
    assert gaps[1] == 0.0 and all(gaps[steps] > 1 for steps in (2, 5, 10))
    assert "67 tokens in place of 7" in capsys.readouterr().out


def test_the_experiment_shows_what_the_text_says():
    """One way where one is open, both where both are; never the mean, and the language model unchanged."""
    assert "range(300)" in UNIT.source("watch-training") != BARELY_TRAINED["watch-training"]
    names = played("watch-training", "watch-sides", "watch-gradient")
    assert names["prefix_moved"] == 0.0
    assert np.mean(names["path_losses"][-50:]) < 0.25 * np.mean(names["path_losses"][:20])
    left, right, either = (paths[:, 5:7].mean(axis=1) for paths in names["side_paths"].values())
    assert (left > 0.7).all() and (right < -0.7).all()
    assert (np.abs(either) > 0.7).all() and 3 <= (either > 0).sum() <= 13
    assert np.abs(names["side_mean"]).max() < 0.2
    (cut_model, cut_expert), (model, expert) = (names["gradient_sizes"][cut] for cut in (True, False))
    assert cut_model == 0.0 and model > 0.1
    assert cut_expert == pytest.approx(expert, rel=1e-5) and expert > 0.1


def test_the_students_code_drives_as_the_library_does():
    names = played(
        "watch-training",
        "watch-sides",
        "watch-driving",
        "watch-path",
        "watch-mistakes",
        replaced=BARELY_TRAINED,
    )
    assert len(set(names["road_held"].tolist())) == 3
    assert names["path_gap"] < 1e-3
    ends = names["mistake_ends"]
    assert np.array_equal(ends["none"], names["library_path"][:, -1])
    moved = {name: np.linalg.norm(end - ends["none"], axis=-1).max() for name, end in ends.items()}
    assert all(metres > 5 for name, metres in moved.items() if name != "none")


@pytest.mark.parametrize("spoilt", ["layer", "denoise"])
def test_driving_with_a_wrong_function_is_seen(spoilt):
    known = {"layer": "two-softmaxes", "denoise": "time-stands-still"}[spoilt]
    (code,) = [one.code for one in UNIT.spec.misconceptions if one.name == known]
    names = played("watch-training", "watch-sides", "watch-driving", replaced=BARELY_TRAINED | {spoilt: code})
    assert names["path_gap"] > 1


def test_a_forgotten_crop_is_blind_with_one_step():
    (code,) = [one.code for one in UNIT.spec.misconceptions if one.name == "steps-not-cropped"]
    wrong, right, expert = played(replaced={"denoise": code}), played(), small_expert(14)
    noise, cache = np.ones((1, 4, 2)), np.random.default_rng(15).normal(size=(2, 3, 1, 2, 20, 6))
    for steps, same in ((1, True), (2, False)):
        ends = [
            names["denoise"](noise, steps, *cache.copy(), np.array([5]), expert) for names in (wrong, right)
        ]
        assert np.allclose(*ends) == same


def test_rows_of_one_length_hide_mistakes_that_ragged_ones_show():
    banks = {one.name: one for one in UNIT.spec.misconceptions}
    for name in ("places-behind-the-longest", "mask-of-the-longest", "written-behind-the-longest"):
        failed = failures(played(replaced={banks[name].replaces: banks[name].code}))
        assert banks[name].caught_by in failed
        assert "no step reads the waypoints of an earlier step" not in failed
        assert "rows with prefixes of different length, each as if it were alone" in failed


def test_the_figure_of_two_towers_names_each_layer_three_times():
    words = [text.get_text() for text in figures.two_towers(4).axes[0].texts]
    assert words.count("layer 3") == 2 and words.count("keys, values 3") == 1


def test_the_figure_of_ways_shows_samples_cone_and_mean():
    paths = np.linspace(1, 2, 5)[:, None] * np.ones(4)
    figure = figures.ways_around({"one. two.": paths, "three": -paths}, np.zeros(4), "mean")
    assert [len(ax.lines) for ax in figure.axes] == [5, 6]
    assert [len([patch for patch in ax.patches if patch.get_hatch()]) for ax in figure.axes] == [1, 1]
    assert figure.axes[1].lines[-1].get_linestyle() == "--"
    with pytest.raises(ValueError, match=r"paths \(sample, 4\), got \(5, 3\)"):
        figures.ways_around({"one": paths[:, :3]}, np.zeros(4), "mean")


def test_the_figure_from_above_tells_paths_apart_without_colour():
    path = np.stack([np.arange(20.0), np.arange(20.0) ** 2], axis=1)
    figure = figures.paths_from_above({str(i): path * (i + 1) for i in range(6)})
    assert len({str(line.get_marker()) for line in figure.axes[0].lines}) == 6
    legend = figure.axes[0].get_legend()
    assert legend is not None and [text.get_text() for text in legend.get_texts()] == list("012345")
    with pytest.raises(ValueError, match=r"paths \(waypoint, 2\), got \(20,\)"):
        figures.paths_from_above({"one": path[:, 0]})
