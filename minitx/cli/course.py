"""`minitx hint` and `minitx status`: the next fold of help, and a map of the units."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from minitx.cli.app import app, notices, refuse, screen
from minitx.errors import CourseError

if TYPE_CHECKING:
    from minitx.course.workbook import Task, Workbook

BAR = 20  # characters


@app.command(epilog="Examples: minitx hint cache; minitx hint cache append; minitx hint cache append --again")
def hint(
    unit: Annotated[str, typer.Argument(metavar="UNIT", help="A unit, or a notebook file.")],
    task: Annotated[
        str | None,
        typer.Argument(metavar="[TASK]", help="A task or function; by default the next unsolved one."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Begin with the first hint.")] = False,
) -> None:
    """Show the next hint of a task: first the idea, then the shapes, then almost the code."""
    from minitx.course import workbook
    from minitx.course.progress import Progress

    try:
        book = workbook.read(workbook.find(unit))
    except CourseError as error:
        refuse(error)
    progress = Progress()
    chosen = _task(book, task, progress.section("checks"))
    if not chosen.hints:
        refuse(f"{chosen.name} has no hints.")
    shown = progress.section("hints")
    key = f"{book.path.resolve()}#{chosen.name}"
    number = 0 if again else min(_count(shown.get(key)), len(chosen.hints) - 1)
    shown[key] = number + 1
    progress.save()
    screen.print(f"{', '.join(chosen.functions) or chosen.name}", style="bold")
    screen.print(chosen.hints[number], soft_wrap=True)
    left = len(chosen.hints) - number - 1
    notices.print(f"\n{left} more: ask again." if left else "\nThat was the last hint.")
    if progress.problem:
        notices.print(progress.problem, soft_wrap=True)


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


def _task(book: Workbook, name: str | None, checks: dict[str, Any]) -> Task:
    """The task of that name, or the first whose tests did not all pass when they were last run."""
    if not book.tasks:
        refuse(f"{book.path} has no tasks.")
    if name is None:
        last = checks.get(str(book.path.resolve()), {}).get("tasks", {})
        for task in book.tasks:
            passed, total = last.get(task.name, (0, 1))
            if passed < total:
                return task
        return book.tasks[0]
    for task in book.tasks:
        if name in (task.name, *task.functions):
            return task
    names = ", ".join(task.name for task in book.tasks)
    return refuse(f"{book.unit} has no task {name!r}. It has: {names}.")


@app.command(epilog="Example: minitx status")
def status(as_json: Annotated[bool, typer.Option("--json", help="Print the map as JSON.")] = False) -> None:
    """A map of the units: how many visible tests passed when each was last checked, and the quiz."""
    from minitx.course import workbook
    from minitx.course.progress import Progress

    paths = workbook.all_units()
    if not paths:
        refuse("No units were found. Go to the folder that holds `exercises`.")
    progress = Progress()
    rows = [_row(path, progress) for path in paths]
    quiz = _quiz(progress)
    if as_json:
        print(json.dumps({"units": rows, "quiz": quiz}, indent=1))
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("unit", "visible tests", "", "", "minutes", "title"):
        table.add_column(
            heading, no_wrap=heading != "title", justify="right" if heading == "minutes" else "left"
        )
    for row in rows:
        filled = round(BAR * row["passed"] / row["total"]) if row["total"] else 0
        count = f"{row['passed']} of {row['total']}" if row["total"] else ""
        minutes = "" if row["minutes"] is None else str(row["minutes"])
        bar = "#" * filled + "." * (BAR - filled)
        table.add_row(row["unit"], bar, count, row["state"], minutes, row["title"])
    screen.print(table)
    screen.print(f"\nquiz: {quiz['answered']} of {quiz['questions']} answered, {quiz['right']} right")
    if progress.problem:
        notices.print(progress.problem, soft_wrap=True)


def _row(path: Path, progress: Any) -> dict[str, Any]:
    from minitx.course import workbook

    row = {
        "unit": path.stem,
        "title": "",
        "minutes": None,
        "passed": 0,
        "total": 0,
        "state": "not checked yet",
    }
    try:
        book = workbook.read(path)
    except CourseError as error:
        return {**row, "title": str(error), "state": "unreadable"}
    row |= {"title": book.title, "minutes": book.minutes}
    last = progress.section("checks").get(str(path.resolve()))
    if isinstance(last, dict) and {"passed", "total", "at"} <= set(last):
        row |= {"passed": last["passed"], "total": last["total"]}
        whole = last["passed"] == last["total"]
        row["state"] = "all pass" if whole else "begun" if last["passed"] else "to do"
        if path.stat().st_mtime > last["at"]:
            row["state"] = "changed since"
    return row


def _quiz(progress: Any) -> dict[str, int]:
    from minitx.course.questions import all_questions

    bank = {question.id: question for question in all_questions()}
    answers = {name: letter for name, letter in progress.section("quiz").items() if name in bank}
    right = sum(
        letter in bank[name].letters and bank[name].option(letter).is_right
        for name, letter in answers.items()
    )
    return {"questions": len(bank), "answered": len(answers), "right": right}
