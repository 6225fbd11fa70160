"""What `minitx check` and `minitx watch` do: run a notebook's visible tests and say what each found."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from minitx.course.workbook import Task, Workbook

Status = Literal["passed", "failed", "error", "unwritten", "stopped"]

SECONDS = 20.0  # for one cell; a correct one of the course needs less than one


@dataclass(frozen=True)
class Result:
    """One visible test."""

    title: str
    status: Status
    message: str
    hint: str = ""
    belief: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class TaskReport:
    """What the tests of one task found; `broken` says why the student's cell itself did not run."""

    task: Task
    results: tuple[Result, ...]
    broken: str = ""

    @property
    def passed(self) -> int:
        return sum(result.status == "passed" for result in self.results)


@dataclass(frozen=True)
class Report:
    """One run of a notebook. `notes` are about cells that belong to no task."""

    workbook: Workbook
    tasks: tuple[TaskReport, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def passed(self) -> int:
        return sum(task.passed for task in self.tasks)

    @property
    def total(self) -> int:
        return sum(len(task.results) for task in self.tasks)

    @property
    def is_complete(self) -> bool:
        return self.passed == self.total and not self.notes and not any(task.broken for task in self.tasks)

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        tasks = [
            {
                "task": task.task.name,
                "broken": task.broken,
                "tests": [asdict(result) for result in task.results],
            }
            for task in self.tasks
        ]
        return {
            "unit": self.workbook.unit,
            "passed": self.passed,
            "total": self.total,
            "notes": list(self.notes),
            "tasks": tasks,
        }


class Runner:
    """Starts a process ahead that has everything imported, so that a run begins at once.

    Each run uses up one process: student code finds a clean one every time.
    """

    def __init__(self, seconds: float = SECONDS):
        self.seconds = seconds
        self._ready = _start()

    def run(self, workbook: Workbook) -> Report:
        """Run all cells and visible tests; a cell that does not end in time is stopped, and ends the run."""
        process, self._ready = self._ready, None
        if process is None or process.poll() is not None:
            process = _start()
        cells = [
            {"name": cell.name, "kind": cell.kind, "source": cell.source}
            for cell in workbook.cells
            if cell.is_code
        ]
        request = json.dumps({"folder": str(workbook.path.resolve().parent), "cells": cells})
        events = _converse(process, request, self.seconds)
        return _report(workbook, events, self.seconds)

    def prepare(self) -> None:
        """Start the process of the next run."""
        if self._ready is None:
            self._ready = _start()

    def close(self) -> None:
        """End the process that waits."""
        if self._ready is not None:
            _end(self._ready)
            self._ready = None


def _start() -> subprocess.Popen[str]:
    environment = {**os.environ, "MPLBACKEND": "Agg", "PYTHONIOENCODING": "utf-8"}
    return subprocess.Popen(
        [sys.executable, "-m", "minitx.course.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        env=environment,
        start_new_session=True,  # so that what student code started can be ended with it
    )


def _converse(process: subprocess.Popen[str], request: str, seconds: float) -> list[dict[str, Any]]:
    """Everything the worker said; the last event is "end", "stopped" (out of time) or "died"."""
    assert process.stdin is not None and process.stdout is not None
    events: list[dict[str, Any]] = []
    late = threading.Event()

    def stop() -> None:
        late.set()
        _end(process)

    def watchdog() -> threading.Timer:
        timer = threading.Timer(seconds, stop)
        timer.daemon = True
        timer.start()
        return timer

    timer = watchdog()
    try:
        process.stdin.write(request + "\n")
        process.stdin.flush()
        for line in process.stdout:
            timer.cancel()
            events.append(json.loads(line))
            if events[-1]["event"] == "end":
                break
            timer = watchdog()
    except (OSError, ValueError):  # the worker is gone, or was cut off in the middle of a line
        events.append({"event": "died"})
    finally:
        timer.cancel()
        _end(process)
    if late.is_set():
        events.append({"event": "stopped"})
    elif not events or events[-1]["event"] not in ("end", "died"):
        events.append({"event": "died"})
    return events


def _end(process: subprocess.Popen[str]) -> None:
    """End the worker and all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, 9)
        else:
            process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def _report(workbook: Workbook, events: list[dict[str, Any]], seconds: float) -> Report:
    results: dict[str, list[Result]] = {}
    broken: dict[str, str] = {}
    at = ""
    for event in events:
        if event["event"] == "cell":
            at = event["cell"]
        elif event["event"] == "test":
            keys = ("title", "status", "message", "hint", "belief", "seconds")
            results.setdefault(event["cell"], []).append(Result(*(event[key] for key in keys)))
        elif event["event"] == "broken":
            broken[event["cell"]] = event["message"]
        elif event["event"] in ("stopped", "died"):
            broken[at] = _unfinished(event["event"], seconds)
    known = {name for task in workbook.tasks for name in (task.name, *task.tests)}
    tasks = tuple(_of_task(task, results, broken) for task in workbook.tasks)
    notes = tuple(f"{name}: {message}" for name, message in broken.items() if name not in known)
    return Report(workbook, tasks, notes)


def _unfinished(event: str, seconds: float) -> str:
    if event == "stopped":
        return (
            f"It was stopped after {seconds:g} seconds. Is there a loop that does not end? "
            "What stands below it did not run."
        )
    return "Python ended here: out of memory, or a call that ends the process. What stands below did not run."


def _of_task(task: Task, results: dict[str, list[Result]], broken: dict[str, str]) -> TaskReport:
    found = [result for name in task.tests for result in results.get(name, ())]
    reasons = [broken[name] for name in (task.name, *task.tests) if name in broken]
    return TaskReport(task, tuple(found), "\n".join(reasons))
