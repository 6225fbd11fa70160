"""The hot loops: one module a family, written twice.

`attention` holds Numba code and `attention_numpy` its NumPy twin, with the same functions, signatures
and results. Kernels take and return arrays; they know nothing of tensors or gradients' graphs.

Numba is imported when the first kernel runs, never before, and is not needed at all: without it the
twins run.
"""

import importlib
import os
import sys
from types import ModuleType

BACKENDS = ("numba", "numpy")

_chosen: dict[str, str] = {}  # {"backend": name}, once chosen
_families: dict[str, ModuleType] = {}


def use(backend: str) -> None:
    """Run the kernels of `backend`: "numba" (compiled) or "numpy" (the twins).

    The environment variable MINITX_KERNELS sets the same at start. Raises ValueError for another name,
    and ImportError where Numba is asked for but cannot be imported.
    """
    if backend not in BACKENDS:
        raise ValueError(f'kernels.use expects "numba" or "numpy", got {backend!r}.')
    if backend == "numba":
        try:
            importlib.import_module("numba")
        except ImportError as error:
            raise ImportError(
                f'The "numba" kernels need Numba, which cannot be imported ({error}). '
                "Install it with `pip install minitx[fast]`, or keep the NumPy twins."
            ) from error
    _chosen["backend"] = backend
    _families.clear()


def backend() -> str:
    """The name of the kernels in use, "numba" or "numpy". The first call decides, and may import Numba."""
    if not _chosen:
        _choose_default()
    return _chosen["backend"]


def family(name: str) -> ModuleType:
    """The module of kernels called `name` ("attention") in the back-end in use."""
    module = _families.get(name)
    if module is None:
        suffix = "_numpy" if backend() == "numpy" else ""
        module = _families[name] = importlib.import_module(f"minitx.kernels.{name}{suffix}")
    return module


def _choose_default() -> None:
    wanted = os.environ.get("MINITX_KERNELS")
    if wanted:
        if wanted not in BACKENDS:
            raise ValueError(f'The variable MINITX_KERNELS must be "numba" or "numpy", got {wanted!r}.')
        use(wanted)
        return
    try:
        use("numba")
    except ImportError as error:
        # Absent is a normal state. Present but broken (a NumPy newer than it allows) is worth one line.
        if not isinstance(error.__cause__, ModuleNotFoundError):
            print(f"minitx: running on NumPy alone: {error.__cause__}", file=sys.stderr)
        use("numpy")
