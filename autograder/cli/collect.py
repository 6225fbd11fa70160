"""`autograder collect`: what students handed in, into the course."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo

import typer

from autograder.cli.app import (
    HERE,
    CourseOption,
    JsonOption,
    UnitArgument,
    app,
    counted,
    notices,
    plain_table,
    screen,
    summary,
)
from autograder.errors import UsageError
from minitx import terminal

if TYPE_CHECKING:
    from autograder.collecting.collect import Collected


@app.command(
    "collect",
    epilog="Examples: autograder collect attention --course my-course; "
    "autograder collect attention submissions.zip --course my-course --roster gradebook.csv",
)
def collect_command(
    unit: UnitArgument,
    sources: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Zip archives from Canvas or Moodle, or folders; by default nbgrader's exchange.",
            metavar="[SOURCE]...",
        ),
    ] = None,
    course: CourseOption = HERE,
    roster: Annotated[
        Path | None,
        typer.Option("--roster", help="Canvas's gradebook CSV or Moodle's worksheet: students' own names."),
    ] = None,
    file_times: Annotated[
        str | None,
        typer.Option(
            "--file-times",
            help="Take the files' dates, in this time zone, for the times of hand-in (Moodle writes them).",
            metavar="ZONE",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Take in what students handed in. Every attempt is kept (collected/); the latest one is graded."""
    from autograder.collecting.collect import collect_into, exchange_folder
    from autograder.collecting.names import read_roster
    from autograder.course import Course

    opened = Course.open(course)
    opened.spec(unit)
    known = read_roster(roster) if roster else None
    zone = _zone(file_times) if file_times else None
    rows, left_out = [], []
    with terminal.progress_bar(notices) as bar:
        for source in sources or [exchange_folder(opened)]:
            task = bar.add_task(f"reading {source.name}", total=None)

            def progress(student: str, done: int, total: int, task=task) -> None:
                bar.update(task, description=f"collecting {student}", completed=done, total=total)

            found = collect_into(
                opened,
                unit,
                source,
                roster=known,
                file_times=zone,
                check_owners=not sources,
                progress=progress,
            )
            rows += found.rows
            left_out += found.left_out
    if as_json:
        print(json.dumps({"attempts": [asdict(row) for row in rows], "left_out": left_out}, indent=1))
    else:
        _show(rows)
    _tell(rows, left_out)


def _show(rows: list[Collected]) -> None:
    table = plain_table("student", "attempt", "handed in (UTC)", "of", right=["of"])
    table.add_column("remarks", overflow="fold")
    for row in rows:
        table.add_row(row.student, row.state, row.when or "unknown", str(row.attempts), summary(row.notes))
    screen.print(table)
    students = len({row.student for row in rows})
    new = sum(row.state != "known" for row in rows)
    screen.print(f"\n{counted(students, 'student')}, {counted(new, 'new attempt')}.")


def _tell(rows: list[Collected], left_out: list[str]) -> None:
    """What was not taken, on standard error; exit code 1 where a student is left with no file at all."""
    for text in left_out[:20]:
        notices.print(f"Left out: {text}.", soft_wrap=True)
    if len(left_out) > 20:
        notices.print(f"Left out: {len(left_out) - 20} more.")
    empty = [row for row in rows if not row.files]
    for row in empty:
        notices.print(f"{row.student}: nothing could be taken. {'; '.join(row.notes)}", soft_wrap=True)
    if not rows:
        notices.print("There was nothing to collect.")
    raise typer.Exit(1 if empty or not rows else 0)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise UsageError(f"There is no time zone {name!r}. Examples: UTC, Europe/Berlin.") from None
