"""Attention as functions: the one that shows its weights, and the fused one that never builds them."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minitx.errors import DtypeError, shape_error
from minitx.tensor import Tensor, apply, as_tensor


def scaled_dot_product_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Any = None,
    causal: bool = False,
    query_offset: int | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """softmax(q k^T * scale) v, and the weights (Vaswani et al. 2017, arXiv:1706.03762, section 3.2.1).

    Args:
        q: queries (B, H, n, d_k).
        k: keys (B, Hkv, m, d_k), with H a multiple of Hkv: each head of keys serves H / Hkv heads of
            queries in a row (Ainslie et al. 2023, arXiv:2305.13245).
        v: values (B, Hkv, m, d_v).
        mask: boolean, True = may attend, broadcastable to (B, H, n, m). A mask of the wrong polarity
            cannot be detected. To hide padded keys of each batch entry, give shape (B, 1, 1, m).
        causal: query i of n may see the keys up to i + (m - n): the last query sees every key.
        query_offset: with `causal`, query i may see the keys up to i + query_offset instead.
        scale: factor of the scores, 1 / sqrt(d_k) by default.

    Returns:
        output (B, H, n, d_v) and weights (B, H, n, m), in the dtype of the inputs. A query without any
        allowed key has output, weights and gradients 0.

    Raises:
        ValueError for a wrong shape, DtypeError for a mask that is not boolean.
    """
    q, k, v, allowed, offset, scale = _check(q, k, v, mask, causal, query_offset, scale)
    batch, heads, n, d_k = q.shape
    kv_heads, m = k.shape[1], k.shape[2]
    merged = (batch, kv_heads, heads // kv_heads * n)  # queries of a group see the same keys
    scores = (q * scale).reshape(*merged, d_k) @ k.transpose()
    scores = scores.reshape(batch, heads, n, m)
    if causal:
        reach = np.arange(m) <= np.arange(n)[:, None] + offset  # (n, m)
        scores = apply("where", as_tensor(reach), scores, as_tensor(-np.inf, like=scores))
    if allowed is not None:
        scores = apply("where", allowed, scores, as_tensor(-np.inf, like=scores))
    weights = apply("softmax", scores, axis=-1)
    output = weights.reshape(*merged, m) @ v
    return output.reshape(batch, heads, n, v.shape[-1]), weights


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Any = None,
    causal: bool = False,
    query_offset: int | None = None,
    scale: float | None = None,
) -> Tensor:
    """The output of `scaled_dot_product_attention`, fused: the n x m weights are never built.

    Arguments, result and errors are the same. Memory beyond inputs and outputs grows with n, forward
    and backward (Dao et al. 2022, arXiv:2205.14135).
    """
    q, k, v, allowed, offset, scale = _check(q, k, v, mask, causal, query_offset, scale)
    return apply("attention", q, k, v, allowed, causal=bool(causal), offset=offset, scale=scale)


def self_attention(
    x: Tensor,
    projections: Sequence[tuple[Tensor, Tensor | None]],
    n_heads: int,
    n_kv_heads: int,
    *,
    mask: Any = None,
    causal: bool = False,
) -> Tensor:
    """Attention of x (B, n, d) to itself between its projections, as one operation.

    projections: weight and bias (or None) of queries (H head_dim, d), keys and values (Hkv head_dim, d) and
    output (d, H head_dim), in this order. mask and causal as in `attention`. The caller checks the shapes.
    """
    weights = [parameter for pair in projections for parameter in pair]
    head_dim = projections[0][0].shape[0] // n_heads
    allowed = None if mask is None else _check_mask(mask, (x.shape[0], n_heads, x.shape[1], x.shape[1]))
    options = {"n_heads": n_heads, "n_kv_heads": n_kv_heads, "causal": bool(causal), "scale": head_dim**-0.5}
    return apply("self_attention", x, *weights, allowed, **options)


def _check(q, k, v, mask, causal, query_offset, scale):
    """The arguments as tensors (the mask with four axes), the causal offset, and the scale."""
    q = as_tensor(q)
    k, v = as_tensor(k, like=q), as_tensor(v, like=q)
    for name, x, axes in (
        ("q", q, "(B, H, n, d_k)"),
        ("k", k, "(B, Hkv, m, d_k)"),
        ("v", v, "(B, Hkv, m, d_v)"),
    ):
        if x.ndim != 4:
            raise shape_error(name, axes, x.shape, "Add the missing axes, for instance with x[None, None].")
        if x.dtype.kind != "f":
            raise DtypeError(f"{name} must be float32 or float64, got {x.dtype}.")
    batch, heads, n, d_k = q.shape
    kv_heads, m = k.shape[1], k.shape[2]
    if d_k == 0 or k.shape != (batch, kv_heads, m, d_k):
        expected = f"(B = {batch}, Hkv, m, d_k = {d_k})"
        raise shape_error("k", expected, k.shape, "B and d_k must be those of q, and d_k at least 1.")
    if v.shape[:3] != k.shape[:3]:
        expected = f"(B = {batch}, Hkv = {kv_heads}, m = {m}, d_v)"
        raise shape_error("v", expected, v.shape, "Every key needs one value.")
    if kv_heads == 0 or heads % kv_heads:
        expected = f"(B, Hkv, m, d_k) with H = {heads} of q a multiple of Hkv"
        raise shape_error("k", expected, k.shape, "Each head of keys serves H / Hkv heads of queries.")
    offset = 0 if not causal else m - n if query_offset is None else int(query_offset)
    allowed = None if mask is None else _check_mask(mask, (batch, heads, n, m))
    return q, k, v, allowed, offset, 1 / math.sqrt(d_k) if scale is None else float(scale)


def _check_mask(mask: Any, full: tuple[int, ...]) -> Tensor:
    allowed = as_tensor(mask)
    if allowed.dtype != np.bool_:
        raise DtypeError(
            f"mask must be boolean with True = may attend, got dtype {allowed.dtype}. A mask of 0 and -inf "
            "that is added to the scores becomes mask == 0; one of 0 and 1 becomes mask == 1."
        )
    fits = allowed.ndim <= 4 and all(
        size in (1, whole) for size, whole in zip(allowed.shape[::-1], full[::-1], strict=False)
    )
    if not fits:
        expected = f"broadcastable to (B, H, n, m) = {full}"
        hint = "To hide padded keys give (B, 1, 1, m): mask[:, None, None, :]."
        raise shape_error("mask", expected, allowed.shape, hint)
    return allowed.reshape((1,) * (4 - allowed.ndim) + allowed.shape)
