"""Self-attention as one operation: the function of its parts, with the gradients of its parts."""

import numpy as np
import pytest

import minitx
import minitx.functional as F
from minitx import Tensor, nn
from minitx.attention import self_attention

D, HEAD = 6, 4


def inputs(rng, heads, kv_heads, batch=2, n=5, dtype=np.float64):
    widths = (heads * HEAD, kv_heads * HEAD, kv_heads * HEAD)
    arrays = [rng.standard_normal((batch, n, D))]
    for width in widths:
        arrays += [rng.standard_normal((width, D)), rng.standard_normal(width)]
    arrays += [rng.standard_normal((D, widths[0])), rng.standard_normal(D)]
    return [array.astype(dtype) for array in arrays]


def pairs(weights):
    return list(zip(weights[::2], weights[1::2], strict=True))


def masks(rng):
    allowed = rng.random((2, 1, 5, 5)) < 0.7
    allowed[0, 0, 2] = False  # a query without any key
    return {
        "none": {},
        "causal": {"causal": True},
        "mask": {"mask": allowed},
        "both": {"mask": allowed, "causal": True},
    }


@pytest.mark.parametrize("kind", ["none", "causal", "mask", "both"])
@pytest.mark.parametrize(("heads", "kv_heads"), [(2, 2), (4, 2), (3, 1)])
def test_gradients_are_those_of_finite_differences(backend, kind, heads, kv_heads, rng):
    options = masks(rng)[kind]

    def function(x, *weights):
        return self_attention(x, pairs(weights), heads, kv_heads, **options)

    minitx.check_gradients(function, *inputs(rng, heads, kv_heads))


@pytest.mark.parametrize("kind", ["none", "causal", "mask"])
def test_values_and_gradients_are_those_of_pytorch(backend, kind, rng):
    torch = pytest.importorskip("torch")
    options, heads, kv_heads = masks(np.random.default_rng(3))[kind], 4, 2
    if "mask" in options:
        options["mask"][0, 0, 2] = True  # PyTorch gives NaN there
    arrays = inputs(rng, heads, kv_heads)
    ours = [Tensor(array, requires_grad=True) for array in arrays]
    theirs = [torch.tensor(array, requires_grad=True) for array in arrays]
    out = self_attention(ours[0], pairs(ours[1:]), heads, kv_heads, **options)
    x, wq, bq, wk, bk, wv, bv, wo, bo = theirs
    linear = torch.nn.functional.linear
    q, k, v = (
        linear(x, w, b).unflatten(-1, (-1, HEAD)).transpose(1, 2) for w, b in ((wq, bq), (wk, bk), (wv, bv))
    )
    mask = torch.tensor(options["mask"]) if "mask" in options else None
    heads_out = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=kind == "causal", enable_gqa=True
    )
    wanted = linear(heads_out.transpose(1, 2).flatten(2), wo, bo)
    np.testing.assert_allclose(out.numpy(), wanted.detach().numpy(), atol=1e-12)
    grad = rng.standard_normal(out.shape)
    out.backward(grad)
    wanted.backward(torch.tensor(grad))
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.grad, other.grad.numpy(), atol=1e-11)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kv_heads", [4, 2])
def test_the_layer_gives_the_same_by_both_ways(backend, bias, kv_heads, rng):
    """With return_weights the layer goes through its parts one by one."""
    layer = nn.MultiHeadAttention(12, 4, kv_heads, bias, rng=1)
    x, grad = (
        rng.standard_normal((2, 7, 12)).astype(np.float32),
        rng.standard_normal((2, 7, 12)).astype(np.float32),
    )
    found = []
    for by_parts in (False, True):
        layer.zero_grad()
        given = Tensor(x, requires_grad=True)
        out = layer(given, causal=True, return_weights=by_parts)
        out = out[0] if by_parts else out
        assert out.dtype == np.float32
        out.backward(grad)
        found.append([out.numpy(), given.grad, *[p.grad for p in layer.parameters()]])
    for one, other in zip(*found, strict=True):
        assert one.dtype == other.dtype == np.float32
        np.testing.assert_allclose(one, other, atol=2e-5)


def test_gradients_of_what_is_not_trained_are_not_kept(rng):
    layer = nn.MultiHeadAttention(8, 2, rng=0)
    layer.k_proj.weight.requires_grad = False
    out = layer(Tensor(rng.standard_normal((1, 3, 8))), causal=True)
    out.sum().backward()
    assert layer.k_proj.weight.grad is None
    assert layer.v_proj.weight.grad is not None


def test_weights_changed_between_forward_and_backward_give_no_wrong_gradient(rng):
    """A change to those of the output is refused; of the others the operation keeps a copy of its own."""
    layer, x = nn.MultiHeadAttention(8, 2, rng=0), rng.standard_normal((1, 3, 8))
    gradients = []
    for change in (0.0, 1.0):
        given = Tensor(x, requires_grad=True)
        out = layer(given)
        for projection in (layer.q_proj, layer.k_proj, layer.v_proj):
            projection.weight.data[0, 0] += change
        out.sum().backward()
        gradients.append(given.grad)
    np.testing.assert_array_equal(*gradients)
    out = layer(Tensor(x))
    layer.out_proj.weight.data[0, 0] += 1
    with pytest.raises(minitx.GraphError, match="changed in place"):
        out.sum().backward()


def test_a_wrong_mask_is_refused(rng):
    layer = nn.MultiHeadAttention(8, 2, rng=0)
    x = rng.standard_normal((2, 3, 8))
    with pytest.raises(ValueError, match=r"\(B, H, n, m\) = \(2, 2, 3, 3\)"):
        layer(x, mask=np.ones((2, 1, 1, 4), bool))
    with pytest.raises(TypeError, match="boolean"):
        layer(x, mask=np.zeros((2, 1, 1, 3)))


def test_linear_finds_only_the_gradients_that_are_asked_for(rng):
    x, weight = Tensor(rng.standard_normal((20, 3))), Tensor(rng.standard_normal((4, 3)), requires_grad=True)
    F.linear(x, weight).sum().backward()
    assert x.grad is None and weight.grad is not None
    fixed = weight.detach()
    x = Tensor(rng.standard_normal((20, 3)), requires_grad=True)
    F.linear(x, fixed).sum().backward()
    np.testing.assert_allclose(x.grad, np.tile(weight.numpy().sum(0), (20, 1)))
