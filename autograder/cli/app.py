"""What every subcommand shares: the application, its options, where it prints, and the table of results."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.table import Table

from autograder.errors import UsageError
from autograder.sandbox.environment import CHOICES, SANDBOX_VARIABLE
from minitx import terminal

if TYPE_CHECKING:
    from autograder.assessing import Result

HERE = Path()
app = typer.Typer(
    help="Release assignments, grade what comes back in a sandbox, write gradebook and feedback.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
)
screen = terminal.screen(width=120)
notices = terminal.plain_console(stderr=True)

UnitArgument = Annotated[str, typer.Argument(help="The unit's name.")]
CourseOption = Annotated[Path, typer.Option("--course", help="The course folder.", metavar="DIR")]
SolutionsOption = Annotated[
    Path | None,
    typer.Option(
        "--solutions", help="The folder of unit sources; by default the checkout's own.", metavar="DIR"
    ),
]
JobsOption = Annotated[
    int | None,
    typer.Option("--jobs", min=1, help="Test runners at work side by side; by default one a processor."),
]
StudentOption = Annotated[
    list[str] | None, typer.Option("--student", help="Only this student; may be repeated.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the results as JSON, for a program to read.")]

SandboxOption = Annotated[
    str | None,
    typer.Option(
        "--sandbox",
        help="zygote or bwrap; by default the first of them that holds here. none only with --unsafe.",
        metavar="KIND",
    ),
]
UnsafeOption = Annotated[
    bool,
    typer.Option(
        "--unsafe", help="Grade without a sandbox: student code can do whatever you can on this machine."
    ),
]


def choose_sandbox(kind: str | None, unsafe: bool) -> None:
    """Set the kind of sandbox for every test runner that this command starts."""
    if kind is not None and kind not in CHOICES:
        raise UsageError(f"There is no sandbox named {kind!r}; expected one of {', '.join(CHOICES)}.")
    if unsafe and kind in ("zygote", "bwrap", "auto"):
        raise UsageError(f"--unsafe means no sandbox, --sandbox {kind} means one; give one of the two.")
    if kind == "none" and not unsafe:
        raise UsageError(
            "--sandbox none lets student code do whatever you can on this machine, read the hidden tests "
            "included. If all of it is code that you would run yourself, add --unsafe."
        )
    if unsafe or kind:
        os.environ[SANDBOX_VARIABLE] = "none" if unsafe else str(kind)


def solutions_folder(given: Path | None) -> Path:
    """The folder that holds the units' sources: the one given, or the one beside this package."""
    folder = given or Path(__file__).resolve().parents[2] / "solutions"
    if not folder.is_dir():
        raise UsageError(
            f"There is no folder of unit sources at {folder}. Expected a folder that holds UNIT/UNIT.py "
            "for each unit. Give it with --solutions DIR, or run the command from an editable install of "
            "the checkout."
        )
    return folder


def chosen(known: list[str], wanted: list[str] | None, unit: str, submitted: Path) -> list[str]:
    """The students to work on. Raises `UsageError` when there is none, or one that did not hand in."""
    if not known:
        raise UsageError(
            f"Nobody has handed in {unit}: {submitted} holds no STUDENT/{unit} folder. Collect the "
            "submissions first (autograder collect), or put them there, one folder for each student, the "
            f"notebook inside as {unit}/{unit}.ipynb."
        )
    missing = sorted(set(wanted or ()) - set(known))
    if missing:
        raise UsageError(
            f"No submission of {unit} by {', '.join(missing)}. Those who handed in: {', '.join(known)}."
        )
    return sorted(set(wanted)) if wanted else known


def refuse(message: object) -> NoReturn:
    """Say why on standard error, and end with exit code 1."""
    notices.print(str(message), soft_wrap=True)
    raise typer.Exit(1) from None


def counted(number: int, thing: str) -> str:
    """ "1 submission", "2 submissions"."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def plain_table(*headings: str, right: Sequence[str] = ()) -> Table:
    """A table without lines; the headings in `right` stand above numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in headings:
        table.add_column(heading, justify="right" if heading in right else "left", no_wrap=True)
    return table


def show(results: list[Result], as_json: bool) -> None:
    """Print the results as a table, or as JSON."""
    if as_json:
        print(json.dumps([asdict(result) for result in results], indent=1))
    else:
        screen.print(table_of(results))


def table_of(results: list[Result]) -> Table:
    table = plain_table("student", "status", "points", "looks like", right=["points"])
    table.add_column("repairs", overflow="fold")
    for result in results:
        points = f"{result.points:g} / {result.max_points:g}"
        table.add_row(
            result.student, result.status, points, name_of(result, say_perhaps=True), summary(result.notes)
        )
    return table


def name_of(result: Result, say_perhaps: bool = False) -> str:
    """The misconception's name; one that is only suggested by a failed test says so."""
    guess = result.looks_like
    if guess is None:
        return ""
    return guess.name if guess.certain or not say_perhaps else f"perhaps {guess.name}"


def summary(notes: Sequence[str]) -> str:
    """The repairs in short: the beginning of the first, and how many more there are."""
    if not notes:
        return ""
    more = f" (and {len(notes) - 1} more)" if len(notes) > 1 else ""
    return shorten(notes[0], 90, placeholder=" ...") + more
