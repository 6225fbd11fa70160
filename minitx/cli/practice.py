"""`minitx check` and `minitx watch`: a notebook's visible tests, from the terminal."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from minitx.cli.app import app, notices, refuse, screen
from minitx.errors import CourseError

if TYPE_CHECKING:
    from minitx.course.practice import Report, Result, Runner, TaskReport

MARKS = {
    "passed": ("ok", "green"),
    "failed": ("WRONG", "red"),
    "error": ("ERROR", "red"),
    "unwritten": ("to do", "yellow"),
    "stopped": ("STOPPED", "red"),
}
Units = Annotated[
    list[str] | None,
    typer.Argument(metavar="[UNIT]...", help="Units, or notebook files. By default all units."),
]


@app.command(epilog="Examples: minitx check; minitx check cache; minitx check my/cache.ipynb --json")
def check(
    units: Units = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Run a notebook's visible tests, as it is on disk: what passes, what fails, and the likely idea."""
    from minitx.course import practice

    runner = practice.Runner()
    reports = []
    try:
        for path in _paths(units):
            reports.append(_run(runner, path))
            if not as_json:
                show(reports[-1], short=units is None)
            runner.prepare()
    finally:
        runner.close()
    if as_json:
        print(json.dumps([report.as_dict() for report in reports], indent=1))
    raise typer.Exit(0 if all(report.is_complete for report in reports) else 1)


@app.command(epilog="Example: minitx watch cache        (ctrl-C ends it)")
def watch(unit: Annotated[str, typer.Argument(metavar="UNIT", help="A unit, or a notebook file.")]) -> None:
    """Check a notebook again every time that it is saved."""
    from watchfiles import watch as changes

    from minitx.course import practice

    path = _paths([unit])[0]
    runner = practice.Runner()
    try:
        show(_run(runner, path), short=False)
        runner.prepare()
        notices.print(f"Watching {path}. Save the notebook to check it again; ctrl-C ends.", soft_wrap=True)
        # Jupyter replaces the file when it saves, so it is the folder that is watched.
        for _ in changes(path.parent, watch_filter=lambda _, name: Path(name) == path, debounce=50, step=25):
            _again(runner, path)
    except KeyboardInterrupt:
        notices.print("")
    finally:
        runner.close()


def _again(runner: Runner, path: Path) -> None:
    """One more run; a file that is being written is told and tried again at its next change."""
    from minitx.course import workbook

    try:
        start = time.perf_counter()
        report = _run_read(runner, workbook.read(path))
    except CourseError as error:
        notices.print(str(error), soft_wrap=True)
        return
    screen.print()
    show(report, short=False)
    notices.print(f"{time.strftime('%H:%M:%S')}, checked in {time.perf_counter() - start:.2f} s")
    runner.prepare()


def _paths(units: list[str] | None) -> list[Path]:
    from minitx.course import workbook

    try:
        paths = [workbook.find(unit).resolve() for unit in units] if units else workbook.all_units()
    except CourseError as error:
        refuse(error)
    if not paths:
        refuse("No units were found. Go to the folder that holds `exercises`, or name a notebook.")
    return paths


def _run(runner: Runner, path: Path) -> Report:
    from minitx.course import workbook

    try:
        return _run_read(runner, workbook.read(path))
    except CourseError as error:
        refuse(error)


def _run_read(runner, book) -> Report:
    from minitx.course.progress import Progress

    report = runner.run(book)
    progress = Progress()
    progress.section("checks")[str(book.path.resolve())] = {
        "passed": report.passed,
        "total": report.total,
        "at": time.time(),
        "tasks": {task.task.name: [task.passed, len(task.results)] for task in report.tasks},
    }
    progress.save()
    if progress.problem:
        notices.print(progress.problem, soft_wrap=True)
    return report


def show(report: Report, short: bool) -> None:
    """The report for a person: a line a test, and below what does not pass the reason and the idea."""
    book = report.workbook
    screen.print(Text(f"{book.unit}: {book.title}", style="bold"))
    if not short:
        for task in report.tasks:
            for line in _task_lines(task):
                screen.print(line, soft_wrap=True)
        for note in report.notes:
            screen.print(Text(f"  {note}"), soft_wrap=True)
    waiting = sum(result.status == "unwritten" for task in report.tasks for result in task.results)
    words = f"{report.passed} of {report.total} visible tests pass"
    words += f", {waiting} wait for code that is not written yet." if waiting else "."
    if report.is_complete and report.total:
        words += " More tests run when the notebook is graded."
    screen.print(f"  {words}", soft_wrap=True)


def _task_lines(task: TaskReport) -> Iterator[Text]:
    yield Text(f"  {', '.join(task.task.functions) or task.task.name}")
    if task.broken:
        yield from _indented(task.broken, Text.assemble("    ", ("ERROR", "red"), "    "))
    if task.results and all(result.status == "unwritten" for result in task.results):
        count = len(task.results)
        yield Text.assemble(
            "    ",
            ("to do", "yellow"),
            f"    {count} test{'s' * (count > 1)} wait{'s' * (count == 1)} for it",
        )
        return
    for result in task.results:
        yield from _result_lines(result)
    if not task.results and not task.broken and task.task.tests:
        yield Text("    not run")


def _result_lines(result: Result) -> Iterator[Text]:
    word, style = MARKS[result.status]
    yield Text.assemble("    ", (f"{word:<8}", style), f" {result.title}")
    if result.status in ("passed", "unwritten"):
        return
    yield from _indented(result.message, Text(13 * " "))
    if result.belief and "Likely:" not in result.message:
        yield from _indented(f"Perhaps the idea was: {result.belief.replace('-', ' ')}", Text(13 * " "))
    if result.hint:
        yield from _indented(f"Think about: {result.hint}", Text(13 * " "))


def _indented(text: str, first: Text) -> Iterator[Text]:
    for number, line in enumerate(text.splitlines()):
        yield first + Text(line) if number == 0 else Text(13 * " " + line)
