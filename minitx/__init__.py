"""minitx: a transformer built in NumPy, with hot loops in Numba, small enough to read.

    import minitx
    import minitx.functional as F
    from minitx import models, nn, optim

Neither Numba nor Matplotlib is imported here; Numba comes with the first kernel that runs.
"""

import os

# NumPy's OpenBLAS lets its threads look for the next product in a busy loop for some 30 ms, on the cores
# that the kernels' threads then want. 2**10 cycles are enough. OpenBLAS reads this when NumPy is imported:
# where NumPy came before minitx it is too late, and only a variable set outside helps.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "10")

from minitx import functional, kernels, models, nn, optim
from minitx.cache import KVCache
from minitx.errors import DtypeError, GradientError, GraphError
from minitx.generation import generate, stream
from minitx.gradcheck import check_gradients
from minitx.graph import is_recording, no_grad
from minitx.randomness import manual_seed
from minitx.tensor import Tensor

__all__ = [
    "DtypeError",
    "GradientError",
    "GraphError",
    "KVCache",
    "Tensor",
    "check_gradients",
    "functional",
    "generate",
    "is_recording",
    "kernels",
    "manual_seed",
    "models",
    "nn",
    "no_grad",
    "optim",
    "stream",
]
