"""Runs a notebook's cells and visible tests in a process of its own: `python -m minitx.course.worker`.

Everything that takes time is imported before the first line is read, so a worker that is started ahead
answers at once. It reads one line of JSON, {"folder", "cells": [{"name", "kind", "source"}, ...]}, and writes
one line for each cell that begins and for each test that is done; what student code prints is thrown away.
"""

from __future__ import annotations

import contextlib
import io
import json
import linecache
import os
import re
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from minitx import functional  # noqa: F401 - notebooks import it
from minitx.course import check, quiz, subtests  # noqa: F401
from minitx.course.definitions import only_shown

_MAGIC = re.compile(r"^(\s*)([%!].*)$", re.MULTILINE)
_FILE = re.compile(r"^<cell (.+)>$")


def main() -> None:
    # Student code must not be able to write among our lines: it gets another standard output.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    line = sys.stdin.readline()
    if not line:
        return
    devnull = os.open(os.devnull, os.O_RDWR)
    os.dup2(devnull, 0)
    os.dup2(devnull, 1)

    def say(**answer: Any) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    request = json.loads(line)
    os.chdir(request["folder"])
    run(request["cells"], say)
    say(event="end")
    answers.close()
    os._exit(0)  # threads and exit handlers of student code are not waited for


def run(cells: list[dict[str, str]], say: Callable[..., None]) -> None:
    """All code cells in order, in one namespace; `say` hears {"event": "cell" or "test", ...}."""
    sources = [cell["source"] for cell in cells]
    skipped = only_shown(sources, [cell["kind"] == "provided" for cell in cells])
    names: dict[str, Any] = {"__name__": "__main__"}
    for place, cell in enumerate(cells):
        if place in skipped:
            continue
        say(event="cell", cell=cell["name"])
        if cell["kind"] == "test":
            _run_tests(cell, names, say)
        else:
            problem = _run(cell["name"], cell["source"], names)
            if problem and problem["status"] != "unwritten":
                say(event="broken", cell=cell["name"], **problem)


def _run_tests(cell: dict[str, str], names: dict[str, Any], say: Callable[..., None]) -> None:
    try:
        named = "### Test:" in cell["source"]
        parts = subtests.split(cell["source"], grade_id=cell["name"], points=None if named else 1.0)
    except subtests.SubtestError as error:
        if "has no code" not in error.message:  # hidden tests, which a release does not hold
            say(
                event="broken", cell=cell["name"], status="error", message=f"A test cell was changed: {error}"
            )
        return
    scope = dict(names)  # what a test defines is not left behind for the next cell
    problem = _run(cell["name"], parts.setup, scope)
    for part in parts.parts:
        start = time.perf_counter()
        blank = "\n" * (part.first_line - 1)
        result = (
            problem or _run(cell["name"], blank + part.code, scope) or {"status": "passed", "message": ""}
        )
        say(
            event="test",
            cell=cell["name"],
            title=part.title,
            points=part.points,
            hint=part.hint,
            belief=part.belief,
            seconds=time.perf_counter() - start,
            **result,
        )


def _run(name: str, source: str, names: dict[str, Any]) -> dict[str, str] | None:
    """Run one cell. None if all went well, else {"status", "message"} for a person."""
    file = f"<cell {name}>"
    source = _MAGIC.sub(r"\1pass  # \2", source)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    try:
        code = compile(source, file, "exec")
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            exec(code, names)
    except quiz.NotAnswered as error:
        return {"status": "unwritten", "message": str(error)}
    except AssertionError as error:
        return {"status": "failed", "message": str(error) or f"This does not hold: {_last_line(error)}"}
    except NotImplementedError as error:
        return (
            {"status": "unwritten", "message": "not written yet"} if not str(error) else _error(error, file)
        )
    except SystemExit:
        return {
            "status": "error",
            "message": "The cell ended the program (exit or quit). Take that call out.",
        }
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return _error(error, file)
    return None


def _error(error: BaseException, file: str) -> dict[str, str]:
    """An exception of student code: what it says, and the student's own line where it happened."""
    lines = [f"{type(error).__name__}: {error}"]
    if isinstance(error, SyntaxError):
        lines = [f"{type(error).__name__}: {error.msg}, line {error.lineno} of this cell"]
        lines += [f"    {error.text.rstrip()}"] if error.text else []
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        match = _FILE.match(frame.filename)
        if match and not isinstance(error, SyntaxError):
            where = "this test" if frame.filename == file else f"your cell `{match[1]}`"
            lines.append(f"    line {frame.lineno} of {where}: {frame.line}")
            break
    return {"status": "error", "message": "\n".join(lines)}


def _last_line(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return frames[-1].line or "an assert" if frames else "an assert"


if __name__ == "__main__":
    main()
