"""Matrices packed for `matvec`, one behind the other in one array; and the vectors that go with them."""

import numpy as np

from minitx.kernels.decoder_numpy import GROUP, quantise
from minitx.kernels.matvec import columns_of_step, rows_of_panel
from minitx.kernels.simd import VECTOR_BYTES

PAGE = 64  # bytes between whose multiples everything begins


def padded(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def aligned(size: int, dtype: np.dtype) -> np.ndarray:
    """An uninitialised array that begins at a cache line. NumPy asks for large pages where it is large."""
    buffer = np.empty(size * dtype.itemsize + PAGE, np.uint8)
    skip = -buffer.ctypes.data % PAGE
    return buffer[skip : skip + size * dtype.itemsize].view(dtype)


class Store:
    """Room for matrices of known shapes, packed as they come."""

    def __init__(self, dtype: np.dtype, int8: bool, shapes: list[tuple[int, int]]):
        self.dtype, self.int8 = dtype, int8
        self.rows, self.step = rows_of_panel(dtype), columns_of_step(dtype, int8)
        self.width = GROUP if int8 else VECTOR_BYTES // dtype.itemsize
        size = sum(self.size_of(shape) for shape in shapes)
        self.numbers = aligned(size, np.dtype(np.int8) if int8 else dtype)
        self.factors = aligned(size // GROUP if int8 else 1, dtype)
        self.used = 0

    def size_of(self, shape: tuple[int, int]) -> int:
        return padded(shape[0], self.rows) * padded(shape[1], self.step)

    def add(self, matrix: np.ndarray) -> int:
        """-> where the matrix (out, in) begins among the numbers."""
        place, self.used = self.used, self.used + self.size_of(matrix.shape)
        panels = -(-matrix.shape[0] // self.rows)
        target = self.numbers[place : self.used]
        if not self.int8:
            _turn(matrix, panels, self.rows, self.width, target)
            return place
        whole, factors = quantise(matrix)
        _turn(whole, panels, self.rows, GROUP, target)
        _turn(factors, panels, self.rows, 1, self.factors[place // GROUP : self.used // GROUP])
        return place


def _turn(matrix: np.ndarray, panels: int, rows: int, width: int, target: np.ndarray) -> None:
    """target[panel, c, r] = `width` columns from c * width on of row panel * rows + r; 0 beyond the end."""
    parts = target.size // (panels * rows * width)
    into = target.reshape(panels, parts, rows, width)
    whole = len(matrix) // rows if matrix.shape[1] == parts * width else 0
    into[:whole] = matrix[: whole * rows].reshape(whole, rows, parts, width).swapaxes(1, 2)
    for panel in range(whole, panels):
        part = matrix[panel * rows : (panel + 1) * rows]
        wide = np.zeros((rows, parts * width), matrix.dtype)
        wide[: part.shape[0], : part.shape[1]] = part
        into[panel] = wide.reshape(rows, parts, width).swapaxes(0, 1)


def interleaved(matrix: np.ndarray, rows: int) -> np.ndarray:
    """The two halves' rows in turn, `rows` of one and `rows` of the other; each half padded with 0."""
    halves = matrix.reshape(2, -1, *matrix.shape[1:])
    size = halves.shape[1]
    wide = np.zeros((2, padded(size, rows), *matrix.shape[1:]), matrix.dtype)
    wide[:, :size] = halves
    turned = wide.reshape(2, -1, rows, *matrix.shape[1:]).swapaxes(0, 1)
    return turned.reshape(-1, *matrix.shape[1:])


def joined(vectors: list[np.ndarray]) -> tuple[np.ndarray, list[int]]:
    """All vectors in one array, each padded with 0 to a multiple of GROUP; and where each begins."""
    sizes = [padded(vector.size, GROUP) for vector in vectors]
    store = aligned(sum(sizes), vectors[0].dtype)
    store[...] = 0
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
    for start, vector in zip(starts, vectors, strict=False):
        store[start : start + vector.size] = vector.ravel()
    return store, starts.tolist()[:-1]
