"""A recorded run: what is written down, and that a row which falls short says so."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from minitx.bench import record

RECORD = Path(__file__).parents[2] / "benchmarks" / "record.py"

ROW = {"size": "(1, 2)", "peer": "torch", "minitx_ms": 2.0, "peer_ms": 3.0, "ratio": 1.5, "max_error": 1e-7}
ROWS = [
    {**ROW, "workload": "reached", "goal": 1.4, "limit_share": 0.876},
    {**ROW, "workload": "missed", "goal": 1.6, "limit_share": None},
    {**ROW, "workload": "without", "goal": None, "limit_share": None, "max_error": None},
]


def test_a_record_names_machine_versions_and_date():
    kept = record.record_of(ROWS)
    assert kept["rows"] == ROWS
    assert f"numpy {np.__version__}" in kept["versions"] and "Python 3." in kept["versions"]
    assert "cores" in kept["machine"] and len(kept["date"]) == len("2026-01-31")


def test_the_table_has_every_row_and_marks_what_falls_short():
    lines = record.as_markdown(record.record_of(ROWS)).splitlines()
    assert lines[-3] == "| reached | (1, 2) | torch | 2.000 | 3.000 | 1.50 | 1.40 | 88% | 1e-07 |"
    assert lines[-2] == "| missed | (1, 2) | torch | 2.000 | 3.000 | 1.50 | 1.60 (short) |  | 1e-07 |"
    assert lines[-1] == "| without | (1, 2) | torch | 2.000 | 3.000 | 1.50 |  |  |  |"


def test_a_run_that_fails_leaves_the_last_record_alone_and_says_why(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("numba")
    script = shutil.copy(RECORD, tmp_path)
    (tmp_path / "results.json").write_text("before")
    environment = {**os.environ, "MINITX_KERNELS": "numpy"}
    command = [sys.executable, script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "Unset MINITX_KERNELS" in " ".join(done.stderr.replace("│", " ").split())
    assert "is as it was" in done.stderr
    assert (tmp_path / "results.json").read_text() == "before" and not (tmp_path / "RESULTS.md").exists()
