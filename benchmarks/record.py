"""Measure every row once, on a quiet machine, and keep the run: results.json, and RESULTS.md for a reader.

python benchmarks/record.py
"""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from minitx.bench.record import as_markdown, record_of

HERE = Path(__file__).parent


def main() -> None:
    # A process of its own, as a user would start it: nothing else has warmed its caches or started threads.
    command = [sys.executable, "-m", "minitx.cli", "bench", "all", "--json"]
    if find_spec("torch") is None:
        sys.exit(
            "PyTorch is the peer of most rows; a run without it would replace a whole one: pip install torch"
        )
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit("`minitx bench all` failed; what was recorded before is as it was.")
    record = record_of(json.loads(done.stdout))
    (HERE / "results.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    title = (
        "# minitx beside its peers\n\nTimed in turn, in one run: ratio = the peer's time over minitx's.\n\n"
    )
    (HERE / "RESULTS.md").write_text(title + as_markdown(record), encoding="utf-8")


if __name__ == "__main__":
    main()
