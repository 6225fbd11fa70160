"""How the kernels are compiled, and where the compiled code is kept."""

import ast
import functools
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import config

from minitx.kernels import notice

# The flags that keep NaN and infinity: `nnan` and `ninf` would let LLVM delete the tests for them.
FASTMATH = {"nsz", "arcp", "contract", "afn", "reassoc"}

_PACKAGE = "minitx.kernels"
_settings: Any = config
notice.watch()


def compiled() -> Callable[[Callable[..., Any]], Any]:
    """Decorator: Numba's njit with the flags that every kernel here uses, cached on disk.

    Compiled code does not hold Python's lock, so that several threads can be in it at once.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        previous = _settings.CACHE_DIR
        _settings.CACHE_DIR = str(
            cache_folder(function.__code__.co_filename)
        )  # read once, when a function is decorated
        try:
            return numba.njit(
                cache=True,
                nogil=True,
                fastmath=FASTMATH,
                error_model="numpy",  # 0/0 is NaN, as in NumPy, and no ZeroDivisionError
            )(function)
        finally:
            _settings.CACHE_DIR = previous

    return decorate


def plain(array: np.ndarray, dtype: Any) -> np.ndarray:
    """C-contiguous, aligned, writeable, of `dtype`: the one layout that the kernels are compiled for."""
    return np.require(array, dtype=dtype, requirements=("C", "A", "W"))


def cache_folder(file: str) -> Path:
    """Where the compiled kernels of a source file are kept: `<cache>/<its name>-<digest>`.

    Numba looks for changes only in the file of the function it caches, not in the helpers that it
    calls from other files. The digest is of the file and of all kernels that it imports, directly or
    through others, so that an edit means a new folder for what depends on it, and for nothing else.
    """
    digest = hashlib.sha256()
    for path in sorted(_sources_of(Path(file))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    folder = cache_root() / f"{Path(file).stem}-{digest.hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@functools.cache
def _sources_of(path: Path) -> frozenset[Path]:
    """The file and the files in this folder that it imports, and that these import."""
    found, waiting = set(), [path]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += _imported(file)
    return frozenset(found)


@functools.cache
def _imported(file: Path) -> list[Path]:
    names = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module == _PACKAGE:
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{_PACKAGE}."):
            names.add(str(node.module).removeprefix(f"{_PACKAGE}."))
        elif isinstance(node, ast.Import):
            names |= {alias.name.removeprefix(f"{_PACKAGE}.") for alias in node.names}
    folder = Path(__file__).parent
    return [folder / f"{name}.py" for name in sorted(names) if (folder / f"{name}.py").is_file()]


@functools.cache
def cache_root() -> Path:
    """The folder of all compiled kernels: the first of those that the user may mean that can be written."""
    root = _user_cache()
    if root is not None:
        try:
            root.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=root).close()
            return root
        except OSError:
            pass
    fallback = _private_temporary_folder()
    reason = f"{root} is not writable" if root else "no home folder is set"
    print(f"minitx: {reason}; compiled kernels are kept in {fallback}", file=sys.stderr)
    return fallback


def _user_cache() -> Path | None:
    if os.environ.get("MINITX_CACHE_DIR"):
        return Path(os.environ["MINITX_CACHE_DIR"])
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "minitx"
    try:
        return Path.home() / ".cache" / "minitx"
    except RuntimeError:
        return None


def _private_temporary_folder() -> Path:
    """A folder that only this user can write: what lies in a cache is run."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir()) / f"minitx-{user}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        private = not folder.is_symlink() and status.st_mode & 0o077 == 0
        if os.name == "nt" or (private and status.st_uid == user):
            return folder
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="minitx-"))
