"""The NumPy twin of `cache`, and the checks that both make before they write. See `cache` for the arrays."""

import numpy as np

from minitx.errors import DtypeError, shape_error
from minitx.kernels import rope_numpy


def append(
    keys: np.ndarray,
    values: np.ndarray,
    lengths: np.ndarray,
    new_keys: np.ndarray,
    new_values: np.ndarray,
    *,
    angles: np.ndarray | None = None,
    positions: np.ndarray | None = None,
    interleaved: bool = False,
) -> None:
    """Write new keys and values behind each row's length, and raise it."""
    places = check_append(keys, values, lengths, new_keys, new_values, angles, positions)
    if angles is not None:
        new_keys = rope_numpy.rotate(new_keys, angles, places, interleaved, False)
    for b, length in enumerate(lengths):
        added = slice(length, length + new_keys.shape[2])
        keys[b, :, added] = new_keys[b]
        values[b, :, added] = new_values[b]
    lengths += new_keys.shape[2]


def truncate(lengths: np.ndarray, limits: int | np.ndarray) -> None:
    """Shorten each row to its limit, one number for all or (B,); a limit above the length is refused."""
    wanted = np.broadcast_to(np.asarray(limits), lengths.shape)
    if wanted.dtype.kind not in "iu":
        raise DtypeError(f"limits must be integers, got {wanted.dtype}.")
    wrong = np.flatnonzero((wanted < 0) | (wanted > lengths))
    if wrong.size:
        row = int(wrong[0])
        raise ValueError(
            f"limits must lie in 0 ... length: row {row} has length {lengths[row]}, got {wanted[row]}. "
            "A cache can be shortened; append makes it longer."
        )
    lengths[...] = wanted


def evict(keys: np.ndarray, values: np.ndarray, lengths: np.ndarray, sinks: int, window: int) -> None:
    """Keep the first `sinks` and the last `window` positions of each row that is longer."""
    check_cache(keys, values, lengths)
    check_window(sinks, window)
    kept = slice(sinks, sinks + window)
    for b, length in enumerate(lengths):
        if length > sinks + window:
            for array in (keys, values):
                array[b, :, kept] = array[b, :, length - window : length]
    np.minimum(lengths, sinks + window, out=lengths)


def fork(
    keys: np.ndarray, values: np.ndarray, lengths: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """-> new keys, values and lengths whose row i is a copy of row rows[i]."""
    check_cache(keys, values, lengths)
    taken = check_rows(rows, len(lengths))
    new_lengths = lengths[taken]
    copies = []
    for array in (keys, values):
        copy = np.zeros((taken.size, *array.shape[1:]), array.dtype)
        for i, (row, length) in enumerate(zip(taken, new_lengths, strict=True)):
            copy[i, :, :length] = array[row, :, :length]
        copies.append(copy)
    return copies[0], copies[1], new_lengths


def check_cache(keys, values, lengths) -> None:
    """Raises unless the three fit together and can be written."""
    if keys.ndim != 4:
        raise shape_error("keys", "(B, Hkv, capacity, d_k)", keys.shape)
    if values.ndim != 4 or values.shape[:3] != keys.shape[:3]:
        batch, heads, capacity = keys.shape[:3]
        expected = f"(B = {batch}, Hkv = {heads}, capacity = {capacity}, d_v)"
        raise shape_error("values", expected, values.shape)
    if lengths.shape != keys.shape[:1]:
        raise shape_error("lengths", f"(B = {keys.shape[0]},)", lengths.shape)
    if keys.dtype not in (np.float32, np.float64):
        raise DtypeError(f"keys must be float32 or float64, got {keys.dtype}.")
    if values.dtype != keys.dtype:
        raise DtypeError(f"values must be {keys.dtype}, that of keys, got {values.dtype}.")
    if lengths.dtype != np.int64:
        raise DtypeError(f"lengths must be int64, got {lengths.dtype}.")
    for name, array in (("keys", keys), ("values", values), ("lengths", lengths)):
        if not array.flags.writeable:
            raise ValueError(f"{name} is read-only: a cache is changed in place.")
    wrong = np.flatnonzero((lengths < 0) | (lengths > keys.shape[2]))
    if wrong.size:
        row = int(wrong[0])
        raise ValueError(f"lengths must lie in 0 ... {keys.shape[2]}, got {lengths[row]} in row {row}.")


def check_append(keys, values, lengths, new_keys, new_values, angles, positions) -> np.ndarray:
    """The position (B, n) of each new key, once all of them are known to fit."""
    check_cache(keys, values, lengths)
    batch, heads, capacity, d_k = keys.shape
    if new_keys.ndim != 4 or new_keys.shape != (batch, heads, new_keys.shape[2], d_k):
        raise shape_error("new_keys", f"(B = {batch}, Hkv = {heads}, n, d_k = {d_k})", new_keys.shape)
    n = new_keys.shape[2]
    if new_values.shape != (batch, heads, n, values.shape[3]):
        expected = f"(B = {batch}, Hkv = {heads}, n = {n}, d_v = {values.shape[3]})"
        raise shape_error("new_values", expected, new_values.shape)
    for name, array in (("new_keys", new_keys), ("new_values", new_values)):
        if array.dtype != keys.dtype:
            raise DtypeError(f"{name} must be {keys.dtype}, that of the cache, got {array.dtype}.")
    if batch and lengths.max() + n > capacity:
        row = int(np.flatnonzero(lengths + n > capacity)[0])
        raise ValueError(
            f"The cache is full: row {row} has length {lengths[row]} of capacity {capacity}, and {n} more do "
            "not fit. Make the capacity larger, or evict or truncate first."
        )
    places = lengths[:, None] + np.arange(n) if positions is None else positions
    if places.shape != (batch, n):
        raise shape_error("positions", f"(B = {batch}, n = {n})", places.shape)
    if angles is not None:
        rope_numpy.check_rotation(new_keys, angles, places)
    return places


def check_window(sinks: int, window: int) -> None:
    for name, value in (("sinks", sinks), ("window", window)):
        if value < 0:
            raise ValueError(f"{name} must be at least 0, got {value}.")


def check_rows(rows, batch: int) -> np.ndarray:
    """The rows to take as int64, all of which exist."""
    taken = np.asarray(rows)
    if taken.ndim != 1:
        raise shape_error("rows", "(any,)", taken.shape)
    if taken.size and taken.dtype.kind not in "iu":
        raise DtypeError(f"rows must be integers, got {taken.dtype}.")
    taken = taken.astype(np.int64)
    wrong = np.flatnonzero((taken < 0) | (taken >= batch))
    if wrong.size:
        raise IndexError(
            f"rows must lie in 0 ... {batch - 1}, got {taken[wrong[0]]} at index {int(wrong[0])}."
        )
    return taken
