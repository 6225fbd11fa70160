"""Attention's compiled kernels: against the twin and PyTorch over odd shapes, masks, offsets and dtypes."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitx.kernels import attention_numpy as twin
from minitx.kernels import decode_numpy

pytest.importorskip("numba")

from minitx.kernels import attention, decode

TOLERANCE = {np.float32: 3e-6, np.float64: 1e-13}


@st.composite
def problems(draw, most_queries=150):
    """Arguments of `forward`, and a gradient of the output."""
    kv_heads, group, batch = (
        draw(st.integers(1, 3)),
        draw(st.sampled_from([1, 1, 2, 3])),
        draw(st.integers(1, 2)),
    )
    n, m = draw(st.integers(0, most_queries)), draw(st.integers(0, 300))
    d, d_v = (draw(st.sampled_from([1, 3, 8, 16, 17, 32, 40, 64, 80])) for _ in range(2))
    dtype = draw(st.sampled_from([np.float32, np.float32, np.float64]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    heads = kv_heads * group
    shapes = (batch, heads, n, d), (batch, kv_heads, m, d), (batch, kv_heads, m, d_v), (batch, heads, n, d_v)
    q, k, v, grad = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    q *= dtype(draw(st.sampled_from([0.1, 1, 1, 10])))
    causal = draw(st.booleans())
    offset = draw(st.sampled_from([m - n, 0, 5, -5, -70, 100, -1000, 1000])) if causal else 0
    full = (batch, heads, n, m)
    kind = draw(st.sampled_from(["none", "none", "random", "padding", "band", "blocks"]))
    mask = {
        "none": lambda: None,
        "random": lambda: rng.random([size if rng.integers(2) else 1 for size in full]) < rng.random(),
        "padding": lambda: np.arange(m) < rng.integers(0, m + 1, size=(batch, 1, 1, 1)),
        "band": lambda: np.tri(n, m, int(rng.integers(-50, 50)), dtype=bool)[None, None],
        "blocks": lambda: np.repeat(rng.random((1, 1, n, m // 96 + 1)) < 0.5, 96, axis=-1)[..., :m],
    }[kind]()
    return (q, k, v, mask, causal, offset, 1 / math.sqrt(d)), grad


def in_float64(arguments):
    return tuple(x.astype(np.float64) for x in arguments[:3]) + arguments[3:]


def assert_close(got, wanted, reference, dtype):
    """`got` is as near to the exact result as the twin's result in the same dtype is, but for a factor."""
    assert got.dtype == dtype
    assert got.shape == wanted.shape
    room = TOLERANCE[dtype] * (1 + abs(wanted).max(initial=0)) + 5 * abs(reference - wanted).max(initial=0)
    assert abs(got - wanted).max(initial=0) <= room


@settings(max_examples=80)
@given(problems())
def test_any_problem_has_the_twins_outputs_and_gradients(problem):
    arguments, grad = problem
    dtype = grad.dtype.type
    out, log_sum = attention.forward(*arguments)
    reference, _ = twin.forward(*arguments)
    wanted, wanted_log_sum = twin.forward(*in_float64(arguments))
    empty = np.isposinf(wanted_log_sum)
    assert np.array_equal(np.isposinf(log_sum), empty)
    assert not out[empty].any()
    assert_close(out, wanted, reference, dtype)
    assert_close(np.where(empty, dtype(0), log_sum), np.where(empty, 0, wanted_log_sum), 0, dtype)

    gradients = attention.backward(*arguments, out, log_sum, grad)
    references = twin.backward(*arguments, *twin.forward(*arguments), grad)
    exact = twin.backward(*in_float64(arguments), wanted, wanted_log_sum, grad.astype(np.float64))
    assert not gradients[0][empty].any()
    for got, right, near in zip(gradients, exact, references, strict=True):
        assert_close(got, right, near, dtype)


@settings(max_examples=40)
@given(problems(most_queries=8))
def test_few_queries_have_the_same_output_in_parts_in_the_twins_and_in_tiles(problem):
    arguments, grad = problem
    dtype = grad.dtype.type
    wanted, wanted_log_sum = twin.forward(*in_float64(arguments))
    reference, _ = twin.forward(*arguments)
    found = [decode_numpy.forward(*arguments)]
    if decode.suits(arguments[0], arguments[2]):
        found.append(decode.forward(*arguments))
    for out, log_sum in found:
        assert_close(out, wanted, reference, dtype)
        assert np.array_equal(np.isposinf(log_sum), np.isposinf(wanted_log_sum))


@pytest.mark.parametrize("group", [1, 4])
@pytest.mark.parametrize("padded", [0, 700])
def test_a_long_cache_is_read_in_parts_with_the_same_result(group, padded, rng):
    """2001 keys of one head are split over threads; the last part may be padding alone."""
    q = rng.standard_normal((1, group, 3, 64)).astype(np.float32)
    k, v = (rng.standard_normal((1, 1, 2001, 64)).astype(np.float32) for _ in range(2))
    mask = (np.arange(2001) < 2001 - padded)[None, None, None]
    arguments = (q, k, v, mask, True, 1998, 0.125)
    for got, wanted in zip(attention.forward(*arguments), twin.forward(*arguments), strict=True):
        np.testing.assert_allclose(got, wanted, atol=2e-6)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("heads", "kv_heads", "n", "m", "d"), [(2, 2, 77, 131, 40), (6, 2, 130, 130, 64)])
def test_outputs_and_gradients_are_pytorchs(heads, kv_heads, n, m, d, causal, rng):
    torch = pytest.importorskip("torch")
    shapes = (2, heads, n, d), (2, kv_heads, m, d), (2, kv_heads, m, d), (2, heads, n, d)
    q, k, v, grad = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    padding = np.arange(m) < np.array([m - 9, m]).reshape(2, 1, 1, 1)
    allowed = padding & (np.arange(m) <= np.arange(n)[:, None] + m - n) if causal else padding
    leaves = [torch.from_numpy(x).requires_grad_() for x in (q, k, v)]
    expected = torch.nn.functional.scaled_dot_product_attention(
        *leaves, attn_mask=torch.from_numpy(allowed), enable_gqa=True
    )
    expected.backward(torch.from_numpy(grad))
    arguments = (q, k, v, padding, causal, m - n, 1 / math.sqrt(d))
    out, log_sum = attention.forward(*arguments)
    np.testing.assert_allclose(out, expected.detach().numpy(), atol=3e-6)
    for got, leaf in zip(attention.backward(*arguments, out, log_sum, grad), leaves, strict=True):
        np.testing.assert_allclose(got, leaf.grad.numpy(), atol=2e-5)


@pytest.mark.parametrize("n", [3, 70])
@pytest.mark.parametrize("size", [5, 60, 3000])
def test_scores_that_grow_far_beyond_the_first_ones_do_not_overflow(size, n, rng):
    """The shift is guessed from the first keys; here the scores grow with the keys' index."""
    q, k, v = (rng.standard_normal((1, 1, rows, 16)) for rows in (n, 400, 400))
    k = k + q.mean(axis=2, keepdims=True) * np.linspace(0, size, 400)[:, None]
    arguments = [x.astype(np.float32) for x in (abs(q), abs(k) * np.linspace(0.1, size, 400)[:, None], v)]
    out, log_sum = attention.forward(*arguments, None, False, 0, 0.25)
    wanted, wanted_log_sum = twin.forward(*(x.astype(np.float64) for x in arguments), None, False, 0, 0.25)
    np.testing.assert_allclose(log_sum, wanted_log_sum, rtol=2e-6)
    np.testing.assert_allclose(out, wanted, atol=1e-6 * wanted_log_sum.max())


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("n", [4, 200])
def test_a_bad_number_is_seen_by_the_queries_that_reach_it_and_by_no_other(n, bad, rng):
    q, k, v = (rng.standard_normal((1, 2, n, 16)).astype(np.float32) for _ in range(3))
    k[0, 1, n // 2, 3] = bad
    with np.errstate(all="raise", under="ignore"):
        out, log_sum = attention.forward(q, k, v, None, True, 0, 0.25)
        gradients = attention.backward(q, k, v, None, True, 0, 0.25, out, log_sum, out)
    seen = np.isnan(out).any(axis=-1)
    reached = abs(k[0, 1, n // 2] @ q[0, 1].T) == np.inf if bad == np.inf else np.ones(n, bool)
    reached &= q[0, 1, :, 3] > 0 if bad == np.inf else True
    assert not seen[0, 0].any()
    assert np.array_equal(seen[0, 1], reached & (np.arange(n) >= n // 2))
    assert np.isnan(gradients[0]).any()
    assert not any(np.isnan(gradient[0, 0]).any() for gradient in gradients)


@pytest.mark.parametrize("n", [2, 90])
def test_a_bad_number_in_a_key_that_the_mask_hides_is_not_seen(n, rng):
    q, k, v = (rng.standard_normal((1, 1, rows, 16)).astype(np.float32) for rows in (n, 130, 130))
    mask = rng.random((1, 1, n, 130)) < 0.5
    mask[..., 7] = False
    wanted, _ = attention.forward(q, k, v, mask, False, 0, 0.25)
    k[0, 0, 7] = np.nan
    assert np.array_equal(attention.forward(q, k, v, mask, False, 0, 0.25)[0], wanted)


def test_no_queries_no_keys_and_one_of_each():
    for n, m in [(0, 5), (5, 0), (0, 0), (70, 0), (1, 1)]:
        q, k, v = (np.ones((1, 2, rows, 16), np.float32) for rows in (n, m, m))
        out, log_sum = attention.forward(q, k, v, None, True, m - n, 0.25)
        np.testing.assert_allclose(out, np.full((1, 2, n, 16), m > 0), rtol=1e-6)
        gradients = attention.backward(q, k, v, None, True, m - n, 0.25, out, log_sum, out)
        assert [gradient.shape for gradient in gradients] == [q.shape, k.shape, v.shape]
        np.testing.assert_allclose(gradients[2], np.full((1, 2, m, 16), n > 0), rtol=1e-6)


def test_a_mask_on_the_last_key_only_attends_to_it_alone(rng):
    q, k, v = (rng.standard_normal((1, 1, rows, 16)).astype(np.float32) for rows in (66, 300, 300))
    mask = np.arange(300)[None, None, None] == 299
    out, _ = attention.forward(q, k, v, mask, False, 0, 0.25)
    np.testing.assert_allclose(out, np.broadcast_to(v[:, :, 299:], out.shape), rtol=1e-6)
