"""The unit `heads`: what its text says holds, its reference agrees with others, its tests are fair.

That every misconception is caught and every other style accepted, in the real sandbox, is proved for all
units in tests/autograder/test_units.py.
"""

import warnings

import numpy as np
import pytest

import minitx.functional as F
from minitx import models, nn
from minitx.course import inside

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")
plainly = pytest.importorskip("plainly")

from minitx import figures  # noqa: E402

UNIT = plainly.Unit("heads")
played, failures = UNIT.played, UNIT.failures


def test_the_reference_warns_about_nothing():
    q, k = np.full((1, 2, 3, 4), 1e3), np.full((1, 1, 5, 4), 1e3)
    mask = np.zeros((1, 2, 3, 5), dtype=bool)
    mask[:, 1, :2, :4] = True
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = played()["attend"](q, k, k, mask)
    assert not out[0, 0].any() and np.allclose(out[0, 1, :2], 1e3) and not out[0, 1, 2].any()


@pytest.mark.parametrize(("heads", "kv_heads"), [(6, 2), (4, 4), (3, 1)])
def test_attend_is_the_librarys_attention_and_pytorchs(heads, kv_heads):
    rng = np.random.default_rng(heads)
    q = rng.normal(size=(2, heads, 4, 8))
    k, v = rng.normal(size=(2, 2, kv_heads, 5, 8))
    mask = rng.random((2, 1, 4, 5)) < 0.6
    mask[0, :, 1] = False
    ours = played()["attend"](q, k, v, mask)
    assert np.allclose(ours, F.attention(q, k, v, mask=mask).numpy(), rtol=0, atol=1e-13)
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle here")
    given = map(torch.tensor, (q, k, v))
    theirs = torch.nn.functional.scaled_dot_product_attention(
        *given, attn_mask=torch.tensor(mask), enable_gqa=True
    )
    assert np.allclose(ours, theirs.numpy(), rtol=0, atol=1e-13)


def weights_of(block):
    """A library block's weights under the names of the unit, applied as x @ w."""
    linear = {
        "q": block.attention.q_proj, "k": block.attention.k_proj, "v": block.attention.v_proj,
        "o": block.attention.out_proj, "up": block.mlp.up, "down": block.mlp.down,
    }  # fmt: skip
    w = {f"w_{name}": layer.weight.numpy().T for name, layer in linear.items()}
    w |= {f"b_{name}": layer.bias.numpy() for name, layer in linear.items()}
    norms = {"1": block.attention_norm, "2": block.mlp_norm}
    w |= {f"gain_{number}": norm.weight.numpy() for number, norm in norms.items()}
    return w | {f"shift_{number}": norm.bias.numpy() for number, norm in norms.items()}


def lively(module, seed=0):
    rng = np.random.default_rng(seed)
    module.astype(np.float64)
    for parameter in module.parameters():
        parameter.array_to_update()[...] = rng.normal(size=parameter.shape)
    return module.eval()


@pytest.mark.parametrize("order", ["pre", "post"])
def test_the_block_is_the_librarys(order):
    library = lively(nn.Block(12, 4, 2, 20, norm=order, causal=True))
    x = np.random.default_rng(3).normal(size=(2, 5, 12))
    mask = np.tri(5, dtype=bool)[None, None]
    ours = played()["block"](x, weights_of(library), 4, 2, mask, norm=order)
    assert np.allclose(ours, library(x).numpy(), rtol=0, atol=1e-11)


@pytest.mark.parametrize("order", ["pre", "post"])
def test_the_block_is_pytorchs_encoder_layer(order):
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle here")
    library = lively(nn.Block(12, 4, None, 20, norm=order, causal=False, mlp="gelu_tanh"))
    w = {name: torch.tensor(array) for name, array in weights_of(library).items()}

    def gelu(x):
        return torch.nn.functional.gelu(x, approximate="tanh")

    theirs = torch.nn.TransformerEncoderLayer(
        12, 4, 20, dropout=0.0, activation=gelu, batch_first=True, norm_first=order == "pre"
    ).double()
    with torch.no_grad():
        theirs.self_attn.in_proj_weight.copy_(torch.cat([w[f"w_{name}"].T for name in "qkv"]))
        theirs.self_attn.in_proj_bias.copy_(torch.cat([w[f"b_{name}"] for name in "qkv"]))
        pairs = [(theirs.self_attn.out_proj, "o"), (theirs.linear1, "up"), (theirs.linear2, "down")]
        for layer, name in pairs:
            layer.weight.copy_(w[f"w_{name}"].T)
            layer.bias.copy_(w[f"b_{name}"])
        for norm, number in ((theirs.norm1, "1"), (theirs.norm2, "2")):
            norm.weight.copy_(w[f"gain_{number}"])
            norm.bias.copy_(w[f"shift_{number}"])
        x = torch.randn(2, 5, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        right = theirs(x).numpy()
    ours = played()["block"](x.numpy(), weights_of(library), 4, 4, np.ones((1, 1, 5, 5), bool), norm=order)
    assert np.allclose(ours, right, rtol=0, atol=1e-10)


def test_parameter_counts_are_those_of_the_text(capsys):
    names = played("watch-count")
    said = capsys.readouterr().out
    # OpenAI's GPT-2 as Hugging Face's classes count it; the original by the formula with V = 37,000; Llama-3-8B
    for count in (
        "124,439,808", "354,823,168", "1,557,611,200", "63,045,632", "214,171,648", "8,030,261,248",
    ):  # fmt: skip
        assert count in said, count
    # The answers to "try this": 65 million need about 40,800 tokens, and 163 million an untied head.
    assert names["first_transformer"](512, 2048, 8, 40_817) == pytest.approx(65e6, abs=512)
    assert names["gpt2"](12, 768, 12) + 50257 * 768 == 163_037_184


def test_gpt2s_count_is_that_of_the_librarys_gpt():
    config = models.GPTConfig(vocab_size=50, context=12, n_layers=3, n_heads=4, d_model=16, n_kv_heads=2)
    one = sum(played()["block_parameters"](16, 64, 4, 2).values())
    assert models.GPT(config, rng=0).n_parameters() == 50 * 16 + 12 * 16 + 3 * one + 2 * 16


def test_the_two_gelus_differ_where_the_hint_says():
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle here")
    one = np.ones((1, 1, 1))
    w = {"w_up": one[0], "b_up": np.zeros(1), "w_down": one[0], "b_down": np.zeros(1)}
    for at in (1.0, 2.7):
        ours = played()["mlp"](at * one, w).item()
        point = torch.tensor(at, dtype=torch.float64)
        assert ours == pytest.approx(torch.nn.functional.gelu(point, approximate="tanh").item(), abs=1e-12)
        assert abs(ours - torch.nn.functional.gelu(point).item()) > 1e-4
    assert played()["mlp"](one, w).item() == pytest.approx(0.8411919906, abs=1e-9)


def test_the_round_trip_of_the_spot_the_bug_is_blind(capsys):
    names = played("demo-reshape")
    assert "it is the same: True" in capsys.readouterr().out
    assert not np.array_equal(
        names["split_too_simply"](names["figure_x"], 3)[0, 0], [[0, 1], [6, 7], [12, 13]]
    )


def test_the_stream_grows_in_pre_norm_and_keeps_its_size_in_post_norm(capsys):
    names = played("watch-depth")
    pre, post = (names["depth_sizes"][f"{order}-norm"] for order in ("pre", "post"))
    assert pre[-1] > 3 * pre[0] and pre[-1] > 1.2 * pre[12]
    assert np.allclose(post[1:], 1.0, atol=1e-3)
    cosines = [float(line.split()[-1]) for line in capsys.readouterr().out.splitlines()]
    assert cosines[0] > 1.5 * cosines[1]


def test_attend_runs_inside_a_model_and_tile_is_found_out():
    names = played()
    config = models.LlamaConfig(60, 40, n_layers=2, n_heads=6, n_kv_heads=2, d_model=48, d_ff=64)
    model = models.Llama(config, rng=5)
    assert inside.a_model(model, attention=names["attend"], prompt=[5, 9, 2], new_tokens=10).same
    tiled = next(known for known in UNIT.spec.misconceptions if known.name == "tile-for-repeat")
    names = played(replaced={"attend": tiled.code})
    result = inside.a_model(model, attention=names["attend"], prompt=[5, 9, 2], new_tokens=10)
    assert not result.same and "layer 0" in result.difference


def test_the_figures_say_what_they_show_and_refuse_what_does_not_fit():
    words = [text.get_text() for text in figures.split_of_heads(3, 3, 2).axes[0].texts]
    assert words[words.index("head 0") - 6 : words.index("head 0")] == ["0", "1", "6", "7", "12", "13"]
    words = [text.get_text() for text in figures.grouped_queries(6, 2).axes[0].texts]
    assert sum(word.startswith("queries") for word in words) == 6
    assert sum(word.startswith("keys and values") for word in words) == 2
    with pytest.raises(ValueError, match="multiple of n_kv_heads, got 5 and 2"):
        figures.grouped_queries(5, 2)
    pre, post = ([text.get_text() for text in ax.texts] for ax in figures.two_blocks().axes)
    assert [word for word in pre if word] == ["x", "norm", "attention", "+", "norm", "MLP", "+"]
    assert [word for word in post if word] == ["x", "attention", "+", "norm", "MLP", "+", "norm"]
    lines = figures.stream_sizes({"a": [1, 2], "b": [1, 3]}).axes[0].lines
    assert len({(line.get_linestyle(), line.get_marker()) for line in lines[:2]}) == 2
    with pytest.raises(ValueError, match="up to 3 curves, got 4"):
        figures.stream_sizes({str(i): [1] for i in range(4)})
