"""The one random generator behind initial weights and dropout."""

from __future__ import annotations

import numpy as np

_common: dict[str, np.random.Generator] = {}  # {"generator": ...}, made at the first use


def manual_seed(seed: int) -> None:
    """Make what follows reproducible: initial weights and dropout of layers that were given no generator."""
    _common["generator"] = np.random.default_rng(seed)


def generator(rng: np.random.Generator | int | None = None) -> np.random.Generator:
    """`rng` itself, a generator with that seed, or the common one for None."""
    if rng is not None:
        return np.random.default_rng(rng)
    if not _common:
        _common["generator"] = np.random.default_rng()
    return _common["generator"]
