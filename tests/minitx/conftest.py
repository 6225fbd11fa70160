"""Shared by the tests of the library: seeded arrays, both back-ends, and a count of the gradient checks."""

import importlib.util

import numpy as np
import pytest
from hypothesis import settings

import minitx

settings.register_profile("minitx", deadline=None, max_examples=20, derandomize=True)
settings.load_profile("minitx")

_counts = {"calls": 0, "numbers": 0}
_check_gradients = minitx.check_gradients


def _counted(function, *arrays, **options):
    _check_gradients(function, *arrays, **options)
    _counts["calls"] += 1
    _counts["numbers"] += sum(array.size for array in arrays)


minitx.check_gradients = _counted


def pytest_terminal_summary(terminalreporter):
    if _counts["calls"]:
        terminalreporter.write_line(
            f"gradient checks passed: {_counts['calls']}, of {_counts['numbers']} numbers in all"
        )


@pytest.fixture
def rng():
    return np.random.default_rng(20170612)


@pytest.fixture(params=["numba", "numpy"])
def backend(request):
    """The test runs once with the compiled kernels and once with their twins."""
    if request.param == "numba" and importlib.util.find_spec("numba") is None:
        pytest.skip("numba is not installed")
    before = minitx.kernels.backend()
    minitx.kernels.use(request.param)
    yield request.param
    minitx.kernels.use(before)
