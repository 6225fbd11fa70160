"""What every subcommand shares: the application, where it prints, and how it says no."""

from __future__ import annotations

from typing import NoReturn

import typer

from minitx import terminal

app = typer.Typer(
    help="minitx: a transformer built in NumPy, with hot loops in Numba.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
)
screen = terminal.screen(width=140)
notices = terminal.plain_console(stderr=True)


def refuse(message: object) -> NoReturn:
    """Say why on standard error, and end with exit code 1."""
    notices.print(str(message), soft_wrap=True)
    raise typer.Exit(1) from None
