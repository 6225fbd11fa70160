"""How rows are cut into pieces for the crew of threads, and arrays brought into the kernels' one layout."""

import math
from typing import Any

import numpy as np

from minitx.kernels.compiler import plain
from minitx.kernels.crew import THREADS

PIECE = 1 << 14  # numbers worth a task of their own
PARALLEL_FROM = 1 << 15  # numbers below which handing over to a second thread takes longer than it saves
MOST = 32  # pieces; each holds sums of its own where a gradient is summed over the rows


def ready(array: np.ndarray, dtype: Any) -> np.ndarray:
    """`plain(array, dtype)`, ten times faster where there is nothing to do."""
    return array if array.dtype == dtype and array.flags.carray else plain(array, dtype)


def rows_of(x: np.ndarray) -> np.ndarray:
    """All axes but the last as one."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def pieces_of(size: int) -> int:
    """In how many tasks to cut so many numbers.

    It does not depend on the number of threads, so a sum over the pieces is the same on every machine.
    """
    return max(1, min(MOST, size // PIECE))


def workers_for(size: int) -> int:
    """Threads for so many numbers."""
    return min(THREADS, pieces_of(size)) if size >= PARALLEL_FROM else 1
