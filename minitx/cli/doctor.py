"""`minitx doctor`: is everything here that the course needs, and if not, what to do."""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from minitx.cli.app import app, screen

Finding = tuple[str, str, str]  # "ok", "note" or "PROBLEM"; what was looked at; what was found, what to do


@app.command(epilog="Example: minitx doctor")
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Look at Python, packages, kernels, notebooks and folders. Exit code 1 if something must be mended."""
    found = [finding for look in LOOKS for finding in look()]
    if as_json:
        rows = [{"state": state.lower(), "subject": what, "message": words} for state, what, words in found]
        print(json.dumps(rows, indent=1))
    else:
        styles = {"ok": "green", "note": "yellow", "PROBLEM": "red"}
        for state, what, words in found:
            screen.print(
                Text.assemble((f"{state:<8}", styles[state]), f" {what:<14} {words}"), soft_wrap=True
            )
    raise typer.Exit(1 if any(state == "PROBLEM" for state, _, _ in found) else 0)


def python() -> list[Finding]:
    words = f"{platform.python_version()} on {platform.system()}, {sys.executable}"
    if (3, 11) <= sys.version_info[:2] <= (3, 13):
        return [("ok", "Python", words)]
    return [("PROBLEM", "Python", f"{words}. minitx needs 3.11, 3.12 or 3.13.")]


def packages() -> list[Finding]:
    """What is imported in earnest: a package may be there and broken."""
    wanted = (
        ("numpy", "", "PROBLEM"),
        ("matplotlib", "", "PROBLEM"),
        ("numba", "without it the slower NumPy kernels run: pip install 'minitx[fast]'", "note"),
        ("jupyterlab", "to open notebooks: pip install 'minitx[grade]'", "note"),
        ("ipykernel", "to run notebooks: pip install ipykernel", "note"),
    )
    found: list[Finding] = []
    for name, help_, state in wanted:
        if find_spec(name) is None:
            found.append((state, name, f"missing; {help_ or f'pip install {name}'}"))
            continue
        try:
            if name != "jupyterlab":
                importlib.import_module(name)
            found.append(("ok", name, version(name)))
        except PackageNotFoundError:
            found.append(("ok", name, "installed"))
        except Exception as error:
            found.append(("PROBLEM", name, f"is installed but cannot be imported: {error}"))
    return found


def kernels() -> list[Finding]:
    from minitx import kernels as library

    if library.backend() != "numba":
        return [("note", "kernels", "the NumPy twins are in use")]
    from minitx.kernels import compiler
    from minitx.kernels.crew import THREADS
    from minitx.kernels.simd import VECTOR_BYTES

    words = f"Numba, {THREADS} thread{'s' * (THREADS > 1)}, vectors of {8 * VECTOR_BYTES} bits"
    root = compiler.cache_root()
    kept = "compiled" if any(root.glob("attention_forward-*/*.nbc")) else "not compiled yet: `minitx warmup`"
    return [("ok", "kernels", words), ("ok", "their cache", f"{root}, {kept}")]


def answer() -> list[Finding]:
    """One attention, forward and backward, against three lines of NumPy."""
    import numpy as np

    import minitx.functional as F
    from minitx import Tensor

    q, k, v = np.random.default_rng(0).standard_normal((3, 1, 2, 5, 4))
    scores = q @ k.swapaxes(-1, -2) / 2
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    expected = raised / raised.sum(axis=-1, keepdims=True) @ v
    query = Tensor(q, requires_grad=True)
    out = F.attention(query, Tensor(k), Tensor(v))
    out.sum().backward()
    error = float(abs(out.numpy() - expected).max())
    if error < 1e-12 and query.grad is not None:
        return [("ok", "attention", f"computes what NumPy does, to {error:.0e}")]
    return [("PROBLEM", "attention", f"is off by {error:.1e}: delete the kernels' cache and try again")]


def folders() -> list[Finding]:
    from minitx.course import workbook
    from minitx.course.progress import Progress

    units = workbook.all_units()
    names = ", ".join(path.stem for path in units)
    found: list[Finding] = [
        ("ok", "units", names)
        if units
        else ("note", "units", "none here: go to the folder that holds `exercises`")
    ]
    progress = Progress()
    folder = progress.path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        found.append(("ok", "progress", str(progress.path)))
    except OSError as error:
        found.append(("note", "progress", f"is not kept: {error}. MINITX_STATE_DIR names another folder"))
    if not os.access(Path.cwd(), os.W_OK):
        found.append(
            ("note", "this folder", f"{Path.cwd()} cannot be written: notebooks cannot be saved here")
        )
    return found


LOOKS: tuple[Callable[[], list[Any]], ...] = (python, packages, kernels, answer, folders)
