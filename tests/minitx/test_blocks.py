"""Multi-head attention and blocks, against PyTorch's own modules with the same weights."""

import numpy as np
import pytest

import minitx
import minitx.functional as F
from minitx import Tensor, nn

torch = pytest.importorskip("torch")


def as_float64(module):
    return module.astype(np.float64)


def varied(module, rng):
    """Every parameter different from its start: norms that are not 1, biases that are not 0."""
    for parameter in module.astype(np.float64).parameters():
        parameter.data = rng.standard_normal(parameter.shape) * 0.3 + 0.1
    return module


def copy_attention(theirs, ours):
    """PyTorch holds q, k and v in one matrix."""
    with torch.no_grad():
        weights = [getattr(ours, f"{name}_proj").weight.numpy() for name in "qkv"]
        biases = [getattr(ours, f"{name}_proj").bias.numpy() for name in "qkv"]
        theirs.in_proj_weight.copy_(torch.tensor(np.concatenate(weights)))
        theirs.in_proj_bias.copy_(torch.tensor(np.concatenate(biases)))
        theirs.out_proj.weight.copy_(torch.tensor(ours.out_proj.weight.numpy()))
        theirs.out_proj.bias.copy_(torch.tensor(ours.out_proj.bias.numpy()))


def copy_linear(theirs, ours):
    with torch.no_grad():
        theirs.weight.copy_(torch.tensor(ours.weight.numpy()))
        theirs.bias.copy_(torch.tensor(ours.bias.numpy()))


def same_gradients(pairs):
    for name, ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, atol=1e-9, err_msg=name)


def attention_gradients(ours, theirs):
    got = np.concatenate([getattr(ours, f"{name}_proj").weight.grad for name in "qkv"])
    yield "in_proj", got, theirs.in_proj_weight.grad.numpy()
    yield (
        "in_proj bias",
        np.concatenate([getattr(ours, f"{n}_proj").bias.grad for n in "qkv"]),
        theirs.in_proj_bias.grad.numpy(),
    )
    yield "out_proj", ours.out_proj.weight.grad, theirs.out_proj.weight.grad.numpy()


@pytest.mark.parametrize("kind", ["self", "cross", "causal", "padded"])
def test_multi_head_attention_is_pytorchs(rng, kind):
    batch, n, m, d_model, heads = 3, 5, 7, 12, 4
    ours = as_float64(varied(nn.MultiHeadAttention(d_model, heads), rng))
    theirs = torch.nn.MultiheadAttention(d_model, heads, batch_first=True, dtype=torch.float64)
    copy_attention(theirs, ours)
    x = rng.standard_normal((batch, n, d_model))
    context = rng.standard_normal((batch, m, d_model)) if kind in ("cross", "padded") else x
    real = np.arange(context.shape[1]) < np.array([[7], [3], [5]]) if kind == "padded" else None
    mine, other = Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    read, other_read = Tensor(context, requires_grad=True), torch.tensor(context, requires_grad=True)
    out, weights = ours(
        mine,
        None if kind in ("self", "causal") else read,
        mask=None if real is None else real[:, None, None],
        causal=kind == "causal",
        return_weights=True,
    )
    fused = ours(
        mine,
        None if kind in ("self", "causal") else read,
        mask=None if real is None else real[:, None, None],
        causal=kind == "causal",
    )
    source = other if kind in ("self", "causal") else other_read
    hidden = torch.ones(n, n, dtype=torch.bool).triu(1) if kind == "causal" else None
    expected, expected_weights = theirs(
        other,
        source,
        source,
        attn_mask=hidden,
        key_padding_mask=None if real is None else torch.tensor(~real),
        average_attn_weights=False,
    )
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), atol=1e-12)
    np.testing.assert_allclose(fused.numpy(), expected.detach().numpy(), atol=1e-12)
    np.testing.assert_allclose(weights.numpy(), expected_weights.detach().numpy(), atol=1e-12)
    grad = rng.standard_normal(out.shape)
    fused.backward(grad)
    expected.backward(torch.tensor(grad))
    same_gradients(attention_gradients(ours, theirs))
    np.testing.assert_allclose(mine.grad, other.grad.numpy(), atol=1e-9)
    if kind in ("cross", "padded"):
        np.testing.assert_allclose(read.grad, other_read.grad.numpy(), atol=1e-9)


def pytorch_layer(block, norm, activation, d_model, heads, d_ff, cross):
    kind = torch.nn.TransformerDecoderLayer if cross else torch.nn.TransformerEncoderLayer
    theirs = kind(
        d_model,
        heads,
        d_ff,
        dropout=0.0,
        activation=activation,
        batch_first=True,
        norm_first=norm == "pre",
        dtype=torch.float64,
    )
    copy_attention(theirs.self_attn, block.attention)
    pairs = [
        (theirs.linear1, block.mlp.up),
        (theirs.linear2, block.mlp.down),
        (theirs.norm1, block.attention_norm),
    ]
    if cross:
        copy_attention(theirs.multihead_attn, block.cross_attention)
        pairs += [(theirs.norm2, block.cross_norm), (theirs.norm3, block.mlp_norm)]
    else:
        pairs += [(theirs.norm2, block.mlp_norm)]
    for pair in pairs:
        copy_linear(*pair)
    return theirs


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize(("mlp", "activation"), [("relu", "relu"), ("gelu", "gelu")])
@pytest.mark.parametrize("arrangement", ["encoder", "decoder", "cross"])
def test_a_block_is_pytorchs_layer_values_and_gradients(rng, norm, mlp, activation, arrangement):
    batch, n, m, d_model, heads, d_ff = 2, 5, 4, 12, 3, 20
    causal, cross = arrangement != "encoder", arrangement == "cross"
    block = as_float64(
        varied(nn.Block(d_model, heads, d_ff=d_ff, norm=norm, mlp=mlp, causal=causal, cross=cross), rng)
    )
    theirs = pytorch_layer(block, norm, activation, d_model, heads, d_ff, cross)
    x, context = rng.standard_normal((batch, n, d_model)), rng.standard_normal((batch, m, d_model))
    real = np.array([[True] * 4, [True, True, True, False]])
    mine, other = Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    hidden = torch.ones(n, n, dtype=torch.bool).triu(1) if causal else None
    if cross:
        out = block(mine, Tensor(context), context_mask=real[:, None, None])
        expected = theirs(
            other, torch.tensor(context), tgt_mask=hidden, memory_key_padding_mask=torch.tensor(~real)
        )
    else:
        out, expected = block(mine), theirs(other, src_mask=hidden)
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), atol=1e-10)
    grad = rng.standard_normal(out.shape)
    out.backward(grad)
    expected.backward(torch.tensor(grad))
    np.testing.assert_allclose(mine.grad, other.grad.numpy(), atol=1e-9)
    same_gradients(attention_gradients(block.attention, theirs.self_attn))
    same_gradients([("up", block.mlp.up.weight.grad, theirs.linear1.weight.grad.numpy())])


def test_grouped_queries_read_their_groups_head_of_keys(rng):
    """The same as full multi-head attention whose heads of keys are repeated, each for its group in a row."""
    batch, n, d_model, heads, kv_heads, head_dim = 2, 6, 24, 6, 3, 4
    grouped = as_float64(varied(nn.MultiHeadAttention(d_model, heads, kv_heads), rng))
    full = as_float64(nn.MultiHeadAttention(d_model, heads))
    full.q_proj, full.out_proj = grouped.q_proj, grouped.out_proj
    for name in ("k_proj", "v_proj"):
        small, large = getattr(grouped, name), getattr(full, name)
        weight = small.weight.numpy().reshape(kv_heads, head_dim, d_model)
        large.weight.data = np.repeat(weight, heads // kv_heads, axis=0).reshape(d_model, d_model)
        bias = small.bias.numpy().reshape(kv_heads, head_dim)
        large.bias.data = np.repeat(bias, heads // kv_heads, axis=0).reshape(d_model)
    x = Tensor(rng.standard_normal((batch, n, d_model)))
    np.testing.assert_allclose(grouped(x, causal=True).numpy(), full(x, causal=True).numpy(), atol=1e-12)


def test_all_projections_get_gradients_that_the_checker_passes(rng):
    layer = as_float64(nn.MultiHeadAttention(6, 3, 1, positions=nn.RotaryPositions(2)))
    x = Tensor(rng.standard_normal((2, 4, 6)))
    projections = [getattr(layer, f"{name}_proj") for name in ("q", "k", "v", "out")]

    def run(*weights):
        for projection, weight in zip(projections, weights, strict=True):
            projection.weight = weight
        return layer(x, causal=True)

    minitx.check_gradients(run, *[p.weight.numpy() for p in projections])


def test_swiglu_is_its_formula(rng):
    layer = as_float64(nn.SwiGLU(6, 10, rng=0))
    x = rng.standard_normal((3, 6))
    gate, up = x @ layer.gate.weight.numpy().T, x @ layer.up.weight.numpy().T
    expected = (gate / (1 + np.exp(-gate)) * up) @ layer.down.weight.numpy().T
    np.testing.assert_allclose(layer(Tensor(x)).numpy(), expected, atol=1e-12)


def test_everything_stays_float32(rng):
    block = nn.Block(12, 3, 1, norm_kind="rms", mlp="swiglu", positions=nn.RotaryPositions(4), bias=False)
    out = block(Tensor(rng.standard_normal((2, 5, 12)).astype(np.float32)))
    out.sum().backward()
    assert out.dtype == np.float32
    assert all(p.grad is not None and p.grad.dtype == np.float32 for p in block.parameters())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.MultiHeadAttention(10, 3), "d_model 10 does not divide into 3 heads"),
        (lambda: nn.MultiHeadAttention(12, 4, 3), "multiple of n_kv_heads, got 4 and 3"),
        (lambda: nn.Block(8, 2, norm="middle"), 'norm must be "pre" or "post"'),
        (lambda: nn.Block(8, 2, mlp="tanh"), "activation must be one of"),
        (
            lambda: nn.Block(8, 2)(Tensor(np.zeros((1, 2, 8))), Tensor(np.zeros((1, 2, 8)))),
            "without cross=True",
        ),
        (lambda: nn.Block(8, 2, cross=True)(Tensor(np.zeros((1, 2, 8)))), "needs a context"),
        (
            lambda: nn.MultiHeadAttention(8, 2)(Tensor(np.zeros((2, 8)))),
            r"x must have shape \(B, n, d_model = 8\)",
        ),
    ],
)
def test_wrong_use_says_what_was_expected(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_weights_on_request_are_those_that_made_the_output(rng):
    layer = as_float64(nn.MultiHeadAttention(8, 2, rng=3))
    x = Tensor(rng.standard_normal((2, 5, 8)))
    out, weights = layer(x, causal=True, return_weights=True)
    assert weights.shape == (2, 2, 5, 5)
    values = (
        F.linear(x, layer.v_proj.weight, layer.v_proj.bias).numpy().reshape(2, 5, 2, 4).transpose(0, 2, 1, 3)
    )
    heads = (weights.numpy() @ values).transpose(0, 2, 1, 3).reshape(2, 5, 8)
    expected = heads @ layer.out_proj.weight.numpy().T + layer.out_proj.bias.numpy()
    np.testing.assert_allclose(out.numpy(), expected, atol=1e-12)
