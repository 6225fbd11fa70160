"""What both commands print with: consoles that take no name for markup, and one kind of progress bar."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)


def plain_console(**options: Any) -> Console:
    """A console that prints text as it is: "minitx[fast]" and a file's name hold no markup."""
    return Console(markup=False, emoji=False, highlight=False, **options)


def screen(width: int) -> Console:
    """Standard output; `width` columns where it is a pipe or a file, which have no width of their own."""
    return plain_console() if sys.stdout.isatty() else plain_console(width=width)


def progress_bar(console: Console, *more: ProgressColumn, width: int = 40) -> Progress:
    """A bar with what is being done, how much of it, and the time; it vanishes when the work is done.

    `more`: columns behind these; `width`: of what is being done.
    """
    columns = (
        TextColumn(f"{{task.description:<{width}}}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        *more,
    )
    return Progress(*columns, console=console, transient=True)
