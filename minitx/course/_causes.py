"""Likely causes of wrong numbers. A cause is named only where the numbers bear it out everywhere."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Same = Callable[[np.ndarray, np.ndarray], bool]
MOST = 2  # more than two explanations explain nothing


def likely(have: np.ndarray, want: np.ndarray, names: list[str], rtol: float, atol: float) -> list[str]:
    """Up to two sentences, the most telling first. Both arrays are finite float64 of one shape.

    names: the names of the axes, one for each.
    """

    def same(a: np.ndarray, b: np.ndarray) -> bool:
        return bool(np.allclose(a, b, rtol=max(rtol, 1e-4), atol=max(atol, 1e-6)))

    if want.ndim == 0:
        return []
    found = [
        _opposite_zeros(have, want),
        _factor(have, want, same),
        _offset(have, want, same),
        _transposed(have, want, names, same),
    ]
    if _is_weights(want, same):
        found += [
            _other_axis_sums(have, want, names, same),
            _only_empty_rows(have, want, same),
            _leaks(have, want, names, atol),
            _row_sums(have, want, names, same),
        ]
    found = [cause for cause in found if cause]
    return found[:MOST] if found else [cause for cause in [_close(have, want)] if cause]


def _is_weights(want: np.ndarray, same: Same) -> bool:
    """True when each row along the last axis is a distribution, or empty (all zeros)."""
    if want.min() < 0 or want.shape[-1] < 2:
        return False
    sums = want.sum(axis=-1)
    return same(sums, np.where(sums > 0, 1.0, 0.0))


def _opposite_zeros(have: np.ndarray, want: np.ndarray) -> str:
    full = (want != 0).any(axis=-1, keepdims=True) & np.ones_like(want, dtype=bool)
    zero, expected_zero = have[full] == 0, want[full] == 0
    if expected_zero.any() and not expected_zero.all() and bool((zero != expected_zero).all()):
        return (
            "your zeros stand exactly where numbers are expected, and the other way round. "
            "Is the sense of a mask turned round?"
        )
    return ""


def _factor(have: np.ndarray, want: np.ndarray, same: Same) -> str:
    solid = np.abs(want) > 1e-9
    if solid.sum() < 2:
        return ""
    factor = float(np.median(have[solid] / want[solid]))
    if factor == 0 or abs(factor - 1) < 1e-3 or not same(have, factor * want):
        return ""
    if abs(factor + 1) < 1e-6:
        return "every number has the wrong sign."
    if factor > 1:
        return f"your numbers are {factor:.3g} times larger everywhere."
    if factor > 0:
        return f"your numbers are {1 / factor:.3g} times smaller everywhere."
    return f"your numbers are {factor:.3g} times the expected ones everywhere."


def _offset(have: np.ndarray, want: np.ndarray, same: Same) -> str:
    shift = float(np.median(have - want))
    if want.size < 2 or abs(shift) < 1e-6 or not same(have, want + shift) or np.ptp(want) == 0:
        return ""
    return f"your numbers are {abs(shift):.3g} {'higher' if shift > 0 else 'lower'} everywhere."


def _transposed(have: np.ndarray, want: np.ndarray, names: list[str], same: Same) -> str:
    if want.ndim < 2 or want.shape[-1] != want.shape[-2] or want.shape[-1] < 2:
        return ""
    if same(have, np.swapaxes(want, -1, -2)):
        return f"the numbers are right, but the {names[-2]} and {names[-1]} axes are swapped."
    return ""


def _other_axis_sums(have: np.ndarray, want: np.ndarray, names: list[str], same: Same) -> str:
    """Weights that form a distribution, over the wrong axis or over all rows at once."""
    if have.min() < 0 or same(have.sum(axis=-1), want.sum(axis=-1)):
        return ""
    for axis in range(want.ndim - 2, -1, -1):
        if want.shape[axis] > 1 and same(have.sum(axis=axis), np.ones_like(have.sum(axis=axis))):
            return (
                f"your weights sum to one over the {names[axis]} axis. "
                f"They should sum to one over the {names[-1]} axis."
            )
    if want.ndim >= 2:
        for axes in ((-2, -1), tuple(range(want.ndim))):
            if same(have.sum(axis=axes), np.ones_like(have.sum(axis=axes))):
                together = " and ".join(names[axis] for axis in axes)
                return (
                    f"your weights sum to one over the {together} axes together. "
                    f"Each row should sum to one over the {names[-1]} axis alone."
                )
    return ""


def _only_empty_rows(have: np.ndarray, want: np.ndarray, same: Same) -> str:
    empty = ~(want != 0).any(axis=-1)
    if empty.any() and not empty.all() and same(have[~empty], want[~empty]):
        return "only rows in which no key is allowed differ. They should be all zeros."
    return ""


def _leaks(have: np.ndarray, want: np.ndarray, names: list[str], atol: float) -> str:
    rows = (want != 0).any(axis=-1, keepdims=True)
    leaked = (want == 0) & rows & (np.abs(have) > max(atol, 1e-6))
    count = int(leaked.sum())
    if not count:
        return ""
    verb = "numbers that should be exactly 0 are" if count > 1 else "number that should be exactly 0 is"
    return f"{count} {verb} not: some {names[-1]} that must be hidden still has weight."


def _row_sums(have: np.ndarray, want: np.ndarray, names: list[str], same: Same) -> str:
    sums, expected = have.sum(axis=-1), want.sum(axis=-1)
    wrong = ~np.isclose(sums, expected, rtol=1e-4, atol=1e-6)
    if not wrong.any():
        return ""
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    rows = f"{int(wrong.sum())} of {sums.size} rows" if sums.ndim else "the row"
    return (
        f"{rows} do not sum to {expected[first]:.3g} over the {names[-1]} axis; "
        f"the first of them sums to {sums[first]:.3g}."
    )


def _close(have: np.ndarray, want: np.ndarray) -> str:
    relative = np.abs(have - want).max() / max(float(np.abs(want).max()), 1e-300)
    if relative < 1e-2:
        return (
            f"the numbers are close (within {relative:.1g} of the largest). "
            "Look for rounding, for float16, or for a small constant that is added."
        )
    return ""
