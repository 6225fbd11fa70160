"""A recorded run: what is written down, and that a row which falls short says so."""

import numpy as np

from minitx.bench import record

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
