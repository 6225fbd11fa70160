"""The unit `cache`: what its text says holds, its reference agrees with others, its tests are fair.

That every misconception is caught and every other style accepted, in the real sandbox, is proved for all
units in tests/autograder/test_units.py.
"""

import numpy as np
import pytest

from minitx import Tensor, models, nn, no_grad
from minitx.cache import KVCache
from minitx.course import inside

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")
plainly = pytest.importorskip("plainly")

UNIT = plainly.Unit("cache")
played, failures = UNIT.played, UNIT.failures


def a_layer(seed=0, width=20, heads=4, kv_heads=2, head_dim=6):
    rng = np.random.default_rng(seed)
    sizes = {"q": (width, heads * head_dim), "k": (width, kv_heads * head_dim)}
    sizes |= {"v": sizes["k"], "o": (heads * head_dim, width)}
    return {name: rng.normal(size=size) / 4 for name, size in sizes.items()}


def test_the_rows_are_those_of_the_corrected_formula_and_the_pages_for_a_prompt_of_one():
    rows_read = played()["rows_read"]
    assert rows_read(3000, 100) == (304_950, 3_099)
    assert rows_read(1, 100) == (100 * 101 // 2, 100)


def test_the_rows_are_those_that_really_go_through_the_key_projection():
    """`generate` with matrices that count the rows they are multiplied with."""
    names = played()

    class Counting(np.ndarray):
        rows = 0

        def __rmatmul__(self, x):
            Counting.rows += x.shape[0] * x.shape[1]
            return np.asarray(x) @ np.asarray(self)

        __array_priority__ = 100
        __array_ufunc__ = None

    layer = a_layer(width=8)
    layer["k"] = layer["k"].view(Counting)
    rng = np.random.default_rng(1)
    model = {"table": rng.normal(size=(11, 8)), "layers": [layer], "head": rng.normal(size=(8, 11))}
    keys, values = np.zeros((2, 1, 1, 2, 20, 6))
    names["generate"](np.arange(7)[None], np.array([7]), 5, model, keys, values, np.array([0]))
    assert Counting.rows == names["rows_read"](7, 5)[1] == 11


@pytest.mark.parametrize("pieces", [(9,), (6, 1, 1, 1), (2, 4, 3)])
def test_the_layer_is_that_of_the_library_with_its_cache(pieces):
    w = a_layer()
    theirs = nn.MultiHeadAttention(
        20, 4, 2, bias=False, positions=nn.RotaryPositions(6, 10000.0, "half"), head_dim=6
    )
    for name, linear in zip(
        "qkvo", (theirs.q_proj, theirs.k_proj, theirs.v_proj, theirs.out_proj), strict=True
    ):
        assert linear.weight.shape == w[name].T.shape
        linear.weight.array_to_update()[...] = w[name].T
    x = np.random.default_rng(2).normal(size=(3, 9, 20)).astype(np.float32)
    cache = KVCache(1, 3, 2, 12, 6)
    keys, values = np.zeros((2, 3, 2, 12, 6))
    lengths, cached_attention = np.zeros(3, dtype=int), played()["cached_attention"]
    for piece in pieces:
        new = x[:, lengths[0] : lengths[0] + piece]
        got = cached_attention(new.astype(np.float64), keys, values, lengths, w)
        places = lengths[0] + np.arange(piece)
        other = theirs(Tensor(new), causal=True, positions=places, cache=cache).numpy()
        cache.advance(piece)
        lengths += piece
        assert np.allclose(got, other, rtol=1e-4, atol=1e-5)
    assert np.allclose(keys, cache.keys[0], atol=1e-5) and np.allclose(values, cache.values[0], atol=1e-5)


def test_a_ragged_chunk_is_what_pytorch_gives_for_each_row_alone():
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle here")
    w, held = a_layer(3), [5, 1, 3]
    rng = np.random.default_rng(4)
    keys, values = 9 * rng.normal(size=(2, 3, 2, 11, 6))
    cached_attention, sentences = played()["cached_attention"], [rng.normal(size=(n + 2, 20)) for n in held]
    for b, n in enumerate(held):
        one = slice(b, b + 1)
        cached_attention(sentences[b][None, :n], keys[one], values[one], np.array([0]), w)
    new = np.stack([sentence[-2:] for sentence in sentences])
    got = cached_attention(new, keys, values, np.array(held), w)
    for b, sentence in enumerate(sentences):
        x, n = torch.tensor(sentence), len(sentence)
        # Rotary positions as complex numbers: another way to the same turn (Su et al. 2021).
        turn = torch.polar(
            torch.ones(n, 3, dtype=torch.float64),
            torch.arange(n)[:, None] * 10000.0 ** (-torch.arange(3, dtype=torch.float64) / 3),
        )

        def heads(name, turned, x=x, n=n, turn=turn):
            y = (x @ torch.tensor(w[name])).reshape(n, -1, 6).transpose(0, 1)
            if not turned:
                return y
            z = torch.complex(y[..., :3], y[..., 3:]) * turn
            return torch.cat([z.real, z.imag], dim=-1)

        q, k, v = heads("q", True), heads("k", True), heads("v", False)
        mixed = torch.nn.functional.scaled_dot_product_attention(
            q, k.repeat_interleave(2, 0), v.repeat_interleave(2, 0), is_causal=True
        )
        wanted = (mixed.transpose(0, 1).reshape(n, -1) @ torch.tensor(w["o"])).numpy()[-2:]
        assert np.allclose(got[b], wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("sizes", "kib"),
    [((12, 12, 64), 36), ((48, 25, 64), 300), ((32, 32, 128), 512), ((32, 8, 128), 128), ((36, 8, 128), 144),
     ((18, 1, 256), 18)],
)  # fmt: skip
def test_the_bytes_of_real_models(sizes, kib):
    cache_bytes = played()["cache_bytes"]
    assert cache_bytes(*sizes, 1) == kib * 1024
    layers, kv_heads, head_dim = sizes
    assert (
        cache_bytes(*sizes, 5, batch=3, bytes_per_number=4)
        == KVCache(layers, 3, kv_heads, 5, head_dim).nbytes
    )


def test_a_token_of_llama_3_at_8192_is_one_gibibyte_and_the_images_405_mebibytes(capsys):
    names = played("watch-bytes", "watch-reading")
    assert names["cache_bytes"](32, 8, 128, 8192) == 2**30
    assert names["image_bytes"] == 405 * 2**20 and names["reason_bytes"] == 36 * 2**20
    said = capsys.readouterr().out
    assert "111,09" in said.splitlines()[-1]


def test_reading_in_pieces_changes_nothing_but_the_rounding():
    gaps = played("demo-full-layer", "watch-pieces")["piece_gaps"]
    assert len(gaps) == 4 and max(gaps.values()) < 1e-13


def test_one_look_cannot_see_a_forgotten_crop_and_two_can():
    looks = played("watch-pieces", "demo-full-layer", "watch-crop")["look_results"]
    assert looks[True] == ([0.0, 0.0, 0.0], 5)
    (first, second, third), length = looks[False]
    assert first == 0 and min(second, third) > 0.05 and length == 8


def test_a_pass_that_fails_leaves_the_lengths_as_they_were():
    names = played()
    keys, values = np.zeros((2, 2, 1, 2, 4, 6))
    lengths = np.array([3])
    with pytest.raises(ValueError, match="4 slots; 3 are filled and 2 more"):
        names["extend"](np.ones((1, 2, 20)), keys, values, lengths, [a_layer()] * 2, np.array([2]))
    assert lengths.tolist() == [3] and not keys.any()


def test_a_fork_is_a_copy():
    keys, values = np.ones((2, 2, 3, 1, 4, 2))
    new_keys, new_values, new_lengths = played()["fork"](keys, values, np.array([1, 2, 3]), [1, 1])
    new_keys[:], new_values[:], new_lengths[:] = 0, 0, 0
    assert keys.all() and values.all()


def small_models():
    rng = np.random.default_rng(3)
    yield models.GPT(models.GPTConfig(31, 40, 3, 4, 24), rng=rng)
    yield models.Llama(models.LlamaConfig(31, 40, 2, 4, 2, 24, 40), rng=rng)


def test_the_students_cache_writes_what_a_model_writes_and_a_wrong_one_does_not():
    names = played("watch-inside", replaced={"watch-inside": inside_without_the_run()})
    for model in small_models():
        result = inside.a_model(model, attention=names["YourCache"](64), prompt=[3, 1, 4, 1, 5], new_tokens=6)
        assert result.same and result.calls == 6 * len(model.blocks)
    wrong = next(known for known in UNIT.spec.misconceptions if known.name == "append-over-the-last")
    replaced = {"watch-inside": inside_without_the_run(), "append": wrong.code}
    names = played("watch-inside", replaced=replaced)
    for model in small_models():
        result = inside.a_model(model, attention=names["YourCache"](64), prompt=[3, 1, 4, 1, 5], new_tokens=6)
        assert not result.same and "differ" in str(result)


def inside_without_the_run():
    """The cell with the wrapper, without its loop over models that may be missing."""
    return next(cell.source for cell in UNIT.spec.cells if cell.grade_id == "watch-inside").split(
        "for real_model"
    )[0]


def test_the_students_cache_serves_prompts_of_different_lengths():
    names = played("watch-inside", replaced={"watch-inside": inside_without_the_run()})
    rng = np.random.default_rng(5)
    ids, steps = rng.integers(0, 31, size=(3, 6)), rng.integers(0, 31, size=(4, 3, 1))
    real = np.array([6, 2, 4])

    def run(model):
        cache = model.new_cache(3, 20)
        first = model(ids, cache=cache, lengths=real).numpy()[np.arange(3), real - 1]
        return [first, *(model(step, cache=cache).numpy()[:, 0] for step in steps)]

    for model in small_models():
        with no_grad():
            wanted = run(model)
            with inside.replaced(model, names["YourCache"](64)):
                got = run(model)
        assert np.allclose(got, wanted, rtol=1e-4, atol=1e-5)
