"""The NumPy twin of `rope`, and the table of angles that both use. See `rope` for the arguments."""

import functools

import numpy as np

from minitx.errors import DtypeError, shape_error

LONGEST = 1 << 16  # positions up to which one table serves all calls


def rotate(
    x: np.ndarray, angles: np.ndarray, positions: np.ndarray, interleaved: bool, inverse: bool
) -> np.ndarray:
    """-> x (B, H, n, d) rotated; `angles` from `table`, positions (1, n) or (B, n), integers."""
    check_rotation(x, angles, positions)
    turned = angles[positions][:, None]  # (1 or B, 1, n, 2, d / 2)
    cos, sin = turned[..., 0, :], turned[..., 1, :]
    if inverse:
        sin = -sin
    half = x.shape[-1] // 2
    first, second = (
        (slice(0, None, 2), slice(1, None, 2)) if interleaved else (slice(half), slice(half, None))
    )
    a, b = x[..., first], x[..., second]
    out = np.empty(x.shape, x.dtype)
    out[..., first] = a * cos - b * sin
    out[..., second] = a * sin + b * cos
    return out


@functools.lru_cache(maxsize=16)
def table(length: int, head_dim: int, base: float, dtype: np.dtype) -> np.ndarray:
    """cos and sin of the angles of positions 0 ... length - 1: (length, 2, head_dim / 2), not to be changed.

    Found in float64 and rounded once: in float32 the angle of position 10,000 is off by a thousandth.
    """
    return _angles(np.arange(length), head_dim, base, dtype)


def table_for(
    positions: np.ndarray, head_dim: int, base: float, dtype: np.dtype
) -> tuple[np.ndarray, np.ndarray]:
    """A table that has these positions, and where in it they stand.

    Lengths are rounded up, so that a sequence which grows finds its table made; positions far out get a table
    of their own.
    """
    top = int(positions.max(initial=0))
    if top < LONGEST:
        return table(max(256, 1 << top.bit_length()), head_dim, base, dtype), positions
    distinct, places = np.unique(positions, return_inverse=True)
    return _angles(distinct, head_dim, base, dtype), places.reshape(positions.shape)


def _angles(positions: np.ndarray, head_dim: int, base: float, dtype: np.dtype) -> np.ndarray:
    rates = base ** (-np.arange(0, head_dim, 2) / head_dim)
    angles = positions[:, None] * rates
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(dtype)


def check_rotation(x: np.ndarray, angles: np.ndarray, positions: np.ndarray) -> None:
    """Raises before anything is computed: ValueError for a shape, DtypeError, IndexError for a position."""
    if x.ndim != 4 or x.shape[-1] % 2:
        raise shape_error("x", "(B, H, n, head_dim) with head_dim even", x.shape, "Numbers turn in pairs.")
    batch, _, n, d = x.shape
    if angles.ndim != 3 or angles.shape[1:] != (2, d // 2):
        raise shape_error("angles", f"(length, 2, head_dim / 2 = {d // 2})", angles.shape)
    if positions.shape not in ((1, n), (batch, n)):
        raise shape_error("positions", f"(1, {n}) or ({batch}, {n})", positions.shape)
    if positions.dtype.kind not in "iu":
        raise DtypeError(f"positions must be integers, got {positions.dtype}.")
    length = len(angles)
    if positions.size and (positions.min() < 0 or positions.max() >= length):
        wrong = positions[(positions < 0) | (positions >= length)].flat[0]
        raise IndexError(f"positions must lie in 0 ... {length - 1}, got {wrong}.")
