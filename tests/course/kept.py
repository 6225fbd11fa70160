"""What a notebook that a test runs may change in the tests' own process, put back after the test."""

import sys

import pytest

from minitx import kernels
from minitx.course import check

# Not what a test finds: a fixture of its module may have run a notebook, which chooses its kernels, before.
BEFORE = kernels.backend()


@pytest.fixture(autouse=True)
def put_back():
    """Kernels, key and figures as the tests' process had them."""
    yield
    check.use_key(b"practice")
    kernels.use(BEFORE)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
