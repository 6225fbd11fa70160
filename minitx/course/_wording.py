"""The sentences of `check`: shapes with the names of their axes, and where two arrays part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def names_for(axes: Sequence[str], ndim: int) -> list[str]:
    """One name for each of `ndim` axes: the last names of `axes`, numbered ones before them."""
    missing = max(ndim - len(axes), 0)
    return [f"axis {i}" for i in range(missing)] + list(axes)[max(len(axes) - ndim, 0) :]


def shape(sizes: tuple[int, ...], axes: Sequence[str]) -> str:
    """`(batch 2, head 3, query 4, key 5)`"""
    pairs = zip(names_for(axes, len(sizes)), sizes, strict=True)
    return f"({', '.join(f'{axis} {size}' for axis, size in pairs)})"


def place(index: Sequence[int], axes: Sequence[str]) -> str:
    """`batch 0, head 1, query 2, key 3`"""
    return ", ".join(f"{axis} {i}" for axis, i in zip(names_for(axes, len(index)), index, strict=True))


def kind_of(value: Any) -> str:
    """What a value is, in a few words."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if isinstance(value, list | tuple | dict | str):
        return f"a {type(value).__name__} of length {len(value)}"
    return f"a value of type {type(value).__name__}"


def number(value: float) -> str:
    return f"{value:.6g}"


def returned_none(name: str) -> str:
    return f"{name}: your function returned None: is there a return at its end?"


def wrong_dtype(name: str, have: np.dtype, want: np.dtype) -> str:
    message = f"{name}: expected dtype {want}, got {have}."
    if have.itemsize > want.itemsize:
        message += (
            f" The inputs were {want}, and one of your steps made them wider. A NumPy {have} does that, even "
            "a single one such as the result of np.sqrt; a plain Python float does not."
        )
    return message


def wrong_shape(name: str, have: tuple[int, ...], want: tuple[int, ...], axes: Sequence[str]) -> str:
    """Both shapes with names where names are certain, and what the difference looks like."""
    wanted, came = shape(want, axes), shape(have, axes)
    if len(have) != len(want):
        came = f"{have}: {_axes(len(have))} in place of {len(want)}"
    lines = [f"{name}: wrong shape.", f"  expected {wanted}", f"  got      {came}"]
    looks = _shape_difference(have, want, names_for(axes, len(want)))
    return "\n".join([*lines, f"  {looks}"] if looks else lines)


def _axes(count: int) -> str:
    return "1 axis" if count == 1 else f"{count} axes"


def _shape_difference(have: tuple[int, ...], want: tuple[int, ...], names: list[str]) -> str:
    """The one sentence that explains a wrong shape, or nothing when none is certain."""
    if len(have) == len(want):
        differ = [i for i in range(len(want)) if have[i] != want[i]]
        if len(differ) == 2 and have[differ[0]] == want[differ[1]] and have[differ[1]] == want[differ[0]]:
            return f"The {names[differ[0]]} and {names[differ[1]]} axes look swapped."
        if len(differ) == 1:
            only = differ[0]
            return f"Only the {names[only]} axis differs: it should be {want[only]} long and is {have[only]}."
        return ""
    for i in range(len(want)):
        if have == want[:i] + want[i + 1 :]:
            return f"The {names[i]} axis is missing."
    for i in range(len(have)):
        if have[:i] + have[i + 1 :] == want and have[i] == 1:
            return f"There is an extra axis of size 1 at position {i}."
    return ""


def not_finite(
    name: str, have: np.ndarray, want: np.ndarray, strange: np.ndarray, axes: Sequence[str]
) -> str:
    """How many numbers are NaN or infinite, where the first stands, and how such numbers come about."""
    first = tuple(int(i) for i in np.argwhere(strange)[0])
    nans, infinities = int(np.isnan(have[strange]).sum()), int(np.isinf(have[strange]).sum())
    where = f" at {place(first, axes)}" if first else ""
    lines = [
        f"{name}: {nans} of {have.size} numbers are NaN and {infinities} are infinite.",
        f"  first{where}: expected {number(want[first])}, got {number(have[first])}",
        "  NaN comes from 0/0, inf/inf or inf - inf. exp(x) becomes infinite when x is large.",
    ]
    return "\n".join(lines)


def wrong_values(
    name: str, have: np.ndarray, want: np.ndarray, wrong: np.ndarray, axes: Sequence[str]
) -> str:
    """How many numbers differ, where the first one stands with both values, and by how much at most."""
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    if not first:
        return f"{name}: expected {number(want[first])}, got {number(have[first])}."
    count = int(wrong.sum())
    lines = [
        f"{name}: {count} of {want.size} numbers differ{' (all of them)' if count == want.size else ''}.",
        f"  first at {place(first, axes)}: expected {number(want[first])}, got {number(have[first])}",
    ]
    finite = wrong & np.isfinite(have) & np.isfinite(want)
    if finite.any():
        lines.append(f"  largest difference: {number(float(np.abs(have[finite] - want[finite]).max()))}")
    return "\n".join(lines)
