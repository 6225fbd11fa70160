"""The differentiable functions, by their field names: `import minitx.functional as F`.

Each takes tensors, or arrays as constants, and keeps float32 float32 and float64 float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from minitx.attention import attention, scaled_dot_product_attention
from minitx.errors import DtypeError, shape_error
from minitx.randomness import generator
from minitx.tensor import Tensor, apply, as_tensor

__all__ = [
    "attention",
    "concatenate",
    "cross_entropy",
    "dropout",
    "embedding",
    "gather",
    "gelu",
    "layer_norm",
    "linear",
    "log_softmax",
    "pad",
    "relu",
    "rms_norm",
    "rotary",
    "scaled_dot_product_attention",
    "sigmoid",
    "silu",
    "softmax",
    "split",
    "stack",
    "where",
]


def where(condition: Any, a: Any, b: Any) -> Tensor:
    """a where the boolean condition holds, b elsewhere; the three are broadcast together."""
    condition = as_tensor(condition)
    if condition.dtype != np.bool_:
        raise DtypeError(f"condition must be boolean, got {condition.dtype}. Write a comparison: x > 0.")
    first = as_tensor(a, like=b if isinstance(b, Tensor) else None)
    return apply("where", condition, first, as_tensor(b, like=first))


def concatenate(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Tensors joined along an axis that they have; all other sizes must agree."""
    return apply("concatenate", *_all_tensors(tensors), axis=axis)


def stack(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Tensors of one shape joined along a new axis."""
    return apply("stack", *_all_tensors(tensors), axis=axis)


def split(x: Tensor, sizes: int | Sequence[int], axis: int = -1) -> list[Tensor]:
    """x cut along `axis` into pieces of the given sizes, or into that many equal pieces for one number."""
    x = as_tensor(x)
    whole = x.shape[axis]
    if isinstance(sizes, int):
        if sizes < 1 or whole % sizes:
            raise ValueError(f"split needs axis {axis} of {whole} to divide into {sizes} equal pieces.")
        sizes = [whole // sizes] * sizes
    if sum(sizes) != whole:
        raise ValueError(f"split sizes {list(sizes)} add up to {sum(sizes)}; axis {axis} has {whole}.")
    ends = np.cumsum([0, *sizes])
    before = (slice(None),) * (axis % x.ndim)
    return [x[(*before, slice(int(a), int(b)))] for a, b in pairwise(ends)]


def pad(x: Tensor, widths: Sequence[tuple[int, int]], value: float = 0.0) -> Tensor:
    """x with `value` around it: one pair (before, after) an axis."""
    x = as_tensor(x)
    pairs = tuple((int(before), int(after)) for before, after in widths)
    if len(pairs) != x.ndim or any(width < 0 for pair in pairs for width in pair):
        raise ValueError(f"pad needs one pair (before, after) >= 0 for each of {x.ndim} axes, got {widths}.")
    return apply("pad", x, widths=pairs, value=value)


def gather(x: Tensor, index: Any, axis: int = -1) -> Tensor:
    """out[..., i, ...] = x[..., index[..., i, ...], ...] along `axis`; index has x's other sizes."""
    x, index = as_tensor(x), _integers("index", index)
    along = axis % x.ndim
    if index.ndim != x.ndim or any(index.shape[i] != x.shape[i] for i in range(x.ndim) if i != along):
        expected = ", ".join("any" if i == along else str(size) for i, size in enumerate(x.shape))
        raise shape_error("index", f"({expected})", index.shape)
    _check_range("index", index, x.shape[along])
    return apply("gather", x, index, axis=along)


def embedding(ids: Any, weight: Tensor) -> Tensor:
    """Row ids[...] of weight (vocabulary, d): ids (...) integers -> (..., d). Repeated ids add gradients."""
    weight, ids = as_tensor(weight), _integers("ids", ids)
    if weight.ndim != 2:
        raise shape_error("weight", "(vocabulary, d)", weight.shape)
    _check_range("ids", ids, weight.shape[0])
    return apply("embedding", ids, weight)


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """exp(x) / sum(exp(x)) along `axis`. A row of nothing but -inf gives zeros."""
    return apply("softmax", as_tensor(x), axis=axis)


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """x - log(sum(exp(x))) along `axis`, without overflow."""
    return apply("log_softmax", as_tensor(x), axis=axis)


def cross_entropy(
    logits: Tensor, targets: Any, *, ignore_index: int = -100, label_smoothing: float = 0.0
) -> Tensor:
    """Mean of -log softmax(logits)[target]: logits (..., C) and integer targets (...) -> a scalar.

    Targets equal to `ignore_index` count neither in the sum nor in the mean; where all are ignored the
    loss and its gradients are 0. With `label_smoothing` e the aim is 1 - e on the target and e spread
    over all C classes (Szegedy et al. 2016, arXiv:1512.00567, section 7).

    Raises ValueError for shapes that do not match and for e outside [0, 1), IndexError for a target
    outside 0 ... C - 1.
    """
    logits, targets = as_tensor(logits), _integers("targets", targets)
    if logits.ndim == 0 or targets.shape != logits.shape[:-1]:
        expected = f"{logits.shape[:-1]}, that of logits {logits.shape} without the last axis,"
        raise shape_error("targets", expected, targets.shape)
    if not 0 <= label_smoothing < 1:
        raise ValueError(f"label_smoothing must lie in [0, 1), got {label_smoothing}.")
    _check_range("targets", targets, logits.shape[-1], ignore_index)
    return apply("cross_entropy", logits, targets, ignore_index=ignore_index, label_smoothing=label_smoothing)


def layer_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias over the last axis (Ba et al. 2016, arXiv:1607.06450).

    x (..., d), weight (d,) and bias (d,) or None.
    """
    x = as_tensor(x)
    return apply("layer_norm", x, _vector("weight", weight, x), _vector("bias", bias, x), eps=eps)


def rms_norm(x: Tensor, weight: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight over the last axis (Zhang, Sennrich 2019, arXiv:1910.07467).

    x (..., d), weight (d,) or None.
    """
    x = as_tensor(x)
    return apply("rms_norm", x, _vector("weight", weight, x), eps=eps)


def rotary(
    x: Tensor, positions: Any, base: float = 10000.0, layout: Literal["half", "interleaved"] = "half"
) -> Tensor:
    """Rotary position embedding: pair i of the last axis turned by position * base^(-2 i / head_dim).

    x (..., n, head_dim) with head_dim even; positions (n,), or (B, n) where B is the first axis of x; whole
    numbers from 0 on. Pair i is (x[i], x[i + head_dim / 2]) for "half", as in Llama, and (x[2 i], x[2 i + 1])
    for "interleaved", as in the paper (Su et al. 2021, arXiv:2104.09864): a checkpoint needs the layout that
    it was trained with. Turned queries and keys have products that depend on i - j alone.

    Raises ValueError for a wrong shape or layout, DtypeError for positions that are not integers, IndexError
    for a negative one.
    """
    x, places = as_tensor(x), _integers("positions", positions)
    if layout not in ("half", "interleaved"):
        raise ValueError(f'layout must be "half" or "interleaved", got {layout!r}.')
    if x.ndim < 2 or x.shape[-1] % 2:
        raise shape_error("x", "(..., n, head_dim) with head_dim even", x.shape, "Numbers turn in pairs.")
    if x.dtype.kind != "f":
        raise DtypeError(f"x must be float32 or float64, got {x.dtype}.")
    n = x.shape[-2]
    if places.shape != (n,) and (x.ndim < 3 or places.shape != (x.shape[0], n)):
        expected = f"(n = {n},)" if x.ndim < 3 else f"(n = {n},) or (B = {x.shape[0]}, n = {n})"
        raise shape_error("positions", expected, places.shape)
    if (places._array < 0).any():
        raise IndexError(f"positions must be 0 or more, got {places._array.min()}.")
    return apply("rotary", x, places, base=float(base), layout=layout)


def relu(x: Tensor) -> Tensor:
    """max(x, 0); the slope at 0 is 0."""
    return apply("relu", as_tensor(x))


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return apply("sigmoid", as_tensor(x))


def silu(x: Tensor) -> Tensor:
    """x / (1 + exp(-x)), also called swish."""
    return apply("silu", as_tensor(x))


def gelu(x: Tensor, approximate: Literal["tanh", "none"] = "tanh") -> Tensor:
    """x Phi(x), Phi the normal distribution (Hendrycks, Gimpel 2016, arXiv:1606.08415).

    "tanh" computes x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), as GPT-2 does; "none" the formula itself
    through erf. They differ by up to 5e-4: a checkpoint needs the one that it was trained with.
    """
    if approximate not in ("tanh", "none"):
        raise ValueError(f'approximate must be "tanh" or "none", got {approximate!r}.')
    return apply("gelu_tanh" if approximate == "tanh" else "gelu_erf", as_tensor(x))


def dropout(
    x: Tensor, p: float = 0.5, training: bool = True, *, rng: np.random.Generator | int | None = None
) -> Tensor:
    """Each element 0 with probability p, else divided by 1 - p; outside training x itself.

    `rng`: a NumPy generator or a seed; by default the one that `minitx.manual_seed` sets.
    """
    if not 0 <= p < 1:
        raise ValueError(f"dropout probability p must lie in [0, 1), got {p}.")
    x = as_tensor(x)
    if not training or p == 0:
        return x
    kept = generator(rng).random(x.shape, dtype=np.float32) >= p
    return x * (kept / (1 - p))


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x weight^T + bias: x (..., in_features), weight (out_features, in_features), bias (out_features,)."""
    x = as_tensor(x)
    weight = as_tensor(weight, like=x)
    if weight.ndim != 2:
        raise shape_error("weight", "(out_features, in_features)", weight.shape)
    if x.ndim == 0 or x.shape[-1] != weight.shape[1]:
        expected = f"(..., in_features = {weight.shape[1]})"
        raise shape_error("x", expected, x.shape, "weight is (out_features, in_features).")
    if bias is not None:
        bias = as_tensor(bias, like=x)
        if bias.shape != weight.shape[:1]:
            raise shape_error("bias", f"(out_features = {weight.shape[0]},)", bias.shape)
    return apply("linear", x, weight, bias)


def _all_tensors(values: Sequence[Any]) -> list[Tensor]:
    like = next((value for value in values if isinstance(value, Tensor)), None)
    return [as_tensor(value, like) for value in values]


def _vector(name: str, value: Any, x: Tensor) -> Tensor | None:
    if value is None:
        return None
    vector = as_tensor(value, like=x)
    if x.ndim == 0 or vector.shape != x.shape[-1:]:
        raise shape_error(name, f"{x.shape[-1:]}, the last axis of x {x.shape},", vector.shape)
    return vector


def _integers(name: str, value: Any) -> Tensor:
    numbers = as_tensor(value)
    if numbers.dtype.kind not in "iu":
        raise DtypeError(f"{name} must be integers, got {numbers.dtype}. Convert with .astype(np.int64).")
    return numbers


def _check_range(name: str, numbers: Tensor, size: int, ignored: int | None = None) -> None:
    values = numbers._array
    wrong = (values < 0) | (values >= size)
    if ignored is not None:
        wrong &= values != ignored
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise IndexError(f"{name} must lie in 0 ... {size - 1}, got {values[at]} at index {at}.")
