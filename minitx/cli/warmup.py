"""`minitx warmup`: compile ahead."""

from __future__ import annotations

from minitx import terminal
from minitx.cli.app import app, notices, screen


@app.command(epilog="Example: minitx warmup")
def warmup() -> None:
    """Compile all kernels now, so that no later call waits for it. The result is kept on disk."""
    from minitx import kernels
    from minitx.warmup import steps

    if kernels.backend() != "numba":
        notices.print("The NumPy twins are in use, which need no compiling: nothing to do.")
        return
    from minitx.kernels import compiler, notice

    notice.hush()
    work = list(steps())
    with terminal.progress_bar(notices) as bar:
        task = bar.add_task("", total=len(work))
        for name, step in work:
            bar.update(task, description=f"compiling {name}")
            step()
            bar.advance(task)
    screen.print(f"Compiled kernels are kept in {compiler.cache_root()}", soft_wrap=True)
