"""GPT, Llama and the published Transformer: sizes to the digit, starts, and values against PyTorch."""

import math

import numpy as np
import pytest

import minitx
import minitx.functional as F
from minitx import Tensor, models, nn


def small(**choices):
    return models.GPT(models.GPTConfig(11, 16, 2, 4, 24, **choices), rng=0)


def test_gpt_2_small_has_its_124_439_808_parameters():
    model = models.GPT(models.GPTConfig(50257, 1024, 12, 12, 768), rng=0)
    assert model.n_parameters() == 124_439_808
    parts = {name: p.size for name, p in model.named_parameters()}
    assert parts["tokens.weight"] == 38_597_376
    assert parts["positions.weight"] == 786_432
    assert sum(size for name, size in parts.items() if name.startswith("blocks.3.")) == 7_087_872


@pytest.mark.parametrize(
    ("n_layers", "d_model", "expected"),
    [(24, 1024, 354_823_168), (36, 1280, 774_030_080), (48, 1600, 1_557_611_200)],
)
def test_the_larger_gpt_2s_by_the_size_of_one_block(n_layers, d_model, expected):
    one = nn.Block(d_model, d_model // 64, rng=0)
    block = sum(p.size for p in one.parameters())
    assert block == 12 * d_model**2 + 13 * d_model
    assert (50257 + 1024) * d_model + n_layers * block + 2 * d_model == expected


def test_the_base_transformer_has_63_045_632_parameters():
    """37,000 tokens, attention without biases; the paper's table prints 65 million."""
    model = models.Transformer(37_000, rng=0)
    assert sum(p.size for p in model.parameters()) == 63_045_632
    assert sum(p.size for p in model.encoder.blocks[0].parameters()) == 3_150_336
    assert sum(p.size for p in model.decoder[0].parameters()) == 4_199_936


def test_llama_3_8b_by_the_size_of_one_block():
    d_model, d_ff, vocab = 4096, 14336, 128256
    config = models.LlamaConfig(8, 8, 1, 32, 8, d_model // 16, d_ff // 16, head_dim=8)
    small_block = sum(p.size for p in models.Llama(config, rng=0).blocks[0].parameters())

    def block(d, heads, kv_heads, head_dim, ff):
        return 2 * d * head_dim * (heads + kv_heads) + 3 * d * ff + 2 * d

    assert small_block == block(d_model // 16, 32, 8, 8, d_ff // 16)
    assert 2 * vocab * d_model + 32 * block(d_model, 32, 8, 128, d_ff) + d_model == 8_030_261_248


def test_projections_into_the_residual_stream_start_smaller_by_the_depth():
    model = models.GPT(models.GPTConfig(64, 16, 12, 4, 128), rng=0)
    block = model.blocks[5]
    for layer in (block.attention.out_proj, block.mlp.down):
        assert layer.weight.numpy().std() == pytest.approx(0.0040824829, rel=0.02)
    for layer in (block.attention.q_proj, block.mlp.up):
        assert layer.weight.numpy().std() == pytest.approx(0.02, rel=0.02)
    assert not block.mlp.up.bias.numpy().any()


@pytest.mark.parametrize("vocab_size", [65, 50257])
def test_the_loss_starts_near_the_logarithm_of_the_vocabulary(rng, vocab_size):
    model = models.GPT(models.GPTConfig(vocab_size, 64, 2, 4, 64), rng=1)
    ids = rng.integers(0, vocab_size, (4, 65))
    loss = F.cross_entropy(model(ids[:, :-1]), ids[:, 1:]).item()
    assert loss == pytest.approx(math.log(vocab_size), abs=0.1)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "alibi"])
def test_a_token_changes_nothing_before_it(rng, positions):
    model = small(positions=positions).astype(np.float64)
    ids = rng.integers(0, 11, (2, 9))
    other = ids.copy()
    other[:, 5] = (ids[:, 5] + 1) % 11
    before, after = model(ids).numpy(), model(other).numpy()
    np.testing.assert_array_equal(before[:, :5], after[:, :5])
    assert (abs(before[:, 5:] - after[:, 5:]).max(axis=(0, 2)) > 1e-6).all()


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "alibi"])
def test_positions_reach_the_output(positions):
    """The same token everywhere: without positions all places would get the same logits."""
    logits = small(positions=positions)(np.full((1, 6), 3)).numpy()[0]
    if positions in ("learned", "sinusoidal"):
        assert abs(logits[0] - logits[5]).max() > 1e-4
    ids = np.array([[1, 2, 3], [2, 1, 3]])
    last = small(positions=positions)(ids).numpy()[:, -1]
    assert abs(last[0] - last[1]).max() > 1e-7


def test_gpt_is_gpt_2_written_with_pytorchs_functions(rng):
    torch = pytest.importorskip("torch")
    T = torch.nn.functional
    model = small(activation="gelu_tanh").astype(np.float64)
    for parameter in model.parameters():
        parameter.data = rng.standard_normal(parameter.shape) * 0.3
    w = {name: torch.tensor(array, requires_grad=True) for name, array in model.state_dict().items()}
    ids = rng.integers(0, 11, (3, 10))

    def norm(x, name):
        return T.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"], 1e-5)

    def linear(x, name):
        return T.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

    x = w["tokens.weight"][torch.tensor(ids)] + w["positions.weight"][:10]
    for i in range(2):
        y = norm(x, f"blocks.{i}.attention_norm")
        q, k, v = (
            linear(y, f"blocks.{i}.attention.{part}_proj").view(3, 10, 4, 6).transpose(1, 2) for part in "qkv"
        )
        heads = T.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(3, 10, 24)
        x = x + linear(heads, f"blocks.{i}.attention.out_proj")
        y = linear(norm(x, f"blocks.{i}.mlp_norm"), f"blocks.{i}.mlp.up")
        x = x + linear(T.gelu(y, approximate="tanh"), f"blocks.{i}.mlp.down")
    expected = norm(x, "norm") @ w["tokens.weight"].T
    logits = model(ids)
    np.testing.assert_allclose(logits.numpy(), expected.detach().numpy(), atol=1e-10)
    targets = rng.integers(0, 11, (3, 10))
    F.cross_entropy(logits, targets).backward()
    T.cross_entropy(expected.reshape(-1, 11), torch.tensor(targets).reshape(-1)).backward()
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(parameter.grad, w[name].grad.numpy(), atol=1e-10, err_msg=name)


def test_llama_is_llama_written_with_pytorchs_functions(rng):
    torch = pytest.importorskip("torch")
    T = torch.nn.functional
    batch, n, heads, kv_heads, head_dim = 2, 7, 6, 2, 4
    config = models.LlamaConfig(
        13, 16, 2, heads, kv_heads, 24, 40, rope_base=777.0, rope_layout="interleaved"
    )
    model = models.Llama(config, rng=0).astype(np.float64)
    for parameter in model.parameters():
        parameter.data = rng.standard_normal(parameter.shape) * 0.3
    w = {name: torch.tensor(array) for name, array in model.state_dict().items()}
    ids = rng.integers(0, 13, (batch, n))
    angle = torch.arange(n)[:, None] * 777.0 ** (
        -torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
    )
    turn = torch.polar(torch.ones_like(angle), angle)  # a pair as one complex number

    def rotate(x):
        return torch.view_as_real(torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * turn).flatten(-2)

    def norm(x, name):
        return T.rms_norm(x, x.shape[-1:], w[f"{name}.weight"], 1e-5)

    x = w["tokens.weight"][torch.tensor(ids)]
    for i in range(2):
        y = norm(x, f"blocks.{i}.attention_norm")
        q, k, v = (
            (y @ w[f"blocks.{i}.attention.{part}_proj.weight"].T)
            .view(batch, n, count, head_dim)
            .transpose(1, 2)
            for part, count in (("q", heads), ("k", kv_heads), ("v", kv_heads))
        )
        out = T.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True, enable_gqa=True)
        x = x + out.transpose(1, 2).reshape(batch, n, -1) @ w[f"blocks.{i}.attention.out_proj.weight"].T
        y = norm(x, f"blocks.{i}.mlp_norm")
        mlp = f"blocks.{i}.mlp"
        gated = T.silu(y @ w[f"{mlp}.gate.weight"].T) * (y @ w[f"{mlp}.up.weight"].T)
        x = x + gated @ w[f"{mlp}.down.weight"].T
    expected = norm(x, "norm") @ w["head.weight"].T
    np.testing.assert_allclose(model(ids).numpy(), expected.numpy(), atol=1e-10)


def test_the_transformers_decoder_reads_the_source_but_not_its_padding_nor_the_future(rng):
    model = (
        models.Transformer(17, n_layers=2, d_model=16, n_heads=2, d_ff=24, rng=0).eval().astype(np.float64)
    )
    source, target = rng.integers(0, 17, (2, 6)), rng.integers(0, 17, (2, 5))
    real = np.array([[True] * 6, [True] * 4 + [False] * 2])
    logits = model(source, target, real).numpy()
    assert logits.shape == (2, 5, 17)
    padded = source.copy()
    padded[1, 4:] = (source[1, 4:] + 3) % 17
    np.testing.assert_allclose(model(padded, target, real).numpy(), logits, atol=1e-12)
    seen = source.copy()
    seen[0, 5] = (source[0, 5] + 3) % 17
    assert abs(model(seen, target, real).numpy() - logits)[0].min(axis=-1).max() > 0
    later = target.copy()
    later[:, 3] = (target[:, 3] + 1) % 17
    np.testing.assert_allclose(model(source, later, real).numpy()[:, :3], logits[:, :3], atol=1e-12)


def test_embeddings_of_the_transformer_are_scaled_by_the_root_of_the_width():
    model = models.Transformer(50, n_layers=1, d_model=64, n_heads=2, d_ff=8, rng=0).eval()
    embedded = model._embed("source", np.arange(50)[None]).numpy()[0]
    expected = 8 * model.tokens.weight.numpy() + nn.SinusoidalPositions(64).table(np.arange(50))
    np.testing.assert_allclose(embedded, expected, atol=1e-5)
    assert (8 * model.tokens.weight.numpy()).std() == pytest.approx(1, rel=0.1)


def test_an_encoder_is_equivariant_and_ignores_padding(rng):
    encoder = models.Encoder(2, 12, 3, rng=0, norm="post").astype(np.float64)
    x = rng.standard_normal((2, 5, 12))
    order = rng.permutation(5)
    out = encoder(Tensor(x)).numpy()
    np.testing.assert_allclose(encoder(Tensor(x[:, order])).numpy(), out[:, order], atol=1e-12)
    real = np.array([[True] * 5, [True, True, False, True, False]])
    noisy = x + 1e3 * ~real[:, :, None]
    a, b = encoder(Tensor(x), real).numpy(), encoder(Tensor(noisy), real).numpy()
    np.testing.assert_allclose(a[real], b[real], atol=1e-9)


@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        (np.zeros(4, int), ValueError, r"ids must have shape \(B, n\).*ids\[None\]"),
        (np.zeros((1, 0), int), ValueError, "neither of them 0"),
        (np.zeros((1, 3)), TypeError, "ids must be integers, got float64"),
        (np.full((1, 3), 11), IndexError, r"0 \.\.\. 10, got 11"),
        (np.full((1, 3), -1), IndexError, r"0 \.\.\. 10, got -1"),
        (np.zeros((1, 17), int), ValueError, "17 tokens is longer than the context of this model, 16"),
    ],
)
def test_bad_ids_are_explained(ids, error, message):
    with pytest.raises(error, match=message):
        small()(ids)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"d_model": 10}, "d_model 10 does not divide into n_heads 4"),
        ({"n_layers": 0}, "n_layers must be a whole number of at least 1, got 0"),
        ({"positions": "none"}, "positions must be"),
        ({"n_kv_heads": 3}, "multiple of n_kv_heads"),
    ],
)
def test_bad_configurations_are_explained(choices, message):
    with pytest.raises(ValueError, match=message):
        models.GPT(
            models.GPTConfig(
                **{"vocab_size": 11, "context": 16, "n_layers": 2, "n_heads": 4, "d_model": 24, **choices}
            )
        )


def test_a_configuration_makes_itself_again():
    config = models.GPTConfig(11, 16, 2, 4, 24, positions="rotary", n_kv_heads=2)
    assert models.GPTConfig(**config.as_dict()) == config


def test_dropout_acts_in_training_only_and_repeats_with_the_seed():
    model = small(dropout=0.5)
    ids = np.arange(8)[None]
    minitx.manual_seed(5)
    first = model(ids).numpy()
    minitx.manual_seed(5)
    np.testing.assert_array_equal(model(ids).numpy(), first)
    assert (model(ids).numpy() != first).any()
    model.eval()
    np.testing.assert_array_equal(model(ids).numpy(), model(ids).numpy())


def test_attention_weights_are_rows_of_the_past(rng):
    weights = small().attention_weights(rng.integers(0, 11, (2, 6)))
    assert [w.shape for w in weights] == [(2, 4, 6, 6)] * 2
    for layer in weights:
        np.testing.assert_allclose(layer.sum(axis=-1), 1, atol=1e-6)
        assert not layer[..., *np.triu_indices(6, 1)].any()
