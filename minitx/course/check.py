"""Friendly checks for the course's notebooks: an answer is right, or the message says what to look at.

    from minitx.course import check

    check.array("weights", weights, expected)
    output, weights = check.parts("attend", attend(q, k, v), ("output", "weights"))
    scores, total = check.entries("cost", cost(n), ("scores", "bytes"))
    check.unchanged("scores", scores, before)
    check.raises(ValueError, attend, q, k[:, :, :, :2], v)
    rng = check.rng("softmax rows")

Every check raises `AssertionError` when the answer is wrong and returns quietly when it is right.
The messages are plain ASCII. The same checks run in a notebook and in the grader.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitx.course import _causes, _wording

# `__tracebackhide__` below keeps these functions' own lines out of a student's traceback.
_key = b"practice"


def use_key(key: bytes) -> None:
    """Make every later `rng` depend on `key`. A grader gives each student a key of their own."""
    if not isinstance(key, bytes):
        raise TypeError(f"the key must be bytes, got {type(key).__name__}")
    global _key  # noqa: PLW0603 - one key a process, set once by the program that runs the tests
    _key = key


def rng(label: str) -> np.random.Generator:
    """Random numbers that depend on the key and on `label` alone.

    The seed is HMAC-SHA256(key, label). Two labels give unrelated numbers; one label gives the same
    numbers every time, so a check can be run again and a grade can be reproduced.
    """
    digest = hmac.new(_key, label.encode(), hashlib.sha256).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))


def array(
    name: str,
    got: Any,
    expected: Any,
    axes: Sequence[str] = ("batch", "head", "query", "key"),
    *,
    rtol: float = 1e-5,
    atol: float = 1e-7,
    dtype: Any = None,
) -> None:
    """Check that `got` holds the expected numbers: |got - expected| <= atol + rtol * |expected|.

    name: what the student calls this array; it starts the message.
    axes: the names of the axes, from first to last. An array with fewer axes uses the last names.
    dtype: also ask for this dtype, such as `np.float32`. By default every dtype of real numbers will do.

    Raises `AssertionError` with a text that says what was expected, what came, where the two first
    differ, and the likely cause when one is certain enough to be named.
    """
    __tracebackhide__ = True
    want = np.asarray(expected)
    have = _as_numbers(name, got, want.shape, axes)
    if have.shape != want.shape:
        raise AssertionError(_wording.wrong_shape(name, have.shape, want.shape, axes))
    if dtype is not None and have.dtype != np.dtype(dtype):
        raise AssertionError(_wording.wrong_dtype(name, have.dtype, np.dtype(dtype)))
    have = have.astype(np.float64)
    want = want.astype(np.float64)
    strange = ~np.isfinite(have) & np.isfinite(want)
    if strange.any():
        raise AssertionError(_wording.not_finite(name, have, want, strange, axes))
    wrong = ~np.isclose(have, want, rtol=rtol, atol=atol)
    if wrong.any():
        message = _wording.wrong_values(name, have, want, wrong, axes)
        causes = []
        if np.isfinite(have).all() and np.isfinite(want).all():
            causes = _causes.likely(have, want, _wording.names_for(axes, want.ndim), rtol, atol)
        raise AssertionError("\n".join([message, *(f"  Likely: {cause}" for cause in causes)]))


def parts(name: str, got: Any, names: Sequence[str]) -> tuple[Any, ...]:
    """Check that the function `name` returned one value for each of `names`, and return them.

    Unpacking by hand can go wrong without a word: an array with two rows unpacks into two variables.
    """
    __tracebackhide__ = True
    form = f"({', '.join(names)})"
    if got is None:
        raise AssertionError(_wording.returned_none(name))
    if not isinstance(got, tuple | list):
        raise AssertionError(f"{name}: expected the values {form}, got one value: {_wording.kind_of(got)}.")
    if len(got) != len(names):
        raise AssertionError(f"{name}: expected {len(names)} values, {form}, got {len(got)}.")
    return tuple(got)


def entries(name: str, got: Any, keys: Sequence[str]) -> tuple[Any, ...]:
    """The values of the dictionary that the function `name` returned, which has these keys and no others."""
    __tracebackhide__ = True
    form = "{" + ", ".join(f"{key!r}: ..." for key in keys) + "}"
    if got is None:
        raise AssertionError(_wording.returned_none(name))
    if not isinstance(got, dict):
        raise AssertionError(f"{name}: expected a dictionary {form}, got {_wording.kind_of(got)}.")
    missing = [key for key in keys if key not in got]
    unknown = [key for key in got if key not in keys]
    if missing or unknown:
        wrong = [f"{key!r} is missing" for key in missing] + [f"{key!r} is not asked for" for key in unknown]
        raise AssertionError(f"{name}: expected a dictionary {form}, but {', '.join(wrong)}.")
    return tuple(got[key] for key in keys)


def dtype(name: str, got: Any, expected: Any) -> None:
    """Check that the array `got` has the dtype `expected`, whatever its shape and its numbers."""
    __tracebackhide__ = True
    if got is None:
        raise AssertionError(_wording.returned_none(name))
    have, want = np.asarray(got).dtype, np.dtype(expected)
    if have != want:
        raise AssertionError(_wording.wrong_dtype(name, have, want))


def unchanged(name: str, now: Any, before: Any) -> None:
    """Check that a function left its input as it was. `before` is a copy made before the call."""
    __tracebackhide__ = True
    if not np.array_equal(np.asarray(now), np.asarray(before), equal_nan=True):
        raise AssertionError(
            f"{name}: your function changed its input. Operators such as -= and /= write into the array "
            "they are given; compute a new array in their place."
        )


def raises(
    error: type[BaseException] | tuple[type[BaseException], ...],
    function: Callable[..., Any],
    *args: Any,
    **kwargs: Any,
) -> BaseException:
    """Check that `function(*args, **kwargs)` raises `error`, and return what it raised."""
    __tracebackhide__ = True
    kinds = error if isinstance(error, tuple) else (error,)
    wanted = " or ".join(kind.__name__ for kind in kinds)
    called = getattr(function, "__name__", None)
    called = called if isinstance(called, str) else "the function"
    try:
        function(*args, **kwargs)
    except kinds as raised:
        return raised
    except Exception as other:
        raise AssertionError(
            f"{called}: expected it to raise {wanted}, but it raised {type(other).__name__}: {other}"
        ) from other
    raise AssertionError(f"{called}: expected it to raise {wanted}, but it returned without an error.")


def _as_numbers(name: str, got: Any, wanted_shape: tuple[int, ...], axes: Sequence[str]) -> np.ndarray:
    """`got` as an array of real numbers, or an `AssertionError` that says what came instead."""
    __tracebackhide__ = True
    wanted = "an array" if wanted_shape else "a number"
    if wanted_shape:
        wanted = f"an array of shape {_wording.shape(wanted_shape, axes)}"
    if got is None:
        raise AssertionError(_wording.returned_none(name))
    if isinstance(got, tuple):
        raise AssertionError(f"{name}: expected {wanted}, got a tuple of {len(got)} values.")
    try:
        have = np.asarray(got)
    except TypeError as refusal:
        # The grader's stand-in for an object that is no array refuses with "expected an array, got ...".
        _, _, came = str(refusal).partition("got ")
        came = came or f"{_wording.kind_of(got)} ({refusal})"
        raise AssertionError(f"{name}: expected {wanted}, got {came}") from None
    except ValueError:
        raise AssertionError(
            f"{name}: expected {wanted}, got {_wording.kind_of(got)} whose rows have unequal lengths."
        ) from None
    if have.dtype.kind not in "biuf":
        came = _wording.kind_of(got)
        if have.dtype.kind == "c":
            came += f" of dtype {have.dtype}, which is no real number"
        raise AssertionError(f"{name}: expected {wanted}, got {came}.")
    return have
