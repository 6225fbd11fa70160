"""What a new process waits for: importing the library, and the first call of a compiled kernel."""

import statistics
import subprocess
import sys
from typing import Any

from minitx.bench.timing import as_row

IMPORT = "import time; start = time.perf_counter(); import minitx; print(time.perf_counter() - start)"
FIRST_CALL = """
import time
start = time.perf_counter()
import numpy as np
import minitx.functional as F
x = np.ones((2, 4, 200, 32), np.float32)
F.attention(x, x, x, causal=True)
print(time.perf_counter() - start)
"""


def measure() -> list[dict[str, Any]]:
    """Two rows whose "peer" is the longest time aimed at. Kernels are compiled by an uncounted first run."""
    rows = []
    for name, code, limit_ms in (
        ("import minitx", IMPORT, 150.0),
        ("first attention call in a new process, imports included", FIRST_CALL, 1000.0),
    ):
        seconds(code)
        median_ms = 1e3 * statistics.median(seconds(code) for _ in range(7))
        rows.append(as_row(name, "", median_ms, "the limit", limit_ms, 1.0, None, None))
    return rows


def seconds(code: str) -> float:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)
