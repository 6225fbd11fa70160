"""The benchmark command measures what it says; how fast anything is, is no matter of a test."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("numba")

from minitx import bench
from minitx.bench import attention, timing

KEYS = {"workload", "size", "minitx_ms", "peer", "peer_ms", "ratio", "goal", "limit_share", "max_error"}


def test_every_workload_of_the_plan_is_there_with_its_goals():
    pytest.importorskip("torch")
    names = [name for name, _ in bench.plan("all")[0]]
    assert len(names) == len(set(names))
    for part in (
        "causal (1, 8, 4096, 64)",
        "no mask (4, 8, 1024, 64)",
        "half the keys padded",
        "grouped query",
        "decode",
    ):
        assert any(part in name for name in names), part
    goals = {(work.name, work.size): (work.forward_goal, work.both_goal) for work in attention.WORKLOADS}
    assert goals["causal", "(1, 8, 512, 64)"] == (2.2, 2.0)
    assert goals["no mask", "(1, 8, 4096, 64)"] == (1.15, 1.1)


def test_both_sides_of_a_workload_compute_the_same(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(timing, "ROUNDS", 1)
    work = attention.Workload("causal", (1, 4, 2, 40, 40, 16), 1.0, 1.0, causal=True)
    rows = attention.measure(work)
    assert [set(row) for row in rows] == [KEYS] * 3
    for row in rows:
        assert row["max_error"] < 1e-4
        assert row["ratio"] == row["peer_ms"] / row["minitx_ms"]
        assert row["limit_share"] > 0


def test_the_sides_are_timed_in_turn():
    calls = []
    timing.in_turn(lambda: calls.append("ours"), lambda: calls.append("theirs"), rounds=2)
    turns = [name for place, name in enumerate(calls) if place == 0 or calls[place - 1] != name]
    assert turns == ["theirs", "ours", "theirs", "ours"]


def test_a_peer_that_is_missing_is_named_and_the_rest_is_measured():
    script = (
        "import importlib.util, json\n"
        "found = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *more: None if name == 'torch' else found(name, *more)\n"
        "from minitx import bench\n"
        "steps, missing = bench.plan('attention')\n"
        "print(json.dumps([[name for name, _ in steps], missing]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    steps, missing = json.loads(done.stdout)
    assert missing == ["PyTorch (torch)"]
    assert "four lines of NumPy" in steps


def test_wrong_use_of_the_command_ends_with_exit_code_2():
    done = subprocess.run(
        [sys.executable, "-m", "minitx.cli", "bench", "everything"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "attention" in done.stderr


@pytest.mark.parametrize("command", ["bench", "warmup"])
def test_help_has_an_example(command):
    environment = {**os.environ, "COLUMNS": "150"}
    done = subprocess.run(
        [sys.executable, "-m", "minitx.cli", command, "--help"],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0
    assert "Example" in done.stdout
