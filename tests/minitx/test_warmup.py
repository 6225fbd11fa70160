"""Compiling ahead, and the one line that explains a slow first call."""

import os
import subprocess
import sys

import pytest

SMALL = "import numpy as np; from minitx.kernels.phases import take; take(np.zeros(16, np.int64), 0, 0, 1, 1)"


def run(cache, *arguments):
    environment = {**os.environ, "MINITX_CACHE_DIR": str(cache)}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=240, check=True
    )


def test_the_first_compilation_is_announced_once_and_one_from_the_cache_is_not(tmp_path):
    pytest.importorskip("numba")
    twice = f"{SMALL}; take(np.zeros(16, np.int64), 0, 0, 1, np.int32(1))"
    first = run(tmp_path, "-c", twice)
    assert first.stderr.count("compiling kernels") == 1
    assert "minitx warmup" in first.stderr
    assert run(tmp_path, "-c", twice).stderr == ""


def test_warm_up_says_nothing_of_its_own_compilations(tmp_path):
    pytest.importorskip("numba")
    assert run(tmp_path, "-c", f"from minitx.kernels import notice; notice.hush(); {SMALL}").stderr == ""


def test_the_steps_of_a_warm_up_run_on_the_twins_too():
    done = run(
        "unused",
        "-c",
        "import minitx.kernels as k; k.use('numpy')\nfrom minitx.warmup import steps\nfor name, step in steps(): step(); print(name)",
    )
    assert len(done.stdout.splitlines()) >= 6


def test_with_the_twins_there_is_nothing_to_compile():
    environment = {**os.environ, "MINITX_KERNELS": "numpy"}
    done = subprocess.run(
        [sys.executable, "-m", "minitx.cli", "warmup"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "nothing to do" in done.stderr
