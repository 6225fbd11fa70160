"""A run of the benchmarks kept for others: with its machine, versions and date, and as a table."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

LIBRARIES = ("numpy", "numba", "torch")
HEADINGS = "| Workload | Size | Peer | minitx ms | Peer ms | Ratio | Goal | Share of the limit | Error |"


def record_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """{date, machine, versions, rows}: everything that a reader needs to judge the rows."""
    return {
        "date": datetime.date.today().isoformat(),
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()}",
        "versions": ", ".join([f"Python {platform.python_version()}", *_versions()]),
        "rows": rows,
    }


def as_markdown(record: dict[str, Any]) -> str:
    """The record as a table. A row that falls short of its goal stays, and says so."""
    lines = [f"Recorded {record['date']} on {record['machine']}; {record['versions']}.", ""]
    lines += [HEADINGS, "|---|---|---|--:|--:|--:|--:|--:|--:|"]
    for row in record["rows"]:
        short = row["goal"] is not None and row["ratio"] < row["goal"]
        cells = [
            *(row[name] for name in ("workload", "size", "peer")),
            *(_shown(row[name], form) for name, form in (("minitx_ms", ".3f"), ("peer_ms", ".3f"))),
            _shown(row["ratio"], ".2f"),
            _shown(row["goal"], ".2f") + (" (short)" if short else ""),
            _shown(row["limit_share"], ".0%"),
            _shown(row["max_error"], ".0e"),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _shown(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _versions() -> list[str]:
    found = []
    for name in LIBRARIES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"no {name}")
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
