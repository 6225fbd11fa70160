"""Attention against its formula: masks, causal alignment, grouped heads, empty rows, every odd size."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitx
import minitx.functional as F
from minitx import DtypeError, Tensor, kernels

TOLERANCE = {np.float32: 3e-6, np.float64: 1e-12}


def arrays(rng, batch=2, heads=6, kv_heads=3, n=5, m=7, d_k=4, d_v=3, dtype=np.float64):
    shapes = (batch, heads, n, d_k), (batch, kv_heads, m, d_k), (batch, kv_heads, m, d_v)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def by_loops(q, k, v, allowed, scale):
    """The formula, one query at a time, in float64. allowed (B, H, n, m)."""
    batch, heads, n, _ = q.shape
    group = heads // k.shape[1]
    output, weights = np.zeros((batch, heads, n, v.shape[3])), np.zeros(allowed.shape)
    for b, h, i in np.ndindex(batch, heads, n):
        seen = np.flatnonzero(allowed[b, h, i])
        if len(seen):
            scores = k[b, h // group, seen].astype(np.float64) @ q[b, h, i].astype(np.float64) * scale
            exponentials = np.exp(scores - scores.max())
            weights[b, h, i, seen] = exponentials / exponentials.sum()
            output[b, h, i] = weights[b, h, i, seen] @ v[b, h // group, seen]
    return output, weights


def allowed_pairs(shape, mask=None, offset=None):
    n, m = shape[-2:]
    allowed = np.ones(shape, bool)
    if offset is not None:
        allowed &= np.arange(m) <= np.arange(n)[:, None] + offset
    return allowed if mask is None else allowed & mask


def both(q, k, v, **options):
    """The outputs of the two functions."""
    return [
        F.attention(q, k, v, **options),
        F.scaled_dot_product_attention(q, k, v, **options)[0],
    ]


MASKS = {
    "none": None,
    "keys of each entry": (2, 1, 1, 7),
    "pairs": (5, 7),
    "heads": (1, 6, 1, 7),
    "queries": (2, 1, 5, 1),
    "all": (2, 6, 5, 7),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [None, 2, 0, -3, 9])
@pytest.mark.parametrize("mask_shape", MASKS.values(), ids=MASKS.keys())
def test_output_and_weights_follow_the_formula(backend, mask_shape, offset, dtype, rng):
    q, k, v = arrays(rng, dtype=dtype)
    mask = None if mask_shape is None else rng.random(mask_shape) < 0.6
    options = {"mask": mask, "causal": offset is not None, "query_offset": offset, "scale": 0.7}
    expected, expected_weights = by_loops(q, k, v, allowed_pairs((2, 6, 5, 7), mask, offset), 0.7)
    for output in both(*map(Tensor, (q, k, v)), **options):
        assert output.dtype == dtype
        np.testing.assert_allclose(output.numpy(), expected, atol=TOLERANCE[dtype])
    weights = F.scaled_dot_product_attention(*map(Tensor, (q, k, v)), **options)[1]
    assert weights.dtype == dtype
    np.testing.assert_allclose(weights.numpy(), expected_weights, atol=TOLERANCE[dtype])


def test_the_scale_is_one_over_the_square_root_of_the_head_size(backend, rng):
    q, k, v = arrays(rng)
    expected, _ = by_loops(q, k, v, allowed_pairs((2, 6, 5, 7)), 0.5)
    for output in both(*map(Tensor, (q, k, v))):
        np.testing.assert_allclose(output.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize(("n", "m"), [(5, 7), (7, 5), (6, 6), (1, 7)])
def test_causal_lets_the_last_query_see_every_key(backend, n, m, rng):
    """Bottom-right: with a cache of earlier keys, new queries see all of it and not their own future."""
    q, k, v = arrays(rng, n=n, m=m)
    expected, _ = by_loops(q, k, v, allowed_pairs((2, 6, n, m), offset=m - n), 0.5)
    for output in both(*map(Tensor, (q, k, v)), causal=True):
        np.testing.assert_allclose(output.numpy(), expected, atol=1e-12)


@given(
    n=st.integers(1, 6),
    m=st.integers(1, 7),
    d_k=st.integers(1, 4),
    d_v=st.integers(1, 4),
    kv_heads=st.integers(1, 2),
    group=st.integers(1, 3),
    causal=st.booleans(),
    masked=st.booleans(),
    seed=st.integers(0, 99),
)
def test_gradients_agree_with_finite_differences(n, m, d_k, d_v, kv_heads, group, causal, masked, seed):
    rng = np.random.default_rng(seed)
    values = arrays(rng, 2, kv_heads * group, kv_heads, n, m, d_k, d_v)
    options = {"causal": causal, "mask": rng.random((2, 1, n, m)) < 0.6 if masked else None}
    weight = rng.standard_normal((2, kv_heads * group, n, m))

    def with_weights(*x):
        output, weights = F.scaled_dot_product_attention(*x, **options)
        return output.sum() + (weights * weight).sum()

    minitx.check_gradients(with_weights, *values)
    before = kernels.backend()
    try:
        for name in ("numpy", before):
            kernels.use(name)
            minitx.check_gradients(lambda *x: F.attention(*x, **options), *values)
    finally:
        kernels.use(before)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("n", "m", "d_k", "d_v"),
    [(1, 64, 5, 64), (63, 65, 16, 7), (64, 1, 3, 2), (130, 197, 33, 20), (65, 64, 8, 9)],
)
def test_fused_and_plain_agree_around_the_size_of_a_tile(backend, n, m, d_k, d_v, dtype, rng):
    values = arrays(rng, 2, 4, 2, n, m, d_k, d_v, dtype)
    mask = rng.random((2, 1, n, m)) < 0.7
    seed = rng.standard_normal((2, 4, n, d_v))
    for options in ({}, {"causal": True}, {"mask": mask}, {"mask": mask, "causal": True, "query_offset": 3}):
        results = []
        for function in (F.attention, lambda *x, **o: F.scaled_dot_product_attention(*x, **o)[0]):
            inputs = [Tensor(value, requires_grad=True) for value in values]
            output = function(*inputs, **options)
            output.backward(seed)
            results.append([output.numpy(), *(x.grad for x in inputs)])
        for fused, plain in zip(*results, strict=True):
            assert fused.dtype == dtype
            np.testing.assert_allclose(fused, plain, atol=10 * TOLERANCE[dtype], rtol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("how", ["mask", "causal", "no keys"])
def test_a_query_without_keys_gives_zeros_everywhere_and_no_warning(backend, how, dtype, rng):
    q, k, v = arrays(rng, n=5, m=0 if how == "no keys" else 3, dtype=dtype)
    if how == "mask":
        mask = np.ones((2, 1, 5, 3), bool)
        mask[0, :, 1], mask[1] = False, False
        options, empty = {"mask": mask}, np.array([[0, 1, 0, 0, 0], [1] * 5], bool)
    else:
        options, empty = (
            {"causal": True},
            np.array([[1, 1, 0, 0, 0]] * 2 if how == "causal" else [[1] * 5] * 2, bool),
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for function in (F.attention, F.scaled_dot_product_attention):
            inputs = [Tensor(x, requires_grad=True) for x in (q, k, v)]
            result = function(*inputs, **options)
            output = result[0] if isinstance(result, tuple) else result
            output.backward(np.ones(output.shape))
            assert all(np.isfinite(x.grad).all() for x in inputs)
            rows = np.broadcast_to(empty[:, None], (2, 6, 5))
            assert not output.numpy()[rows].any()
            assert not inputs[0].grad[rows].any()
            assert how == "no keys" or output.numpy()[~rows].any(axis=-1).all()
            if isinstance(result, tuple):
                assert not result[1].numpy()[rows].any()


def test_values_of_masked_keys_get_no_gradient(backend, rng):
    q, k, v = (Tensor(x, requires_grad=True) for x in arrays(rng))
    mask = np.arange(7) < 4
    F.attention(q, k, v, mask=mask).sum().backward()
    assert not k.grad[:, :, 4:].any()
    assert not v.grad[:, :, 4:].any()
    assert v.grad[:, :, :4].all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_in_the_thousands_do_not_overflow(backend, dtype, rng):
    q, k, v = arrays(rng, n=70, m=90, dtype=dtype)
    for output in both(*map(Tensor, (q * 1000, k * 1000, v)), causal=True):
        assert np.isfinite(output.numpy()).all()
        assert np.abs(output.numpy()).max() <= np.abs(v).max() * (1 + 1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nan_in_a_query_stays_visible_in_its_row_only(backend, dtype, rng):
    q, k, v = arrays(rng, n=5, m=70, dtype=dtype)
    q[1, 2, 3, 0] = np.nan
    for output in both(*map(Tensor, (q, k, v))):
        wrong = np.isnan(output.numpy()).all(axis=-1)
        assert wrong[1, 2, 3]
        assert wrong.sum() == np.isnan(output.numpy()).any(axis=-1).sum() == 1


def test_gradients_flow_to_q_k_and_v_of_a_layer(backend, rng):
    """Attention computed off the graph would leave the projections of queries and keys without any."""
    layers = [minitx.nn.Linear(5, 8, rng=i) for i in range(3)]
    x = Tensor(rng.standard_normal((2, 3, 5)).astype(np.float32))
    q, k, v = (layer(x).reshape(2, 3, 2, 4).permute(0, 2, 1, 3) for layer in layers)
    (F.attention(q, k, v, causal=True) ** 2).sum().backward()
    assert all(np.abs(layer.weight.grad).max() > 0 for layer in layers)


def test_arrays_that_are_not_contiguous_or_not_writeable_are_taken(backend, rng):
    q, k, v = arrays(rng)
    expected = F.attention(*map(Tensor, (q, k, v))).numpy()
    turned = [Tensor(x.transpose(0, 2, 1, 3).copy()).transpose(1, 2) for x in (q, k, v)]
    np.testing.assert_array_equal(F.attention(*turned).numpy(), expected)
    for x in (q, k, v):
        x.flags.writeable = False
    fixed = [Tensor(x, copy=False) for x in (q, k, v)]
    np.testing.assert_array_equal(F.attention(*fixed).numpy(), expected)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kv_heads", [6, 2, 1])
def test_values_and_gradients_are_those_of_pytorch(backend, causal, kv_heads, rng):
    torch = pytest.importorskip("torch")
    values = arrays(rng, heads=6, kv_heads=kv_heads, n=70, m=90)
    mask = rng.random((2, 1, 70, 90)) < 0.7
    mask[..., 0] = True  # PyTorch gives NaN for a row without keys
    seed = rng.standard_normal((2, 6, 70, 3))
    theirs = [torch.tensor(x, requires_grad=True) for x in values]
    allowed = torch.tensor(allowed_pairs((2, 6, 70, 90), mask, 20 if causal else None))
    expected = torch.nn.functional.scaled_dot_product_attention(*theirs, allowed, enable_gqa=True)
    expected.backward(torch.tensor(seed))
    for function in range(2):
        ours = [Tensor(x, requires_grad=True) for x in values]
        output = both(*ours, mask=mask, causal=causal)[function]
        output.backward(seed)
        np.testing.assert_allclose(output.numpy(), expected.detach().numpy(), atol=1e-12)
        for x, y in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(x.grad, y.grad.numpy(), atol=1e-11)


@pytest.mark.parametrize("function", [F.attention, F.scaled_dot_product_attention])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": (5, 4)}, r"q must have shape \(B, H, n, d_k\), got \(5, 4\).*x\[None, None\]"),
        ({"k": (2, 3, 7, 9)}, r"k must have shape \(B = 2, Hkv, m, d_k = 4\), got \(2, 3, 7, 9\)"),
        ({"k": (1, 3, 7, 4)}, r"k must have shape \(B = 2"),
        ({"k": (2, 4, 7, 4), "v": (2, 4, 7, 3)}, r"H = 6 of q a multiple of Hkv, got \(2, 4, 7, 4\)"),
        ({"v": (2, 3, 6, 3)}, r"v must have shape \(B = 2, Hkv = 3, m = 7, d_v\), got \(2, 3, 6, 3\)"),
        ({"v": (2, 6, 7, 3)}, r"v must have shape \(B = 2, Hkv = 3"),
        (
            {"mask": (2, 7)},
            r"mask must have shape broadcastable to .* = \(2, 6, 5, 7\), got \(2, 7\).*None, None, :",
        ),
        ({"mask": (1, 1, 1, 5, 7)}, r"mask must have shape broadcastable"),
        ({"mask": (3, 1, 1, 7)}, r"got \(3, 1, 1, 7\)"),
    ],
)
def test_a_wrong_shape_names_the_argument_the_axes_and_what_came(function, change, message):
    shapes = {"q": (2, 6, 5, 4), "k": (2, 3, 7, 4), "v": (2, 3, 7, 3)}
    q, k, v = (Tensor(np.zeros(change.get(name, shape))) for name, shape in shapes.items())
    mask = np.ones(change["mask"], bool) if "mask" in change else None
    with pytest.raises(ValueError, match=message):
        function(q, k, v, mask=mask)


@pytest.mark.parametrize("function", [F.attention, F.scaled_dot_product_attention])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_a_mask_of_numbers_is_refused_and_the_boolean_form_named(function, dtype, rng):
    with pytest.raises(DtypeError, match=r"boolean with True = may attend.*mask == 0.*mask == 1"):
        function(*map(Tensor, arrays(rng)), mask=np.zeros((5, 7), dtype))


def test_whole_numbers_are_refused():
    with pytest.raises(DtypeError, match="q must be float32 or float64, got int64"):
        F.attention(*(Tensor(np.ones((1, 1, 2, 2), int)) for _ in range(3)))
