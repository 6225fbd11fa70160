"""The cache of keys and values: what is written, and above all what is not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitx import DtypeError
from minitx.kernels import cache_numpy as twin
from minitx.kernels import rope_numpy

pytest.importorskip("numba")
from minitx.kernels import cache

DTYPES = (np.float32, np.float64)
each_module = pytest.mark.parametrize("module", [cache, twin], ids=["numba", "numpy"])
each_dtype = pytest.mark.parametrize("dtype", DTYPES)


class Guarded:
    """A cache in the middle of larger arrays, whose surroundings must never change."""

    def __init__(self, shape, d_v, lengths, dtype=np.float32, seed=0):
        rng = np.random.default_rng(seed)
        batch, heads, capacity, d_k = shape
        self.around = [rng.standard_normal((batch + 2, heads, capacity, d)).astype(dtype) for d in (d_k, d_v)]
        self.around.append(np.concatenate([[7], np.asarray(lengths, np.int64), [9]]))
        self.before = [array.copy() for array in self.around]
        self.keys, self.values, self.lengths = self.arrays = [array[1:-1] for array in self.around]

    def copies(self):
        return [array.copy() for array in self.arrays]

    def assert_unchanged(self):
        for array, before in zip(self.around, self.before, strict=True):
            np.testing.assert_array_equal(array, before)

    def assert_surroundings_unchanged(self):
        for array, before in zip(self.around, self.before, strict=True):
            np.testing.assert_array_equal(array[[0, -1]], before[[0, -1]])


def new(rng, dtype, batch, heads, n, d_k, d_v):
    return [rng.standard_normal((batch, heads, n, d)).astype(dtype) for d in (d_k, d_v)]


@each_module
@each_dtype
def test_each_row_grows_at_its_own_length_and_nothing_else_changes(module, dtype, rng):
    lengths = [0, 4, 2, 7]
    guarded = Guarded((4, 3, 9, 5), 7, lengths, dtype)
    keys, values, _ = guarded.copies()
    new_keys, new_values = new(rng, dtype, 4, 3, 2, 5, 7)
    module.append(*guarded.arrays, new_keys, new_values)
    for b, length in enumerate(lengths):
        keys[b, :, length : length + 2] = new_keys[b]
        values[b, :, length : length + 2] = new_values[b]
    np.testing.assert_array_equal(guarded.keys, keys)
    np.testing.assert_array_equal(guarded.values, values)
    assert guarded.lengths.tolist() == [2, 6, 4, 9]
    guarded.assert_surroundings_unchanged()


@each_module
@given(steps=st.lists(st.integers(0, 5), max_size=6), dtype=st.sampled_from(DTYPES), seed=st.integers(0, 99))
def test_repeated_appends_are_one_concatenation(module, steps, dtype, seed):
    rng = np.random.default_rng(seed)
    total = sum(steps)
    guarded = Guarded((2, 2, total + 3, 6), 3, [1, 3], dtype)
    start = guarded.copies()
    pieces = [new(rng, dtype, 2, 2, n, 6, 3) for n in steps]
    for piece in pieces:
        module.append(*guarded.arrays, *piece)
    for place in (0, 1):
        for b, length in ((0, 1), (1, 3)):
            wanted = np.concatenate([start[place][b, :, :length], *(p[place][b] for p in pieces)], axis=1)
            np.testing.assert_array_equal(guarded.arrays[place][b, :, : length + total], wanted)
    assert guarded.lengths.tolist() == [1 + total, 3 + total]
    guarded.assert_surroundings_unchanged()


@each_module
@each_dtype
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("given_positions", [False, True])
def test_keys_are_rotated_on_the_way_in_and_values_are_not(module, dtype, interleaved, given_positions, rng):
    guarded = Guarded((3, 2, 12, 8), 5, [0, 6, 3], dtype)
    new_keys, new_values = new(rng, dtype, 3, 2, 4, 8, 5)
    angles = rope_numpy.table(64, 8, 10000.0, np.dtype(dtype))
    positions = rng.integers(0, 64, (3, 4)) if given_positions else None
    places = np.array([[0], [6], [3]]) + np.arange(4) if positions is None else positions
    turned = rope_numpy.rotate(new_keys, angles, places, interleaved, False)
    module.append(
        *guarded.arrays, new_keys, new_values, angles=angles, positions=positions, interleaved=interleaved
    )
    for b, length in enumerate((0, 6, 3)):
        np.testing.assert_allclose(guarded.keys[b, :, length : length + 4], turned[b], atol=1e-6)
        np.testing.assert_array_equal(guarded.values[b, :, length : length + 4], new_values[b])
    guarded.assert_surroundings_unchanged()


@each_module
def test_writing_past_the_capacity_names_row_length_and_capacity_and_writes_nothing(module, rng):
    guarded = Guarded((3, 2, 8, 4), 4, [2, 6, 8])
    fits = Guarded((3, 2, 8, 4), 4, [5, 5, 5])
    for n, row, length in ((1, 2, 8), (3, 1, 6), (100, 0, 2)):
        with pytest.raises(ValueError, match=rf"row {row} has length {length} of capacity 8, and {n} more"):
            module.append(*guarded.arrays, *new(rng, np.float32, 3, 2, n, 4, 4))
        guarded.assert_unchanged()
    module.append(*fits.arrays, *new(rng, np.float32, 3, 2, 3, 4, 4))  # to the last place
    assert fits.lengths.tolist() == [8, 8, 8]
    fits.assert_surroundings_unchanged()


WRONG = [
    ({"new_keys": (3, 2, 1, 5)}, ValueError, r"new_keys must have shape \(B = 3, Hkv = 2, n, d_k = 4\), got"),
    ({"new_keys": (2, 2, 1, 4)}, ValueError, r"new_keys must"),
    ({"new_keys": (3, 1, 1, 4)}, ValueError, r"new_keys must"),
    ({"new_keys": (3, 2, 4)}, ValueError, r"new_keys must"),
    ({"new_values": (3, 2, 2, 6)}, ValueError, r"new_values must have shape \(.*n = 1, d_v = 6\)"),
    ({"keys": (2, 8, 4)}, ValueError, r"keys must have shape \(B, Hkv, capacity, d_k\)"),
    ({"values": (3, 2, 7, 6)}, ValueError, r"values must have shape \(.*capacity = 8, d_v\)"),
    ({"lengths": (2,)}, ValueError, r"lengths must have shape \(B = 3,\), got \(2,\)"),
    ({"new_keys": np.float64}, DtypeError, "new_keys must be float32, that of the cache, got float64"),
    ({"new_values": np.int64}, DtypeError, "new_values must be float32"),
    ({"values": np.float64}, DtypeError, "values must be float32, that of keys, got float64"),
    ({"keys": np.int32}, DtypeError, "keys must be float32 or float64, got int32"),
    ({"lengths": np.int32}, DtypeError, "lengths must be int64, got int32"),
    ({"lengths": [1, -1, 2]}, ValueError, r"lengths must lie in 0 \.\.\. 8, got -1 in row 1"),
    ({"lengths": [1, 2, 9]}, ValueError, "got 9 in row 2"),
    ({"angles": (50, 2, 3)}, ValueError, r"angles must have shape \(length, 2, head_dim / 2 = 2\)"),
    ({"angles": (8, 2, 2), "lengths": [1, 2, 3], "positions": [[0], [8], [0]]}, IndexError, r"0 \.\.\. 7, got 8"),
    ({"angles": (8, 2, 2), "positions": [[0.0], [1.0], [2.0]]}, DtypeError, "positions must be integers, got float64"),
    ({"angles": (8, 2, 2), "positions": [[0, 1]]}, ValueError, r"positions must have shape \(B = 3, n = 1\)"),
]  # fmt: skip


@each_module
@pytest.mark.parametrize(("changes", "error", "message"), WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_a_wrong_argument_of_append_is_named_and_nothing_is_written(module, changes, error, message):
    shapes = {
        "keys": (3, 2, 8, 4),
        "values": (3, 2, 8, 6),
        "new_keys": (3, 2, 1, 4),
        "new_values": (3, 2, 1, 6),
    }
    arrays = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    arrays["lengths"] = np.array([1, 2, 3])
    arrays["new_keys"][...] = 1
    arrays["new_values"][...] = 1
    for name, change in changes.items():
        if isinstance(change, tuple):
            dtype = np.int64 if name == "lengths" else np.float32
            arrays[name] = np.ones(change, dtype) if name.startswith("new") else np.zeros(change, dtype)
        else:
            arrays[name] = np.array(change) if isinstance(change, list) else arrays[name].astype(change)
    lengths = arrays["lengths"].copy()
    with pytest.raises(error, match=message):
        module.append(**arrays)
    assert not arrays["keys"].any()
    assert not arrays["values"].any()
    np.testing.assert_array_equal(arrays["lengths"], lengths)


@each_module
def test_a_read_only_cache_is_refused(module, rng):
    guarded = Guarded((1, 1, 4, 2), 2, [1])
    guarded.values.flags.writeable = False
    with pytest.raises(ValueError, match="values is read-only"):
        module.append(*guarded.arrays, *new(rng, np.float32, 1, 1, 1, 2, 2))
    guarded.assert_unchanged()


@each_module
def test_a_slice_along_the_capacity_is_written_and_its_neighbours_are_not(module, rng):
    whole = [rng.standard_normal((2, 3, 10, 4)).astype(np.float32) for _ in range(2)]
    before = [array.copy() for array in whole]
    views, lengths = [array[:, :, 3:8] for array in whole], np.array([0, 2])
    added = new(rng, np.float32, 2, 3, 3, 4, 4)
    module.append(*views, lengths, *added)
    module.evict(*views, lengths, 1, 2)
    for array, old, piece in zip(whole, before, added, strict=True):
        np.testing.assert_array_equal(array[:, :, [0, 1, 2, 8, 9]], old[:, :, [0, 1, 2, 8, 9]])
        np.testing.assert_array_equal(array[0, :, 3:6], piece[0])
        np.testing.assert_array_equal(array[1, :, 4:6], piece[1, :, 1:])
    assert lengths.tolist() == [3, 3]


@each_module
@given(
    lengths=st.lists(st.integers(0, 20), min_size=1, max_size=4),
    sinks=st.integers(0, 6),
    window=st.integers(0, 9),
    dtype=st.sampled_from(DTYPES),
)
def test_eviction_keeps_the_first_and_the_last(module, lengths, sinks, window, dtype):
    guarded = Guarded((len(lengths), 2, 20, 5), 3, lengths, dtype)
    before = guarded.copies()
    module.evict(*guarded.arrays, sinks, window)
    for b, length in enumerate(lengths):
        kept = np.arange(length)
        if length > sinks + window:
            kept = np.concatenate([kept[:sinks], kept[length - window :]])
        assert guarded.lengths[b] == len(kept)
        for array, old in zip(guarded.arrays[:2], before[:2], strict=True):
            np.testing.assert_array_equal(array[b, :, : len(kept)], old[b][:, kept])
            np.testing.assert_array_equal(array[b, :, len(kept) :], old[b, :, len(kept) :])
    guarded.assert_surroundings_unchanged()


@each_module
@pytest.mark.parametrize(("sinks", "window", "name"), [(-1, 3, "sinks"), (2, -4, "window")])
def test_a_negative_window_is_refused(module, sinks, window, name):
    guarded = Guarded((2, 1, 6, 2), 2, [6, 5])
    with pytest.raises(ValueError, match=f"{name} must be at least 0"):
        module.evict(*guarded.arrays, sinks, window)
    guarded.assert_unchanged()


@each_module
@each_dtype
def test_forked_rows_are_copies_up_to_their_lengths(module, dtype):
    guarded = Guarded((3, 2, 9, 4), 6, [5, 0, 9], dtype)
    keys, values, lengths = module.fork(*guarded.arrays, [2, 0, 2, 1])
    assert lengths.tolist() == [9, 5, 9, 0]
    assert (keys.shape, values.shape) == ((4, 2, 9, 4), (4, 2, 9, 6))
    assert keys.dtype == values.dtype == dtype
    for i, row in enumerate([2, 0, 2, 1]):
        for copy, array in ((keys, guarded.keys), (values, guarded.values)):
            np.testing.assert_array_equal(copy[i, :, : lengths[i]], array[row, :, : lengths[i]])
            assert not copy[i, :, lengths[i] :].any()
    keys[...], values[...], lengths[...] = 0, 0, 0
    guarded.assert_unchanged()


@each_module
def test_a_row_that_does_not_exist_is_named(module):
    guarded = Guarded((3, 1, 4, 2), 2, [1, 2, 3])
    for rows, message in (([0, 3], r"0 \.\.\. 2, got 3 at index 1"), ([-1], "got -1 at index 0")):
        with pytest.raises(IndexError, match=message):
            module.fork(*guarded.arrays, rows)
    with pytest.raises(DtypeError, match="rows must be integers"):
        module.fork(*guarded.arrays, [0.5])
    assert module.fork(*guarded.arrays, [])[0].shape == (0, 1, 4, 2)


@each_module
def test_truncation_shortens_and_never_lengthens(module):
    lengths = np.array([5, 3, 8])
    module.truncate(lengths, np.array([5, 0, 2]))
    assert lengths.tolist() == [5, 0, 2]
    for limits, row in ((np.array([5, 1, 2]), 1), (3, 1), (-1, 0), (np.array([0, 0, -2]), 2)):
        with pytest.raises(ValueError, match=f"row {row} has length"):
            module.truncate(lengths, limits)
        assert lengths.tolist() == [5, 0, 2]
    module.truncate(lengths, 0)
    assert lengths.tolist() == [0, 0, 0]
    with pytest.raises(DtypeError, match="limits must be integers"):
        module.truncate(lengths, 0.0)


def test_large_caches_on_several_threads_are_those_of_the_twin(rng):
    mine, other = (Guarded((3, 4, 400, 64), 48, [100, 0, 150]) for _ in range(2))
    added = new(rng, np.float32, 3, 4, 240, 64, 48)
    angles = rope_numpy.table(400, 64, 10000.0, np.dtype(np.float32))
    for module, guarded in ((cache, mine), (twin, other)):
        module.append(*guarded.arrays, *added, angles=angles)
        module.evict(*guarded.arrays, 4, 200)
    for a, b in zip(mine.around, other.around, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    forks = [m.fork(*g.arrays, [1, 1, 0]) for m, g in ((cache, mine), (twin, other))]
    for a, b in zip(*forks, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
