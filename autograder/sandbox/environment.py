"""What a sandbox's program starts with: limits, a clean environment, libraries loaded before student code."""

from __future__ import annotations

import importlib
import importlib.util
import os
from dataclasses import dataclass

CHOICES = ("auto", "zygote", "bwrap", "none")  # the kinds of sandbox
SANDBOX_VARIABLE = "AUTOGRADER_SANDBOX"  # names the kind for the test runners that a program starts
HOMES = ("HOME", "TMPDIR", "IPYTHONDIR", "MPLCONFIGDIR")
KEPT_VARIABLES = ("OPENBLAS_CORETYPE", "LD_LIBRARY_PATH")  # how this machine finds and runs its libraries
PRELOADED = ("matplotlib.pyplot", "minitx.functional", "minitx.figures", "minitx.course.check")
THREAD_COUNTS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Limits:
    """What one sandbox process may use."""

    memory_mb: int = 1024  # on top of what the interpreter and its libraries have mapped
    cpu_seconds: int = 300  # for the whole job; single steps are timed by the test runner
    file_mb: int = 64  # any one file, and all of the scratch folder
    files: int = 4096  # files and folders in it; their bookkeeping is the kernel's memory
    open_files: int = 64
    threads: int = 64


def kept_variables() -> dict[str, str]:
    return {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}


def environment(home: str) -> dict[str, str]:
    """The clean environment of a sandbox's program: nothing of the caller's but what finds libraries."""
    return {
        "PATH": "/usr/bin:/bin",
        **dict.fromkeys(HOMES, home),
        "MPLBACKEND": "agg",
        "LANG": "C.UTF-8",
        "MINITX_KERNELS": "numpy",  # a job is too short to compile in, and may not fork threads
        **dict.fromkeys(THREAD_COUNTS, "1"),
        **kept_variables(),
    }


def preload() -> None:
    """Import what student cells import anyway, before the limits hold and before the clock runs."""
    for name in PRELOADED:
        importlib.import_module(name)


def package_folder(name: str) -> str:
    """Where a package lies, found without importing it."""
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise RuntimeError(f"the package {name} is not installed beside the grader")
    return next(iter(found.submodule_search_locations))
